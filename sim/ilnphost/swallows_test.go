package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestDroppedDataAreForgotten: the path in use drops data and answers probes. While data keep off it every path dies,
// which ends what is known of each, and later all work again, and pass data. When one direction of that path dies
// then, the other one stays there as on any path: the acknowledgement that says that it lives comes when the path is
// avoided already.
func TestDroppedDataAreForgotten(t *testing.T) {
	for seed := range uint64(4) {
		p := newForked(t, ilnp.Soft, multipath.Normal, seed, near)
		p.Tap = func(q Packet) *Packet {
			if q.Control == nil && (q.Src.L64 == netB || q.Dst.L64 == netB) {
				return nil
			}
			return &q
		}
		if !p.RunUntil(5*time.Second, func() bool { return !p.uses(p.mobile, p.server) && !p.uses(p.server, p.mobile) }) {
			t.Fatalf("seed %d: the path that drops data stays in use", seed)
		}
		for link := range roam.LinkID(2) {
			p.cut(link+1, sim.Both)
		}
		p.Tap = nil
		p.Run(5 * time.Second)
		for link := range roam.LinkID(2) {
			p.mobile.at(link + 1).wire.Mend(sim.Both)
		}
		p.Run(30*time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
		for _, h := range []*Node{p.mobile, p.server} {
			if o := p.other(h); !p.uses(h, o) || len(h.peer(o).Paths) != 1 {
				t.Fatalf("seed %d: %s uses %v, want its preferred path", seed, h.name, h.peer(o).Paths)
			}
		}
		p.server.busy = func() time.Duration { return 600 * time.Millisecond }
		p.cut(2, sim.Backward)
		var away time.Duration
		for range 300 {
			if p.Run(10 * time.Millisecond); !p.uses(p.mobile, p.server) {
				away += 10 * time.Millisecond
			}
		}
		if away > time.Second {
			t.Errorf("seed %d: the direction that lives was off its path for %v of 3 s", seed, away)
		}
	}
}

// other returns the other end.
func (p *forked) other(h *Node) *Node {
	if h == p.mobile {
		return p.server
	}
	return p.mobile
}
