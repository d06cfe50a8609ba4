package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// ownElsewhere is our nonce for a pending peer at another locator.
var ownElsewhere = Nonce{Len: 4, Bytes: [12]byte{9}}

// alsoFrom is a further packet of the pending peer, from another locator.
func alsoFrom(at roam.L64) Observation {
	o := pending(at, peerNonce)
	o.OwnNonce = ownElsewhere
	return o
}

// TestPendingPeerOnTwoLinks: a peer that begins on two links is probed at the first one
// only, so that it gets one nonce. Where it does not answer there, it is probed at the
// second one too, with the nonce of that, and answers to its probes leave.
func TestPendingPeerOnTwoLinks(t *testing.T) {
	b := pendingAt(t)
	b.forget()
	if !b.DefersProbe(b.now, alsoFrom(netQ)) {
		t.Error("a first probe from the second link is answered")
	}
	for range 5 {
		b.pass(100 * time.Millisecond)
		b.see(alsoFrom(netQ))
		if !b.DefersProbe(b.now, alsoFrom(netQ)) || b.DefersProbe(b.now, pending(netP, peerNonce)) {
			t.Fatal("a probe from the second link is answered, or one from the first is not")
		}
	}
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 60))))
	for _, p := range b.probesSent() {
		if p.Dst.L64 != netP {
			t.Errorf("a probe to %v", p.Dst)
		}
	}
	if n := len(b.messages(ilnpwire.Acknowledgement)); n > 0 {
		t.Errorf("%d acknowledgements to the second link", n)
	}
	b.pass(deferral)
	if b.DefersProbe(b.now, alsoFrom(netQ)) {
		t.Error("a probe from the second link is not answered though the first one is silent")
	}
	reached := false
	for _, p := range b.probesSent() {
		if p.Dst.L64 == netQ {
			reached = true
			if p.Nonce != ownElsewhere {
				t.Errorf("a probe to the second link with %x", p.Nonce.Value())
			}
			b.reply(p, peerNonce)
		}
	}
	if e, ok := b.established(); !reached || !ok || e.LocalNonce != ownElsewhere {
		t.Errorf("probed: %t; session %+v, %t", reached, e, ok)
	}
}

// TestPendingPeerOnTwoLinksIsOneSession: it has the nonce of the first locator, and what
// was held of the second one is delivered.
func TestPendingPeerOnTwoLinksIsOneSession(t *testing.T) {
	b := pendingAt(t)
	held := alsoFrom(netQ)
	held.Held = true
	b.see(held)
	for _, p := range b.probesSent() {
		b.reply(p, peerNonce)
	}
	if e, ok := b.established(); ok && e.LocalNonce != ownOfPending {
		t.Errorf("session %+v", e)
	}
	admitted := 0
	for _, o := range b.other {
		if a, ok := o.(Admit); ok && a.Pending.Remote.L64 == netQ {
			admitted++
		}
	}
	if _, ok := b.established(); !ok || admitted != 1 || len(b.pending.byKey) != 0 {
		t.Errorf("%d admitted, %d pending", admitted, len(b.pending.byKey))
	}
}

// TestAnswersToAnotherPeerAreGivenUp: packets that exceed the allowance of a pending peer
// go with its session, and not to another node that was validated under its alias first.
func TestAnswersToAnotherPeerAreGivenUp(t *testing.T) {
	for _, same := range []bool{true, false} {
		b := pendingAt(t)
		o := pending(netP, peerNonce)
		o.Trigger = SeenExcess
		b.see(o)
		if same {
			b.answerProbesTo(netP, peerNonce)
		} else {
			b.see(pending(netQ, forged))
			b.answerProbesTo(netQ, forged)
		}
		var released, rejected bool
		for _, o := range b.other {
			switch o := o.(type) {
			case Release:
				released = released || o.Key == theKey
			case Reject:
				rejected = rejected || o.Key == theKey
			}
		}
		if _, ok := b.entries[theKey]; !ok || released != same || rejected == same {
			t.Errorf("the same node: %t; released: %t, given up: %t", same, released, rejected)
		}
	}
}

// TestPendingPeersThatDoNotDefer: another nonce, the same nonce of ours, and the same place.
func TestPendingPeersThatDoNotDefer(t *testing.T) {
	for name, c := range map[string]struct {
		first, second roam.L64
		nonce, own    Nonce
	}{
		"another nonce":          {netP, netQ, forged, ownElsewhere},
		"the same nonce of ours": {netP, netQ, peerNonce, ownOfPending},
		"the same place":         {netP, netP, peerNonce, ownElsewhere},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.tell(peerNID, netR)
		b.see(pending(c.first, peerNonce))
		o := pending(c.second, c.nonce)
		o.OwnNonce = c.own
		if b.DefersProbe(b.now, o) {
			t.Errorf("%s: deferred", name)
		}
	}
}

// TestNonceOfAnotherSession: a first answer with the nonce of another session is that
// one's, and opens none.
func TestNonceOfAnotherSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.tell(peerNID, netP)
	b.see(pending(netQ, secondNonce))
	b.answerProbesTo(netQ, secondNonce)
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	first := Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: secondNonce}
	b.see(first)
	if e := b.entries[theKey]; e.State != Initiated || len(b.entries) != 2 {
		t.Errorf("%d sessions, ours is %v", len(b.entries), e.State)
	}
	first.Nonce = peerNonce
	b.see(first)
	if e := b.entries[theKey]; e.State != Established {
		t.Errorf("with its own nonce it is %v", e.State)
	}
}

// TestEndedForRoomLosesItsSockets: the session of a node without a record that gives way to
// a session of this host: the next node that claims the NID must not get its packets.
func TestEndedForRoomLosesItsSockets(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxSessions = 1 })
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	b.answerProbesTo(netP, peerNonce)
	const other = peerNID + 1
	b.tell(other, netQ)
	b.see(Observation{Trigger: SeenMiss, Key: SessionKey{ownNID, other}, LocalNID: ownNID})
	abandoned := false
	for _, o := range b.other {
		a, is := o.(Abandon)
		abandoned = abandoned || is && a.Key == theKey
	}
	if _, there := b.entries[theKey]; there || !abandoned {
		t.Errorf("the session is there: %t; its sockets are destroyed: %t", there, abandoned)
	}
}

// TestAllowanceOfBytesAndPackets: what may go to an unvalidated locator is bounded by
// bytes, and by packets.
func TestAllowanceOfBytesAndPackets(t *testing.T) {
	var as accounts
	there := roam.ILV{NID: peerNID, L64: netQ}
	as.received(epoch, there, 100, 1)
	for i, c := range []struct {
		bytes int
		may   bool
	}{{150, true}, {60, false}, {10, true}, {10, false}} {
		if may := as.allows(epoch, there, c.bytes, false); may != c.may {
			t.Errorf("packet %d of %d bytes: %t", i, c.bytes, may)
		}
	}
}

// TestContestedPeerIsProbedOnce: one forged packet under the NID of a session draws one
// probe; a packet without nonce from elsewhere belongs to no pending peer.
func TestContestedPeerIsProbedOnce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.forget()
	b.see(pending(netQ, forged))
	bare := pending(netR, Nonce{})
	bare.Held = true
	b.see(bare)
	dismissed := b.dismissed(theKey)
	b.pass(10 * time.Second)
	n := 0
	for _, p := range b.probesSent() {
		if p.Dst.L64 == netQ {
			n++
		}
	}
	if n != 1 || !dismissed {
		t.Errorf("%d probes for one packet; the packet without nonce is dropped: %t", n, dismissed)
	}
}

// TestPendingPeerIsProbedFromTwoLocators: nothing gets out from the locator that the peer's first packet came to.
// The second probe leaves from the one where another packet came.
func TestPendingPeerIsProbedFromTwoLocators(t *testing.T) {
	b := pendingAt(t)
	b.prefix(2, netB, roam.Infinite)
	also := pending(netP, peerNonce)
	also.Local = roam.LinkLocator{Link: 2, L64: netB}
	b.see(also)
	b.forget()
	b.pass(pendingFirst + 10*time.Millisecond)
	for _, p := range b.probesSent() {
		if p.Src.L64 == netB {
			b.reply(p, peerNonce)
		}
	}
	if _, ok := b.established(); !ok {
		t.Error("no probe has left from the second locator")
	}
}

// Anybody can send nonces in a peer's name to each locator of this host. That draws no probe with the
// nonce of the session from a locator that the session does not send from: the peer would follow it.
func TestForgedNoncesDrawNoProbeFromAnotherLocator(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	used := b.byUse()[0].entry.Paths[0].Local
	other := roam.LinkLocator{Link: 1, L64: netA}
	if used == other {
		other = roam.LinkLocator{Link: 2, L64: netB}
	}
	b.forget()
	forge := func(n byte, at roam.LinkLocator, then time.Duration) {
		forged := pending(netP, Nonce{Len: 4, Bytes: [12]byte{n}})
		forged.Local = at
		b.see(forged)
		b.pass(then)
	}
	forge(40, used, 0) // has this host probe, so that the next nonce is not probed for at once
	forge(41, used, pendingAgain+time.Millisecond)
	forge(41, other, pendingFirst)
	for _, p := range b.probesSent() {
		if p.Src.L64 == other.L64 {
			t.Error("a probe has left from another locator")
		}
	}
}

// TestPendingPeerWithARecordOnTwoLinks: a peer that begins at a locator which its record does not list, and at one
// which it lists, gets the nonce of the first one there, and no other, so that it adopts the one that its session has.
// Where it does not answer there, it soon gets the nonce of the listed locator.
func TestPendingPeerWithARecordOnTwoLinks(t *testing.T) {
	for _, silent := range []bool{false, true} {
		b := newBench(t)
		b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netQ, Lifetime: roam.Infinite}}})
		b.prefix(1, netA, roam.Infinite)
		b.forget()
		first := pending(netP, peerNonce)
		first.Held = true
		b.see(first)
		listed := alsoFrom(netQ)
		listed.Held = true
		if !b.DefersProbe(b.now, listed) {
			t.Fatal("a probe from the listed locator is answered with another nonce than the first one gets")
		}
		b.see(listed)
		if silent {
			b.probesSent()
			b.pass(deferListed)
		}
		reached := make(map[roam.L64]bool)
		for _, p := range b.probesSent() {
			if reached[p.Dst.L64] = true; p.Dst.L64 == netQ || !silent {
				b.reply(p, peerNonce)
			}
		}
		want := map[roam.L64]Nonce{netP: ownOfPending, netQ: ownElsewhere}[map[bool]roam.L64{true: netQ, false: netP}[silent]]
		if e, ok := b.established(); !ok || e.LocalNonce != want || reached[netQ] != silent {
			t.Errorf("first locator silent %t: session %+v, %t, probes to %v", silent, e, ok, reached)
		}
	}
}
