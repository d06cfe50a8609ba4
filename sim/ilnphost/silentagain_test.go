package ilnphost

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestSilentDeathAgain cuts the only path in use for two seconds again and again, as it is in use again after each.
// What was counted along it before it died and came back does not delay the next decision.
func TestSilentDeathAgain(t *testing.T) {
	ways := []sim.Direction{sim.Both, sim.Forward, sim.Backward}
	limits := map[multipath.Level][2]time.Duration{
		multipath.Normal: {300 * time.Millisecond, 330 * time.Millisecond},
		multipath.Fast:   {115 * time.Millisecond, 130 * time.Millisecond},
	}
	for level, limit := range limits {
		t.Run(fmt.Sprintf("level %d", level), func(t *testing.T) {
			var worst []time.Duration
			for seed := range uint64(3) {
				p := newForked(t, ilnp.Soft, level, seed, near)
				for n := range 4 * len(ways) {
					p.Run(time.Duration(4000+p.Rand().IntN(200)) * time.Millisecond)
					at, way := p.Elapsed(), ways[n%len(ways)]
					p.cut(2, way)
					p.Run(2 * time.Second)
					p.mobile.at(2).wire.Mend(sim.Both)
					gap := time.Duration(0)
					flows := map[sim.Direction]*Flow{sim.Forward: p.up, sim.Backward: p.down}
					for d, f := range flows {
						if way&d != 0 {
							g, lost := f.gapAfter(at, p.Elapsed())
							gap = max(gap, g, lost)
						}
					}
					if gap < 20*time.Millisecond {
						t.Errorf("seed %d: cut %d hit no path in use", seed, n)
					}
					worst = append(worst, gap)
				}
			}
			slices.Sort(worst)
			median, last := worst[len(worst)/2], worst[len(worst)-1]
			t.Logf("gaps or losses: median %v, worst %v", median, last)
			if median > limit[0] || last > limit[1] {
				t.Errorf("median %v, worst %v; want %v and %v", median, last, limit[0], limit[1])
			}
		})
	}
}
