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

// uses reports whether a node sends to another one by the mobile host's second link.
func (p *forked) uses(from, to *Node) bool {
	return slices.ContainsFunc(from.peer(to).Paths, func(q ilnp.Path) bool {
		return q.Local.L64 == netB || q.Remote == netB
	})
}

// TestLivingDirectionStaysBehindABusyDaemon: a path dies in one direction, and the daemon of the host that
// could say so gets to each control packet late, so that the acknowledgement of a complaint may come
// when the path is avoided already. The direction that lives loses nothing, and is on its path but for
// that time; once an acknowledgement has come it stays there. The other direction has left the path.
func TestLivingDirectionStaysBehindABusyDaemon(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for name, way := range map[string]sim.Direction{"up": sim.Forward, "down": sim.Backward} {
			t.Run(fmt.Sprint(mode, " ", name), func(t *testing.T) {
				for seed := range uint64(20) {
					p := newForked(t, mode, multipath.Normal, seed, near)
					p.Run(time.Duration(p.Rand().IntN(1000)) * time.Millisecond)
					living, dying, flow := p.server, p.mobile, p.down
					if way == sim.Backward {
						living, dying, flow = p.mobile, p.server, p.up
					}
					dying.busy = func() time.Duration { return time.Duration(100+p.Rand().IntN(300)) * time.Millisecond }
					at := p.Elapsed()
					p.cut(2, way)
					var away, late time.Duration
					for range 600 {
						p.Run(10 * time.Millisecond)
						if p.uses(living, dying) {
							continue
						}
						if away += 10 * time.Millisecond; p.Elapsed() > at+1500*time.Millisecond {
							late += 10 * time.Millisecond
						}
					}
					if p.uses(dying, living) {
						t.Errorf("seed %d: the dead direction is in use", seed)
					}
					if _, lost := flow.gapAfter(at, p.Elapsed()); lost > 0 || away > 500*time.Millisecond || late > 0 {
						t.Errorf("seed %d: the living direction lost %v, was off its path for %v, %v of it late",
							seed, lost, away, late)
					}
				}
			})
		}
	}
}
