package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// answerTrains answers probes as links of those rates do, in bytes a second: one that waits for
// what was sent before it is as much later. Round trips are 20 ms.
func (b *bench) answerTrains(rates map[roam.L64]int, d time.Duration) (trains map[roam.L64]int) {
	b.t.Helper()
	type due struct {
		at time.Time
		p  ilnpwire.Packet
	}
	var all []due
	trains = make(map[roam.L64]int)
	free := make(map[roam.L64]time.Time)
	for end := b.now.Add(d); b.now.Before(end); b.pass(ms / 4) {
		for _, s := range b.sent {
			first := b.parse(s)
			if len(s.Behind) > 0 {
				trains[first.Src.L64]++
			}
			for _, raw := range append([][]byte{s.Packet}, s.Behind...) {
				p, from := b.parse(Transmit{Link: s.Link, Packet: raw}), first.Src.L64
				takes := time.Duration(len(raw)) * time.Second / time.Duration(rates[from])
				free[from] = later(free[from], b.now).Add(takes)
				if p.Type == ilnpwire.TypeEchoRequest {
					all = append(all, due{free[from].Add(20 * ms), p})
				}
			}
		}
		b.sent = nil
		for i := 0; i < len(all); i++ {
			if d := all[i]; !d.at.After(b.now) {
				all = slices.Delete(all, i, i+1)
				b.reply(d.p, peerNonce)
				i = -1
			}
		}
	}
	return trains
}

// A second path is measured when it comes into use, and TCP takes it once its rate is known, with
// a share that follows. The next session knows.
func TestPathsAreMeasured(t *testing.T) {
	b := newBench(t, inMode(Duality), func(c *Config) { c.Trains = true })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	if got := b.long(); !slices.Equal(got, []roam.L64{netB}) {
		t.Fatalf("before the new path is measured TCP does not take %v", got)
	}
	trains := b.answerTrains(map[roam.L64]int{netA: 12_500_000, netB: 2_500_000}, 300*ms)
	if trains[netA] != 3 || trains[netB] != 3 {
		t.Errorf("%v trains left, want three on each path", trains)
	}
	e := b.entries[theKey]
	for p, cost := range e.Costs {
		if p.Local.L64 != netB || cost != 5 {
			t.Errorf("%v costs %d", p, cost)
		}
	}
	if len(e.Costs) != 1 || len(e.Long) != 0 {
		t.Errorf("paths cost %v, TCP does not take %v", e.Costs, e.Long)
	}
	b.sent = nil
	b.upsert(b.now, b.sessionOf(theKey), e.Paths)
	if b.drain(); slices.ContainsFunc(b.sent, func(s Transmit) bool { return len(s.Behind) > 0 }) {
		t.Error("a rate that is known is measured again")
	}
}

// A path whose trains stay without an answer is used as if it were as fast as the others.
func TestTrainsInVain(t *testing.T) {
	b := newBench(t, inMode(Duality), func(c *Config) { c.Trains = true })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	trains := 0
	for range 60 {
		for _, s := range b.sent {
			if len(s.Behind) > 0 {
				trains++
			} else if p := b.parse(s); p.Type == ilnpwire.TypeEchoRequest {
				b.reply(p, peerNonce)
			}
		}
		b.sent = nil
		b.active()
		b.pass(time.Second)
	}
	if e := b.entries[theKey]; len(e.Costs)+len(e.Long) > 0 || trains == 0 || trains > 8 {
		t.Errorf("after %d trains without an answer paths cost %v, TCP does not take %v", trains, e.Costs, e.Long)
	}
}
