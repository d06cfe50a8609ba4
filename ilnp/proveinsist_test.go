package ilnp

import (
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// successor returns a host that goes on from a state.
func (p *proofBench) successor(i int, at time.Time, state []byte) *bench {
	p.t.Helper()
	nids, nets := [2]roam.NID{ownNID, peerNID}, [2]roam.L64{netA, netP}
	h := newBench(p.t, func(c *Config) {
		c.NIDs, c.Accept, c.Key = []roam.NID{nids[i]}, Known, &p.keys[i]
		c.Rand = seeded{rand.New(rand.NewPCG(uint64(10+i), uint64(at.UnixNano())))}
	})
	h.now = at
	if err := h.Restore(at, state); err != nil {
		p.t.Fatal(err)
	}
	h.prefix(1, nets[i], roam.Infinite)
	p.know(h, i)
	h.drain()
	return h
}

// answering has both hosts talk, and answer each other's probes.
func (p *proofBench) answering(d time.Duration) {
	p.t.Helper()
	for range d / (100 * time.Millisecond) {
		p.a.pass(100 * time.Millisecond)
		p.b.pass(100 * time.Millisecond)
		for _, ends := range [][2]*bench{{p.a, p.b}, {p.b, p.a}} {
			s, o := p.session(ends[0]), p.session(ends[1])
			for _, q := range ends[0].probesSent() {
				if s != nil && o != nil && q.Nonce == s.localNonce && q.Nonce == o.remoteNonce {
					ends[0].reply(q, o.localNonce)
				}
			}
		}
		p.exchange()
	}
}

// TestKeysThatDiffer: both ends have a session with the same nonces and different keys. Who gives an update up, though
// its peer is there, insists on a proof, and both agree; also where both do at once, and with an offer of a thief in
// between.
func TestKeysThatDiffer(t *testing.T) {
	for name, c := range map[string]func(p *proofBench){
		"a moves": func(p *proofBench) { p.a.prefix(2, netB, roam.Infinite) },
		"b moves": func(p *proofBench) { p.b.prefix(2, netQ, roam.Infinite) },
		"both do": func(p *proofBench) { p.a.prefix(2, netB, roam.Infinite); p.b.prefix(2, netQ, roam.Infinite) },
		"and a thief": func(p *proofBench) {
			p.a.prefix(2, netB, roam.Infinite)
			p.lossy = func(q ilnpwire.Packet) bool {
				if q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm {
					p.lossy = nil
					p.deliver(p.b, p.fromA(33))
				}
				return false
			}
		},
	} {
		p := established(t)
		a, b := p.session(p.a), p.session(p.b)
		p.rollBack()
		if keys := p.keysNow(); keys[0] == keys[3] {
			t.Fatal("the keys do not differ")
		}
		c(p)
		p.answering(3 * time.Minute)
		if p.session(p.a) != a || p.session(p.b) != b {
			t.Fatalf("%s: a session has ended", name)
		}
		p.wantProved()
		p.wantUpdates(name, 10*time.Second)
	}
}

// TestBothInsist: a has answered b's offer, and makes one before b has that answer. Each could take the other one's
// answer; b, which has the higher NID, does not.
func TestBothInsist(t *testing.T) {
	p := established(t)
	p.rollBack()
	pass := func(from, to *bench) (kept []Transmit) {
		from.drain()
		sent := from.sent
		from.forget()
		for _, s := range sent {
			p.deliver(to, s.Packet)
		}
		kept = to.sent
		to.forget()
		return kept
	}
	handshakes{p.b.Core}.insist(p.b.now, p.session(p.b))
	ofA := pass(p.b, p.a)
	handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
	ofB := pass(p.a, p.b)
	if p.session(p.a).renewal == nil || p.session(p.b).renewal == nil {
		t.Fatal("they have not answered each other: this shows nothing")
	}
	p.b.sent = ofB
	confirms := pass(p.b, p.a)
	p.a.sent = ofA
	p.b.sent = pass(p.a, p.b)
	p.a.sent = confirms
	p.exchange()
	p.wantProved()
	a, b := p.session(p.a), p.session(p.b)
	inA, inB := p.a.entries[a.key].MACKey, p.b.entries[b.key].MACKey
	if string(inA[:]) != string(b.keys.out) || string(inB[:]) != string(a.keys.out) {
		t.Error("the programs have other keys")
	}
	p.wantUpdates("both have insisted", 5*time.Second)
}

// TestConfirmedIsWritten: a confirmation has the session saved, also where it changes nothing else, as the challenge
// has validated the place already: it would be open after a restart otherwise.
func TestConfirmedIsWritten(t *testing.T) {
	p := newProofBench(t)
	p.lossy = lost(ownNID, false, ilnpwire.ProofConfirm)
	p.open()
	if p.count(ilnpwire.ProofChallenge) == 0 || !p.session(p.b).agreed.isOpen() {
		t.Fatal("no challenge, or confirmed already: this shows nothing")
	}
	_, confirm := p.last(ilnpwire.ProofConfirm)
	for _, want := range []int{1, 0} {
		p.b.HandlePacket(p.b.now, 1, confirm)
		n := 0
		for {
			o, ok := p.b.Poll()
			if !ok {
				break
			}
			if _, is := o.(Upsert); is {
				n++
			}
		}
		if n != want || p.session(p.b).agreed.isOpen() {
			t.Errorf("written %d times, want %d", n, want)
		}
	}
}

// TestNobodyInsists: a host that gives an update up as nothing comes of its peer makes no offer. Where it has made one
// and gets no answer, that does not say that the peer lacks its key.
func TestNobodyInsists(t *testing.T) {
	p := established(t)
	offers := p.count(ilnpwire.ProofOffer)
	p.lossy = func(ilnpwire.Packet) bool { return true }
	p.a.prefix(2, netB, roam.Infinite)
	for range 1200 {
		p.both(100 * time.Millisecond)
	}
	if n := p.count(ilnpwire.ProofOffer) - offers; n > 0 || p.a.count(UpdateFailed) == 0 {
		t.Errorf("%d offers; updates were given up %d times", n, p.a.count(UpdateFailed))
	}
	s := p.session(p.a)
	handshakes{p.a.Core}.insist(p.a.now, s)
	if p.a.pass(20 * time.Second); s.hs != nil || s.noProof {
		t.Errorf("an offer is under way %t, the peer is held for one without its key %t", s.hs != nil, s.noProof)
	}
}

// TestOpenSessionIsOfferedAnew: b has lost its session and answered a's offer, and a has not received that. The answer
// to the next offer counts, although b has a session again, and is what b repeats.
func TestOpenSessionIsOfferedAnew(t *testing.T) {
	p := established(t)
	p.b.endSession(p.b.now, p.session(p.b), "test")
	p.b.drain()
	p.b.forget()
	p.lossy = lost(peerNID, false, ilnpwire.ProofAnswer)
	p.doubt()
	p.both(time.Second)
	handshakes{p.a.Core}.endOffer(p.a.now, p.session(p.a))
	if !p.session(p.b).agreed.isOpen() {
		t.Fatal("b has no open session: this shows nothing")
	}
	handshakes{p.a.Core}.renew(p.a.now, p.session(p.a))
	p.a.drain()
	p.exchange()
	p.lossy = lost(ownNID, false, ilnpwire.ProofOffer)
	for range 60 {
		p.both(100 * time.Millisecond)
	}
	p.wantProved()
	p.lossy = nil
	p.wantUpdates("answered again", 5*time.Second)
}

// TestRestartBeforeTheConfirmation: b, or a, goes on from its state while b's answer in a session that stands waits for
// the confirmation, and a has the new keys.
func TestRestartBeforeTheConfirmation(t *testing.T) {
	for _, which := range []int{0, 1} {
		p := established(t)
		p.rollBack()
		handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
		p.a.drain()
		p.lossy = lost(ownNID, true, ilnpwire.ProofConfirm)
		p.both(time.Second)
		if b := p.session(p.b); b.renewal == nil || p.session(p.a).agreed == nil {
			t.Fatal("no answer waits: this shows nothing")
		}
		if which == 0 {
			p.a = p.successor(0, p.a.now, p.a.Export())
		} else {
			p.b = p.successor(1, p.b.now, p.b.Export())
		}
		p.lossy = nil
		p.wantUpdates("restarted", 10*time.Second)
		p.wantProved()
		if n := p.session(p.b).keys.sent; which == 1 && n <= restoredAhead {
			t.Errorf("the counter goes on at %d: a successor of the same state would use it again", n)
		}
	}
}
