package ilnp

import (
	"maps"
	"slices"
	"testing"
	"time"

	"roam"
)

func preinstalling(n int) func(*Config) { return func(c *Config) { c.Preinstall = n } }

// tell makes a correspondent known at a place.
func (b *bench) tell(nid roam.NID, at roam.L64) {
	b.AddPeer(b.now, Peer{NID: nid, Locators: []RemoteLocator{{L64: at, Preference: 10, Lifetime: roam.Infinite}}})
	b.drain()
}

// wantPreinstalled fails the test unless just these have an entry and no session.
func (b *bench) wantPreinstalled(nids ...roam.NID) {
	b.t.Helper()
	var got []roam.NID
	for key, p := range b.entries {
		if p.Preinstalled {
			got = append(got, key.Remote)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, nids) || len(b.preinstalled.entries) != len(nids) || len(b.preinstalled.order) != len(nids) {
		b.t.Errorf("expected %v (%d, %d), want %v", got, len(b.preinstalled.entries), len(b.preinstalled.order), nids)
	}
}

// TestPreinstalled: the entry is there before the first packet, without a word on the
// wire, and the session has its nonce.
func TestPreinstalled(t *testing.T) {
	b := newBench(t, preinstalling(2))
	b.tell(peerNID, netP)
	b.prefix(1, netA, roam.Infinite)
	before := b.entries[theKey]
	b.wantPreinstalled(peerNID)
	if before.State != Initiated || !before.LocalNonce.Present() || !slices.Equal(b.targets(), []roam.L64{netP}) {
		t.Errorf("entry %+v, want initiated, with a nonce and a path", before)
	}
	b.pass(time.Hour)
	if load := b.Stats(); len(b.sent) != 0 || b.count(SessionStarted) != 0 || load.Sessions+load.Probes+load.Timers != 0 || len(b.Peers(b.now)) != 1 {
		t.Errorf("%d packets sent, %+v", len(b.sent), load)
	}
	b.see(Observation{Trigger: SeenFirst, Key: theKey})
	p := b.entries[theKey]
	if p.Preinstalled || p.State != Initiated || p.LocalNonce != before.LocalNonce || b.count(SessionStarted) != 1 || len(b.other) != 0 {
		t.Errorf("entry %+v and %v, want a session with that nonce, and nothing retransmitted", p, b.other)
	}
	b.answerProbes()
	if p := b.entries[theKey]; p.State != Established {
		t.Errorf("session is %v after the probe's reply", p.State)
	}
	b.pass(defaultIdle + idleUnread)
	b.wantPreinstalled(peerNID)
	if n := b.entries[theKey].LocalNonce; n == before.LocalNonce {
		t.Error("the nonce of a session that has ended is used again")
	}
	b.RemovePeer(b.now, peerNID)
	b.drain()
	b.wantPreinstalled()
}

// TestPreinstalledIsUsedBeforeThatIsTold: by the answer to its first packet, by what the
// data plane counted, or by a packet that was there before the entry.
func TestPreinstalledIsUsedBeforeThatIsTold(t *testing.T) {
	for name, use := range map[string]func(*bench){
		"answer": func(b *bench) {
			b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
			b.see(Observation{Trigger: SeenFirst, Key: theKey})
		},
		"count": func(b *bench) {
			b.HandleActivity(b.now, []Activity{{Key: theKey}})
			b.wantPreinstalled(peerNID)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now}})
			b.drain()
		},
		"miss": func(b *bench) {
			b.see(Observation{Trigger: SeenMiss, Key: theKey})
			if !slices.Equal(b.other, []Output{Release{theKey}}) {
				b.t.Errorf("%v, want the packet released", b.other)
			}
		},
	} {
		b := newBench(t, preinstalling(1))
		b.prefix(1, netA, roam.Infinite)
		b.tell(peerNID, netP)
		n := b.entries[theKey].LocalNonce
		use(b)
		b.wantPreinstalled()
		if b.entries[theKey].LocalNonce != n || len(b.sessions) != 1 || b.count(SessionStarted) != 1 {
			t.Errorf("%s: entry %+v, %d sessions", name, b.entries[theKey], len(b.sessions))
		}
	}
}

// TestPreinstalledWithoutILNP: the first packet that was refused is retransmitted, and as
// long as that is remembered, the next session is expected to be plain. That it was
// may be told before the packet itself is.
func TestPreinstalledWithoutILNP(t *testing.T) {
	for _, refuse := range []func(*bench){
		func(b *bench) {
			b.see(Observation{Trigger: SeenFirst, Key: theKey})
			b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
		},
		func(b *bench) { b.see(Observation{Trigger: SeenRefusal, Key: theKey}) },
	} {
		expectedWithoutILNP(t, refuse)
	}
}

func expectedWithoutILNP(t *testing.T, refuse func(*bench)) {
	t.Helper()
	b := newBench(t, preinstalling(1), func(c *Config) { c.IdleTimeout = time.Minute })
	b.prefix(1, netA, roam.Infinite)
	b.tell(peerNID, netP)
	refuse(b)
	if p := b.entries[theKey]; p.State != Plain || !slices.Equal(b.other, []Output{Release{theKey}}) {
		t.Errorf("session is %v, %v", p.State, b.other)
	}
	if s := b.Peers(b.now)[0]; s.WhyPlain != WhyNoILNP {
		t.Errorf("plain: %q", s.WhyPlain)
	}
	b.pass(time.Minute + idleUnread)
	b.wantPreinstalled(peerNID)
	if p := b.entries[theKey]; p.State != Plain {
		t.Errorf("the next session is expected to be %v", p.State)
	}
	b.forget()
	b.see(Observation{Trigger: SeenFirst, Key: theKey})
	if s := b.Peers(b.now)[0]; s.State != Plain || s.WhyPlain != WhyRemembered || len(b.sent) != 0 {
		t.Errorf("the next session is %v, %q", s.State, s.WhyPlain)
	}
	b.pass(time.Minute + idleUnread)
	b.HandleActivity(b.now.Add(defaultFallback), []Activity{{Key: theKey}})
	b.drain()
	b.wantPreinstalled(peerNID)
	if p := b.entries[theKey]; p.State != Initiated {
		t.Errorf("after what is remembered has run out, it is expected to be %v", p.State)
	}
}

// TestPreinstalledAreFew: those that were asked for last, and none where sessions need
// the room.
func TestPreinstalledAreFew(t *testing.T) {
	b := newBench(t, preinstalling(2), func(c *Config) { c.MaxSessions = 3 })
	b.prefix(1, netA, roam.Infinite)
	for i := range roam.NID(4) {
		b.tell(peerNID+i, netP)
	}
	b.wantPreinstalled(peerNID, peerNID+1)
	ask := func(nid roam.NID) {
		b.Preinstall(b.now, nid)
		b.drain()
	}
	ask(peerNID)
	ask(peerNID + 2)
	b.wantPreinstalled(peerNID, peerNID+2)
	ask(peerNID + 9) // unknown
	b.wantPreinstalled(peerNID, peerNID+2)
	b.see(Observation{Trigger: SeenMiss, Key: SessionKey{ownNID, peerNID + 1}})
	ask(peerNID + 1)
	b.wantPreinstalled(peerNID, peerNID+2)
	b.see(Observation{Trigger: SeenMiss, Key: SessionKey{ownNID, peerNID + 3}})
	b.wantPreinstalled(peerNID + 2)
	b.see(Observation{Trigger: SeenMiss, Key: SessionKey{ownNID, peerNID}})
	b.wantPreinstalled()
	ask(peerNID + 2)
	b.wantPreinstalled()
}

// TestPreinstalledContactsFirst: a correspondent that is preinstalled and contacts us is
// validated as any other, and has one session.
func TestPreinstalledContactsFirst(t *testing.T) {
	b := newBench(t, preinstalling(1))
	b.prefix(1, netA, roam.Infinite)
	b.tell(peerNID, netP)
	b.see(pending(netP, peerNonce))
	b.wantPreinstalled(peerNID)
	b.answerProbes()
	b.wantPreinstalled()
	if p := b.entries[theKey]; len(b.entries) != 1 || p.State != Established || p.LocalNonce != pending(netP, peerNonce).OwnNonce {
		t.Errorf("%d entries, %+v", len(b.entries), p)
	}
}

// TestPreinstalledAfterAUnlistedThatDoesNotAnswer: what the data plane forgets of the
// pending peer is not the entry.
func TestPreinstalledAfterAUnlistedThatDoesNotAnswer(t *testing.T) {
	b := newBench(t, preinstalling(1))
	b.prefix(1, netA, roam.Infinite)
	b.tell(peerNID, netP)
	b.see(pending(netQ, peerNonce))
	b.pass(time.Minute)
	b.wantPreinstalled(peerNID)
	if !slices.ContainsFunc(b.other, func(o Output) bool { d, is := o.(Dismiss); return is && d.Key == theKey }) {
		t.Error("the pending peer is not forgotten")
	}
}

// TestPreinstalledFollows: moves of this host, and what is told of the correspondent.
func TestPreinstalledFollows(t *testing.T) {
	b := newBench(t, preinstalling(1))
	b.prefix(1, netA, roam.Infinite)
	b.tell(peerNID, netP)
	b.prefix(2, netB, roam.Infinite)
	if !slices.Equal(b.sources(), []roam.L64{netB}) {
		t.Errorf("sends from %v after a move", b.sources())
	}
	b.tell(peerNID, netQ)
	b.wantTargets(netQ)
	b.wantPreinstalled(peerNID)
	b.AddPeer(b.now, Peer{NID: peerNID})
	b.drain()
	b.wantPreinstalled()
	if len(b.sent) != 0 {
		t.Errorf("%d packets sent", len(b.sent))
	}
}

// TestPreinstalledSurvivesTheDaemon: with its nonce, which packets may have used.
func TestPreinstalledSurvivesTheDaemon(t *testing.T) {
	b := newBench(t, preinstalling(2))
	b.prefix(1, netA, roam.Infinite)
	b.tell(peerNID, netP)
	b.tell(peerNID+1, netP)
	n := newBench(t, preinstalling(2))
	n.tell(peerNID, netP) // the daemon reads its hosts file first
	if err := n.Restore(n.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	n.drain()
	n.wantPreinstalled(peerNID, peerNID+1)
	was := b.entries[theKey]
	if p := n.entries[theKey]; p.LocalNonce != was.LocalNonce || p.Seq <= was.Seq || !slices.Equal(p.Paths, was.Paths) {
		t.Errorf("entry %+v, want %+v", p, was)
	}
	if got := n.Snapshot(); len(got) != 2 || compareKey(got[0].Key, got[1].Key) >= 0 {
		t.Errorf("snapshot %+v", got)
	}
	n.HandleActivity(n.now, []Activity{{Key: theKey, LastTx: n.now}})
	n.drain()
	n.wantPreinstalled(peerNID + 1)
}

// TestPreinstalledEntries: without a Core, the set keeps to its limit and to the entries
// of the data plane, drops the one asked for the longest ago, and leaves an entry that a
// session takes in the data plane.
func TestPreinstalledEntries(t *testing.T) {
	const n1, n2, n3, n4 roam.NID = 0x0200_0000_0000_0011, 0x0200_0000_0000_0012, 0x0200_0000_0000_0013, 0x0200_0000_0000_0014
	ca := newCache()
	for _, nid := range []roam.NID{n1, n2, n3, n4} {
		ca.known[nid] = &correspondent{nid: nid, locators: remotes{{l64: netP}}}
	}
	plane := make(map[SessionKey]SessionState)
	p := preinstalled{
		cfg: &Config{NIDs: []roam.NID{ownNID}, Preinstall: 2, MaxSessions: 3}, cache: &ca, entries: make(map[SessionKey]*session),
		emit:  func(o Output) { delete(plane, o.(Delete).Key) },
		draw:  func(time.Time) (Nonce, bool) { return peerNonce, true },
		write: func(_ time.Time, s *session) { plane[s.key] = s.state },
	}
	want := func(when string, nids ...roam.NID) {
		t.Helper()
		got := slices.SortedFunc(maps.Keys(plane), compareKey)
		var keys []SessionKey
		for _, nid := range nids {
			keys = append(keys, SessionKey{ownNID, nid})
		}
		if !slices.Equal(got, keys) {
			t.Errorf("%s: entries %v, want %v", when, got, keys)
		}
	}
	for _, nid := range []roam.NID{n1, n2, n3} {
		p.advise(epoch, ca.known[nid])
	}
	want("three were made known", n1, n2)
	p.lookedUp(epoch, n1)
	p.lookedUp(epoch, n3)
	want("an application asked for the first and the third one", n1, n3)

	s := p.take(SessionKey{ownNID, n3})
	ca.index(s)
	if want("the third one has a session", n1, n3); p.has(s) {
		t.Error("a session is still preinstalled")
	}
	p.lookedUp(epoch, n3)
	p.lookedUp(epoch, n2)
	want("all entries of the data plane but one are in use", n1, n2, n3)
	p.giveWay(SessionKey{ownNID, n4})
	want("a session with the fourth one begins", n2, n3)

	ca.known[n2].plainUntil = epoch.Add(time.Minute)
	p.updateAged(epoch)
	if got := plane[SessionKey{ownNID, n2}]; got != Plain {
		t.Errorf("an entry of a node without ILNP is %v", got)
	}
	p.updateAged(epoch.Add(time.Hour))
	if got := plane[SessionKey{ownNID, n2}]; got != Initiated {
		t.Errorf("an hour later it is %v", got)
	}
	ca.known[n2].locators = nil
	p.advise(epoch, ca.known[n2])
	want("the record has no locator left", n3)
}
