package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// bothBegin has both hosts begin, with nothing passing until each has sent so many offers: from then on each
// accepts the other one's.
func (p *proofBench) bothBegin(offers int) {
	p.t.Helper()
	secret, err := p.keys[1].Shared(p.keys[0].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	p.b.AddPeer(p.b.now, Peer{NID: ownNID, Names: []string{"peer"}, Secret: secret, Public: p.keys[0].Public,
		Locators: []RemoteLocator{{L64: netA, Preference: 10, Lifetime: roam.Infinite}}})
	p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
	for _, h := range []*bench{p.a, p.b} {
		for p.session(h).hs.tries < offers {
			h.forget()
			h.pass(10 * time.Millisecond)
			if p.session(h) == nil || p.session(h).hs == nil {
				p.t.Fatal("no offer is under way")
			}
		}
	}
}

// bothAccept has both hosts accept the other one's offer. Each knows which counters of the other one are new, so no
// challenge decides.
func (p *proofBench) bothAccept() {
	for i, h := range []*bench{p.a, p.b} {
		k := h.known[[2]roam.NID{peerNID, ownNID}[i]]
		k.offers = freshness{seen: true, at: h.now.Add(-time.Hour), last: uint64(h.now.Add(-time.Hour).UnixNano())}
	}
	p.bothBegin(crossedTries)
	a, b := p.a.sent, p.b.sent
	p.a.forget()
	p.b.forget()
	for _, s := range a {
		p.deliver(p.b, s.Packet)
	}
	for _, s := range b {
		p.deliver(p.a, s.Packet)
	}
}

// TestProofBothAnswered: each end has accepted the other one's offer, and waits for a confirmation of its own answer.
// The answer to the offer of the lower NID makes one session of it, at once.
func TestProofBothAnswered(t *testing.T) {
	p := newProofBench(t)
	p.bothAccept()
	for name, h := range map[string]*bench{"a": p.a, "b": p.b} {
		if s := p.session(h); s == nil || s.agreed == nil || s.agreed.initiator || s.agreed.confirmed {
			t.Fatalf("%s has not accepted the other one's offer: this shows nothing", name)
		}
	}
	p.exchange()
	p.wantProved()
	if s := p.session(p.a); !s.agreed.initiator || s.crossed != nil {
		t.Errorf("a is not the initiator: %+v", s.agreed)
	}
	p.a.pass(20 * time.Second)
	p.b.now = p.a.now
	if n := p.a.RejectedInput()[reasonProofOpen] + p.b.RejectedInput()[reasonProofOpen]; n > 0 {
		t.Error("one waits for a confirmation, and gives the session up")
	}
}

// TestProofCrossedConfirmed: once the peer has confirmed, an answer to the offer that was given up is refused.
func TestProofCrossedConfirmed(t *testing.T) {
	p := newProofBench(t)
	p.open()
	s := p.session(p.b)
	s.crossed = &crossed{&handshake{}, Nonce{Len: 4, Bytes: [12]byte{7}}}
	q, b := p.last(ilnpwire.ProofConfirm)
	s.agreed.confirmed = false
	p.deliver(p.b, b)
	if s.crossed != nil || !s.agreed.confirmed {
		t.Errorf("after the confirmation %v the offer that was given up is kept", q.Proof.Step)
	}
}

// TestProofOffersTakeTurns: attempts that nobody answers begin along another path each, as the first one may
// receive nothing; an answer has the next session begin by the preferred one.
func TestProofOffersTakeTurns(t *testing.T) {
	p := newProofBench(t)
	p.a.prefix(2, netB, roam.Infinite)
	from := func() (list []roam.L64) {
		t.Helper()
		p.a.forget()
		p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
		for _, s := range p.a.sent {
			if q, err := ilnpwire.ParsePacket(s.Packet); err == nil && q.Proof != nil {
				list = append(list, q.Src.L64)
			}
		}
		return list
	}
	seen := map[roam.L64]bool{}
	for range 2 {
		list := from()
		if len(list) != 1 {
			t.Fatalf("offers from %v, want one", list)
		}
		seen[list[0]] = true
		p.a.endSession(p.a.now, p.session(p.a), "test")
		p.a.drain()
		p.a.now = p.a.now.Add(time.Minute)
	}
	if !seen[netA] || !seen[netB] {
		t.Errorf("both attempts began at %v", seen)
	}
	if p.a.known[peerNID].offered != 2 {
		t.Errorf("%d offers without an answer", p.a.known[peerNID].offered)
	}
	p.a.forget()
	p.b.now = p.a.now
	p.open()
	p.wantProved()
	if n := p.a.known[peerNID].offered; n != 0 {
		t.Errorf("%d offers without an answer after an answer", n)
	}
}

// TestProofAnswersTakeTurns: an answer that is not confirmed goes along other paths, too: the peer may not receive
// where it has sent its offer.
func TestProofAnswersTakeTurns(t *testing.T) {
	p := newProofBench(t)
	secret, err := p.keys[1].Shared(p.keys[0].Public)
	if err != nil {
		t.Fatal(err)
	}
	p.b.AddPeer(p.b.now, Peer{NID: ownNID, Names: []string{"peer"}, Secret: secret, Public: p.keys[0].Public,
		Locators: []RemoteLocator{{L64: netA, Lifetime: roam.Infinite}, {L64: netB, Lifetime: roam.Infinite}}})
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
	p.open()
	p.b.forget()
	p.b.pass(2 * time.Second)
	to := map[roam.L64]int{}
	for _, s := range p.b.sent {
		if q, err := ilnpwire.ParsePacket(s.Packet); err == nil && q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer {
			to[q.Dst.L64]++
		}
	}
	if to[netA] == 0 || to[netB] == 0 {
		t.Errorf("answers went to %v", to)
	}
}

// TestProofChallengedTwice: the offers that left before a challenge came are challenged, too. One answer is enough, and
// it stays among those that count.
func TestProofChallengedTwice(t *testing.T) {
	p := newProofBench(t)
	var challenges [][]byte
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofChallenge }
	p.open()
	for range 2*offersKept + 1 { // each forms one of the same offer
		_, offer := p.last(ilnpwire.ProofOffer)
		p.b.forget()
		p.deliver(p.b, offer)
		for _, s := range p.b.sent {
			if q, err := ilnpwire.ParsePacket(s.Packet); err == nil && q.Proof != nil {
				challenges = append(challenges, s.Packet)
			}
		}
	}
	p.lossy, p.a.sent = nil, nil
	for _, c := range challenges {
		p.deliver(p.a, c)
	}
	if n := len(p.session(p.a).hs.offers); n != 2 {
		t.Errorf("%d offers after %d challenges at once, want the first one and another", n, len(challenges))
	}
	p.exchange()
	p.wantProved()
}

// TestUnconfirmedIsReplaced: a session whose proof nobody has confirmed is no living one. Attempts of its peer, which
// hears no answer, replace it as often as they come, and are no sign of a copied key.
func TestUnconfirmedIsReplaced(t *testing.T) {
	p := newProofBench(t)
	p.open()
	k := &pendingPeer{key: Pending{Local: peerNID, Remote: roam.ILV{NID: ownNID, L64: netA}}, offer: &offered{}}
	for _, confirmed := range []bool{false, true} {
		old := &session{remoteNID: ownNID, agreed: &agreement{confirmed: confirmed}}
		first, second := p.b.pending.mayReplace(p.b.now, k, old), p.b.pending.mayReplace(p.b.now, k, old)
		if !first || second == confirmed {
			t.Errorf("confirmed %t: replaced %t, at once again %t", confirmed, first, second)
		}
	}
}
