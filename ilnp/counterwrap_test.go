package ilnp

import (
	"math"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestCounterWraps: the last counter of a session counts. The messages behind it are refused as old, so their host
// insists on a proof, by whose keys counters begin anew, and the session goes on.
func TestCounterWraps(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(p *proofBench) (of, at *bench)
		of, and roam.L64 // where that end moves
	}{
		"a's": {func(p *proofBench) (of, at *bench) { return p.a, p.b }, netA, netB},
		"b's": {func(p *proofBench) (of, at *bench) { return p.b, p.a }, netP, netQ},
	} {
		p := established(t)
		a, b, keys := p.session(p.a), p.session(p.b), p.keysNow()
		of, at := c.end(p)
		p.session(of).keys.sent = math.MaxUint64 - 1
		of.prefix(2, c.and, roam.Infinite)
		p.exchange()
		if got := p.session(at).keys.updated; got != math.MaxUint64 || p.keysNow() != keys {
			t.Errorf("%s counter wraps: the last update that counts has %d", name, got)
		}
		of.withdraw(2, c.and)
		p.exchange()
		if at.RejectedInput()[reasonReplayed] == 0 || p.session(of).keys.sent > 10 {
			t.Errorf("%s counter wraps: it is %d; refused %v", name, p.session(of).keys.sent, at.RejectedInput())
		}
		p.answering(time.Minute)
		if !p.has(a, b) || p.keysNow() == keys || p.session(at).keys.updated == math.MaxUint64 {
			t.Errorf("%s counter wraps: a session has ended, or has the keys of before", name)
			continue
		}
		p.wantProved()
		p.wantUpdates(name+" counter has wrapped", 10*time.Second)
	}
}

// TestOfferCounterWraps: behind the last counter of offers those of the clock follow. Each is challenged, as it is not
// above the last one, and counts then. The state reserves none that has wrapped.
func TestOfferCounterWraps(t *testing.T) {
	p := newProofBench(t)
	p.a.prover.counter = math.MaxUint64 - 2
	contact := func(challenges int) {
		t.Helper()
		before := p.count(ilnpwire.ProofChallenge)
		p.a.now, p.b.now = p.a.now.Add(time.Second), p.b.now.Add(time.Second)
		p.open()
		p.wantProved()
		if n := p.count(ilnpwire.ProofChallenge) - before; n != challenges {
			t.Errorf("counter %d: %d challenges, want %d", p.a.prover.counter, n, challenges)
		}
		for _, h := range []*bench{p.a, p.b} {
			h.endSession(h.now, p.session(h), "test")
			h.drain()
		}
	}
	contact(1) // MaxUint64 - 1, which b cannot judge, and MaxUint64
	if last := p.b.known[ownNID].offers.last; last != math.MaxUint64 {
		t.Fatalf("the last counter is %d: this shows nothing", last)
	}
	for range 3 {
		contact(1)
		if got, clock := p.a.prover.counter, uint64(p.a.now.UnixNano()); got < clock || got > clock+10 {
			t.Errorf("behind the last one comes %d, and the clock is %d", got, clock)
		}
	}
	p.a.prover.counter = math.MaxUint64
	n := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
	if err := n.Restore(p.a.now, p.a.Export()); err != nil {
		t.Fatal(err)
	}
	if got, clock := n.prover.nextCounter(p.a.now), uint64(p.a.now.UnixNano()); got != clock {
		t.Errorf("a successor goes on with %d, and the clock is %d", got, clock)
	}
}
