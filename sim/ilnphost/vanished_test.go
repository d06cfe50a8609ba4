package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestDoubtEndsWithItsLink: a link dies without notice, and is gone for the host while the path is in doubt: by its
// carrier, or as the user disables it. Neither end avoids a path that is no more, nor probes it.
func TestDoubtEndsWithItsLink(t *testing.T) {
	ways := map[string]func(h *Node, link roam.LinkID){
		"down":     (*Node).Down,
		"disabled": func(h *Node, link roam.LinkID) { h.Disable(link, true) },
	}
	for name, end := range ways {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
			for seed := range uint64(6) {
				p := newForked(t, mode, multipath.Normal, seed, near)
				p.mobile.Up(3, netC, near, roam.Infinite)
				p.Run(3 * time.Second)
				p.cut(3, sim.Both)
				p.Run(150*time.Millisecond + time.Duration(p.Rand().IntN(100))*time.Millisecond)
				avoided, probes := p.mobile.Count(ilnp.PathAvoided)+p.server.Count(ilnp.PathAvoided), 0
				end(p.mobile, 3)
				p.Run(20 * time.Millisecond)
				p.Seen = func(_ *Node, _ roam.LinkID, leaves bool, k Packet) {
					if leaves && kindOf(k) == "probe" && (k.Src.L64 == netC || k.Dst.L64 == netC) {
						probes++
					}
				}
				p.Run(10 * time.Second)
				avoided = p.mobile.Count(ilnp.PathAvoided) + p.server.Count(ilnp.PathAvoided) - avoided
				if avoided > 0 || probes > 0 {
					t.Errorf("%s, %v, seed %d: %d paths avoided, %d probes afterwards", name, mode, seed, avoided, probes)
				}
			}
		}
	}
}
