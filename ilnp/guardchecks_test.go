package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// TestGuardStays: what is known of a guarded peer changes, and its guard does not. Packets that were refused stay
// refused.
func TestGuardStays(t *testing.T) {
	b := callGuarded(t)
	b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
	p := guarded()
	p.Names = []string{"another"}
	b.AddPeer(b.now, p)
	b.drain()
	b.forget()
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if !slices.Equal(b.other, []Output{Reject{theKey}}) || b.Peers(b.now)[0].PlainRefused != WhyNoILNP {
		t.Errorf("outputs %v, refused %q", b.other, b.Peers(b.now)[0].PlainRefused)
	}
}

// TestGuardEnds: without its guard the peer is as any other.
func TestGuardEnds(t *testing.T) {
	b := callGuarded(t)
	p := guarded()
	p.Guarded = false
	b.AddPeer(b.now, p)
	b.pass(setupPatience)
	if e := b.entries[theKey]; e.State != Plain {
		t.Errorf("the session is %v", e.State)
	}
}

// TestGuardKeepsSessions: a change of the guard ends those sessions only that wait for a proof which is not needed any
// more, and those that are plain against the wish of the user.
func TestGuardKeepsSessions(t *testing.T) {
	optional := func(r *Peer) { r.Optional = true }
	for name, c := range map[string]struct {
		begin  func() (*bench, Peer)
		change func(r *Peer)
	}{
		"a session that waits for a proof may be plain": {func() (*bench, Peer) {
			p, r := keyless(t)
			return p.a, r
		}, func(r *Peer) { r.Guarded = false }},
		"the peer of a session that is about to be proven anew may lack its key": {func() (*bench, Peer) {
			p := established(t)
			handshakes{p.a.Core}.renew(p.a.now, p.session(p.a))
			return p.a, p.recordOfB()
		}, optional},
		"the peer of a session that needs no proof may lack its key": {func() (*bench, Peer) {
			return callGuarded(t), guarded()
		}, optional},
		"the peer of a plain session, without ILNP, may lack its key": {func() (*bench, Peer) {
			b, r := newBench(t), guarded()
			b.prefix(1, netA, roam.Infinite)
			r.Guarded = false
			b.AddPeer(b.now, r)
			b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
			b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
			return b, r
		}, optional},
	} {
		b, r := c.begin()
		s := b.sessions[theKey]
		if s == nil {
			t.Fatalf("%s: no session", name)
		}
		c.change(&r)
		b.AddPeer(b.now, r)
		if b.sessions[theKey] != s {
			t.Errorf("%s: it has ended", name)
		}
	}
}

// TestGuardIsRestored: a session of a guarded peer becomes plain neither where nobody tells a successor of that peer
// again, as its file cannot be read.
func TestGuardIsRestored(t *testing.T) {
	b := callGuarded(t)
	next := newBench(t)
	if err := next.Restore(b.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	next.prefix(1, netA, roam.Infinite)
	next.pass(time.Minute)
	next.wantBarred(WhyNoAnswer)
	next.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if e := next.entries[theKey]; e.State != Initiated || !e.Unconfirmed {
		t.Errorf("the next session is %v, left to the programs %t", e.State, !e.Unconfirmed)
	}
}

// TestPlainWithoutARecord: the guard of a peer does not hold for a node that has only claimed its NID.
func TestPlainWithoutARecord(t *testing.T) {
	b := callGuarded(t)
	b.sessions[theKey].owned = false
	b.pass(setupPatience)
	if e := b.entries[theKey]; e.State != Plain {
		t.Errorf("the session is %v", e.State)
	}
}

// TestWhatIsUnfollowed: the programs turn a session plain by themselves unless its peer is guarded.
func TestWhatIsUnfollowed(t *testing.T) {
	b := callGuarded(t)
	s := b.sessions[theKey]
	for _, c := range []struct{ record, guarded, want bool }{
		{true, true, true}, {true, false, false}, {false, true, false},
	} {
		b.known[peerNID].guard.on, s.owned = c.guarded, c.record
		if got := b.isUnfollowed(s); got != c.want {
			t.Errorf("with a record %t, guarded %t: %t", c.record, c.guarded, got)
		}
	}
}

// TestRefusalIsShown: that a peer answers without its key is shown of a dead session, not of one that lives or begins.
func TestRefusalIsShown(t *testing.T) {
	k := &correspondent{guard: guard{why: WhyNoILNP}}
	for _, state := range []SessionState{Initiated, Established} {
		for i := range 4 {
			s := &session{state: state, dead: i&1 != 0, noProof: i&2 != 0}
			want := WhyNoILNP
			if state == Established && i == 3 {
				want = WhyNoProof
			}
			if got := k.refusal(s); got != want {
				t.Errorf("%v, dead %t, without a proof %t: %q", state, s.dead, s.noProof, got)
			}
		}
	}
}
