package ilnphost

import (
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// talks is a forked world with a connection each way, on which both ends write 400 kB a second.
type talks struct {
	*forked
	up, down *TCP
}

func newTalks(t *testing.T, mode ilnp.Mode, seed uint64) *talks {
	t.Helper()
	p := &talks{forked: newForked(t, mode, multipath.Normal, seed, near)}
	p.up, p.down = p.mobile.Dial(p.server, 1000), p.server.Dial(p.mobile, 1000)
	p.Run(time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
	var write func()
	write = func() {
		p.up.Write(p.mobile, 2000)
		p.down.Write(p.server, 2000)
		p.After(5*time.Millisecond, write)
	}
	write()
	p.Run(time.Second)
	return p
}

// standstill returns the longest time without data of each connection, within a time from now on.
func (p *talks) standstill(within time.Duration) (up, down time.Duration) {
	longest := func(delivered func() int) func() time.Duration {
		had, since, worst := delivered(), p.Elapsed(), time.Duration(0)
		return func() time.Duration {
			if n := delivered(); n != had {
				had, since = n, p.Elapsed()
			}
			worst = max(worst, p.Elapsed()-since)
			return worst
		}
	}
	ofUp := longest(func() int { return p.up.Delivered(p.server) })
	ofDown := longest(func() int { return p.down.Delivered(p.mobile) })
	for end := p.Elapsed() + within; p.Elapsed() < end; up, down = ofUp(), ofDown() {
		p.Run(time.Millisecond)
	}
	return up, down
}

// TestConnectionsAfterASilentDeath: a path dies in one direction or in both, under a connection each
// way. When the dead directions have left it, either connection goes on within 300 ms, also the one
// of which only acknowledgements were lost: its peer sits in a time-out that has doubled, and sees
// no change of paths.
func TestConnectionsAfterASilentDeath(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		var worst [2]time.Duration
		for name, way := range map[string]sim.Direction{"both": sim.Both, "up": sim.Forward, "down": sim.Backward} {
			for seed := range uint64(20) {
				p := newTalks(t, mode, seed)
				left, ends := 0, 1
				if way == sim.Both {
					ends = 2
				}
				p.Told = func(_ *Node, e ilnp.Event) {
					if e.Kind == ilnp.PathAvoided {
						left++
					}
				}
				p.cut(2, way)
				if !p.RunUntil(time.Second, func() bool { return left == ends }) {
					t.Fatalf("%v, %s, seed %d: %d ends have left the path", mode, name, seed, left)
				}
				up, down := p.standstill(time.Second)
				worst = [2]time.Duration{max(worst[0], up), max(worst[1], down)}
				if max(up, down) > 300*time.Millisecond {
					t.Errorf("%v, %s, seed %d: nothing comes for %v up, %v down", mode, name, seed, up, down)
				}
			}
		}
		t.Logf("%v: worst %v up, %v down", mode, worst[0], worst[1])
	}
}
