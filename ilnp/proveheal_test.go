package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

func (w *air) run(d time.Duration) {
	for range d / (20 * time.Millisecond) {
		w.step()
	}
}

// agree reports whether both ends seal by the keys that the other one accepts.
func (w *air) agree() bool {
	a, b := w.session(w.a), w.session(w.b)
	return a != nil && b != nil && slices.Equal(a.keys.out, b.keys.in) && slices.Equal(a.keys.in, b.keys.out)
}

// agreesWithin runs for minutes until both ends agree.
func (w *air) agreesWithin(minutes int) bool {
	for range minutes {
		if w.run(time.Minute); w.agree() {
			return true
		}
	}
	return false
}

// Ends with different keys agree although the update that shows it was given up while nothing came: each further
// transmission has a peer that is there doubt the keys once more.
func TestKeysThatDifferAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		p := established(t)
		w := newAir(p, 1)
		w.talking = true
		w.run(10 * time.Second)
		w.loss = 1
		w.run(time.Second)
		p.rollBack()
		p.a.prefix(2, netB, roam.Infinite)
		w.run(outage)
		if w.loss = 0; w.agree() {
			t.Fatal("keys do not differ")
		}
		if !w.agreesWithin(3) {
			t.Errorf("outage of %v: keys differ", outage)
		}
	}
}

// The same where the offers by which it insisted were lost.
func TestKeysThatDifferAfterLostOffers(t *testing.T) {
	p := established(t)
	w := newAir(p, 1)
	w.talking = true
	w.run(10 * time.Second)
	p.rollBack()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil }
	p.a.prefix(2, netB, roam.Infinite)
	for i := 0; i < 6000 && w.session(w.a).hs == nil; i++ {
		w.step()
	}
	w.run(30 * time.Second)
	p.lossy = nil
	if !w.agreesWithin(3) {
		t.Error("keys differ")
	}
}

// A host that lost power before its state had new keys, and is back after the update was given up, agrees again.
func TestPowerLossBehindNewKeys(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, time.Minute} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		p.both(time.Second)
		p.a.known[peerNID].offers = freshness{seen: true, at: p.a.now, last: uint64(p.a.now.Add(-time.Second).UnixNano())}
		w := newAir(p, 1)
		w.guard(0, p.a)
		w.guard(1, p.b)
		w.talking = true
		w.run(10 * time.Second)
		older := p.b.Export()
		handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
		p.a.drain()
		if w.run(3 * time.Second); !w.agree() || p.session(p.b).renewal != nil {
			t.Fatal("no new keys")
		}
		w.loss = 1
		w.run(100 * time.Millisecond)
		p.a.prefix(2, netB, roam.Infinite)
		w.run(away)
		p.b = p.successor(1, p.a.now, older)
		w.guard(1, p.b)
		w.loss = 0
		if !w.agreesWithin(4) || p.session(p.a).update.state != acknowledged || p.session(p.b).remotes.find(netB) == nil {
			t.Errorf("away for %v: a's update does not pass", away)
		}
	}
}

// A confirmation that somebody on the path holds back, while its sender goes on from an older state, counts for a
// minute only.
func TestHeldConfirmation(t *testing.T) {
	p := established(t)
	w := newAir(p, 3)
	w.guard(0, p.a)
	w.guard(1, p.b)
	w.talking = true
	w.run(10 * time.Second)
	older := p.a.Export()
	p.lossy = lost(ownNID, true, ilnpwire.ProofConfirm)
	handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
	p.a.drain()
	from := len(p.wire)
	w.run(time.Second)
	var held [][]byte
	for _, b := range p.wire[from:] {
		q, err := ilnpwire.ParsePacket(b)
		if err == nil && q.Src.NID == ownNID && (q.Seal != nil || q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm) {
			held = append(held, b)
		}
	}
	if len(held) == 0 || p.session(p.b).renewal == nil {
		t.Fatalf("%d messages held, waiting root %v", len(held), p.session(p.b).renewal != nil)
	}
	p.a = p.successor(0, p.a.now, older)
	w.guard(0, p.a)
	p.lossy = nil
	w.run(renewalLife)
	p.b = p.successor(1, p.b.now, p.b.Export()) // the time that is left is in the state
	w.guard(1, p.b)
	if w.run(time.Second); !w.agree() {
		t.Fatal("keys differ after the restart")
	}
	for _, b := range held {
		p.deliver(p.b, b)
	}
	if !w.agree() {
		t.Error("a confirmation of before a restart changes the keys")
	}
}

// A message by the waiting root waits until the peer's key is known, so that the counters of the root before do not
// count for the new one.
func TestSealBeforeTheKeyIsKnown(t *testing.T) {
	p := established(t)
	p.rollBack()
	p.session(p.b).keys.updated = 50
	handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
	p.a.drain()
	p.lossy = lost(ownNID, true, ilnpwire.ProofConfirm)
	p.both(time.Second)
	if p.session(p.b).renewal == nil {
		t.Fatal("no waiting root")
	}
	state := p.b.Export()
	b := newBench(t, func(c *Config) {
		c.NIDs, c.Accept, c.Key = []roam.NID{peerNID}, Known, &p.keys[1]
	})
	b.now = p.b.now
	if err := b.Restore(b.now, state); err != nil {
		t.Fatal(err)
	}
	b.prefix(1, netP, roam.Infinite)
	p.b = b
	a := p.session(p.a)
	lu := updateOf(entry(netA, 10, 60))
	lu.Operation = ilnpwire.Advertisement
	packet, ok := a.keys.build(roam.ILV{NID: ownNID, L64: netA}, roam.ILV{NID: peerNID, L64: netP}, a.localNonce, lu)
	if !ok {
		t.Fatal("no update")
	}
	if b.receive(1, packet); p.session(b).renewal == nil {
		t.Error("it has confirmed the answer before")
	}
	p.know(b, 1)
	b.drain()
	p.lossy = nil
	p.a.prefix(2, netB, roam.Infinite)
	for range 100 {
		p.both(50 * time.Millisecond)
	}
	if a.update.state != acknowledged {
		t.Errorf("update %v, refused %v", a.update.state, b.RejectedInput())
	}
}

// That an answer in a session waits for its confirmation is written at once, so that the state has it.
func TestWaitingRootIsWritten(t *testing.T) {
	p := established(t)
	handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
	p.a.drain()
	p.lossy = lost(ownNID, true, ilnpwire.ProofOffer)
	p.both(100 * time.Millisecond)
	_, offer := p.last(ilnpwire.ProofOffer)
	p.b.HandlePacket(p.b.now, 1, offer)
	n := 0
	for o, ok := p.b.Poll(); ok; o, ok = p.b.Poll() {
		if _, is := o.(Upsert); is {
			n++
		}
	}
	if p.session(p.b).renewal == nil || n != 1 {
		t.Errorf("waits %t, written %d times, want once", p.session(p.b).renewal != nil, n)
	}
}

// Where updates never pass a host insists ever more seldom: as behind a border that does not know it.
func TestInsistsEverMoreSeldom(t *testing.T) {
	for _, proofs := range []bool{false, true} {
		p := established(t)
		w := newAir(p, 1)
		w.talking = true
		w.run(5 * time.Second)
		p.lossy = func(q ilnpwire.Packet) bool {
			return !proofs && q.Proof != nil || q.Src.NID == ownNID && q.Seal != nil
		}
		p.a.prefix(2, netB, roam.Infinite)
		roots, root := 0, ""
		offers := func(d time.Duration) (n int) {
			from := len(p.wire)
			for range d / time.Second {
				w.run(time.Second)
				if now := string(w.session(p.a).agreed.root); now != root {
					roots, root = roots+1, now
				}
			}
			for _, b := range p.wire[from:] {
				q, err := ilnpwire.ParsePacket(b)
				if err == nil && q.Proof != nil && q.Proof.Step == ilnpwire.ProofOffer {
					n++
				}
			}
			return n
		}
		first := offers(3 * time.Minute)
		roots = 0
		offers(7 * time.Minute)
		late := offers(10 * time.Minute)
		if first == 0 || late > 2*proofTries || proofs && roots > 4 {
			t.Errorf("proofs pass %t: %d offers in 3 min, %d from the 10th to the 20th minute, %d new roots",
				proofs, first, late, roots)
		}
	}
}

// Copies of a known offer get a few answers a second, and nothing of them is kept.
func TestCopiesOfAKnownOffer(t *testing.T) {
	p := established(t)
	handshakes{p.a.Core}.insist(p.a.now, p.session(p.a))
	p.a.drain()
	p.both(2 * time.Second)
	_, offer := p.last(ilnpwire.ProofOffer)
	before := p.count(ilnpwire.ProofAnswer)
	for range 10 {
		for range 1000 {
			p.b.receive(1, offer)
		}
		p.both(time.Second)
	}
	if n := p.count(ilnpwire.ProofAnswer) - before; n < 5*answersEach || n > 11*2*answersEach {
		t.Errorf("%d answers to 10,000 copies", n)
	}
	if n := len(p.session(p.b).sent); n > 11*answersEach+20 {
		t.Errorf("%d tokens are kept", n)
	}
	p.both(time.Minute)
	p.b.receive(1, offer)
	if n := len(p.session(p.b).sent); n > 20 {
		t.Errorf("%d tokens are kept a minute later", n)
	}
}
