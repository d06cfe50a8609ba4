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

// TestLateAcknowledgementBringsNoDeadPathBack: the correspondent's daemon gets to a complaint two seconds late.
// Its acknowledgement says nothing of the path that died, along which there were complaints meanwhile.
func TestLateAcknowledgementBringsNoDeadPathBack(t *testing.T) {
	for _, least := range []time.Duration{1600, 1900, 2200} {
		for seed := range uint64(6) {
			p := newForked(t, ilnp.Soft, multipath.Normal, seed, near)
			p.Run(time.Duration(p.Rand().IntN(1000)) * time.Millisecond)
			p.server.busy = func() time.Duration {
				return least*time.Millisecond + time.Duration(p.Rand().IntN(200))*time.Millisecond
			}
			p.cut(2, sim.Both)
			left := false
			for range 800 {
				p.Run(10 * time.Millisecond)
				uses := p.uses(p.mobile, p.server)
				if left && uses {
					t.Errorf("%v ms late, seed %d: data return to the dead path", least.Nanoseconds(), seed)
					break
				}
				left = left || !uses
			}
			if !left {
				t.Errorf("%v ms late, seed %d: data stay on the dead path", least.Nanoseconds(), seed)
			}
		}
	}
}
