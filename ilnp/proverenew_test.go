package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// doubt has somebody on the path answer a's probes with another nonce: a offers a proof anew.
func (p *proofBench) doubt() {
	p.t.Helper()
	s, offers := p.session(p.a), p.count(ilnpwire.ProofOffer)
	p.a.forget()
	p.a.probePaths(p.a.now, s, s.entry.Paths)
	p.a.drain()
	for _, q := range p.a.probesSent() {
		p.a.reply(q, Nonce{Len: 4, Bytes: [12]byte{8, 8, 8, 8}})
	}
	p.exchange()
	if p.count(ilnpwire.ProofOffer) == offers {
		p.t.Fatal("no offer: this shows nothing")
	}
}

// established returns two hosts with a proven session, each of which knows which offers of the other one are new.
func established(t testing.TB) *proofBench {
	t.Helper()
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.both(time.Second)
	p.a.known[peerNID].offers = freshness{
		seen: true, at: p.a.now, last: uint64(p.a.now.Add(-time.Second).UnixNano()),
	}
	return p
}

// lost drops everything of one step from a host, and everything that has a MAC of its session if so wanted.
func lost(from roam.NID, sealed bool, steps ...ilnpwire.ProofStep) func(q ilnpwire.Packet) bool {
	return func(q ilnpwire.Packet) bool {
		isStep := q.Proof != nil && slices.Contains(steps, q.Proof.Step)
		return q.Src.NID == from && (sealed && q.Seal != nil || isStep)
	}
}

// theirKeys are the keys of both ends.
type theirKeys [4]string

func (p *proofBench) keysNow() theirKeys { return keysOfBoth(p.session(p.a), p.session(p.b)) }

// has reports whether both still have these sessions.
func (p *proofBench) has(a, b *session) bool {
	return p.session(p.a) == a && p.session(p.b) == b && a.state == Established && b.state == Established
}

func keysOfBoth(a, b *session) theirKeys {
	return theirKeys{string(a.keys.in), string(a.keys.out), string(b.keys.in), string(b.keys.out)}
}

// wantUpdates checks that each end takes updates of the other one, within a time.
func (p *proofBench) wantUpdates(what string, within time.Duration) {
	p.t.Helper()
	p.a.prefix(2, netB, roam.Infinite)
	p.b.prefix(2, netQ, roam.Infinite)
	for range within / (50 * time.Millisecond) {
		p.both(50 * time.Millisecond)
	}
	a, b := p.session(p.a), p.session(p.b)
	if a.update.state != acknowledged || b.update.state != acknowledged || a.remotes.find(netQ) == nil ||
		b.remotes.find(netB) == nil {
		p.t.Errorf("%s: updates do not pass: %v, %v; refused %v, %v", what, a.update.state, b.update.state,
			p.a.RejectedInput(), p.b.RejectedInput())
	}
}

// rollBack gives b's session other keys than a's, as after a snapshot of it was restored.
func (p *proofBench) rollBack() {
	b := p.session(p.b)
	b.agreed = &agreement{root: slices.Repeat([]byte{7}, 32), initiator: true, confirmed: true}
	p.b.rekeySession(p.b.now, b)
	p.b.drain()
}

// TestProofOfASessionThatStands: somebody on the path has a host offer a proof within a session that both have.
// Whatever is lost of that, each goes on with the keys that it has.
func TestProofOfASessionThatStands(t *testing.T) {
	for name, lossy := range map[string]func(q ilnpwire.Packet) bool{
		"nothing":    nil,
		"the answer": lost(peerNID, false, ilnpwire.ProofAnswer),
		"all from a": lost(ownNID, true, ilnpwire.ProofConfirm),
		"all but the offer": func(q ilnpwire.Packet) bool {
			return q.Proof == nil || q.Proof.Step != ilnpwire.ProofOffer
		},
		"all but the offer and the answer": func(q ilnpwire.Packet) bool {
			return q.Proof == nil || q.Proof.Step != ilnpwire.ProofOffer && q.Proof.Step != ilnpwire.ProofAnswer
		},
	} {
		p := established(t)
		a, b, keys := p.session(p.a), p.session(p.b), p.keysNow()
		p.lossy = lossy
		for range 2 {
			p.doubt()
			for range 200 {
				p.both(100 * time.Millisecond)
			}
		}
		if !p.has(a, b) || p.keysNow() != keys {
			t.Errorf("%s is lost: a session has ended, or has other keys", name)
			continue
		}
		if a.hs != nil || p.a.entries[theKey].Holds {
			t.Errorf("%s is lost: the offer is still under way", name)
		}
		p.lossy = nil
		p.wantUpdates(name+" is lost", 10*time.Second)
		p.wantProved()
	}
}

// fromA is an offer in a's name by who has b's key, for the session that they have.
func (p *proofBench) fromA(seed uint64) []byte {
	p.t.Helper()
	f := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: p.b.known[ownNID].offers.last + 1,
		Ephemeral: ephemeralOf(p.t, seed).Public, Locators: [ilnpwire.ProofLocators]roam.L64{netA}}
	f.Counter = maskCounter(p.b.known[ownNID].proofKey(ownNID, peerNID), f)
	return p.sealed(0, netA, f, p.session(p.b).remoteNonce, Nonce{})
}

// TestProofOfAThiefInASession: who has b's key offers in a's name, within a session that both have. It cannot confirm;
// neither that nor a copy of an earlier confirmation changes anything.
func TestProofOfAThiefInASession(t *testing.T) {
	p := established(t)
	a, b, keys := p.session(p.a), p.session(p.b), p.keysNow()
	_, earlier := p.last(ilnpwire.ProofConfirm)
	for seed := range uint64(3) {
		p.b.forget()
		p.deliver(p.b, p.fromA(30+seed))
		sent := p.proofsOf(p.b)
		if len(sent) != 1 || sent[0].Proof.Step != ilnpwire.ProofAnswer {
			t.Fatalf("answered by %+v, refused %v: this shows nothing", sent, p.b.RejectedInput())
		}
		f := ilnpwire.Proof{Step: ilnpwire.ProofConfirm, Counter: sent[0].Proof.Counter,
			Ephemeral: ephemeralOf(t, 30+seed).Public}
		p.deliver(p.b, p.sealed(0, netA, f, a.localNonce, b.localNonce))
		p.deliver(p.b, earlier)
		for range 110 {
			p.both(100 * time.Millisecond)
		}
	}
	if p.b.RejectedInput()[reasonProofForged] != 3 {
		t.Errorf("a confirmation without the root counts: %v", p.b.RejectedInput())
	}
	if p.session(p.b) != b || p.keysNow() != keys {
		t.Error("the session has ended, or has other keys")
	}
	p.wantUpdates("after offers of a thief", 10*time.Second)
}

// TestOtherNonceInASession: b goes on from an older state, with the nonce and the keys that it had before it lost its
// session to a newer one. The answer to a's probe has that nonce, and both agree, whichever message comes back first.
func TestOtherNonceInASession(t *testing.T) {
	for name, lossy := range map[string]func(q ilnpwire.Packet) bool{
		"nothing":                     nil,
		"the confirmation":            lost(ownNID, false, ilnpwire.ProofConfirm),
		"what has a MAC of a session": func(q ilnpwire.Packet) bool { return q.Seal != nil },
	} {
		p := established(t)
		older, nonce := p.b.Export(), p.session(p.b).localNonce
		p.b, p.own = p.host(1), Nonce{Len: 4, Bytes: [12]byte{8, 8, 8, 8}}
		p.doubt()
		p.wantProved()
		p.b = p.successor(1, p.b.now, older)
		s := p.session(p.a)
		p.a.probePaths(p.a.now, s, s.entry.Paths)
		p.a.drain()
		p.lossy = lossy
		for _, q := range p.a.probesSent() {
			p.a.reply(q, nonce)
		}
		for range 20 {
			p.both(50 * time.Millisecond)
		}
		p.lossy = nil
		p.wantUpdates(name+" is lost", 20*time.Second)
		p.wantProved()
		if p.session(p.a).remoteNonce != nonce {
			t.Errorf("%s is lost: a has another nonce", name)
		}
	}
}

// TestRestartOfAnOpenSession: b goes on from its state while its answer at set-up waits for the confirmation. It counts
// no more than before: the session ends without one, and an update confirms it, as does the answer to another offer.
func TestRestartOfAnOpenSession(t *testing.T) {
	for name, c := range map[string]struct {
		lossy func(q ilnpwire.Packet) bool
		then  func(p *proofBench)
		stays bool
	}{
		"nothing comes": {lost(peerNID, false, ilnpwire.ProofAnswer), func(p *proofBench) {
			p.lossy = func(ilnpwire.Packet) bool { return true }
		}, false},
		"an update comes": {lost(ownNID, false, ilnpwire.ProofConfirm), func(p *proofBench) {
			p.a.prefix(2, netB, roam.Infinite)
		}, true},
		"offers go on": {lost(peerNID, false, ilnpwire.ProofAnswer), func(*proofBench) {}, true},
	} {
		p := newProofBench(t)
		p.remember()
		p.lossy = c.lossy
		p.open()
		if !p.session(p.b).agreed.isOpen() {
			t.Fatalf("%s: it is confirmed already", name)
		}
		p.b = p.successor(1, p.b.now, p.b.Export())
		p.lossy = nil
		if c.then(p); !p.session(p.b).agreed.isOpen() {
			t.Errorf("%s: it counts as confirmed", name)
		}
		for range 100 {
			p.both(100 * time.Millisecond)
		}
		if c.stays {
			p.wantProved()
		} else {
			p.wantNone(name, reasonProofOpen)
		}
	}
}

// TestUpdateOfALostSession: b has lost its session, and a has taken the keys of the next one. An update and an
// acknowledgement that b made in the first one, and somebody has held back, count no more.
func TestUpdateOfALostSession(t *testing.T) {
	for _, same := range []bool{false, true} { // the nonce of b
		p := established(t)
		a, b := p.session(p.a), p.session(p.b)
		var held [][]byte
		hold := func(from roam.L64, op ilnpwire.Operation, list ...ilnpwire.LocatorEntry) {
			lu := ilnpwire.LocatorUpdate{Operation: op, Locators: list}
			m, err := lu.AppendTo(nil)
			if err != nil {
				t.Fatal(err)
			}
			b.keys.sent++
			seal := ilnpwire.Seal{Counter: b.keys.sent}
			if op == ilnpwire.Acknowledgement {
				seal.Answers = b.keys.updated + 1
			}
			seal.MAC = macOf(b.keys.out, m, seal.Counter, seal.Answers)
			nonce := p.own
			if !same {
				nonce = Nonce{Len: 4, Bytes: [12]byte{8, 8, 8, 8}}
			}
			src, dst := roam.ILV{NID: peerNID, L64: from}, roam.ILV{NID: ownNID, L64: netA}
			packet, err := ilnpwire.BuildSealed(src, dst, nonce, lu, seal)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, packet)
		}
		hold(netQ, ilnpwire.Advertisement, entry(netQ, 0, 60), entry(netP, 1, 60))
		hold(netP, ilnpwire.Acknowledgement, entry(netA, 10, 65535), entry(netB, 10, 65535))
		p.b.endSession(p.b.now, b, "test")
		p.b.drain()
		if p.b.forget(); !same {
			p.own = Nonce{Len: 4, Bytes: [12]byte{8, 8, 8, 8}}
		}
		root := a.agreed.root
		p.doubt()
		p.both(time.Second)
		if slices.Equal(a.agreed.root, root) {
			t.Fatalf("same nonce %t: a has the keys of before: this shows nothing", same)
		}
		p.lossy = lost(ownNID, true)
		p.a.prefix(2, netB, roam.Infinite)
		p.both(20 * time.Millisecond)
		refused := p.a.RejectedInput()[reasonWrongMAC]
		for _, packet := range held {
			p.a.receive(1, packet)
		}
		if p.a.RejectedInput()[reasonWrongMAC] != refused+2 || a.remotes.find(netQ) != nil ||
			a.update.state == acknowledged {
			t.Errorf("same nonce %t: it counts: refused %v, %v", same, p.a.RejectedInput(), a.update.state)
		}
	}
}

// TestCounterOfARenewal: the first message by the keys of an answer confirms that, also if it is refused for what it
// says, and the programs get those keys with its counter: they follow no copy of it.
func TestCounterOfARenewal(t *testing.T) {
	for _, good := range []bool{true, false} {
		p := established(t)
		p.rollBack()
		handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
		p.a.drain()
		p.lossy = lost(ownNID, true, ilnpwire.ProofConfirm)
		p.exchange()
		a, b := p.session(p.a), p.session(p.b)
		l := map[bool]roam.L64{true: netA, false: 0}[good]
		lu := updateOf(entry(l, 10, 60))
		lu.Operation = ilnpwire.Advertisement
		src, dst := roam.ILV{NID: ownNID, L64: netA}, roam.ILV{NID: peerNID, L64: netP}
		packet, ok := a.keys.build(src, dst, a.localNonce, lu)
		if !ok {
			t.Fatal("no update")
		}
		p.b.receive(1, packet)
		e := p.b.entries[b.key]
		if b.renewal != nil || b.agreed.isOpen() || string(e.MACKey[:]) != string(a.keys.out) ||
			e.MACCounter != b.keys.updated {
			t.Errorf("good %t: the programs have counter %d, the core %d; waiting %t", good, e.MACCounter,
				b.keys.updated, b.renewal != nil)
		}
		if good && b.keys.updated != a.keys.sent || !good && p.b.RejectedInput()[reasonLocator] != 1 {
			t.Errorf("good %t: counter %d of %d, refused %v", good, b.keys.updated, a.keys.sent,
				p.b.RejectedInput())
		}
	}
}

// TestProofUnconfirmedAgain: a session that nobody has confirmed does not last longer for further offers, and these do
// not take the keys from the peer that it may have.
func TestProofUnconfirmedAgain(t *testing.T) {
	for _, confirms := range []bool{false, true} {
		p := newProofBench(t)
		p.remember()
		p.lossy = lost(ownNID, false, ilnpwire.ProofConfirm)
		p.open()
		_, confirm := p.last(ilnpwire.ProofConfirm)
		p.lossy = func(ilnpwire.Packet) bool { return true }
		for i := range uint64(4) {
			p.both(2 * time.Second)
			p.lossy = nil
			packet := p.fromA(50 + i)
			if p.deliver(p.b, packet); p.session(p.b).renewal == nil {
				t.Fatalf("the offer is refused: %v", p.b.RejectedInput())
			}
			p.lossy = func(ilnpwire.Packet) bool { return true }
		}
		if p.lossy = nil; confirms {
			p.deliver(p.b, confirm)
			p.both(5 * time.Second)
			p.wantProved()
			continue
		}
		p.b.pass(2 * time.Second)
		p.wantNone("no confirmation", reasonProofOpen)
	}
}

// TestRenewalIsOver: an answer that waits counts no more once the peer has another key, or none.
func TestRenewalIsOver(t *testing.T) {
	for name, end := range map[string]func(p *proofBench){
		"another key": func(p *proofBench) {
			p.keys[0] = ephemeralOf(p.t, 44)
			p.know(p.b, 1)
		},
		"no key": func(p *proofBench) {
			p.b.AddPeer(p.b.now, Peer{NID: ownNID, Names: []string{"peer"}})
			p.b.drain()
		},
		"an own proof": func(p *proofBench) {
			handshakes{p.b.Core}.insist(p.b.now, p.session(p.b))
			p.b.drain()
			p.exchange()
		},
	} {
		p := established(t)
		p.doubt()
		if p.session(p.b).renewal == nil {
			t.Fatalf("%s: no answer waits: this shows nothing", name)
		}
		if end(p); p.session(p.b) != nil && p.session(p.b).renewal != nil {
			t.Errorf("%s: the answer still waits", name)
		}
	}
}
