package ilnp

import (
	"errors"
	"io"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	"roam/sched"
	ilnpwire "roam/wire/ilnp"
)

// What takes operations with keys is done before a peer's message needs it, and each ephemeral key is for one proof.
func TestKeysAheadOfProofs(t *testing.T) {
	p := newProofBench(t)
	p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if p.session(p.a).hs.ephemeral.secret.Present() {
		t.Error("the first packet waits for a secret that only the answer needs")
	}
	p.a.now = p.a.now.Add(sched.Tick)
	p.a.HandleTimeout(p.a.now)
	if !p.session(p.a).hs.ephemeral.secret.Present() {
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
	for i, h := range []*bench{p.a, p.b} {
		k := h.known[[]roam.NID{peerNID, ownNID}[i]]
		for range 4 {
			h.now = h.now.Add(2 * spareAfter)
			h.HandleTimeout(h.now)
			h.drain()
		}
		if k.spare.with != k.public || !k.spare.secret.Present() {
			t.Errorf("no secret is ready for the next proof with the same peer: %v", k.spare.with)
		}
		for _, spare := range []ephemeral{k.spare, h.prover.spare} {
			got, ok := handshakes{h.Core}.ephemeral(h.now, k)
			if !ok || got != spare || used[got.Public] {
				t.Errorf("%v is used, and not the key %v that was ready", got.Public, spare.Public)
			}
			used[got.Public] = true
		}
		if k.spare != (ephemeral{}) || h.prover.spare != (ephemeral{}) || len(h.prover.wanted) != 1 {
			t.Errorf("keys are kept for other proofs, or %d peers want one", len(h.prover.wanted))
		}
	}
}

// A peer gets no key ahead that has gone since, has vouched for another key, or need not prove itself.
func TestNoKeyAheadForNobody(t *testing.T) {
	for name, change := range map[string]func(h *bench, k *correspondent){
		"removed":  func(h *bench, k *correspondent) { h.RemovePeer(h.now, peerNID) },
		"retired":  func(h *bench, k *correspondent) { k.retired = true },
		"optional": func(h *bench, k *correspondent) { k.guard.optional = true },
	} {
		p := newProofBench(t)
		p.remember()
		p.open()
		k := p.a.known[peerNID]
		change(p.a, k)
		for range 4 {
			p.a.now = p.a.now.Add(2 * spareAfter)
			p.a.HandleTimeout(p.a.now)
		}
		if k.spare != (ephemeral{}) || len(p.a.prover.wanted) > 0 {
			t.Errorf("%s: %v is ready, %d peers want a key", name, k.spare.Public, len(p.a.prover.wanted))
		}
	}
}

// A peer may get another key while an answer is under way, or after a key was drawn for the next proof with it.
func TestSecretAheadIsOfThePeersKey(t *testing.T) {
	own, first, second := ephemeralOf(t, 1), ephemeralOf(t, 2), ephemeralOf(t, 3)
	ready, err := own.Ready()
	if err != nil {
		t.Fatal(err)
	}
	e := ephemeral{Ready: ready}
	for _, peer := range []nidkey.Key{first, second} {
		want, err := own.Shared(peer.Public)
		if got, failed := e.share(peer.Public); errors.Join(err, failed) != nil || got != want {
			t.Errorf("%v, %v; want %v", got, failed, want)
		}
	}
	for range 2 {
		if _, err := e.share(nidkey.Public{}); !errors.Is(err, nidkey.ErrLowOrder) {
			t.Errorf("%v, want %v", err, nidkey.ErrLowOrder)
		}
	}
}

// A host without a key draws none for proofs.
func TestNoKeyAheadWithoutProofs(t *testing.T) {
	h := newBench(t)
	h.now = h.now.Add(time.Minute)
	handshakes{h.Core}.drawSpare(h.now)
	if h.prover.spare != (ephemeral{}) {
		t.Error("a host without a key has drawn one")
	}
}

// A key that could not be drawn is not kept for the next proof, which draws its own.
func TestNoKeyAheadWithoutRandomness(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.open()
	p.wantProved()
	k, random := p.a.known[peerNID], p.a.cfg.Rand
	for _, source := range []io.Reader{random, &dry{}} { // the key for a proof with any peer comes first
		p.a.cfg.Rand = source
		p.a.now = p.a.now.Add(2 * spareAfter)
		p.a.HandleTimeout(p.a.now)
	}
	if p.a.prover.spare == (ephemeral{}) || len(p.a.prover.wanted) > 0 || k.spare != (ephemeral{}) {
		t.Errorf("%x is kept, %d peers want a key", k.spare.Public, len(p.a.prover.wanted))
	}
}

// Keys are drawn ahead also where each proof follows the one before sooner than that is done.
func TestKeysAheadOfManyProofs(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.open()
	k, ahead := p.a.known[peerNID], 0
	for range 100 {
		p.a.now = p.a.now.Add(spareAfter * 9 / 10)
		p.a.HandleTimeout(p.a.now)
		if k.spare != (ephemeral{}) || p.a.prover.spare != (ephemeral{}) {
			ahead++
		}
		handshakes{p.a.Core}.ephemeral(p.a.now, k)
	}
	if ahead < 40 {
		t.Errorf("a key is ready for %d proofs of 100", ahead)
	}
}
