package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestRenewalIsNoComplaint: duality, and the correspondent sends little. It renews its lifetimes along one path, which
// looks like a complaint. Another one dies both ways. The correspondent is told of that all the same.
func TestRenewalIsNoComplaint(t *testing.T) {
	for seed := range uint64(4) {
		for _, link := range []roam.LinkID{1, 2} {
			p := newForked(t, ilnp.Duality, multipath.Normal, seed, near)
			p.down.Stop()
			p.server.Flow(p.mobile, 100*time.Millisecond, false)
			p.server.Up(1, netT, near, 9*time.Second)
			p.Run(20*time.Second + time.Duration(p.Rand().IntN(5000))*time.Millisecond)
			var told []roam.L64
			p.Told = func(h *Node, e ilnp.Event) {
				if h == p.mobile && e.Kind == ilnp.UpdateSent {
					told = e.Locators
				}
			}
			dead := p.mobile.at(link).l64
			p.cut(link, sim.Both)
			p.Run(15 * time.Second)
			if len(told) != 2 || told[1] != dead {
				t.Errorf("link %d, seed %d: told %v, want %v last", link, seed, told, dead)
			}
		}
	}
}
