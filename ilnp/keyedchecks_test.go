package ilnp

import (
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// TestKeyedCountersStay: what is known of the peer is told again, as after each change of a file. The
// counters stay, so that no replayed update counts.
func TestKeyedCountersStay(t *testing.T) {
	for _, unkeyed := range []bool{false, true} { // the peer may lack our key
		k := openKeyed(t)
		update := k.sealed(netP, updateOf(entry(netP, 0, 600)))
		k.receive(1, update)
		k.sessions[theKey].keys.unkeyed = unkeyed
		was := *k.sessions[theKey].keys
		r := k.record()
		r.Names = []string{"another"}
		k.AddPeer(k.now, r)
		k.drain()
		k.forget()
		now := *k.sessions[theKey].keys
		if was.updated == 0 || now.updated != was.updated || now.sent < was.sent || now.acks != was.acks ||
			now.unkeyed != unkeyed {
			t.Errorf("the counters are %+v, were %+v", now, was)
		}
		k.receive(1, update)
		k.wantUnmoved("replayed", reasonReplayed)
	}
}

// TestAckEndsInsistence: an acknowledgement with a MAC shows that both ends have the same keys; an update does not say
// that the peer takes ours.
func TestAckEndsInsistence(t *testing.T) {
	k := openKeyed(t)
	s := k.sessions[theKey]
	s.insists = 3
	k.receive(1, k.sealed(netP, updateOf(entry(netP, 0, 600))))
	if s.insists != 3 || s.keys.updated == 0 {
		t.Errorf("after an update with the counter %d it has insisted %d times", s.keys.updated, s.insists)
	}
	p, lu := k.moveOut()
	if k.receive(1, k.ackOf(p, lu)); s.insists != 0 {
		t.Errorf("after an acknowledgement it has insisted %d times", s.insists)
	}
}

// TestWhoIsKeyed is a node whose key the user has given.
func TestWhoIsKeyed(t *testing.T) {
	k := openKeyed(t)
	k.AddPeer(k.now, Peer{NID: heirNID, Names: []string{"unkeyed"}})
	for nid, want := range map[roam.NID]bool{peerNID: true, heirNID: false, heirNID + 1: false} {
		if got := k.isKeyed(nid); got != want {
			t.Errorf("%v is keyed: %t", nid, got)
		}
	}
}

// TestKeyedKeyFollows: with another key of the peer the data plane has another key of the session as well.
func TestKeyedKeyFollows(t *testing.T) {
	k := openKeyed(t)
	was := k.entries[theKey]
	r := k.record()
	r.Secret = secretOf(t, 9)
	k.AddPeer(k.now, r)
	k.drain()
	s := k.sessions[theKey]
	if now := k.entries[theKey]; now.MACKey == was.MACKey || now.MACKey != s.keyIn() || now.Seq == was.Seq {
		t.Errorf("the entry has %x, had %x; the session has %x", now.MACKey, was.MACKey, s.keys.in)
	}
}

// TestKeyedCounterBegins: without a proof the nonces may be those of an earlier session, whose counters are
// lost, so the counters begin above all that the same keys had before, and show no clock. Before the peer's nonce is
// known there are no keys.
func TestKeyedCounterBegins(t *testing.T) {
	s := &session{localNID: ownNID, remoteNID: peerNID, localNonce: peerNonce}
	secret := secretOf(t, 7)
	if s.rekey(epoch, secret); s.keys == nil || s.keys.in != nil || s.keys.out != nil {
		t.Errorf("before the nonce is known: %+v", s.keys)
	}
	s.remoteNonce = forged
	s.rekey(epoch, secret)
	first, clock := s.keys.sent, uint64(epoch.UnixNano())
	const year = uint64(365 * 24 * time.Hour)
	if first < clock || first-clock < year || first-clock >= 1<<62 {
		t.Errorf("begins at %d, when the clock is %d", first, clock)
	}
	s.rekey(epoch.Add(time.Hour), secret)
	if s.keys.sent != first {
		t.Errorf("keys that stay begin anew, %d above: that is a clock", s.keys.sent-first)
	}
	for name, lost := range map[string]*session{
		"state lost": {localNID: s.localNID, remoteNID: s.remoteNID, localNonce: s.localNonce, remoteNonce: s.remoteNonce},
		"of a state": {localNID: s.localNID, remoteNID: s.remoteNID, localNonce: s.localNonce, remoteNonce: s.remoteNonce,
			keys: &keying{sent: 7}},
	} {
		if lost.rekey(epoch.Add(time.Second), secret); lost.keys.sent != first+uint64(time.Second) {
			t.Errorf("%s, a second later it begins %d above", name, lost.keys.sent-first)
		}
	}
	for name, other := range map[string]*session{
		"other nonce": {localNID: s.localNID, remoteNID: s.remoteNID, localNonce: s.localNonce, remoteNonce: peerNonce},
		"other direction": {localNID: s.remoteNID, remoteNID: s.localNID, localNonce: s.remoteNonce,
			remoteNonce: s.localNonce},
	} {
		other.rekey(epoch, secret)
		if d := max(first, other.keys.sent) - min(first, other.keys.sent); d < year {
			t.Errorf("%s: it begins %d beside the first: that is a clock", name, d)
		}
	}
	if s.rekey(epoch, nidkey.Secret{}); s.keys != nil {
		t.Errorf("without a secret: %+v", s.keys)
	}
}

// TestKeyedBuild: nothing leaves without a key, or that is no message. An update answers nothing.
func TestKeyedBuild(t *testing.T) {
	k := openKeyed(t)
	k.receive(1, k.sealed(netP, updateOf(entry(netP, 0, 600)))) // which an acknowledgement would answer
	p, lu := k.moveOut()
	if k.sessions[theKey].keys.updated == 0 || p.Seal.Answers != 0 {
		t.Errorf("an update answers %d", p.Seal.Answers)
	}
	if b, ok := (&keying{}).build(p.Src, p.Dst, p.Nonce, lu); ok || b != nil {
		t.Error("a message without a key")
	}
	keys := k.sessions[theKey].keys
	lu.Locators = nil
	for i := range uint16(256) { // more than the format has
		lu.Locators = append(lu.Locators, entry(netA, i, 600))
	}
	if b, ok := keys.build(p.Src, p.Dst, p.Nonce, lu); ok || b != nil {
		t.Error("a message that is none")
	}
	short := []byte{156, 0, 0, 0, 0, 1}
	seal := &ilnpwire.Seal{Counter: keys.updated + 1}
	seal.MAC = macOf(keys.in, short, seal.Counter, 0)
	if fault := keys.fault(seal, short); fault != reasonWrongMAC {
		t.Errorf("a message that is cut: %q", fault)
	}
}

// TestSealedWithoutKeys: where this host has no key of the peer, an update counts by its nonce, whatever MAC it
// has.
func TestSealedWithoutKeys(t *testing.T) {
	k := openKeyed(t)
	r := k.record()
	r.Secret = nidkey.Secret{}
	k.AddPeer(k.now, r)
	k.receive(1, k.sealed(netQ, toQ))
	k.answerProbesTo(netQ, peerNonce)
	k.wantTargets(netQ)
}
