package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestControlOnAnUnevenPath: 50 datagrams a second go one way, so each pause of the answers is a silence, and round
// trips of the only path in use vary by 100 ms. Both ends send at most 32 control packets a second on all paths.
func TestControlOnAnUnevenPath(t *testing.T) {
	const span = 60 * time.Second
	n := 0
	for seed := range uint64(4) {
		p := newForked(t, ilnp.Soft, multipath.Normal, seed, near)
		p.up.Stop()
		p.down.Stop()
		p.Run(time.Second)
		uneven := sim.Params{Delay: 5 * time.Millisecond, Jitter: 100 * time.Millisecond}
		p.mobile.at(roam.LinkID(2)).wire.Set(sim.Both, uneven)
		p.mobile.run(&Flow{From: p.mobile, To: p.server, Size: 400, Brief: true}, 20*time.Millisecond)
		p.Run(10 * time.Second)
		p.Tap = func(q Packet) *Packet {
			if q.Control != nil {
				n++
			}
			return &q
		}
		p.Run(span)
	}
	each := float64(n) / (4 * span.Seconds())
	t.Logf("%.1f control packets a second", each)
	if each > 32 {
		t.Errorf("%.1f control packets a second are too many", each)
	}
}
