package ilnp

import (
	"testing"
	"time"

	"roam"
)

// peer with the same NID is the nonce of another node with the correspondent's identifier.
var namesake = Nonce{Len: 4, Bytes: [12]byte{6, 6}}

// besideSession is a host with a session, to which the second node has shown its
// nonce from another locator and answered from there after 20 ms.
func besideSession(t *testing.T) (*bench, Observation) {
	t.Helper()
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	o := pending(netQ, namesake)
	b.see(o)
	b.now = b.now.Add(20 * time.Millisecond)
	b.reply(b.probesSent()[0], namesake)
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
		if p.RemoteNID != peerNID || p.RemoteNonce != namesake || key.Remote == peerNID || key.Local != ownNID {
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
	b.reply(b.probesSent()[len(b.probesSent())-1], namesake)
	if len(b.entries) != 2 {
		t.Fatal("united while the old one may still answer")
	}
	b.pass(10 * time.Second)
	b.answerProbesTo(netP, namesake)
	p := b.unlisted()
	if len(b.entries) != 1 || p.Dead || !p.Named || p.RemoteNonce != namesake || p.LocalNonce != o.OwnNonce {
		t.Errorf("%d entries, %+v, want one with the nonces of the second, and the name", len(b.entries), p)
	}
}
