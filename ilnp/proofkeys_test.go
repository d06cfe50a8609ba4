package ilnp

import (
	"errors"
	"testing"
	"time"

	"roam/nidkey"
	"roam/sched"
	ilnpwire "roam/wire/ilnp"
)

// What takes operations with keys is done before a peer's message needs it, and each ephemeral key is for one proof.
func TestKeysAheadOfProofs(t *testing.T) {
	p := newProofBench(t)
	p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if p.session(p.a).hs.es.Present() {
		t.Error("the first packet waits for a secret that only the answer needs")
	}
	p.a.now = p.a.now.Add(sched.Tick)
	p.a.HandleTimeout(p.a.now)
	if !p.session(p.a).hs.es.Present() {
		t.Error("no secret is computed while the answer is under way")
	}
	p.a.drain()
	p.exchange()
	p.wantProved()
	used := map[[nidkey.KeyLen]byte]bool{}
	for _, step := range []ilnpwire.ProofStep{ilnpwire.ProofOffer, ilnpwire.ProofAnswer} {
		q, _ := p.last(step)
		used[q.Proof.Ephemeral] = true
	}
	for _, h := range []*bench{p.a, p.b} {
		h.now = h.now.Add(2 * spareAfter)
		h.HandleTimeout(h.now)
		h.drain()
		spare := h.prover.spare
		if spare == (nidkey.Ready{}) || used[spare.Public] {
			t.Fatalf("no new key is ready: %v", spare)
		}
		k, ok := handshakes{h.Core}.ephemeral(h.now)
		if !ok || k.Public != spare.Public || h.prover.spare != (nidkey.Ready{}) {
			t.Error("the key that is ready is not used, or kept for another proof")
		}
	}
}

// A peer may get another key while an answer is under way.
func TestSecretAheadIsOfThePeersKey(t *testing.T) {
	own, first, second := ephemeralOf(t, 1), ephemeralOf(t, 2), ephemeralOf(t, 3)
	ready, err := own.Ready()
	if err != nil {
		t.Fatal(err)
	}
	h := &handshake{ephemeral: ready}
	for _, peer := range []nidkey.Key{first, second} {
		want, err := own.Shared(peer.Public)
		if err := errors.Join(err, h.share(peer.Public)); err != nil || h.es != want {
			t.Errorf("%v, %v; want %v", h.es, err, want)
		}
	}
	for range 2 {
		if err := h.share(nidkey.Public{}); !errors.Is(err, nidkey.ErrLowOrder) {
			t.Errorf("%v, want %v", err, nidkey.ErrLowOrder)
		}
	}
}

// A host without a key draws none for proofs.
func TestNoKeyAheadWithoutProofs(t *testing.T) {
	h := newBench(t)
	h.now = h.now.Add(time.Minute)
	handshakes{h.Core}.drawSpare(h.now)
	if h.prover.spare != (nidkey.Ready{}) {
		t.Error("a host without a key has drawn one")
	}
}
