package ilnp

import (
	"errors"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// dry is a source of randomness that fails after some bytes.
type dry struct{ left int }

func (d *dry) Read(b []byte) (int, error) {
	if d.left < len(b) {
		return 0, errors.New("no randomness")
	}
	d.left -= len(b)
	for i := range b {
		b[i] = byte(d.left + i)
	}
	return len(b), nil
}

// TestProofWithoutRandomness: a host without randomness offers, answers, challenges and vouches nothing, as
// everybody could guess what it drew.
func TestProofWithoutRandomness(t *testing.T) {
	for left := range nidkey.KeyLen + 12 {
		p := newProofBench(t)
		s := &session{localNID: ownNID, remoteNID: peerNID}
		p.a.cfg.Rand = &dry{left}
		if (handshakes{p.a.Core}).prove(p.a.now, s) || s.hs != nil {
			t.Fatalf("offers with %d bytes", left)
		}
	}
	for _, seen := range []bool{true, false} {
		p := newProofBench(t)
		_, offer := p.offer()
		p.b.known[ownNID].offers.seen = seen
		p.b.cfg.Rand = &dry{nidkey.KeyLen - 1}
		p.deliver(p.b, offer)
		if sent := p.proofsOf(p.b); len(sent) > 0 || p.b.RejectedInput()[reasonRandom] == 0 {
			t.Errorf("it could judge the offer %t: sent %+v, refused %v", seen, sent, p.b.RejectedInput())
		}
	}
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.session(p.b).agreed = nil // of a session that began without a proof
	p.b.cfg.Rand = &dry{nidkey.KeyLen - 1}
	handshakes{p.a.Core}.renew(p.a.now, p.session(p.a))
	p.a.drain()
	p.exchange()
	if s := p.session(p.b); s.renewal != nil || len(p.proofsOf(p.b)) > 0 {
		t.Error("agrees anew")
	}
	p, _ = heir(t)
	p.a.cfg.Rand = &dry{}
	s := &session{localNID: heirNID, remoteNID: peerNID, localNonce: peerNonce}
	at := Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}
	if (handshakes{p.a.Core}).vouch(p.a.now, s, at) {
		t.Error("vouches")
	}
}

// TestProofOfferedAtARate: whatever somebody sends to a host that waits for an answer, it repeats its offer no more
// often than by itself.
func TestProofOfferedAtARate(t *testing.T) {
	p := newProofBench(t)
	p.offer()
	s, h := p.session(p.a), handshakes{p.a.Core}
	by := s.entry.Paths[0]
	p.proofsOf(p.a)
	sees := func(after time.Duration, want int) {
		t.Helper()
		for range 100 {
			h.offerAgain(p.a.now.Add(after), s, by, false)
		}
		p.a.drain()
		if n := len(p.proofsOf(p.a)); n != want {
			t.Errorf("%d offers after %v, want %d", n, after, want)
		}
	}
	sees(0, 0) // the answer to the first one may be on its way
	p.a.pass(proofFirst)
	p.proofsOf(p.a)
	sees(0, 1)
	sees(proofFirst-1, 0)
	sees(proofFirst, 1)
	p.a.pass(time.Second)
	p.exchange()
	p.wantProved()
	p.proofsOf(p.a)
	h.offerAgain(p.a.now.Add(time.Minute), s, by, false)
	p.a.drain()
	if n := len(p.proofsOf(p.a)); n != 0 {
		t.Errorf("%d offers in a session that stands", n)
	}
}

// TestProofGivenUp: within a session that stands an offer goes four times; then what answered with another nonce was
// not the peer. An answer goes five times, unless the peer has shown by an update that it has the root.
func TestProofGivenUp(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	s := p.session(p.a)
	handshakes{p.a.Core}.renew(p.a.now, s)
	p.a.drain()
	for range 200 {
		p.a.pass(100 * time.Millisecond)
		s.used = p.a.now
	}
	offers := 0
	for _, q := range p.proofsOf(p.a) {
		if q.Proof.Step == ilnpwire.ProofOffer {
			offers++
		}
	}
	if offers != proofTries || s.hs != nil || s.state != Established || p.a.entries[theKey].Holds {
		t.Errorf("%d offers; %+v", offers, s)
	}

	p = newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm }
	p.open()
	p.a.prefix(2, netB, roam.Infinite) // an update, with a MAC
	p.exchange()
	b := p.session(p.b)
	if b == nil || b.agreed == nil || !b.agreed.confirmed {
		t.Fatalf("an update does not confirm: %+v", b)
	}
	p.proofsOf(p.b)
	p.b.pass(20 * time.Second)
	if sent := p.proofsOf(p.b); p.session(p.b) != b || len(sent) > 0 {
		t.Errorf("ended, or repeated: %+v", sent)
	}

	p = newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step != ilnpwire.ProofOffer }
	p.open()
	began := p.b.now
	answers := len(p.proofsOf(p.b))
	for p.session(p.b) != nil && p.b.now.Sub(began) < time.Minute {
		p.b.pass(100 * time.Millisecond)
	}
	answers += p.count(ilnpwire.ProofAnswer) + len(p.proofsOf(p.b))
	if ended := p.b.now.Sub(began); answers != proofTries+1 || ended > 9400*time.Millisecond {
		t.Errorf("%d answers, ended after %v", answers, ended)
	}

	p = newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
	p.open()
	p.session(p.b).agreed = nil // as by another key of the peer
	p.b.pass(20 * time.Second)
}

// TestProofOfARemovedPeer: a peer that was removed while its offer waited gets no answer.
func TestProofOfARemovedPeer(t *testing.T) {
	p := newProofBench(t)
	s := &session{localNID: peerNID, remoteNID: heirNID}
	a := (handshakes{p.b.Core}).agree(p.b.now, s, &offered{}, peerNonce, false)
	if a != nil || slices.Contains(p.b.KnownNIDs(), heirNID) {
		t.Errorf("agreed: %+v", a)
	}
}
