package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// A path that becomes longer, or whose delay is uneven, has no queue: two equal paths keep their halves of some
// datagrams, far from what they carry.
func TestDelaysChangeNoShares(t *testing.T) {
	const rtt, more = 20 * time.Millisecond, 20 * time.Millisecond
	for name, change := range map[string]func(*Access){
		"longer": func(a *Access) { a.Delay += more },
		"uneven": func(a *Access) { a.Jitter = 2 * more },
	} {
		w := bulkWorld(t, true, wire{50, rtt}, wire{50, rtt})
		w.mobile.Flow(w.server, 5*time.Millisecond, false)
		w.Run(10 * time.Second)
		at := w.mobile.at(roam.LinkID(2))
		change(&at.access)
		at.set(at.access)
		for range 1300 {
			w.Run(100 * time.Millisecond)
			for _, p := range w.mobile.Core().Peers(w.Now()) {
				for path, share := range p.Shares {
					if share < 0.45 && share > 0 {
						t.Fatalf("%s: after %v link %d has %.2f", name, w.Elapsed(), path.Local.Link, share)
					}
				}
			}
		}
	}
}

// The living direction of a path stays in use while another path dies beside it, whose complaints are repeated.
func TestLivingDirectionStaysBesideADeadPath(t *testing.T) {
	for _, both := range []bool{true, false} {
		for seed := range uint64(4) {
			p := newForked(t, ilnp.Duality, multipath.Normal, 1+seed, near)
			p.mobile.Up(3, netC, near, roam.Infinite)
			p.Run(5 * time.Second)
			p.cut(2, sim.Forward)
			p.Run(8 * time.Second)
			p.cut(3, sim.Forward)
			if both {
				p.cut(3, sim.Backward)
			}
			p.Run(30 * time.Second)
			if p.down.By(p.Elapsed()-10*time.Second, p.Elapsed()-time.Second)[netB] == 0 {
				t.Errorf("both directions of the other path %t, seed %d: the living direction is left", both, seed)
			}
		}
	}
}
