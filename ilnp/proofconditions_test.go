package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// written has a host take a packet, and returns how often it writes an entry.
func (b *bench) written(packet []byte) (n int) {
	b.drain()
	b.HandlePacket(b.now, 1, packet)
	return b.upserts()
}

func (b *bench) upserts() (n int) {
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		if _, is := o.(Upsert); is {
			n++
		}
	}
	return n
}

// TestConfirmedBySealIsWritten: the first message with the MAC of a session that is open has it saved, and only that:
// neither a forged one nor the next one, as each of them could be sent as often as somebody likes.
func TestConfirmedBySealIsWritten(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.lossy = lost(ownNID, true, ilnpwire.ProofConfirm)
	p.open()
	p.b.drain()
	a, b := p.session(p.a), p.session(p.b)
	if !b.agreed.isOpen() {
		t.Fatal("confirmed already: this shows nothing")
	}
	if !b.entry.NonceAlways { // a has no entry, perhaps, and its programs drop what has no nonce
		t.Error("packets go without nonce before the session is confirmed")
	}
	src, dst := roam.ILV{NID: ownNID, L64: netA}, roam.ILV{NID: peerNID, L64: netP}
	lu := updateOf(entry(netP, 10, 60))
	lu.Operation = ilnpwire.Acknowledgement
	message := func(k keying) []byte {
		packet, ok := k.build(src, dst, a.localNonce, lu)
		if !ok {
			t.Fatal("no message")
		}
		a.keys.sent++
		return packet
	}
	forged := *a.keys
	forged.out = a.keys.in
	if n := p.b.written(message(forged)); n != 0 || p.b.RejectedInput()[reasonWrongMAC] != 1 {
		t.Errorf("a forged one: written %d times, refused %v", n, p.b.RejectedInput())
	}
	for _, want := range []int{1, 0} {
		if n := p.b.written(message(*a.keys)); n != want || b.agreed.isOpen() {
			t.Errorf("written %d times, want %d; open %t", n, want, b.agreed.isOpen())
		}
	}
	if b.entry.NonceAlways {
		t.Error("packets keep the nonce after that")
	}
}

// TestEndedIsNotWritten: a session that has ended with its confirmation has no entry afterwards.
func TestEndedIsNotWritten(t *testing.T) {
	p := established(t)
	s := p.session(p.b)
	p.b.endSession(p.b.now, s, "test")
	p.b.drain()
	handshakes{p.b.Core}.writeConfirmed(p.b.now, s, s.entry.Seq)
	if p.b.upserts() > 0 {
		t.Error("it has one")
	}
}

// TestWrittenOnce: an entry that has changed is not written twice.
func TestWrittenOnce(t *testing.T) {
	for _, changed := range []bool{false, true} {
		p := established(t)
		s := p.session(p.b)
		s.nonceAlways = s.nonceAlways != changed
		p.b.drain()
		handshakes{p.b.Core}.write(p.b.now, s)
		if p.b.upserts() != 1 {
			t.Errorf("changed %t: not written once", changed)
		}
	}
}

// TestInitiatorTakesAConfirmation: who has made the offer of a session answers one within it, too, and takes its
// confirmation.
func TestInitiatorTakesAConfirmation(t *testing.T) {
	p := established(t)
	p.lossy = func(q ilnpwire.Packet) bool { return q.Seal != nil }
	p.rollBack()
	handshakes{p.b.Core}.insist(p.b.now, p.session(p.b))
	p.b.drain()
	p.exchange()
	a, b := p.session(p.a), p.session(p.b)
	if a.renewal != nil || !slices.Equal(a.keys.in, b.keys.out) {
		t.Errorf("waiting %t, refused %v", a.renewal != nil, p.a.RejectedInput())
	}
}

// TestCopyIsToldByTheNewer: a confirmation has the peer told of a copied key in the session without the name only. In
// the other one it was told when the copy came.
func TestCopyIsToldByTheNewer(t *testing.T) {
	for _, owned := range []bool{true, false} {
		p := newProofBench(t)
		p.lossy = lost(ownNID, true, ilnpwire.ProofConfirm)
		p.open()
		s := p.session(p.b)
		s.owned = owned
		p.b.known[ownNID].copy = keyCopy{seen: p.b.now, at: []roam.L64{netQ, netA}}
		_, confirm := p.last(ilnpwire.ProofConfirm)
		p.b.forget()
		p.b.receive(1, confirm)
		isNotice := func(q ilnpwire.Packet) bool { return q.Proof.Step == ilnpwire.ProofNotice }
		told := slices.ContainsFunc(p.proofsOf(p.b), isNotice)
		if told == owned || s.agreed.isOpen() {
			t.Errorf("with the name %t: told %t, open %t", owned, told, s.agreed.isOpen())
		}
	}
}

// TestLackOfAProofStays: a peer that has answered without its key is shown as such until it has proven itself, though
// the last offer to it insisted.
func TestLackOfAProofStays(t *testing.T) {
	for _, lacks := range []bool{false, true} {
		p := established(t)
		s := p.session(p.a)
		s.noProof = lacks
		handshakes{p.a.Core}.insist(p.a.now, s)
		s.hs.tries = proofTries
		handshakes{p.a.Core}.proveTimeout(p.a.now, s)
		if s.noProof != lacks || s.hs != nil {
			t.Errorf("without a proof %t: then %t", lacks, s.noProof)
		}
	}
}

// TestUnprovenReply: a reply of a peer that has not proven itself says that the session in front of it will not do; of
// one that is plain already it says nothing.
func TestUnprovenReply(t *testing.T) {
	for state, want := range map[SessionState]bool{Initiated: true, Plain: false} {
		s := &session{state: state}
		handshakes{newBench(t).Core}.repliedUnproven(epoch, s, probe{})
		if s.noProof != want {
			t.Errorf("%v: without a proof %t", state, s.noProof)
		}
	}
}

// TestOfferGoesWhereItMay: an offer that answers something goes back there if the session may send there.
func TestOfferGoesWhereItMay(t *testing.T) {
	for to, want := range map[roam.L64]roam.L64{netP: netP, netS: netP} {
		p := established(t)
		s := p.session(p.a)
		handshakes{p.a.Core}.renew(p.a.now, s)
		p.a.drain()
		p.a.forget()
		p.a.accounts.received(p.a.now, roam.ILV{NID: peerNID, L64: netS}, 10000, 10)
		by := proofPath(p.a)
		by.Remote = to
		handshakes{p.a.Core}.offerAlong(p.a.now, s, by, false)
		p.a.drain()
		if sent := p.proofsOf(p.a); len(sent) != 1 || sent[0].Dst.L64 != want {
			t.Errorf("to %v: %+v", to, sent)
		}
	}
}

// TestOfferPath: the first offer takes the path of the session's packets; without one it takes its turn among all.
// Without any it does not count.
func TestOfferPath(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench, s *session)
		want   []roam.L64
	}{
		"in use": {func(_ *proofBench, s *session) {
			s.entry.Paths = []Path{{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}}
		}, []roam.L64{netA}},
		"none in use": {func(_ *proofBench, s *session) { s.entry.Paths = nil }, []roam.L64{netB}},
		"a later one": {func(p *proofBench, s *session) {
			s.entry.Paths = []Path{{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}}
			p.a.known[peerNID].offered = 2
		}, []roam.L64{netB}},
		"none at all": {func(p *proofBench, s *session) {
			p.a.withdraw(1, netA)
			p.a.withdraw(2, netB)
			s.entry.Paths = nil
		}, nil},
	} {
		p := established(t)
		p.a.prefix(2, netB, roam.Infinite)
		p.both(time.Second)
		s := p.session(p.a)
		c.change(p, s)
		k := p.a.known[peerNID]
		offered := k.offered
		handshakes{p.a.Core}.prove(p.a.now, s)
		p.a.drain()
		p.a.forget()
		handshakes{p.a.Core}.offer(p.a.now, s)
		p.a.drain()
		var from []roam.L64
		for _, q := range p.proofsOf(p.a) {
			from = append(from, q.Src.L64)
		}
		if !slices.Equal(from, c.want) || k.offered-offered != len(c.want) || s.hs.tries != len(c.want) {
			t.Errorf("%s: from %v, want %v; %d offers, %d tries", name, from, c.want, k.offered-offered, s.hs.tries)
		}
	}
}

// TestOfferIsRepeated: an offer that nobody answers goes again as it is.
func TestOfferIsRepeated(t *testing.T) {
	p := newProofBench(t)
	p.lossy = func(ilnpwire.Packet) bool { return true }
	p.open()
	p.a.pass(2 * time.Second)
	if h := p.session(p.a).hs; h.tries < 3 || len(h.offers) != 1 {
		t.Errorf("%d different offers in %d tries", len(h.offers), h.tries)
	}
}

// TestProofListsReserves: a proof lists what this host announces and what it holds in reserve, each once.
func TestProofListsReserves(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.host.told = []listed{{l64: netB}}
	if got := b.listedInProof(b.now); got != [ilnpwire.ProofLocators]roam.L64{netB, netA} {
		t.Errorf("lists %v", got)
	}
}

// TestProofOperations: an answer and a challenge are acknowledgements for all that do not know proofs, and the rest are
// updates.
func TestProofOperations(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	seen := map[ilnpwire.ProofStep]ilnpwire.Operation{}
	for _, b := range p.wire {
		q, err := ilnpwire.ParsePacket(b)
		if err != nil || q.Proof == nil {
			continue
		}
		lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
		if err != nil {
			t.Fatal(err)
		}
		seen[q.Proof.Step] = lu.Operation
	}
	for step, want := range map[ilnpwire.ProofStep]ilnpwire.Operation{
		ilnpwire.ProofOffer: ilnpwire.Advertisement, ilnpwire.ProofChallenge: ilnpwire.Acknowledgement,
		ilnpwire.ProofAnswer: ilnpwire.Acknowledgement, ilnpwire.ProofConfirm: ilnpwire.Advertisement,
	} {
		if seen[step] != want {
			t.Errorf("step %d is operation %d, want %d", step, seen[step], want)
		}
	}
}

// TestCrossedInASession: in a session that stands the offer of the lower NID counts until it is given up, however often
// it was sent.
func TestCrossedInASession(t *testing.T) {
	p := established(t)
	s := p.session(p.a)
	handshakes{p.a.Core}.renew(p.a.now, s)
	s.hs.tries = crossedTries
	if h := (handshakes{p.a.Core}); !h.isCrossed(s, ownNID, peerNID) || h.isCrossed(nil, ownNID, peerNID) {
		t.Errorf("in the session %t, without one %t", h.isCrossed(s, ownNID, peerNID), h.isCrossed(nil, ownNID, peerNID))
	}
}

// TestProvenIsQuiet: a peer that has proven itself and answered no probe counts as one that may answer none.
func TestProvenIsQuiet(t *testing.T) {
	for _, reached := range []bool{false, true} {
		p := newProofBench(t)
		p.remember()
		_, offer := p.offer()
		for _, k := range p.b.pending.byKey {
			k.reached = reached
		}
		if p.b.receive(1, offer); p.session(p.b).echoes != reached {
			t.Errorf("has answered a probe %t: the session knows %t", reached, p.session(p.b).echoes)
		}
	}
}

// TestUnanswerableOffer: an offer within a session that cannot be answered, for want of randomness, changes nothing.
func TestUnanswerableOffer(t *testing.T) {
	p := established(t)
	p.doubt()
	b := p.session(p.b)
	waiting := b.renewal
	handshakes{p.b.Core}.insist(p.b.now, b)
	p.b.drain()
	p.b.forget()
	p.b.cfg.Rand, p.b.prover.spare, p.b.known[ownNID].spare = &dry{}, ephemeral{}, ephemeral{}
	h := b.hs
	if p.b.receive(1, p.fromA(70)); waiting == nil || h == nil || b.renewal != waiting || b.hs != h {
		t.Errorf("another answer waits %t, the offer is given up %t", b.renewal != waiting, b.hs != h)
	}
}

// TestChallengedAnew: a second challenge counts once the answer to the first has had its time, and each keeps the
// attempt alive, as it shows that the peer is there.
func TestChallengedAnew(t *testing.T) {
	for after, want := range map[time.Duration]int{proofFirst - 1: 2, proofFirst: 3} {
		a := newAsked(t)
		a.answer(netP, a.challenge)
		a.a.now = a.a.now.Add(after)
		a.challenge.Token[0]++
		a.answer(netP, a.challenge)
		if n := len(a.session(a.a).hs.offers); n != want {
			t.Errorf("%v after the first one: %d offers, want %d", after, n, want)
		}
	}
	a := newAsked(t)
	s := a.session(a.a)
	a.a.pass(s.patience() - 10*time.Millisecond)
	a.answer(netP, a.challenge)
	if a.a.pass(20 * time.Millisecond); s.state != Initiated {
		t.Errorf("just after a challenge the session is %v", s.state)
	}
}

// TestRTTOfAProof: the round trip is that of an offer that was sent once.
func TestRTTOfAProof(t *testing.T) {
	const rtt = 40 * time.Millisecond
	for name, c := range map[string]struct {
		change func(h *handshake)
		encap  bool
		want   time.Duration
	}{
		"sent once":       {func(*handshake) {}, false, rtt},
		"sent twice":      {func(h *handshake) { h.tries = 2 }, false, 0},
		"challenged":      {func(h *handshake) { h.offers = append(h.offers, ilnpwire.Proof{}) }, false, 0},
		"answered to UDP": {func(*handshake) {}, true, 0},
	} {
		p := newProofBenchUDP(t)
		p.remember()
		p.lossy = lost(peerNID, true, ilnpwire.ProofAnswer)
		p.open()
		s := p.session(p.a)
		c.change(s.hs)
		p.a.now = p.a.now.Add(rtt)
		_, answer := p.last(ilnpwire.ProofAnswer)
		if c.encap {
			answer = p.encapsulated(answer)
		}
		if p.a.receive(1, answer); s.state != Established || s.rtt != c.want {
			t.Errorf("%s: %v, want %v; the session is %v", name, s.rtt, c.want, s.state)
		}
	}
}

// TestAnswerPath: an answer does not go from a locator that this host has lost; without any it goes where it went.
func TestAnswerPath(t *testing.T) {
	p := established(t)
	s := p.session(p.b)
	p.b.prefix(2, netQ, roam.Infinite)
	p.b.withdraw(1, netP)
	for s.agreed.tries = range 4 {
		if path := (handshakes{p.b.Core}).answerPath(p.b.now, s); path.Local.L64 != netQ {
			t.Errorf("goes from %v", path.Local)
		}
	}
	p.b.withdraw(2, netQ)
	if path := (handshakes{p.b.Core}).answerPath(p.b.now, s); path != s.agreed.path {
		t.Errorf("without a locator: %v", path)
	}
}
