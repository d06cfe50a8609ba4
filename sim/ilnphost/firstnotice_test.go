package ilnphost

import (
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestSilentDeathThatOneEndNoticesFirst: one end sends rarely, so the other one misses its packets later than it
// misses those of the other. That one probes its other link, and moves there: what comes from there keeps the first
// end from being silent, whose data go where nothing arrives.
func TestSilentDeathThatOneEndNoticesFirst(t *testing.T) {
	const limit = 700 * time.Millisecond
	close := Access{Delay: 50 * time.Microsecond}
	for name, every := range map[string][2]time.Duration{
		"the mobile host sends rarely": {100 * time.Millisecond, time.Millisecond},
		"the server sends rarely":      {time.Millisecond, 100 * time.Millisecond},
	} {
		var worst time.Duration
		for seed := range uint64(20) {
			p := newForked(t, ilnp.Soft, multipath.Normal, seed, close)
			p.up.Stop()
			p.down.Stop()
			up, down := p.mobile.Flow(p.server, every[0], false), p.server.Flow(p.mobile, every[1], false)
			p.Run(2*time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
			at := p.Elapsed()
			p.cut(2, sim.Both)
			p.Run(10 * time.Second)
			for _, f := range []*Flow{up, down} {
				gap, _ := f.gapAfter(at, p.Elapsed())
				worst = max(worst, gap)
			}
		}
		t.Logf("%s: worst %v", name, worst)
		if worst > limit {
			t.Errorf("%s: a gap of %v, want %v", name, worst, limit)
		}
	}
}
