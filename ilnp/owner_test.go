package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// The node behind a session may lose its state and come back where the session was, or
// where a record has it: then its connections go on only in the first case. In the second
// one it may be another node, and what is connected must not reach it.
func TestSocketsOfAReplacedSession(t *testing.T) {
	for _, c := range []struct {
		name   string
		moves  bool          // to netQ, before it falls silent
		after  time.Duration // so long
		told   bool          // once more of the record, meanwhile
		at     roam.L64      // where a node comes
		aborts bool
	}{
		{name: "where the session is", after: time.Minute, at: netP},
		{name: "where it has moved to", moves: true, after: time.Minute, at: netQ},
		{name: "where the record has it, long after it has left", moves: true, after: time.Minute, at: netP, aborts: true},
		{name: "where the record has it, just after it has left", moves: true, after: 4 * time.Second, at: netP, aborts: true},
		{name: "where the record has it, told again after it has left", moves: true, after: time.Minute, told: true, at: netP, aborts: true},
		{name: "where the record has it, told again just after it has left", moves: true, after: 4 * time.Second, told: true, at: netP, aborts: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			b.pass(time.Second)
			if c.moves {
				b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
				b.answerProbesTo(netQ, peerNonce)
				b.wantTargets(netQ)
			}
			b.pass(c.after)
			if c.told {
				b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
				b.drain()
			}
			b.other = nil
			b.see(pending(c.at, secondNonce))
			b.answerProbesTo(c.at, secondNonce)
			b.pass(10 * time.Second)
			if p := b.entries[theKey]; p.RemoteNonce != secondNonce {
				t.Fatalf("the session is not replaced: %+v", p)
			}
			aborted := false
			for _, o := range b.other {
				a, is := o.(Abandon)
				aborted = aborted || is && a.Key == theKey
			}
			if aborted != c.aborts {
				t.Errorf("sockets destroyed: %v, want %v", aborted, c.aborts)
			}
		})
	}
}

// effects records what an ownership does to sessions.
type effects struct {
	ca      *cache
	out     []Output
	advised []*session
}

func (e *effects) emit(o Output)                           { e.out = append(e.out, o) }
func (e *effects) removeSession(_ time.Time, s *session)   { e.ca.remove(s) }
func (e *effects) rekeyed(time.Time, *session, SessionKey) {}
func (e *effects) adviseSession(_ time.Time, s *session, _ *correspondent) {
	e.advised = append(e.advised, s)
}

// abandoned returns the aliases whose sockets were destroyed.
func (e *effects) abandoned() (keys []SessionKey) {
	for _, o := range e.out {
		if a, ok := o.(Abandon); ok {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

func newOwnership(ca *cache) (*ownership, *effects) {
	e := &effects{ca: ca}
	return &ownership{cache: ca, preinstalled: &preinstalled{}, effects: e}, e
}

// TestNameGoesToTheListedNode: a node gets the name once it is validated where the record
// lists it, unless the session that has the name is in use. Sockets of a session that
// loses the name are destroyed where nothing proves that the node is the same.
func TestNameGoesToTheListedNode(t *testing.T) {
	for _, c := range []struct {
		name     string
		listed   roam.L64 // by the record, besides netP
		dead     bool     // the session that has the name
		moved    bool     // it has announced netQ before
		gets     bool
		abandons bool
	}{
		{name: "not listed", listed: netR, dead: true},
		{name: "the other session is in use", listed: netQ},
		{name: "the other session is dead", listed: netQ, dead: true, gets: true, abandons: true},
		{name: "the other session has been there", listed: netQ, dead: true, moved: true, gets: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ca, first, second := twoNodes()
			o, e := newOwnership(&ca)
			ca.known[peerNID].locators = append(ca.known[peerNID].locators, remote{l64: c.listed})
			if first.dead = c.dead; c.moved {
				first.remotes = append(first.remotes, remote{l64: netQ})
			}
			o.bestow(epoch, second, netQ)
			if got := ca.holder(ownNID, peerNID) == second; got != c.gets || second.owned != c.gets || slices.Contains(e.advised, second) != c.gets {
				t.Errorf("it gets the name: %v, owns it: %v, advised: %v; want %v", got, second.owned, e.advised, c.gets)
			}
			if got := len(e.abandoned()) > 0; got != c.abandons {
				t.Errorf("sockets destroyed: %v, want %v", e.abandoned(), c.abandons)
			}
		})
	}
}

// TestNameOfARecordThatChanges: of the sessions between two NIDs, one that takes the name
// of a later one leaves the others, and their number, as they are.
func TestNameOfARecordThatChanges(t *testing.T) {
	ca, first, second := twoNodes()
	o, _ := newOwnership(&ca)
	ca.rekey(second, SessionKey{ownNID, 1}) // before that of the other one
	first.dead = true
	ca.known[peerNID].locators = remotes{{l64: netQ}}
	o.bestowAny(epoch, ownNID, peerNID)
	if got := ca.between(ownNID, peerNID); len(got) != 1 || got[0] != second || ca.holder(ownNID, peerNID) != second {
		t.Errorf("%d sessions are left", len(got))
	}
}

// TestEvicted: an alias that a record needs is taken from a node that claimed it before,
// unless that node is where the record has it; its sockets are destroyed.
func TestEvicted(t *testing.T) {
	for _, listed := range []bool{false, true} {
		ca, first, _ := twoNodes()
		o, e := newOwnership(&ca)
		first.owned = false
		o.unnamed.enter(first, netP)
		if !listed {
			ca.known[peerNID].locators = remotes{{l64: netR}}
		}
		o.evict(epoch, theKey)
		stays := ca.sessionOf(theKey) == first
		if stays != listed || first.owned != listed || first.unnamed == listed || (len(e.abandoned()) > 0) == listed {
			t.Errorf("listed %v: it stays %v, owns the name %v, counts for its site %v, sockets destroyed %v", listed, stays, first.owned, first.unnamed, e.abandoned())
		}
		if ca.sessionOf(first.key) != first {
			t.Errorf("listed %v: it is not found under %v", listed, first.key)
		}
	}
}

// TestSiteQuota: the least recently used session of a full site ends for another one of
// that site, and one of the largest site where the data plane has no entry left.
func TestSiteQuota(t *testing.T) {
	var st unnamedSessions
	if st.excess(netP) != nil || st.dispensable() != nil {
		t.Error("a session ends where there is none")
	}
	other := &session{started: epoch.Add(-time.Hour)}
	st.enter(other, netQ)
	var list []*session
	for i := range sessionsPerSite {
		s := &session{started: epoch, used: epoch.Add(time.Duration((i+7)%sessionsPerSite) * time.Second)}
		list = append(list, s)
		if st.excess(netP) != nil {
			t.Fatalf("a session ends for number %d", i)
		}
		st.enter(s, netP+roam.L64(i%2))
	}
	oldest := list[sessionsPerSite-7]
	if st.excess(netP) != oldest || st.dispensable() != oldest || st.excess(netQ) != nil {
		t.Error("another session than the least recently used one of the site ends")
	}
	for _, s := range list {
		st.leave(s)
		st.leave(s)
	}
	if st.count != 1 || len(st.bySite) != 1 || st.dispensable() != other {
		t.Errorf("%d sessions of %d sites are left", st.count, len(st.bySite))
	}
}
