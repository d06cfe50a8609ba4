package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestQuestionForAProof: b has lost its session and nothing else, so its nonce is the one of before. It asks a, whose
// packets come, for a proof; both have a session again, and connections at a go on.
func TestQuestionForAProof(t *testing.T) {
	p := established(t)
	a := p.session(p.a)
	p.b.endSession(p.b.now, p.session(p.b), "test")
	p.b.drain()
	w := newAir(p, 1)
	w.talking = true
	w.settle("b has lost its session", 10*time.Second)
	if p.session(p.a) != a || p.a.count(SessionReplaced)+p.a.count(SessionEnded) > 0 {
		t.Error("a's session is another one")
	}
}

// question is b's question for a proof, as host i can make it, to a nonce of a's.
func (p *proofBench) question(i int, to Nonce) []byte {
	return p.sealed(i, netP, ilnpwire.Proof{Step: ilnpwire.ProofChallenge}, ofB, to)
}

// TestQuestionIsCopied: whoever sends a question again, or makes one, changes no session that both have, and has a make
// one offer a second at most. A node without the key, and one of another session, get none.
func TestQuestionIsCopied(t *testing.T) {
	p := established(t)
	own, keys := p.session(p.a).localNonce, p.keysNow()
	for name, c := range map[string]struct {
		packet []byte
		want   int
	}{
		"of a node without the key": {p.question(0, own), 0},
		"of another session":        {p.question(1, ofB), 0},
		"as it should be":           {p.question(1, own), 1},
	} {
		p.both(2 * time.Second)
		before := p.count(ilnpwire.ProofOffer)
		for range 10 {
			p.a.receive(1, c.packet)
			p.exchange()
		}
		if n := p.count(ilnpwire.ProofOffer) - before; n != c.want {
			t.Errorf("%s: %d offers, want %d", name, n, c.want)
		}
	}
	p.both(time.Minute)
	if p.keysNow() != keys {
		t.Error("the keys have changed")
	}
	p.wantUpdates("after copies", 10*time.Second)
	s := p.session(p.a)
	s.state = Initiated
	p.a.pass(2 * time.Second)
	p.a.forget()
	if p.a.receive(1, p.question(1, own)); s.hs != nil || len(p.proofsOf(p.a)) > 0 {
		t.Error("a session that does not stand offers anew")
	}
}

// TestNobodyIsAsked: a host asks no peer for a proof that may be about to make one, that has a session or a handshake
// here, whose key has vouched for another one, or whose own identifier it had before.
func TestNobodyIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench, k *pendingPeer)
		want   int
	}{
		"as it should be": {func(*proofBench, *pendingPeer) {}, 1},
		"it is new":       {func(p *proofBench, k *pendingPeer) { k.since = p.b.now }, 0},
		"it has a session": {func(p *proofBench, _ *pendingPeer) {
			p.b.known[ownNID].locators.put(netA, 10, time.Time{})
			p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
			p.b.forget()
		}, 0},
		"it is retired": {func(p *proofBench, _ *pendingPeer) { p.b.known[ownNID].retired = true }, 0},
		"its key is not known": {func(p *proofBench, _ *pendingPeer) {
			p.b.known[ownNID].secret = Peer{}.Secret
		}, 0},
		"to the former one": {func(p *proofBench, _ *pendingPeer) { p.b.cfg.Former = peerNID }, 0},
	} {
		p := newProofBench(t)
		k := &pendingPeer{own: ofB,
			key: Pending{Local: peerNID, Remote: roam.ILV{NID: ownNID, L64: netA}, Nonce: peerNonce},
			at:  roam.LinkLocator{Link: 1, L64: netP}, since: p.b.now.Add(-pendingFirst)}
		p.b.accounts.received(p.b.now, k.key.Remote, 1000, 1)
		c.change(p, k)
		for range 3 {
			p.b.askProof(p.b.now, k, peerNonce)
		}
		p.b.drain()
		if sent := p.proofsOf(p.b); len(sent) != c.want {
			t.Errorf("%s: %d questions", name, len(sent))
		}
	}
}
