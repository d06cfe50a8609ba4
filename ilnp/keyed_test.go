package ilnp

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// secretOf returns the secret of two nodes' keys, by a seed.
func secretOf(t testing.TB, seed uint64) nidkey.Secret {
	t.Helper()
	keys := [2]nidkey.Key{ephemeralOf(t, 2*seed), ephemeralOf(t, 2*seed+1)}
	s, err := keys[0].Shared(keys[1].Public)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keyedBench is a host with a keyed session, and what the peer has of it.
type keyedBench struct {
	*bench
	secret nidkey.Secret
	peer   keying // the peer's half
}

// openKeyed opens a session at netP with a peer whose key was given; the host is at netA.
func openKeyed(t *testing.T) *keyedBench {
	t.Helper()
	k := &keyedBench{bench: newBench(t), secret: secretOf(t, 7)}
	k.prefix(1, netA, roam.Infinite)
	k.AddPeer(k.now, k.record())
	k.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	k.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
	k.sessions[theKey].asks = true
	k.answerProbes()
	k.meet()
	k.pass(5 * time.Second)
	k.forget()
	return k
}

func (k *keyedBench) record() Peer {
	return Peer{NID: peerNID, Names: []string{"peer"}, Secret: k.secret,
		Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}}
}

// meet derives the peer's half of the session that the host has.
func (k *keyedBench) meet() {
	own := k.entries[theKey].LocalNonce
	k.peer = keying{
		out:  directionKey(k.secret, peerNID, ownNID, peerNonce, own),
		in:   directionKey(k.secret, ownNID, peerNID, own, peerNonce),
		sent: uint64(epoch.UnixNano()),
	}
}

// sealed makes a packet of the peer's with its next counter.
func (k *keyedBench) sealed(from roam.L64, lu ilnpwire.LocatorUpdate) []byte {
	k.t.Helper()
	if lu.Operation == 0 {
		lu.Operation = ilnpwire.Advertisement
	}
	b, ok := k.peer.build(roam.ILV{NID: peerNID, L64: from}, roam.ILV{NID: ownNID, L64: netA}, peerNonce, lu)
	if !ok {
		k.t.Fatal("no packet")
	}
	return b
}

// lastSent returns the last Locator Update, or acknowledgement, of the host, as the peer reads it.
func (k *keyedBench) lastSent(op ilnpwire.Operation) (ilnpwire.Packet, ilnpwire.LocatorUpdate) {
	k.t.Helper()
	for _, s := range slices.Backward(k.sent) {
		p, err := ilnpwire.ParseControl(s.Packet, k.cfg.UDPPort)
		if err != nil || p.Type != ilnpwire.TypeLocatorUpdate {
			continue
		}
		if lu, err := ilnpwire.ParseLocatorUpdate(p.Payload); err == nil && lu.Operation == op {
			return p, lu
		}
	}
	k.t.Fatalf("no message of operation %d was sent", op)
	return ilnpwire.Packet{}, ilnpwire.LocatorUpdate{}
}

// wantUnmoved checks that the session is where it was, and that input was refused for a reason.
func (k *keyedBench) wantUnmoved(what, reason string) {
	k.t.Helper()
	k.wantTargets(netP)
	if n := k.RejectedInput()[reason]; n == 0 {
		k.t.Errorf("%s: not refused for %q, but %v", what, reason, k.RejectedInput())
	}
	if n := k.count(UpdateReceived); n > 0 {
		k.t.Errorf("%s: %d updates were applied", what, n)
	}
	if n := len(k.messages(ilnpwire.Acknowledgement)); n > 0 {
		k.t.Errorf("%s: it is acknowledged", what)
	}
	s := k.sessions[theKey]
	if s == nil || s.state != Established || s.remotes.find(netQ) != nil {
		k.t.Fatalf("%s: the session is %+v", what, s)
	}
}

var toQ = updateOf(entry(netQ, 0, 600))

// TestKeyedUpdateMoves: the peer's own update moves the session and is acknowledged with a MAC
// that covers its counter.
func TestKeyedUpdateMoves(t *testing.T) {
	k := openKeyed(t)
	if !k.entries[theKey].Unconfirmed {
		t.Error("the programs would follow the nonce")
	}
	k.receive(1, k.sealed(netQ, toQ))
	p, _ := k.lastSent(ilnpwire.Acknowledgement)
	if fault := k.peer.fault(p.Seal, p.Payload); fault != "" || p.Seal.Answers != k.peer.sent {
		t.Errorf("the acknowledgement has %+v: %s; want one of counter %d", p.Seal, fault, k.peer.sent)
	}
	k.answerProbesTo(netQ, peerNonce)
	k.wantTargets(netQ)
	if v := k.Peers(k.now)[0]; !v.Keyed || v.Unkeyed {
		t.Errorf("shown as %+v", v)
	}
}

// TestKeyedForgeries: somebody on the path has read every packet of the session. Whatever that
// one sends is refused, and the session goes on by its owner.
func TestKeyedForgeries(t *testing.T) {
	plain := func(k *keyedBench) []byte { return k.update(netQ, peerNonce, toQ) }
	own := func(k *keyedBench) Nonce { return k.entries[theKey].LocalNonce }
	by := func(key func(k *keyedBench) []byte) func(*keyedBench) []byte {
		return func(k *keyedBench) []byte {
			k.peer.out = key(k)
			return k.sealed(netQ, toQ)
		}
	}
	for name, c := range map[string]struct {
		reason string
		packet func(k *keyedBench) []byte
	}{
		"right nonce, no MAC": {reasonNoMAC, plain},
		"a MAC made up": {reasonWrongMAC, func(k *keyedBench) []byte {
			lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: toQ.Locators}
			b, err := ilnpwire.BuildSealed(roam.ILV{NID: peerNID, L64: netQ}, roam.ILV{NID: ownNID, L64: netA}, peerNonce,
				lu, ilnpwire.Seal{Counter: k.peer.sent + 1})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}},
		"reflected: of our own direction": {reasonWrongMAC, by(func(k *keyedBench) []byte {
			return directionKey(k.secret, ownNID, peerNID, own(k), peerNonce)
		})},
		"of a session with another nonce of the peer": {reasonWrongMAC, by(func(k *keyedBench) []byte {
			return directionKey(k.secret, peerNID, ownNID, forged, own(k))
		})},
		"of a session with another nonce of ours": {reasonWrongMAC, by(func(k *keyedBench) []byte {
			return directionKey(k.secret, peerNID, ownNID, peerNonce, forged)
		})},
		"of another node's key": {reasonWrongMAC, by(func(k *keyedBench) []byte {
			return directionKey(secretOf(t, 8), peerNID, ownNID, peerNonce, own(k))
		})},
	} {
		t.Run(name, func(t *testing.T) {
			k := openKeyed(t)
			b := c.packet(k)
			k.receive(1, b)
			k.see(at(netQ, peerNonce)) // and data from there
			k.wantUnmoved(name, c.reason)
			if shown := k.Peers(k.now)[0].Unkeyed; shown != (c.reason == reasonNoMAC) {
				t.Errorf("%s: shown as one that sends no MAC: %t", name, shown)
			}
			k.meet()
			k.forget()
			k.receive(1, k.sealed(netR, updateOf(entry(netR, 0, 600))))
			k.answerProbesTo(netR, peerNonce)
			k.wantTargets(netR)
		})
	}
}

// TestKeyedChanges changes every byte of a right message, its MAC and counters included.
func TestKeyedChanges(t *testing.T) {
	k := openKeyed(t)
	b := k.sealed(netQ, toQ)
	p, err := ilnpwire.ParsePacket(b)
	if err != nil {
		t.Fatal(err)
	}
	half := k.sessions[theKey].keys
	if fault := half.fault(p.Seal, p.Payload); fault != "" {
		t.Fatal(fault)
	}
	for i := range p.Payload {
		if i == 2 || i == 3 {
			continue // the checksum, which is checked before
		}
		m := slices.Clone(p.Payload)
		m[i] ^= 0x10
		if half.fault(p.Seal, m) != reasonWrongMAC {
			t.Errorf("byte %d of the message was changed: accepted", i)
		}
	}
	for name, s := range map[string]ilnpwire.Seal{
		"counter": {Counter: p.Seal.Counter + 1, MAC: p.Seal.MAC},
		"answers": {Counter: p.Seal.Counter, Answers: 1, MAC: p.Seal.MAC},
	} {
		if half.fault(&s, p.Payload) != reasonWrongMAC {
			t.Errorf("the %s was changed: accepted", name)
		}
	}
	for i := range p.Seal.MAC {
		s := *p.Seal
		s.MAC[i] ^= 1
		if half.fault(&s, p.Payload) != reasonWrongMAC {
			t.Errorf("byte %d of the MAC was changed: accepted", i)
		}
	}
}

// TestKeyedReplay: an update counts once, and an older one not at all: it must not undo a
// newer one.
func TestKeyedReplay(t *testing.T) {
	k := openKeyed(t)
	old, stays := k.sealed(netP, updateOf(entry(netQ, 0, 600))), k.sealed(netP, updateOf(entry(netP, 0, 600)))
	k.receive(1, stays)
	k.forget()
	for _, b := range [][]byte{stays, old, old} {
		k.receive(1, b)
	}
	k.wantUnmoved("replayed", reasonReplayed)
	if n := k.RejectedInput()[reasonReplayed]; n != 3 {
		t.Errorf("%d refused as replayed, want 3", n)
	}
}

// TestKeyedCut cuts an update at each byte, with its payload length put right.
func TestKeyedCut(t *testing.T) {
	k := openKeyed(t)
	b := k.sealed(netQ, toQ)
	for n := range b {
		cut := slices.Clone(b[:n])
		if n >= 40 {
			binary.BigEndian.PutUint16(cut[4:], uint16(n-40))
		}
		k.receive(1, cut)
	}
	k.wantTargets(netP)
	if k.count(UpdateReceived) > 0 || k.sessions[theKey].remotes.find(netQ) != nil {
		t.Error("a part of an update was applied")
	}
}

// moveOut gives the host a second locator, so that it announces its set.
func (k *keyedBench) moveOut() (ilnpwire.Packet, ilnpwire.LocatorUpdate) {
	k.t.Helper()
	k.sessions[theKey].lastRx = k.now // the peer is heard
	k.prefix(2, netB, roam.Infinite)
	return k.lastSent(ilnpwire.Advertisement)
}

// ackOf makes the peer's acknowledgement of an update.
func (k *keyedBench) ackOf(p ilnpwire.Packet, lu ilnpwire.LocatorUpdate) []byte {
	k.peer.updated = p.Seal.Counter
	return k.sealed(netP, lu.Ack())
}

// TestKeyedAck: our updates have a MAC, and only an acknowledgement with one ends the exchange.
// Data stay on the locator that the peer knows until then.
func TestKeyedAck(t *testing.T) {
	k := openKeyed(t)
	p, lu := k.moveOut()
	if fault := k.peer.fault(p.Seal, p.Payload); fault != "" {
		t.Fatalf("our update: %s", fault)
	}
	if got := k.sources(); !slices.Equal(got, []roam.L64{netA}) {
		t.Errorf("sends from %v before the acknowledgement, want the known locator", got)
	}
	k.receive(1, k.update(netP, peerNonce, lu.Ack()))
	if k.count(UpdateAcked) > 0 || k.RejectedInput()[reasonNoMAC] != 1 {
		t.Error("an acknowledgement without a MAC was accepted")
	}
	if !k.Peers(k.now)[0].Unkeyed {
		t.Error("it is not shown that the peer sends none")
	}
	ack := k.ackOf(p, lu)
	k.receive(1, ack)
	if k.count(UpdateAcked) != 1 || k.Peers(k.now)[0].Unkeyed {
		t.Error("the right acknowledgement was refused")
	}
	if got := k.sources(); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("sends from %v after it", got)
	}
	k.receive(1, ack)
	if k.RejectedInput()[reasonReplayed] != 1 {
		t.Error("a replayed acknowledgement was accepted")
	}
}

// TestKeyedOlderAck: a set that comes back is acknowledged anew; what acknowledged it before
// does not count.
func TestKeyedOlderAck(t *testing.T) {
	k := openKeyed(t)
	first, lu := k.moveOut()
	early := k.ackOf(first, lu)
	k.repeatUpdate(k.now, k.sessions[theKey])
	k.drain()
	k.receive(1, early)
	if k.count(UpdateAcked) > 0 || k.RejectedInput()[reasonOlderAck] != 1 {
		t.Errorf("an acknowledgement of the exchange before was accepted: %v", k.RejectedInput())
	}
	p, lu := k.lastSent(ilnpwire.Advertisement)
	k.receive(1, k.ackOf(p, lu))
	if k.count(UpdateAcked) != 1 {
		t.Error("that of this one was refused")
	}
}

// TestKeyedWindow: acknowledgements count once each, in any order among 64.
func TestKeyedWindow(t *testing.T) {
	var w window
	for _, c := range []struct {
		n   uint64
		was bool
	}{
		{100, false}, {100, true}, {99, false}, {99, true}, {37, false}, {36, true}, {101, false}, {37, true}, {100, true},
		{500, false}, {437, false}, {436, true},
	} {
		if got := w.has(c.n); got != c.was {
			t.Errorf("has(%d) = %t, %+v", c.n, got, w)
		}
		if !c.was {
			w.add(c.n)
		}
	}
}

// TestKeyedRestart: a successor has no keys until it is told of the peer, and takes no update
// before. Its counters go on above those that it may have lost.
func TestKeyedRestart(t *testing.T) {
	k := openKeyed(t)
	old := k.sealed(netP, updateOf(entry(netP, 0, 600)))
	k.receive(1, old)
	sent := k.sessions[theKey].keys.sent
	state := k.Export()
	n := newBench(t)
	n.now = k.now.Add(-365 * 24 * time.Hour) // and the clock was set back
	if err := n.Restore(k.now, state); err != nil {
		t.Fatal(err)
	}
	n.drain()
	if p := k.record(); n.Knows(p) {
		t.Error("the peer's key counts as known after a restart")
	}
	n.receive(1, k.sealed(netP, toQ))
	if n.count(UpdateReceived) > 0 || !n.entries[theKey].Unconfirmed {
		t.Error("an update was applied before the key was known")
	}
	n.AddPeer(n.now, k.record())
	n.receive(1, old)
	if n.count(UpdateReceived) > 0 {
		t.Error("a replayed update was applied after a restart")
	}
	n.receive(1, k.sealed(netP, toQ))
	if n.count(UpdateReceived) != 1 {
		t.Errorf("the peer's update was refused after a restart: %v", n.RejectedInput())
	}
	if got := n.sessions[theKey].keys.sent; got < sent+restoredAhead {
		t.Errorf("the counter goes on at %d, was %d", got, sent)
	}
}

// TestKeyGivenLater: the user adds the line while the session lives, and takes it away again.
func TestKeyGivenLater(t *testing.T) {
	k := openKeyed(t)
	p := k.record()
	p.Secret = nidkey.Secret{}
	k.AddPeer(k.now, p)
	k.drain()
	k.receive(1, k.update(netP, peerNonce, updateOf(entry(netP, 0, 600))))
	if k.count(UpdateReceived) != 1 || k.entries[theKey].Unconfirmed {
		t.Error("without its key the session does not go by the nonce")
	}
	k.forget()
	k.AddPeer(k.now, k.record())
	k.drain()
	k.receive(1, k.update(netQ, peerNonce, toQ))
	k.wantUnmoved("key added", reasonNoMAC)
}

// TestKeyedGolden fixes the derivation and the MAC: the bytes come from another implementation
// (in Python).
func TestKeyedGolden(t *testing.T) {
	var zero nidkey.Secret
	long := Nonce{Len: 12, Bytes: [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	key := directionKey(zero, ownNID, peerNID, peerNonce, long)
	if got := hex.EncodeToString(key); got != goldenKey {
		t.Errorf("key %s, want %s", got, goldenKey)
	}
	message := []byte{156, 0, 0xde, 0xad, 1, 1, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0x0a, 0, 0, 0, 10, 2, 0x58}
	mac := macOf(key, message, 5, 6)
	if got := hex.EncodeToString(mac[:]); got != goldenMAC {
		t.Errorf("MAC %s, want %s", got, goldenMAC)
	}
}

const (
	goldenKey = "9136241ba806361b061d1dba2c95de3e"
	goldenMAC = "0cb545735c843214e5b77bd244dd60d2"
)
