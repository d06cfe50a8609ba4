package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// guarded is a record whose key is known: plain IPv6 is not allowed.
func guarded() Peer {
	return Peer{NID: peerNID, Names: []string{"peer"}, Guarded: true,
		Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}}
}

// callGuarded has an application's first packet go to a guarded peer.
func callGuarded(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	b := newBench(t, change...)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, guarded())
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if p := b.entries[theKey]; p.State != Initiated || !p.Unconfirmed {
		t.Fatalf("entry %+v, want one that the programs do not turn plain", p)
	}
	return b
}

// wantBarred checks that held packets were rejected before the session ended, that nothing is
// plain, and that people are told why.
func (b *bench) wantBarred(why string) {
	b.t.Helper()
	reject, gone := slices.Index(b.other, Output(Reject{theKey})), slices.Index(b.other, Output(Delete{theKey}))
	if reject < 0 || gone < reject {
		b.t.Errorf("outputs %v, want the held packets rejected, then the entry removed", b.other)
	}
	if p, there := b.entries[theKey]; there {
		b.t.Errorf("the entry is still there, %v", p.State)
	}
	for _, e := range b.events {
		if e.Kind == SessionFellBack {
			b.t.Error("it fell back to plain IPv6")
		}
	}
	if v := b.Peers(b.now)[0]; b.count(PlainRefused) != 1 || v.PlainRefused != why {
		b.t.Errorf("%d events, shown as %q, want %q", b.count(PlainRefused), v.PlainRefused, why)
	}
}

// TestGuardedPeerWithoutILNP: the peer's host refuses the nonce. The connection fails at once, and
// so do those of the next two seconds; then the peer is asked again.
func TestGuardedPeerWithoutILNP(t *testing.T) {
	b := callGuarded(t)
	b.forget()
	b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
	b.wantBarred(WhyNoILNP)
	b.forget()
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if !slices.Equal(b.other, []Output{Reject{theKey}}) || len(b.sent) > 0 {
		t.Errorf("outputs %v and %d packets, want the next one rejected at once", b.other, len(b.sent))
	}
	b.pass(guardFor)
	b.forget()
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.answerProbes()
	if p := b.entries[theKey]; p.State != Established || b.Peers(b.now)[0].PlainRefused != "" {
		t.Errorf("with ILNP again the session is %v, refused %q", p.State, b.Peers(b.now)[0].PlainRefused)
	}
}

// TestGuardedPeerIsSilent: a path that drops the Nonce option makes nothing plain.
func TestGuardedPeerIsSilent(t *testing.T) {
	b := callGuarded(t)
	b.forget()
	b.pass(setupPatience)
	b.wantBarred(WhyNoAnswer)
}

// TestGuardedPreinstalled: an entry that is preinstalled is not plain either, and after a refusal
// there is none, so that the core is asked.
func TestGuardedPreinstalled(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Preinstall = 4 })
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, guarded())
	b.drain()
	if p := b.entries[theKey]; !p.Preinstalled || !p.Unconfirmed {
		t.Fatalf("entry %+v", p)
	}
	b.see(Observation{Trigger: SeenRefusal, Key: theKey, LocalNID: ownNID})
	b.wantBarred(WhyNoILNP)
	b.Preinstall(b.now, peerNID)
	b.drain()
	if _, there := b.entries[theKey]; there {
		t.Error("an entry is preinstalled again")
	}
}

// TestGuardBegins: a session that is plain ends when the key becomes known, also one of a
// predecessor, and what is remembered of the peer counts no more.
func TestGuardBegins(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		open := guarded()
		open.Guarded = false
		b.AddPeer(b.now, open)
		b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
		b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
		if b.entries[theKey].State != Plain {
			t.Fatal("not plain")
		}
		if restart {
			next := newBench(t)
			if err := next.Restore(b.now, b.Export()); err != nil {
				t.Fatal(err)
			}
			next.now, b = b.now, next
			b.drain()
		}
		b.forget()
		if b.Knows(guarded()) {
			t.Error("the record is thought to be the same")
		}
		b.AddPeer(b.now, guarded())
		b.drain()
		if _, there := b.entries[theKey]; there || b.count(PlainRefused) != 1 {
			t.Errorf("restart %t: the session is still there", restart)
		}
		b.pass(guardFor)
		b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
		if p := b.entries[theKey]; p.State != Initiated {
			t.Errorf("restart %t: the next session is %v", restart, p.State)
		}
	}
}

// TestGuardAllows: with plain=yes the peer is as any other.
func TestGuardAllows(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	open := guarded()
	open.Guarded = false
	b.AddPeer(b.now, open)
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.pass(2 * time.Second)
	if p := b.entries[theKey]; p.State != Plain {
		t.Errorf("the session is %v", p.State)
	}
}

// TestKeyedOptional: with key=optional an update without a MAC counts, until the peer has shown
// that it has the key.
func TestKeyedOptional(t *testing.T) {
	k := openKeyed(t)
	k.sessions[theKey].keys.acks = window{} // an acknowledgement with a MAC may have come
	r := k.record()
	r.Optional = true
	k.AddPeer(k.now, r)
	right := k.peer
	k.peer.out = right.in
	k.receive(1, k.sealed(netQ, toQ))
	k.wantUnmoved("a wrong MAC", reasonWrongMAC)
	k.peer = right
	k.receive(1, k.update(netQ, peerNonce, toQ))
	k.answerProbesTo(netQ, peerNonce)
	k.wantTargets(netQ)
	k.receive(1, k.sealed(netR, updateOf(entry(netR, 0, 600))))
	k.answerProbesTo(netR, peerNonce)
	k.wantTargets(netR)
	k.forget()
	k.receive(1, k.update(netQ, peerNonce, toQ))
	k.wantTargets(netR)
	if k.RejectedInput()[reasonNoMAC] == 0 {
		t.Error("after a MAC, one without is not refused")
	}
}

// TestKeyedOptionalAck: with key=optional an acknowledgement without a MAC counts, unless one with a MAC has come.
func TestKeyedOptionalAck(t *testing.T) {
	for _, shown := range []bool{false, true} {
		k := openKeyed(t)
		r := k.record()
		r.Optional = true
		k.AddPeer(k.now, r)
		keys := k.sessions[theKey].keys
		if keys.acks = (window{}); shown {
			keys.acks.add(5)
		}
		k.forget()
		_, lu := k.moveOut()
		k.receive(1, k.update(netP, peerNonce, lu.Ack()))
		if acked := k.count(UpdateAcked) == 1; acked == shown {
			t.Errorf("the peer has shown its key %t: acknowledged %t, refused %v", shown, acked, k.RejectedInput())
		}
	}
}

// TestKeyedWithoutName: a keyed session that has lost the peer's name takes no update without a MAC.
func TestKeyedWithoutName(t *testing.T) {
	k := openKeyed(t)
	k.sessions[theKey].owned = false
	k.receive(1, k.update(netQ, peerNonce, toQ))
	k.wantUnmoved("without a name", reasonNoMAC)
}

// TestOptionalKeyIsAskedAtOnce: who allows a guarded peer to have no key need not wait until packets that were refused
// before may leave anew.
func TestOptionalKeyIsAskedAtOnce(t *testing.T) {
	b := callGuarded(t)
	b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
	p := guarded()
	p.Optional = true
	b.AddPeer(b.now, p)
	b.forget()
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if slices.Contains(b.other, Output(Reject{theKey})) || len(b.sessions) != 1 {
		t.Errorf("the next packet is refused: %v", b.other)
	}
}
