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

// wantUpdates checks that each end takes updates of the other one.
func (p *proofBench) wantUpdates(what string) {
	p.t.Helper()
	p.a.prefix(2, netB, roam.Infinite)
	p.b.prefix(2, netQ, roam.Infinite)
	for range 200 {
		p.both(50 * time.Millisecond)
	}
	a, b := p.session(p.a), p.session(p.b)
	if a.update.state != acknowledged || b.update.state != acknowledged || a.remotes.find(netQ) == nil ||
		b.remotes.find(netB) == nil {
		p.t.Errorf("%s: updates do not pass: %v, %v; refused %v, %v", what, a.update.state, b.update.state,
			p.a.RejectedInput(), p.b.RejectedInput())
	}
}

// TestProofRenewalIsLost: a new proof of a session that is sound, which somebody on the path can have a host make,
// does not end that session where an outage loses what follows the offer.
func TestProofRenewalIsLost(t *testing.T) {
	for name, lost := range map[string]func(q ilnpwire.Packet) bool{
		"nothing":          func(ilnpwire.Packet) bool { return false },
		"the answer":       func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer },
		"the confirmation": func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm },
		"all but the offer and the answer": func(q ilnpwire.Packet) bool {
			return q.Proof == nil || q.Proof.Step != ilnpwire.ProofOffer && q.Proof.Step != ilnpwire.ProofAnswer
		},
		"all but the offer": func(q ilnpwire.Packet) bool {
			return q.Proof == nil || q.Proof.Step != ilnpwire.ProofOffer
		},
	} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		a, b := p.session(p.a), p.session(p.b)
		p.both(time.Second)
		p.lossy = lost
		p.doubt()
		for range 300 {
			p.both(100 * time.Millisecond)
		}
		if p.session(p.a) != a || p.session(p.b) != b || b.state != Established || !b.agreed.confirmed {
			t.Errorf("%s is lost: the session of one end has ended", name)
			continue
		}
		p.lossy = nil
		p.wantUpdates(name + " is lost")
		p.wantProved()
	}
}

// TestProofRenewalOfAThief: a node that has b's key and reads the path offers in a's name, with the nonce of a sound
// session. It cannot confirm: b's session goes on with its keys.
func TestProofRenewalOfAThief(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.both(time.Second)
	a, b := p.session(p.a), p.session(p.b)
	_, earlier := p.last(ilnpwire.ProofConfirm)
	keys := slices.Clone(b.keys.in)
	ephemeral := ephemeralOf(t, 33)
	f := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: uint64(p.b.now.UnixNano()), Ephemeral: ephemeral.Public,
		Locators: [ilnpwire.ProofLocators]roam.L64{netA}}
	f.Counter = maskCounter(p.b.known[ownNID].proofKey(ownNID, peerNID), f)
	p.deliver(p.b, p.sealed(0, netA, f, a.localNonce, Nonce{}))
	if sent := p.proofsOf(p.b); len(sent) != 1 || sent[0].Proof.Step != ilnpwire.ProofAnswer {
		t.Fatalf("answered by %+v, refused %v: this shows nothing", sent, p.b.RejectedInput())
	}
	p.b.forget()
	f = ilnpwire.Proof{Step: ilnpwire.ProofConfirm, Counter: f.Counter, Ephemeral: f.Ephemeral}
	p.deliver(p.b, p.sealed(0, netA, f, a.localNonce, b.localNonce))
	p.deliver(p.b, earlier)
	if !slices.Equal(b.keys.in, keys) || p.b.RejectedInput()[reasonProofForged] != 1 {
		t.Errorf("a confirmation without the root, or a copy of an earlier one, counts: %v", p.b.RejectedInput())
	}
	for range 300 {
		p.both(100 * time.Millisecond)
	}
	if p.session(p.b) != b || !slices.Equal(b.keys.in, keys) {
		t.Error("the session has ended, or has other keys")
	}
	p.wantUpdates("after an offer of a thief")
}

// renewed returns two hosts of which a has the keys of a new proof, and b not yet: nothing of a's but the offer
// arrives. confirm is a's confirmation.
func renewed(t *testing.T) (p *proofBench, confirm []byte) {
	t.Helper()
	p = newProofBench(t)
	p.open()
	p.both(time.Second)
	p.lossy = func(q ilnpwire.Packet) bool {
		return q.Src.NID == ownNID && (q.Proof == nil || q.Proof.Step != ilnpwire.ProofOffer)
	}
	p.doubt()
	p.both(100 * time.Millisecond)
	if a, b := p.session(p.a), p.session(p.b); b.renewal == nil || slices.Equal(a.keys.out, b.keys.in) {
		t.Fatal("b has a's keys: this shows nothing")
	}
	_, confirm = p.last(ilnpwire.ProofConfirm)
	return p, confirm
}

// TestProofRenewalConfirmed: the confirmation alone has b go on with the new keys.
func TestProofRenewalConfirmed(t *testing.T) {
	p, confirm := renewed(t)
	p.lossy = nil
	p.deliver(p.b, confirm)
	b := p.session(p.b)
	if b.renewal != nil || b.keys.before != nil {
		t.Error("b has other keys, too")
	}
	p.wantProved()
	p.wantUpdates("confirmed")
	if p.session(p.a).keys.before != nil {
		t.Error("the keys of before count for ever")
	}
}

// TestProofRenewalOneWay: nothing of a's arrives, and b, which has missed the confirmation, moves: its updates
// count, each once, also after the user has added b again.
func TestProofRenewalOneWay(t *testing.T) {
	for _, again := range []bool{false, true} {
		p, _ := renewed(t)
		if again {
			p.know(p.a, 0)
		}
		p.b.prefix(2, netQ, roam.Infinite)
		var update []byte
		for range 100 {
			p.both(50 * time.Millisecond)
		}
		for _, b := range p.wire {
			if q, err := ilnpwire.ParsePacket(b); err == nil && q.Src.NID == peerNID && q.Seal != nil {
				update = b
			}
		}
		if p.session(p.a).remotes.find(netQ) == nil {
			t.Errorf("added again %t: a refuses b's updates: %v", again, p.a.RejectedInput())
		}
		old := p.a.RejectedInput()[reasonReplayed]
		if p.deliver(p.a, update); p.a.RejectedInput()[reasonReplayed] == old {
			t.Errorf("added again %t: a copy of an update counts", again)
		}
		p.lossy = nil
		p.wantUpdates("after that")
		p.wantProved()
	}
}

// TestProofRenewalByAnUpdate: the first message by the new keys confirms them, also if it is refused for what it says.
func TestProofRenewalByAnUpdate(t *testing.T) {
	p, _ := renewed(t)
	a := p.session(p.a)
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(0, 0, 1)}}
	b, ok := a.keys.build(roam.ILV{NID: ownNID, L64: netA}, roam.ILV{NID: peerNID, L64: netP}, a.localNonce, lu)
	if !ok {
		t.Fatal("no update")
	}
	p.lossy = nil
	p.deliver(p.b, b)
	if s := p.session(p.b); p.b.RejectedInput()[reasonLocator] != 1 || s.renewal != nil || !s.agreed.confirmed {
		t.Errorf("it confirms nothing: refused %v", p.b.RejectedInput())
	}
}

// TestProofRenewalIsOver: the confirmation of an answer counts no more once a newer proof, or another key of the
// peer, has ended what it is for.
func TestProofRenewalIsOver(t *testing.T) {
	for name, end := range map[string]func(p *proofBench){
		"b's own proof": func(p *proofBench) {
			p.a.known[peerNID].offers = freshness{seen: true, at: p.a.now}
			handshakes{p.b.Core}.renew(p.b.now, p.session(p.b))
			p.b.drain()
			p.exchange()
		},
		"another key": func(p *proofBench) {
			p.keys[0] = ephemeralOf(p.t, 44)
			p.know(p.b, 1)
		},
		"no key": func(p *proofBench) {
			p.b.RemovePeer(p.b.now, ownNID)
			p.b.AddPeer(p.b.now, Peer{NID: ownNID, Names: []string{"peer"}})
			p.b.drain()
		},
	} {
		p, _ := renewed(t)
		p.lossy = nil
		end(p)
		if s := p.session(p.b); s != nil && s.renewal != nil {
			t.Errorf("%s: the answer before still waits for its confirmation", name)
		}
	}
}

// TestProofUnconfirmedAgain: a session that nobody has confirmed does not last longer for further offers.
func TestProofUnconfirmedAgain(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
	p.open()
	for i := range uint64(4) {
		p.b.pass(2 * time.Second)
		s := p.session(p.b)
		f := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: p.b.known[ownNID].offers.last + 1,
			Ephemeral: ephemeralOf(t, 50+i).Public, Locators: [ilnpwire.ProofLocators]roam.L64{netA}}
		f.Counter = maskCounter(p.b.known[ownNID].proofKey(ownNID, peerNID), f)
		if p.deliver(p.b, p.sealed(0, netA, f, s.remoteNonce, Nonce{})); s.agreed.theirs != f.Ephemeral {
			t.Fatalf("the offer is refused: %v", p.b.RejectedInput())
		}
	}
	p.b.pass(2 * time.Second)
	p.wantNone("no confirmation", reasonProofOpen)
}

// TestProofUnconfirmedAndOffered: nor does one for which this host has made an offer meanwhile, which nobody answers.
func TestProofUnconfirmedAndOffered(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
	p.open()
	handshakes{p.b.Core}.renew(p.b.now, p.session(p.b))
	p.b.pass(20 * time.Second)
	p.wantNone("no confirmation", reasonProofOpen)
}
