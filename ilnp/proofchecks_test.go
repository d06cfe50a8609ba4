package ilnp

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// sealed makes a message of a proof as host i can: with a right MAC, whatever it says.
func (p *proofBench) sealed(i int, at roam.L64, q ilnpwire.Proof, sender, receiver Nonce) []byte {
	p.t.Helper()
	nids, nets := [2]roam.NID{ownNID, peerNID}, [2]roam.L64{netA, netP}
	secret, err := p.keys[i].Shared(p.keys[1-i].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	q = sealProof(proofKey(secret, nids[i], nids[1-i]), q, sender, receiver)
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(at, 0, 1)}}
	if q.Step == ilnpwire.ProofAnswer || q.Step == ilnpwire.ProofChallenge {
		lu.Operation = ilnpwire.Acknowledgement
	}
	src, dst := roam.ILV{NID: nids[i], L64: at}, roam.ILV{NID: nids[1-i], L64: nets[1-i]}
	b, err := ilnpwire.BuildProof(src, dst, sender, lu, q)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// proofsOf returns the messages of proofs that a host has sent, and forgets what it has sent.
func (p *proofBench) proofsOf(h *bench) (list []ilnpwire.Packet) {
	for _, s := range h.sent {
		if q, err := ilnpwire.ParsePacket(s.Packet); err == nil && q.Proof != nil {
			list = append(list, q)
		}
	}
	h.sent = nil
	return list
}

// refusals returns how many inputs a host has refused.
func refusals(h *bench) (n uint64) {
	for _, k := range h.RejectedInput() {
		n += k
	}
	return n
}

// TestProofOfferAgain: an offer that was answered is answered with the same message again. It is judged
// once, and changes no key.
func TestProofOfferAgain(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.open()
	p.wantProved()
	s, _ := p.session(p.b), p.proofsOf(p.b)
	root, refused := s.agreed.root, refusals(p.b)
	_, offer := p.last(ilnpwire.ProofOffer)
	p.deliver(p.b, offer)
	sent := p.proofsOf(p.b)
	if len(sent) != 1 || *sent[0].Proof != s.agreed.last || sent[0].Proof.Step != ilnpwire.ProofAnswer {
		t.Errorf("answered by %+v, want what was the answer before", sent)
	}
	if refusals(p.b) != refused || !bytes.Equal(s.agreed.root, root) {
		t.Errorf("refused %v; the root has changed: %t", p.b.RejectedInput(), !bytes.Equal(s.agreed.root, root))
	}
}

// TestProofAnew: a host offers a proof within a session that both ends have, be it that the session began by a proof or
// without. The answer shows that, and both go on with the keys that they have.
func TestProofAnew(t *testing.T) {
	for _, proved := range []bool{true, false} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		a, b := p.session(p.a), p.session(p.b)
		_, first := p.last(ilnpwire.ProofOffer)
		if !proved {
			a.agreed, b.agreed = nil, nil
			p.a.rekeySession(p.a.now, a)
			p.b.rekeySession(p.b.now, b)
			p.a.drain()
			p.b.drain()
		}
		challenges, keys := p.count(ilnpwire.ProofChallenge), p.keysNow()
		handshakes{p.a.Core}.renew(p.a.now, a)
		h := a.hs
		handshakes{p.a.Core}.renew(p.a.now, a)
		if a.hs != h {
			t.Error("a second answer with another nonce begins a second handshake")
		}
		p.a.drain()
		p.a.known[peerNID].follows = false
		if p.exchange(); !p.a.known[peerNID].follows {
			t.Error("the peer has not shown that it knows our key")
		}
		if proved {
			p.wantProved()
		}
		same := p.keysNow() == keys
		if a.hs != nil || p.a.entries[theKey].Holds || !same || p.count(ilnpwire.ProofConfirm) != 1 {
			t.Errorf("by a proof %t: the keys stay %t, %d confirmations", proved, same,
				p.count(ilnpwire.ProofConfirm))
		}
		if n := p.count(ilnpwire.ProofChallenge); n != challenges {
			t.Errorf("%d challenges of a new offer", n-challenges)
		}
		_, again := p.last(ilnpwire.ProofOffer)
		p.deliver(p.b, again)
		if sent := p.proofsOf(p.b); len(sent) != 1 || *sent[0].Proof != b.renewal.last {
			t.Errorf("the same offer is answered by %+v", sent)
		}
		root := b.renewal.root
		if proved {
			continue // the answer to the first offer is still known
		}
		p.deliver(p.b, first)
		if sent := p.proofsOf(p.b); len(sent) != 1 || sent[0].Proof.Step != ilnpwire.ProofChallenge ||
			sent[0].Nonce != b.localNonce || !bytes.Equal(b.renewal.root, root) {
			t.Errorf("a copy of the first offer is answered by %+v", sent)
		}
	}
}

// TestProofOfferWaits: while it is asked whether the old nonce is silent, a copy of the offer that waits for
// that is not judged again, and another one takes its place.
func TestProofOfferWaits(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.second()
	var k *pendingPeer
	for _, k = range p.b.pending.byKey {
	}
	if k == nil || k.offer == nil || k.key.Remote.L64 != netQ {
		t.Fatalf("no offer waits: %+v", k)
	}
	q, copied := p.last(ilnpwire.ProofOffer)
	refused := refusals(p.b)
	p.proofsOf(p.b)
	p.deliver(p.b, copied)
	if sent := p.proofsOf(p.b); len(sent) > 0 || refusals(p.b) != refused {
		t.Errorf("the copy is answered by %+v, refused %v", sent, p.b.RejectedInput())
	}
	next := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: p.b.known[ownNID].offers.last + 1,
		Ephemeral: ephemeralOf(t, 30).Public, Locators: q.Proof.Locators}
	next.Counter = maskCounter(p.b.known[ownNID].proofKey(ownNID, peerNID), next)
	p.deliver(p.b, p.sealed(0, netQ, next, q.Nonce, Nonce{}))
	if k.offer.proof.Ephemeral != next.Ephemeral {
		t.Error("the newer offer is not taken")
	}
}

// TestProofCrossedLost: the offer of the lower NID counts where both ends begin at once, but not for ever:
// it may go where the peer is not any more. Nor does it where its session went on as plain IPv6.
func TestProofCrossedLost(t *testing.T) {
	begin := func() *proofBench {
		p := newProofBench(t)
		p.remember()
		p.a.known[peerNID].offers.seen = true
		p.b.known[ownNID].locators.put(netA, 10, time.Time{})
		p.lossy = func(q ilnpwire.Packet) bool {
			return q.Src.NID == ownNID && q.Proof != nil && q.Proof.Step == ilnpwire.ProofOffer
		}
		p.open()
		p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
		return p
	}
	p := begin()
	p.exchange()
	if s := p.session(p.a); s == nil || s.hs == nil || s.agreed != nil || s.state == Established {
		t.Errorf("a's own offer does not count first: %+v", s)
	}
	for range 60 {
		p.both(50 * time.Millisecond)
	}
	if s := p.session(p.b); s == nil || s.agreed == nil || !s.agreed.initiator {
		t.Errorf("b's offer never counts: %+v, a refused %v", s, p.a.RejectedInput())
	}
	p = newProofBench(t)
	p.open()
	p.wantProved()
	p.b, p.own = p.host(1), Nonce{Len: 4, Bytes: [12]byte{8, 8}}
	p.b.known[ownNID].locators.put(netA, 10, time.Time{})
	handshakes{p.a.Core}.renew(p.a.now, p.session(p.a))
	p.a.drain()
	p.lossy = func(q ilnpwire.Packet) bool {
		return q.Src.NID == ownNID && q.Proof != nil && q.Proof.Step == ilnpwire.ProofOffer
	}
	p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
	for range 60 {
		p.both(50 * time.Millisecond)
	}
	if s := p.session(p.b); s == nil || s.agreed == nil || !s.agreed.initiator {
		t.Errorf("b, which has lost its half, never counts: %+v, a refused %v", s, p.a.RejectedInput())
	}

	p = begin()
	p.session(p.a).state = Plain
	p.exchange()
	if s := p.session(p.b); s == nil || s.agreed == nil {
		t.Errorf("b's offer does not count although a's session is plain: %+v", s)
	}
}

// TestChallengesAreManyAtOnce: each challenge that is under way may be answered, also when others were made
// meanwhile, as for a copy of an offer.
func TestChallengesAreManyAtOnce(t *testing.T) {
	p := newProofBench(t)
	_, offer := p.offer()
	p.deliver(p.b, offer)
	first := p.b.sent
	p.b.sent = nil
	p.deliver(p.b, offer)
	p.b.sent = nil
	for _, s := range first {
		p.deliver(p.a, s.Packet)
	}
	p.exchange()
	p.wantProved()
	if n := p.count(ilnpwire.ProofChallenge); n != 0 {
		t.Errorf("%d more challenges", n)
	}
}

// TestChallengeFromOutside: a border has changed the address of a challenge, which lists no locators. It is
// answered all the same: the MAC shows whose it is.
func TestChallengeFromOutside(t *testing.T) {
	p := newProofBench(t)
	_, offer := p.offer()
	p.deliver(p.b, offer)
	sent := p.proofsOf(p.b)
	if len(sent) != 1 || sent[0].Proof.Step != ilnpwire.ProofChallenge {
		t.Fatalf("no challenge, but %+v", sent)
	}
	p.proofsOf(p.a)
	p.deliver(p.a, p.sealed(1, netS, *sent[0].Proof, sent[0].Nonce, p.session(p.a).localNonce))
	if got := p.proofsOf(p.a); len(got) != 1 || got[0].Proof.Token != sent[0].Proof.Token {
		t.Errorf("answered by %+v; refused %v", got, p.a.RejectedInput())
	}
}

// TestProofAdmitsItsOwn: what was held under the nonce that the peer has proven is delivered. What was held under
// another one is not, although it claims the same name.
func TestProofAdmitsItsOwn(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		p := newProofBench(t)
		p.offer()
		for _, n := range []Nonce{ofB, peerNonce} {
			p.a.see(Observation{Trigger: SeenOtherNonce, Key: theKey, LocalNID: ownNID,
				Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: n, OwnNonce: p.a.entries[theKey].LocalNonce,
				Local: roam.LinkLocator{Link: 1, L64: netA}, Held: true, Bytes: 100, Packets: 1})
		}
		if reversed {
			slices.Reverse(p.a.pending.byNIDs[SessionKey{ownNID, peerNID}])
		}
		for range 20 {
			p.both(50 * time.Millisecond)
		}
		p.wantProved()
		var admitted []Nonce
		for _, o := range p.a.other {
			if o, is := o.(Admit); is {
				admitted = append(admitted, o.Pending.Nonce)
			}
		}
		if !slices.Equal(admitted, []Nonce{ofB}) {
			t.Errorf("delivered is what was held of %v, want %v", admitted, ofB)
		}
	}
}

// TestProofOfRecord: an offer may come from a locator of the record that it does not list, as a site border has
// changed its address.
func TestProofOfRecord(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	q, _ := p.offer()
	p.b.known[ownNID].locators.put(netS, 10, time.Time{})
	p.b.see(Observation{Trigger: SeenPending, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID,
		Local: roam.LinkLocator{Link: 1, L64: netP}, Remote: roam.ILV{NID: ownNID, L64: netS}, Nonce: q.Nonce,
		OwnNonce: ofB, Bytes: 100, Packets: 1})
	p.deliver(p.b, p.sealed(0, netS, *q.Proof, q.Nonce, Nonce{}))
	if s := p.session(p.b); s == nil || s.agreed == nil || s.remotes.find(netS) == nil {
		t.Errorf("b has %+v; refused %v", s, p.b.RejectedInput())
	}
}

// TestProofLies: the peer itself, or who has its key, sends messages that do not fit what went before. Each is
// refused, none is answered, and the sessions stay.
func TestProofLies(t *testing.T) {
	for name, c := range map[string]struct {
		from int // 1: b to a, which has begun the session; 0: a to b
		lie  func(p *proofBench, a, b *session) ilnpwire.Proof
	}{
		"a challenge after the session stands": {1, func(_ *proofBench, a, _ *session) ilnpwire.Proof {
			return ilnpwire.Proof{Step: ilnpwire.ProofChallenge, Ephemeral: a.agreed.theirs}
		}},
		"an answer with another ephemeral key": {1, func(_ *proofBench, a, _ *session) ilnpwire.Proof {
			return ilnpwire.Proof{Step: ilnpwire.ProofAnswer, Ephemeral: a.agreed.last.Ephemeral}
		}},
		"an answer to an answer": {0, func(_ *proofBench, _, b *session) ilnpwire.Proof {
			return ilnpwire.Proof{Step: ilnpwire.ProofAnswer, Ephemeral: b.agreed.theirs}
		}},
		"an answer in a session without a proof": {1, func(_ *proofBench, a, _ *session) ilnpwire.Proof {
			a.agreed = nil
			return ilnpwire.Proof{Step: ilnpwire.ProofAnswer}
		}},
		"a confirmation in a session without a proof": {0, func(_ *proofBench, _, b *session) ilnpwire.Proof {
			b.agreed = nil
			return ilnpwire.Proof{Step: ilnpwire.ProofConfirm}
		}},
		"a notice in a session without a proof": {1, func(_ *proofBench, a, _ *session) ilnpwire.Proof {
			a.agreed = nil
			return ilnpwire.Proof{Step: ilnpwire.ProofNotice}
		}},
		"a notice of no session": {1, func(_ *proofBench, _, b *session) ilnpwire.Proof {
			b.localNonce = peerNonce
			return ilnpwire.Proof{Step: ilnpwire.ProofNotice}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProofBench(t)
			p.open()
			p.wantProved()
			a, b := p.session(p.a), p.session(p.b)
			lie := c.lie(p, a, b)
			lie.Locators = [ilnpwire.ProofLocators]roam.L64{netA, netP}
			to, ends, at := p.b, [2]*session{a, b}, netA
			if c.from == 1 {
				to, ends, at = p.a, [2]*session{b, a}, netP
			}
			refused := to.RejectedInput()[reasonProofOld]
			p.deliver(to, p.sealed(c.from, at, lie, ends[0].localNonce, ends[1].localNonce))
			once := to.RejectedInput()[reasonProofOld] == refused+1
			if sent := p.proofsOf(to); len(sent) > 0 || !once || ends[1].state != Established {
				t.Errorf("answered by %+v, refused %v", sent, to.RejectedInput())
			}
		})
	}
}

// TestProofLyingAnswer: the peer itself answers an offer that was never made, or with an ephemeral key of low order,
// whose secrets everybody knows.
func TestProofLyingAnswer(t *testing.T) {
	p := newProofBench(t)
	q, _ := p.offer()
	places := [ilnpwire.ProofLocators]roam.L64{netP}
	ask := func(what, reason string, f ilnpwire.Proof) {
		t.Helper()
		before := p.a.RejectedInput()[reason]
		p.deliver(p.a, p.sealed(1, netP, f, peerNonce, q.Nonce))
		if s := p.session(p.a); s.state == Established || s.agreed != nil || p.a.RejectedInput()[reason] != before+1 {
			t.Errorf("%s: a's session is %v, refused %v", what, s.state, p.a.RejectedInput())
		}
	}
	f := ilnpwire.Proof{Step: ilnpwire.ProofAnswer, Counter: q.Proof.Counter + 1, Locators: places}
	ask("another counter", reasonProofOld, f)
	low := nidkey.Public{1}
	es, err := p.keys[1].Shared(q.Proof.Ephemeral)
	if err != nil {
		t.Fatal(err)
	}
	f.Counter, f.Ephemeral = q.Proof.Counter, low
	f.Token = tokenOf(rootOf(transcript{
		initiator: ownNID, responder: peerNID, initiatorNonce: q.Nonce, responderNonce: peerNonce,
		offer: *q.Proof, answer: low,
	}, p.a.known[peerNID].secret, es, nidkey.Secret{}, nidkey.Secret{}), f)
	ask("a key of low order", reasonProofForged, f)
	f.Token = tokenOf(nil, f)
	ask("a key of low order, and no root", reasonProofForged, f)
	for _, public := range []nidkey.Public{{}, {1}} {
		k, err := ephemeralOf(t, 3).Ready()
		if err != nil {
			t.Fatal(err)
		}
		if s, err := shared(pair{k, p.keys[0].Public}, pair{k, public}); err == nil || s != nil {
			t.Errorf("a key of low order has the secrets %v", s)
		}
	}
}

// TestProofUntilTheKeyIsKnown: a host that was restarted and has not been told of its peer's key again makes no
// proof, and takes none.
func TestProofUntilTheKeyIsKnown(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	for _, h := range []*bench{p.a, p.b} {
		h.endSession(h.now, p.session(h), "test")
		h.drain()
	}
	n := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
	n.now = p.a.now
	if err := n.Restore(n.now, p.a.Export()); err != nil {
		t.Fatal(err)
	}
	n.prefix(1, netA, roam.Infinite)
	n.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if sent := p.proofsOf(n); len(sent) > 0 || len(n.sessions) != 1 {
		t.Errorf("sent %+v in %d sessions", sent, len(n.sessions))
	}
	p.deliver(n, p.sealed(1, netP, ilnpwire.Proof{Step: ilnpwire.ProofOffer}, peerNonce, Nonce{}))
	if n.RejectedInput()[reasonProofNoKey] != 1 {
		t.Errorf("refused %v", n.RejectedInput())
	}
	p.know(n, 0)
	p.a = n
	p.own = Nonce{Len: 4, Bytes: [12]byte{6}}
	p.exchange()
	p.wantProved()
}

// TestNobodyToProveTo: no handshake begins with a peer that needs none, with one whose key has vouched for another
// one, and under the identifier that the host had before.
func TestNobodyToProveTo(t *testing.T) {
	for name, c := range map[string]func(p *proofBench) (*bench, *session){
		"its key is optional": func(p *proofBench) (*bench, *session) {
			s := p.session(p.a)
			p.a.known[peerNID].guard.optional = true
			return p.a, s
		},
		"it is retired": func(p *proofBench) (*bench, *session) {
			s := p.session(p.b)
			p.b.RetirePeer(p.b.now, ownNID)
			return p.b, s
		},
	} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		h, s := c(p)
		h.drain()
		h.sent = nil
		handshakes{h.Core}.renew(h.now, s)
		h.drain()
		if sent := p.proofsOf(h); s.hs != nil || len(sent) > 0 {
			t.Errorf("%s: %+v was sent", name, sent)
		}
	}
	p := formerBench(t)
	s := p.a.holder(ownNID, peerNID)
	handshakes{p.a.Core}.renew(p.a.now, s)
	if s.hs != nil {
		t.Error("a handshake begins under the former identifier")
	}
}

// TestRetiredProves: what a retired peer offers, and vouches for, is refused: its key counts for the sessions that
// live alone.
func TestRetiredProves(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.b.RetirePeer(p.b.now, ownNID)
	p.b.drain()
	s := p.session(p.b)
	root := s.agreed.root
	handshakes{p.a.Core}.renew(p.a.now, p.session(p.a))
	p.a.drain()
	p.exchange()
	if p.b.RejectedInput()[reasonProofNoKey] == 0 || !bytes.Equal(s.agreed.root, root) {
		t.Errorf("its offer: refused %v", p.b.RejectedInput())
	}
	k := ephemeralOf(t, 40)
	k.NID = heirNID
	p.a = p.named(heirNID, &k)
	p.inherit(ownNID, p.keys[0])
	p.both(vouchApart)
	if told := p.successions(); len(told) > 0 || p.b.RejectedInput()[reasonVouchNoKey] == 0 {
		t.Errorf("its vouch: told %v, refused %v", told, p.b.RejectedInput())
	}
}
