package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestSilentDeathOfAnUnevenPath: on paths whose round trips vary by some 100 ms, as on a busy host, the
// wait for each answer is long. The only path in use is left within 500 ms as a rule all the same, and
// the direction that lives stays: the acknowledgement of the complaint comes before the decision.
func TestSilentDeathOfAnUnevenPath(t *testing.T) {
	uneven := Access{Delay: 5 * time.Millisecond, Jitter: 50 * time.Millisecond}
	for name, way := range map[string]sim.Direction{"both": sim.Both, "up": sim.Forward, "down": sim.Backward} {
		var gaps []time.Duration
		left := 0
		for seed := range uint64(20) {
			p := newForked(t, ilnp.Soft, multipath.Normal, seed, uneven)
			p.Run(10*time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
			at := p.Elapsed()
			p.cut(2, way)
			p.Run(5 * time.Second)
			for f, d := range map[*Flow]sim.Direction{p.up: sim.Forward, p.down: sim.Backward} {
				gap, lost := f.gapAfter(at, p.Elapsed())
				if d&way != 0 {
					gaps = append(gaps, max(gap, lost))
					continue
				}
				if lost > 0 || d == sim.Backward && f.By(p.Elapsed()-3*time.Second, p.Elapsed()-time.Second)[netB] == 0 {
					left++
				}
			}
		}
		slices.Sort(gaps)
		t.Logf("%s: median %v, worst %v, %d living directions left", name, gaps[len(gaps)/2], gaps[len(gaps)-1], left)
		if gaps[len(gaps)/2] > 500*time.Millisecond || gaps[len(gaps)-1] > 700*time.Millisecond || left > 0 {
			t.Errorf("%s: that is too long, or a living direction left or has losses", name)
		}
	}
}
