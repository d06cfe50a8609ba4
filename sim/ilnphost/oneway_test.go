package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestLivingDirectionStays: one direction of a path has died. The counts of the other end, by which the host sees
// whether the living one does too, are no reason to leave it, however rare its packets are, and on a path that is
// long, loses some or varies. Where the complaint or its acknowledgement is lost, in one of ten deaths
// of a lossy path, it is left for good (docs/design/liveness.md, Limits).
func TestLivingDirectionStays(t *testing.T) {
	for name, access := range map[string]Access{
		"near": near, "long": {Delay: 200 * time.Millisecond}, "lossy": {Delay: 5 * time.Millisecond, Loss: 0.05},
		"uneven": {Delay: 5 * time.Millisecond, Jitter: 100 * time.Millisecond},
	} {
		for _, interval := range []time.Duration{time.Millisecond, 70 * time.Millisecond, 700 * time.Millisecond} {
			p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
			p.mobile.Up(2, netB, access, roam.Infinite)
			p.up.Stop()
			p.down.Stop()
			p.Run(2 * time.Second)
			p.mobile.Stream(p.server, interval, 200)
			f := p.server.Flow(p.mobile, interval, false)
			p.Run(5 * time.Second)
			p.cut(2, sim.Forward)
			p.Run(5 * time.Second)
			avoided := p.server.Count(ilnp.PathAvoided)
			p.Run(30 * time.Second)
			if n := p.server.Count(ilnp.PathAvoided) - avoided; n > 0 {
				t.Errorf("%s, every %v: the living direction was left %d times in half a minute", name, interval, n)
			}
			if (name != "lossy" || avoided == 0) && f.By(p.Elapsed()-10*time.Second, p.Elapsed()-time.Second)[netB] == 0 {
				t.Errorf("%s, every %v: the living direction carries nothing", name, interval)
			}
		}
	}
}
