package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// restored replaces a host of a proofBench by one with another clock, and a state or none.
func (p *proofBench) restored(i int, at time.Time, state []byte) {
	p.t.Helper()
	nids, nets := [2]roam.NID{ownNID, peerNID}, [2]roam.L64{netA, netP}
	h := newBench(p.t, func(c *Config) { c.NIDs, c.Accept, c.Key = []roam.NID{nids[i]}, Known, &p.keys[i] })
	h.now = at
	if state != nil {
		if err := h.Restore(at, state); err != nil {
			p.t.Fatal(err)
		}
	}
	h.prefix(1, nets[i], roam.Infinite)
	p.know(h, i)
	for _, s := range h.sorted() { // the test is of new sessions
		h.endSession(at, s, "test")
	}
	h.drain()
	h.sent = nil
	if i == 0 {
		p.a = h
	} else {
		p.b = h
	}
}

// TestProofClocks: whatever happens to the clock and the state of either end, or of both, the next session is
// proven, with at most one challenge, later ones without, and nothing that was sent before begins one.
func TestProofClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, clock := range map[string]func(now time.Time) time.Time{
		"as it was":      func(now time.Time) time.Time { return now.Add(time.Minute) },
		"back a year":    func(now time.Time) time.Time { return now.Add(-year) },
		"forward a year": func(now time.Time) time.Time { return now.Add(year) },
		"1970":           func(time.Time) time.Time { return time.Unix(3, 0) },
	} {
		for kind, keep := range map[string]func(early, late []byte) []byte{
			"state kept":        func(_, late []byte) []byte { return late },
			"snapshot restored": func(early, _ []byte) []byte { return early },
			"state lost":        func(_, _ []byte) []byte { return nil },
		} {
			for who, which := range map[string][2]bool{
				"initiator": {true, false}, "responder": {false, true}, "both": {true, true},
			} {
				t.Run(name+", "+kind+", "+who, func(t *testing.T) {
					p := newProofBench(t)
					early := [2][]byte{p.a.Export(), p.b.Export()}
					p.open()
					p.wantProved()
					late := [2][]byte{p.a.Export(), p.b.Export()}
					begin := func(round int) {
						t.Helper()
						before := p.count(ilnpwire.ProofChallenge)
						old := len(p.wire)
						p.open()
						p.wantProved()
						if n := p.count(ilnpwire.ProofChallenge) - before; n > 1 || round > 0 && n > 0 {
							t.Errorf("contact %d: %d challenges", round, n)
						}
						for _, h := range []*bench{p.a, p.b} {
							h.endSession(h.now, p.session(h), "test")
							h.drain()
							h.sent = nil
						}
						for _, b := range p.wire[:old] { // to whom it was for, in order
							q, err := ilnpwire.ParsePacket(b)
							if err != nil {
								t.Fatal(err)
							}
							p.deliver(map[bool]*bench{true: p.b, false: p.a}[q.Dst.NID == peerNID], b)
						}
						for _, h := range []*bench{p.a, p.b} {
							if len(h.sessions) > 0 {
								t.Errorf("contact %d: copies begin %d sessions", round, len(h.sessions))
							}
							h.pass(20 * time.Second) // longer than what they began would live
							h.sent = nil
						}
					}
					for i, h := range []*bench{p.a, p.b} {
						if which[i] {
							p.restored(i, clock(h.now), keep(early[i], late[i]))
						} else {
							h.endSession(h.now, p.session(h), "test")
							h.drain()
							h.sent = nil
						}
					}
					for round := range 3 {
						begin(round)
					}
				})
			}
		}
	}
}
