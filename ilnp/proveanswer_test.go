package ilnp

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// asked is a host whose offer is under way, and what a peer may answer.
type asked struct {
	*proofBench
	key       []byte // of the MACs of what b sends
	challenge ilnpwire.Proof
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	a := &asked{proofBench: newProofBench(t)}
	q, _ := a.offer()
	a.key = proofKey(a.a.known[peerNID].secret, peerNID, ownNID)
	a.challenge = ilnpwire.Proof{
		Step: ilnpwire.ProofChallenge, Ephemeral: q.Proof.Ephemeral, Token: [ilnpwire.ProofTokenLen]byte{1},
	}
	a.a.sent = nil
	return a
}

// answer gives a message of b's to a, sealed unless it has a MAC.
func (a *asked) answer(from roam.L64, p ilnpwire.Proof) {
	a.t.Helper()
	if p.MAC == [ilnpwire.MACLen]byte{} {
		p = sealProof(a.key, p, ofB, a.session(a.a).localNonce)
	}
	list := []ilnpwire.LocatorEntry{entry(netP, 0, 1)}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: list}
	b, err := ilnpwire.BuildProof(roam.ILV{NID: peerNID, L64: from}, roam.ILV{NID: ownNID, L64: netA}, ofB, lu, p)
	if err != nil {
		a.t.Fatal(err)
	}
	a.a.receive(1, b)
}

// TestChallengeForged: only a challenge with the right MAC, for the present offer and not yet
// answered, makes a host offer anew.
func TestChallengeForged(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		answer func(a *asked, p ilnpwire.Proof)
	}{
		"as it should be": {"", func(a *asked, p ilnpwire.Proof) { a.answer(netP, p) }},
		"made up": {reasonProofForged, func(a *asked, p ilnpwire.Proof) {
			p.MAC[0] = 1
			a.answer(netP, p)
		}},
		"of another offer": {reasonProofOld, func(a *asked, p ilnpwire.Proof) {
			p.Ephemeral[0]++
			a.answer(netP, p)
		}},
	} {
		a := newAsked(t)
		c.answer(a, a.challenge)
		if got := len(a.a.sent) > 0; got != (c.reason == "") || c.reason != "" && a.a.RejectedInput()[c.reason] != 1 {
			t.Errorf("%s: a new offer %t, refused %v", name, got, a.a.RejectedInput())
		}
	}
	a := newAsked(t)
	a.answer(netP, a.challenge)
	a.answer(netP, a.challenge)
	if a.a.RejectedInput()[reasonProofOld] != 1 {
		t.Errorf("a challenge that came before counts: %v", a.a.RejectedInput())
	}
}

// TestChallengeOfALateCounter: a peer cannot use up the counters of this host.
func TestChallengeOfALateCounter(t *testing.T) {
	for last, follows := range map[uint64]bool{1<<63 - 1: true, 1 << 63: false, ^uint64(0): false} {
		a := newAsked(t)
		a.challenge.Counter = last
		a.challenge.Counter = maskCounter(a.key, a.challenge)
		a.answer(netP, a.challenge)
		if got := a.a.prover.counter >= last; got != follows {
			t.Errorf("last counter %x: the next one is %x", last, a.a.prover.counter)
		}
	}
}

// TestProofAnswerElsewhere: an answer counts only from a locator that it lists, or a record.
func TestProofAnswerElsewhere(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
	p.open()
	q, _ := p.last(ilnpwire.ProofAnswer)
	a := &asked{proofBench: p}
	a.answer(netS, *q.Proof)
	if s := p.session(p.a); s.state == Established || p.a.RejectedInput()[reasonProofPlace] != 1 {
		t.Errorf("the session is %v, refused %v", s.state, p.a.RejectedInput())
	}
	a.answer(netP, *q.Proof)
	if s := p.session(p.a); s.state != Established {
		t.Errorf("the answer from its own place does not count: %v", p.a.RejectedInput())
	}
}

// TestProofConfirmation: one needs the MAC as well as the root, and only who has answered takes one.
func TestProofConfirmation(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm }
	p.open()
	q, _ := p.last(ilnpwire.ProofConfirm)
	s := p.session(p.b)
	f := *q.Proof
	f.MAC[0] ^= 1
	list := []ilnpwire.LocatorEntry{entry(netA, 0, 1)}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: list}
	b, err := ilnpwire.BuildProof(q.Src, q.Dst, q.Nonce, lu, f)
	if err != nil {
		t.Fatal(err)
	}
	p.b.receive(1, b)
	if s.agreed.confirmed || p.b.RejectedInput()[reasonProofForged] != 1 {
		t.Errorf("confirmed %t, refused %v", s.agreed.confirmed, p.b.RejectedInput())
	}
	a := &asked{proofBench: p, key: proofKey(p.a.known[peerNID].secret, peerNID, ownNID)}
	a.answer(netP, ilnpwire.Proof{Step: ilnpwire.ProofConfirm})
	if p.a.RejectedInput()[reasonProofOld] != 1 {
		t.Errorf("the initiator takes a confirmation: %v", p.a.RejectedInput())
	}
}

// TestConfirmationValidates: an offer shows that its sender has the key, and the confirmation that it
// receives where it says, as it answers what went there.
func TestConfirmationValidates(t *testing.T) {
	p := newProofBench(t)
	p.remember() // no challenge
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm }
	p.open()
	r := p.session(p.b).remotes.find(netA)
	if r == nil || r.validated {
		t.Fatalf("without a confirmation the locator of the initiator is %+v", r)
	}
	_, confirmation := p.last(ilnpwire.ProofConfirm)
	p.b.receive(1, confirmation)
	if r = p.session(p.b).remotes.find(netA); r == nil || !r.validated {
		t.Errorf("after it the locator is %+v", r)
	}
}

// movedTo returns a packet as if it had left from another locator.
func movedTo(t *testing.T, packet []byte, l roam.L64) []byte {
	t.Helper()
	b := slices.Clone(packet)
	binary.BigEndian.PutUint64(b[8:], uint64(l))
	if err := ip6.FinishL4(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProofValidatesOnePlace: a peer that names another node's locator as its own, and sends from there, does not
// have it validated by what it has received elsewhere.
func TestProofValidatesOnePlace(t *testing.T) {
	t.Run("an answer that went to two places", func(t *testing.T) {
		p := newProofBench(t)
		p.remember()
		p.a.prefix(2, netQ, roam.Infinite)
		p.lossy = func(q ilnpwire.Packet) bool { // an update confirms the answer as well
			return q.Seal != nil || q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm
		}
		p.open()
		first, offer := p.last(ilnpwire.ProofOffer)
		_, confirmation := p.last(ilnpwire.ProofConfirm)
		p.b.receive(1, movedTo(t, offer, netA^netQ^first.Src.L64))
		p.b.receive(1, confirmation)
		if r := p.session(p.b).remotes.find(first.Src.L64); r == nil || r.validated {
			t.Errorf("the locator of the first offer is %+v", r)
		}
		if p.session(p.b).agreed.isOpen() {
			t.Error("the answer is not confirmed")
		}
	})
	t.Run("an answer from where no offer went", func(t *testing.T) {
		p := newProofBench(t)
		p.remember()
		p.b.prefix(2, netQ, roam.Infinite)
		p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
		p.open()
		_, answer := p.last(ilnpwire.ProofAnswer)
		p.a.receive(1, movedTo(t, answer, netQ))
		s := p.session(p.a)
		if r := s.remotes.find(netQ); s.state != Established || r == nil || r.validated {
			t.Errorf("the session is %v, the locator %+v", s.state, r)
		}
	})
}

// TestProofValidatesPlaceOfRecord: where offers went to several places that the record lists, the one that answers is
// validated, so that packets do not wait for another round trip, nor go to places that are silent.
func TestProofValidatesPlaceOfRecord(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.a.known[peerNID].locators.put(netQ, 10, time.Time{})
	first := true
	p.lossy = func(q ilnpwire.Packet) bool {
		is := first && q.Proof != nil
		first = first && !is
		validates := q.Type == ilnpwire.TypeEchoReply || q.Seal != nil
		return is || q.Dst.L64 == netQ || validates
	}
	p.open()
	for range 60 {
		p.a.pass(50 * time.Millisecond)
		p.b.pass(50 * time.Millisecond)
		p.exchange()
	}
	s := p.session(p.a)
	if len(s.agreed.went) != 2 {
		t.Fatalf("offers went to %v", s.agreed.went)
	}
	if r := s.remotes.find(netP); s.state != Established || !r.validated {
		t.Errorf("the session is %v, the locator %+v", s.state, r)
	}
}

// TestProofWithoutNonce is refused as such.
func TestProofWithoutNonce(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	_, b := p.offer()
	copy(b[42:], []byte{1, 4, 0, 0, 0, 0}) // padding in place of the nonce
	p.b.receive(1, b)
	p.wantNone("no nonce", reasonNoNonce)
}

// TestKeyedAckAhead: an acknowledgement of what this host has not sent yet is refused.
func TestKeyedAckAhead(t *testing.T) {
	k := openKeyed(t)
	k.peer.updated = k.sessions[theKey].keys.sent + 1
	list := []ilnpwire.LocatorEntry{entry(netA, 0, 600)}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: list}
	k.receive(1, k.sealed(netP, lu))
	if k.RejectedInput()[reasonReplayed] != 1 {
		t.Errorf("refused: %v", k.RejectedInput())
	}
}

// TestKeyedAnewCountsAnew: with another root the counters begin anew, and so does what an
// acknowledgement has to be above.
func TestKeyedAnewCountsAnew(t *testing.T) {
	k := openKeyed(t)
	s := k.sessions[theKey]
	s.keys.sent, s.keys.updated, s.update.since = 1<<60, 1<<60, 1<<60
	s.agreed = &agreement{root: []byte("another")}
	s.rekey(k.now, k.secret)
	if s.keys.sent != 0 || s.keys.updated != 0 || s.update.since != 0 {
		t.Errorf("sent %x, updated %x, since %x", s.keys.sent, s.keys.updated, s.update.since)
	}
}
