package ilnp

import (
	"testing"
	"time"

	"roam"
)

// peer with the same NID is the nonce of another node with the correspondent's identifier.
var secondNonce = Nonce{Len: 4, Bytes: [12]byte{6, 6}}

// besideSession is a host with a session, to which the second node has shown its
// nonce from another locator and answered from there after 20 ms.
func besideSession(t *testing.T) (*bench, Observation) {
	t.Helper()
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	o := pending(netQ, secondNonce)
	b.see(o)
	b.now = b.now.Add(20 * time.Millisecond)
	b.reply(b.probesSent()[0], secondNonce)
	return b, o
}

// TestSecondNodeWithTheIdentifier: from elsewhere, and the first one answers.
func TestSecondNodeWithTheIdentifier(t *testing.T) {
	b, _ := besideSession(t)
	for _, p := range b.probesSent()[1:] {
		b.now = b.now.Add(time.Millisecond)
		if p.Dst.L64 == netP {
			b.reply(p, peerNonce)
		}
	}
	b.pass(time.Second)
	if len(b.entries) != 2 || b.entries[theKey].RemoteNonce != peerNonce {
		t.Fatalf("%d entries, want the first one as it was and a second one", len(b.entries))
	}
	for key, p := range b.entries {
		if key == theKey {
			continue
		}
		if p.RemoteNID != peerNID || p.RemoteNonce != secondNonce || key.Remote == peerNID || key.Local != ownNID {
			t.Errorf("second entry %+v, want the same NID behind another alias", p)
		}
		if key.Remote>>56&3 != 0 {
			t.Errorf("handle %v is not of local scope", key.Remote)
		}
	}
}

// TestOneNodeTakenForTwo: the old nonce was heard from packets that came late.
// When nothing but the other nonce answers at the locator of the old session,
// there is one node, and the session that applications know goes on with it.
func TestOneNodeTakenForTwo(t *testing.T) {
	b, o := besideSession(t)
	b.pass(time.Second)
	if len(b.entries) != 2 {
		t.Fatalf("%d entries, want two", len(b.entries))
	}
	silence(b)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastNonceRx: b.now}})
	b.reply(b.probesSent()[len(b.probesSent())-1], secondNonce)
	if len(b.entries) != 2 {
		t.Fatal("united while the old one may still answer")
	}
	b.pass(10 * time.Second)
	b.answerProbesTo(netP, secondNonce)
	p := b.unlisted()
	if len(b.entries) != 1 || p.Dead || !p.Named || p.RemoteNonce != secondNonce || p.LocalNonce != o.OwnNonce {
		t.Errorf("%d entries, %+v, want one with the nonces of the second, and the name", len(b.entries), p)
	}
}

// TestOneNodeWithTwoAliases: a node has got a session at each of two locators. When they
// turn out to be one's, that which is left has both locators, validated.
func TestOneNodeWithTwoAliases(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	for _, x := range []struct {
		l roam.L64
		n Nonce
	}{{netQ, secondNonce}, {netR, forged}} {
		b.see(pending(x.l, x.n))
		b.now = b.now.Add(20 * time.Millisecond)
		b.answerProbesTo(x.l, x.n)
		for range 3 {
			b.answerProbesTo(netP, peerNonce)
			b.pass(time.Second)
			b.now = b.now.Add(time.Millisecond)
		}
	}
	s, other := b.byNonce(ownNID, peerNID, forged), b.byNonce(ownNID, peerNID, secondNonce)
	if s == nil || other == nil || len(b.entries) != 3 {
		t.Fatalf("%d entries, want three", len(b.entries))
	}
	b.pass(10 * time.Second)
	b.forget()
	b.probePaths(b.now, s, s.entry.Paths)
	b.drain()
	b.answerProbesTo(netR, secondNonce)
	if p := b.entries[other.key]; len(b.entries) != 2 || len(p.Validated) != 2 {
		t.Errorf("%d entries, validated at %v, want one session at both locators", len(b.entries), p.Validated)
	}
}

// TestUnlistedAreUnlisted: the data plane hears of which sessions no record names the node.
func TestUnlistedAreUnlisted(t *testing.T) {
	b := pendingAt(t)
	b.answerProbesTo(netP, peerNonce)
	if p, ok := b.established(); !ok || !p.Unrecorded {
		t.Errorf("entry %+v of a node without a record", p)
	}
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.drain()
	if p, _ := b.established(); p.Unrecorded {
		t.Errorf("entry %+v of a node at its record's locator", p)
	}
}

// unrecordedThatAnnounces is a host with the session of a pending peer at netP, under an alias
// of its own where the NID has a record, which has announced netR and is asked there.
func unrecordedThatAnnounces(t *testing.T) (*bench, *session) {
	t.Helper()
	b := pendingAt(t)
	b.answerProbesTo(netP, peerNonce)
	b.forget()
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netR, 0, 600), entry(netP, 10, 600))))
	s := b.byNonce(ownNID, peerNID, peerNonce)
	if s == nil || s.owned || s.remotes.find(netR) == nil {
		t.Fatalf("session %+v, want a pending peer's with two locators", s)
	}
	return b, s
}

// TestOwnNonceStaysFromWhereAUnlistedSaysToBe: another node answers at a locator that a
// pending peer has announced. It is shown a nonce of its own: the pending peer knows that of its
// session.
func TestOwnNonceStaysFromWhereAUnlistedSaysToBe(t *testing.T) {
	b, s := unrecordedThatAnnounces(t)
	b.answerProbesTo(netR, secondNonce)
	o := b.byNonce(ownNID, peerNID, secondNonce)
	if o == nil || o == s {
		t.Fatal("the node that answered has no session of its own")
	}
	if o.localNonce == s.localNonce {
		t.Error("it is shown the nonce that the pending peer knows")
	}
}

// TestPlaceOfAnotherIsNoUnlisted: of a pending peer that announced where another node turned
// out to be, neither the session nor the locator becomes that node's.
func TestPlaceOfAnotherIsNoUnlisted(t *testing.T) {
	b, s := unrecordedThatAnnounces(t)
	b.answerProbesTo(netR, secondNonce)
	o := b.byNonce(ownNID, peerNID, secondNonce)
	if o == nil || o == s {
		t.Fatal("the node that answered has no session of its own")
	}
	b.pass(time.Minute) // the pending peer's nonce is silent
	b.forget()
	b.see(Observation{Trigger: SeenMore, Key: s.key, Remote: roam.ILV{NID: peerNID, L64: netR}, Bytes: 400, Packets: 4})
	b.probePaths(b.now, s, []Path{{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netR}})
	b.drain()
	if len(b.probesSent()) == 0 {
		t.Fatal("no probe")
	}
	b.answerProbesTo(netR, secondNonce)
	if b.sessions[s.key] != s || b.sessions[o.key] != o {
		t.Error("two nodes were taken for one")
	}
	if s.remotes.find(netR) != nil {
		t.Error("the pending peer goes on listing the place of another node")
	}
}
