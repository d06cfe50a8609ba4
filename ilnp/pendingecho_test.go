package ilnp

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// ownOfPending is the nonce that the data plane of the tests answers pending peers with.
var ownOfPending = Nonce{Len: 4, Bytes: [12]byte{8}}

// pendingAt is a host with a pending peer at netP that answers nothing.
func pendingAt(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	b := newBench(t, change...)
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	return b
}

// established returns the session with the peer of the tests, if there is one.
func (b *bench) established() (Entry, bool) {
	for _, p := range b.entries {
		if p.RemoteNID == peerNID && p.State == Established {
			return p, true
		}
	}
	return Entry{}, false
}

// TestUpdateOfAPendingPeer: it is acknowledged where it came from, in the form
// received, with the nonce of all that goes to that peer.
func TestUpdateOfAPendingPeer(t *testing.T) {
	list := []ilnpwire.LocatorEntry{entry(netQ, 10, 60), entry(netP, 20, 60)}
	for name, lu := range map[string]ilnpwire.LocatorUpdate{
		"RFC":   updateOf(list...),
		"draft": {Code: ilnpwire.CodeReplaceSoft, Form: ilnpwire.FormDraft, Locators: list},
	} {
		b := pendingAt(t)
		for i := range 5 {
			b.forget()
			b.receive(1, b.update(netP, peerNonce, lu))
			acks := b.messages(ilnpwire.Acknowledgement)
			if len(acks) != 1 || acks[0].Code != lu.Code || len(acks[0].Locators) != 2 || acks[0].Locators[0] != list[0] {
				t.Fatalf("%s: acknowledgements %+v of update %d", name, acks, i)
			}
			p := b.parse(b.sent[0])
			if p.Src != (roam.ILV{NID: ownNID, L64: netA}) || p.Dst != (roam.ILV{NID: peerNID, L64: netP}) || p.Nonce != ownOfPending {
				t.Errorf("%s: acknowledged by %v to %v with %x", name, p.Src, p.Dst, p.Nonce.Value())
			}
			b.pass(time.Second)
		}
	}
}

// TestUpdateOfAPendingPeerInUDP is acknowledged in UDP.
func TestUpdateOfAPendingPeerInUDP(t *testing.T) {
	const port = 6740
	b := pendingAt(t, func(c *Config) { c.UDPPort = port })
	b.forget()
	encap, err := ilnpwire.Encapsulate(b.update(netP, peerNonce, updateOf(entry(netP, 10, 60))), port)
	if err != nil {
		t.Fatal(err)
	}
	b.receive(1, encap)
	if len(b.sent) != 1 {
		t.Fatalf("%d packets, want one", len(b.sent))
	}
	if p, err := ilnpwire.ParseControl(b.sent[0].Packet, port); err != nil || !p.Encapsulated || p.Type != ilnpwire.TypeLocatorUpdate {
		t.Errorf("answered by %+v, %v", p, err)
	}
}

// TestUpdateOfAPendingPeerIsBounded: a forged one draws no more than its address may
// get, one that came elsewhere shows no session's nonce, and another nonce draws nothing.
func TestUpdateOfAPendingPeerIsBounded(t *testing.T) {
	b := pendingAt(t)
	long := updateOf()
	for i := range 100 {
		long.Locators = append(long.Locators, entry(netQ+roam.L64(i)<<16, 10, 60))
	}
	rx := 100
	for range 50 {
		lu := b.update(netP, peerNonce, long)
		rx += len(lu)
		b.receive(1, lu)
	}
	tx := 0
	for _, s := range b.sent {
		tx += len(s.Packet)
	}
	if tx > rx+allowedBytes || len(b.sent) > 51+allowedPackets {
		t.Errorf("%d bytes in %d packets for %d in 51", tx, len(b.sent), rx)
	}
	b.forget()
	b.receive(1, b.update(netP, forged, updateOf(entry(netP, 10, 60))))
	b.receive(2, b.update(netP, peerNonce, updateOf(entry(netP, 10, 60)))) // not our locator there
	if n := len(b.messages(ilnpwire.Acknowledgement)); n > 0 {
		t.Errorf("%d acknowledgements of what is to be ignored", n)
	}
}

// TestPendingNonceStaysWithItsLocator: who forges a packet from a locator does not get the
// nonce that the node there is shown by an update from its own.
func TestPendingNonceStaysWithItsLocator(t *testing.T) {
	b := pendingAt(t)
	b.forget()
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 60))))
	for _, s := range b.sent {
		if bytes.Contains(s.Packet, ownOfPending.Value()) {
			t.Error("the nonce went to where the pending peer is not")
		}
	}
}

// TestSessionsNonceStaysWithItsLocators: where a pending peer is answered with the nonce
// of a session, an update from elsewhere does not draw it.
func TestSessionsNonceStaysWithItsLocators(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	own := b.entries[theKey].LocalNonce
	o := pending(netP, forged)
	o.Trigger, o.OwnNonce = SeenOtherNonce, own
	b.see(o)
	b.forget()
	b.receive(1, b.update(netQ, forged, updateOf(entry(netQ, 10, 60))))
	for _, s := range b.sent {
		if bytes.Contains(s.Packet, own.Value()) {
			t.Error("the session's nonce went to where its correspondent is not")
		}
	}
}

// TestNonceOfAPendingPeerStaysAtItsPlace: who forged a first packet from a place, and
// sends an update with its nonce from elsewhere, does not learn what is shown there. The
// update counts, and is acknowledged, once the peer is validated.
func TestNonceOfAPendingPeerStaysAtItsPlace(t *testing.T) {
	b := pendingAt(t)
	probes := b.probesSent()
	b.forget()
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 60))))
	if len(b.sent) > 0 {
		t.Errorf("%d packets to where the pending peer has sent none from", len(b.sent))
	}
	b.reply(probes[0], peerNonce)
	if len(b.messages(ilnpwire.Acknowledgement)) != 1 || b.count(UpdateReceived) != 1 {
		t.Error("the update of the validated peer is lost")
	}
}

// talkAt has the pending peer send for so long: probes or data, which are answered or not.
func talkAt(b *bench, d time.Duration, answered, probes bool) {
	sent := 0
	for end := b.now.Add(d); b.now.Before(end); {
		b.pass(20 * time.Millisecond)
		o := pending(netP, peerNonce)
		if probes {
			o.Found = FoundProbe
		} else if answered {
			sent++
		}
		o.Packets = sent
		b.see(o)
		if probes && answered {
			sent++
		}
	}
}

// TestPendingPeerLivesWhileItTalks: one that answers no probe is asked slowly while
// packets go both ways, and given up when they do not.
func TestPendingPeerLivesWhileItTalks(t *testing.T) {
	b := pendingAt(t)
	b.forget()
	talkAt(b, 10*time.Minute, true, false)
	if n := len(b.other); n > 0 {
		t.Fatalf("outputs %+v while it talks", b.other)
	}
	if n := len(b.sent); n < 40 || n > 300 {
		t.Errorf("%d probes in 10 min", n)
	}
	if n := len(b.probes); n > 4 {
		t.Errorf("%d probes are remembered", n)
	}
	b.forget()
	talkAt(b, pendingSlowly, true, false)
	if n := len(b.sent); n < 1 || n > 2 {
		t.Errorf("%d probes in %v", n, pendingSlowly)
	}
	b.pass(pendingSilence + pendingSlowly)
	if len(b.pending.byKey) > 0 {
		t.Error("it is not given up when it is silent")
	}
	for name, probes := range map[string]bool{"nobody answers": false, "probes, and only the data plane answers,": true} {
		b := pendingAt(t)
		b.forget()
		talkAt(b, 25*time.Second, probes, probes)
		given := 0
		for _, o := range b.other {
			if _, ok := o.(Dismiss); ok {
				given++
			}
		}
		if given != 1 {
			t.Errorf("one that %s was given up %d times in 25 s, want once", name, given)
		}
	}
}

// recordedAt is pendingAt with a record that names netP.
func recordedAt(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(pending(netP, peerNonce))
	return b
}

// TestSynAckValidates: the acknowledgement of our SYN-ACK does so where a record names
// the locator, if no reply to a probe comes with it; that of a held peer does not.
func TestSynAckValidates(t *testing.T) {
	b := recordedAt(t)
	o := pending(netP, peerNonce)
	o.Trigger = SeenAcked
	b.see(o)
	if _, ok := b.established(); ok {
		t.Error("validated before the reply to a probe could come")
	}
	b.pass(ackPatience)
	p, ok := b.established()
	if !ok || p.RemoteNonce != peerNonce || p.LocalNonce != ownOfPending || p.Unconfirmed || len(p.Unvalidated) > 0 {
		t.Fatalf("session %+v", p)
	}
	b.forget()
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 60), entry(netQ, 20, 60))))
	if b.count(UpdateReceived) != 1 {
		t.Error("its Locator Update is not applied")
	}

	b = newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netQ, Lifetime: roam.Infinite}}})
	o.Held = true
	b.see(o)
	b.pass(10 * ackPatience)
	if _, ok := b.established(); ok {
		t.Error("a peer that is held was validated by what it cannot have received")
	}
}

// TestSynAckElsewhere: where no record names the locator, its sequence number can be
// told from that of the same connection from another one. It validates nothing, and has
// the peer asked by a Locator Update at once.
func TestSynAckElsewhere(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"no record": func(*bench) {},
		"record of the node wherever it is": func(b *bench) {
			b.AddPeer(b.now, Peer{NID: peerNID, Anywhere: true, Locators: []RemoteLocator{{L64: netQ, Lifetime: roam.Infinite}}})
		},
	} {
		b := pendingAt(t)
		change(b)
		o := pending(netP, peerNonce)
		o.Trigger, o.Packets = SeenAcked, 1
		b.see(o)
		b.pass(ackPatience)
		for range 3 {
			if _, ok := b.established(); ok || len(b.updates()) == 0 {
				t.Fatalf("%s: validated: %t, %d updates", name, ok, len(b.updates()))
			}
			list := b.updates()
			b.receive(1, b.ackOf(netP, peerNonce, list[len(list)-1]))
		}
		if _, ok := b.established(); !ok {
			t.Errorf("%s: not validated by three updates", name)
		}
	}
}

// TestSynAckValidatesItsLocatorOnly: the locator that the peer has moved to is not.
func TestSynAckValidatesItsLocatorOnly(t *testing.T) {
	b := recordedAt(t)
	o := pending(netP, peerNonce)
	o.Trigger = SeenAcked
	b.see(o)
	b.see(pending(netQ, peerNonce))
	b.pass(ackPatience)
	p, ok := b.established()
	if !ok {
		t.Fatal("no session")
	}
	for _, l := range p.Validated {
		if l != netP {
			t.Errorf("%v counts as validated", l)
		}
	}
}

// TestReplyGoesBeforeSynAck: a peer that answers is made a session by its reply, as ever.
func TestReplyGoesBeforeSynAck(t *testing.T) {
	b := recordedAt(t)
	o := pending(netP, peerNonce)
	o.Trigger = SeenAcked
	b.now = b.now.Add(20 * time.Millisecond)
	b.see(o)
	b.reply(b.probesSent()[0], peerNonce)
	if b.count(SessionEstablished) != 1 || b.sessions[theKey].rtt != 20*time.Millisecond {
		t.Errorf("%d sessions, RTT %v", b.count(SessionEstablished), b.sessions[theKey].rtt)
	}
	b.pass(time.Second)
	if b.count(SessionEstablished) != 1 || len(b.RejectedInput()) > 0 {
		t.Errorf("%d sessions, refused %v", b.count(SessionEstablished), b.RejectedInput())
	}
}

// TestExcessWaits: a packet that exceeds the allowance of a pending peer waits until the
// peer is validated, though the core had not heard of that peer, and though an entry is
// preinstalled for it: the session has the nonce that the peer was shown.
func TestExcessWaits(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Preinstall = 4 })
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.drain()
	if !b.entries[theKey].Preinstalled {
		t.Fatal("no entry is preinstalled")
	}
	o := pending(netP, peerNonce)
	o.Trigger, o.Bytes = SeenExcess, 0
	b.see(o)
	if len(b.other) > 0 || b.entries[theKey].State != Initiated || !b.entries[theKey].Preinstalled {
		t.Fatalf("outputs %+v, entry %+v", b.other, b.entries[theKey])
	}
	b.see(pending(netP, peerNonce))
	b.reply(b.probesSent()[0], peerNonce)
	if p := b.entries[theKey]; p.State != Established || p.LocalNonce != ownOfPending {
		t.Errorf("session %+v", p)
	}
	if len(b.other) != 1 || b.other[0] != (Output)(Release{Key: theKey}) {
		t.Errorf("outputs %+v, want the release of what waited", b.other)
	}
	b.forget()
	b.see(o)
	if len(b.other) != 1 || b.other[0] != (Output)(Release{Key: theKey}) {
		t.Errorf("outputs %+v of a packet that was late, want its release", b.other)
	}
}

// TestExcessOfNobody: where the pending peer is refused, what waits does not wait for ever.
func TestExcessOfNobody(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Accept = Known })
	b.prefix(1, netA, roam.Infinite)
	o := pending(netP, peerNonce)
	o.Trigger = SeenExcess
	b.see(o)
	if len(b.other) != 1 || b.other[0] != (Output)(Reject{Key: theKey}) {
		t.Errorf("outputs %+v, want a rejection", b.other)
	}
}

// TestExcessIsLetGo by the preinstalled entry when the pending peer is given up.
func TestExcessIsLetGo(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Preinstall = 4 })
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	o := pending(netP, peerNonce)
	o.Trigger = SeenExcess
	b.see(o)
	b.pass(30 * time.Second)
	if len(b.other) != 2 || b.other[1] != (Output)(Release{Key: theKey}) {
		t.Errorf("outputs %+v, want a release behind the dismissal", b.other)
	}
}

// TestExcessOfADroppedPeer: packets for a pending peer that is dropped early, in a flood or by a command, do not
// wait any longer, unless another one is pending under that alias.
func TestExcessOfADroppedPeer(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	excess := func(nid roam.NID, n Nonce) {
		o := pending(netP, n)
		o.Trigger, o.Remote.NID, o.Key.Remote = SeenExcess, nid, nid
		b.see(o)
	}
	for i := range maxPending {
		excess(peerNID+1+roam.NID(i), peerNonce)
	}
	b.pass(pendingFirst)
	b.forget()
	excess(peerNID, peerNonce)
	if want := (Output)(Reject{Key: SessionKey{ownNID, peerNID + 1}}); len(b.other) != 2 || b.other[1] != want {
		t.Errorf("outputs %+v, want a dismissal and a rejection", b.other)
	}
	b.forget()
	b.see(pending(netP, Nonce{Len: 4, Bytes: [12]byte{9}}))
	excess(peerNID, Nonce{Len: 4, Bytes: [12]byte{9}})
	b.pending.drop(b.now, b.pending.byKey[Pending{ownNID, roam.ILV{NID: peerNID, L64: netP}, peerNonce}])
	if b.drain(); slices.Contains(b.other, (Output)(Reject{Key: theKey})) {
		t.Errorf("outputs %+v, and another peer is pending under the alias", b.other)
	}
	b.RemovePeer(b.now, peerNID)
	if b.drain(); !slices.Contains(b.other, (Output)(Reject{Key: theKey})) {
		t.Errorf("outputs %+v, want a rejection", b.other)
	}
}

// TestLateReplyCounts: where the SYN-ACK was faster, the reply to a probe is the session's.
func TestLateReplyCounts(t *testing.T) {
	b := recordedAt(t)
	o := pending(netP, peerNonce)
	o.Trigger = SeenAcked
	b.see(o)
	probe := b.probesSent()[0]
	b.pass(ackPatience)
	if !b.entries[theKey].NonceAlways {
		t.Error("a peer that answers no probe may want every nonce")
	}
	b.pass(10 * time.Millisecond)
	b.reply(probe, peerNonce)
	if s := b.sessions[theKey]; s.rtt != ackPatience+10*time.Millisecond || len(b.RejectedInput()) > 0 {
		t.Errorf("RTT %v, refused %v", s.rtt, b.RejectedInput())
	}
}
