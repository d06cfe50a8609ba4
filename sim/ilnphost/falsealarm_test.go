package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestNoFalseAlarm runs traffic for ten minutes over paths that are full, lose packets, delay
// them unevenly or hold them in queues of two seconds. No path may be avoided or left. At the
// level fast, a path that becomes so from one moment to the next may be avoided once: the
// minutes count from five seconds later. Few and large datagrams fill the paths as many small ones would, and leave
// more silence between them.
func TestNoFalseAlarm(t *testing.T) {
	const (
		rate, size = 200, 5000 // datagrams a second each way, and their bytes
		each       = size + 48 // on the wire
	)
	params := map[string]func(perPath int) sim.Params{
		"full": func(n int) sim.Params {
			return sim.Params{Delay: 5 * time.Millisecond, Rate: n * each, Queue: 20 * each}
		},
		"loss":   func(int) sim.Params { return sim.Params{Delay: 5 * time.Millisecond, Loss: 0.05} },
		"jitter": func(int) sim.Params { return sim.Params{Delay: 5 * time.Millisecond, Jitter: 300 * time.Millisecond} },
		"queue": func(n int) sim.Params {
			return sim.Params{Delay: 5 * time.Millisecond, Rate: n * each * 9 / 10, Queue: n * each * 9 / 5}
		},
	}
	modes := map[string]ilnp.Mode{"soft": ilnp.Soft, "soft, with a rule": ilnp.Soft, "duality": ilnp.Duality}
	for name, of := range params {
		for kind, mode := range modes {
			for _, level := range []multipath.Level{multipath.Normal, multipath.Fast} {
				t.Run(name+" "+kind+" "+[]string{"normal", "fast"}[level], func(t *testing.T) {
					p := newForked(t, mode, level, 1, near)
					p.up.Stop()
					p.down.Stop()
					if kind == "soft, with a rule" { // both ends probe its path besides
						p.mobile.setRule(1, ruledPort, netA)
					}
					p.Run(time.Second)
					n := rate
					if mode == ilnp.Duality {
						n /= 2
					}
					for link := range roam.LinkID(2) {
						p.mobile.at(link+1).wire.Set(sim.Both, of(n))
					}
					up, down := p.mobile.Stream(p.server, time.Second/rate, size), p.server.Stream(p.mobile, time.Second/rate, size)
					if level == multipath.Fast {
						p.Run(5 * time.Second)
					}
					p.Brief = true
					moves := 0
					p.Told = func(h *Node, e ilnp.Event) {
						if e.Kind == ilnp.PathAvoided || e.Kind == ilnp.PeerDead || e.Kind == ilnp.UpdateSent {
							moves++
							t.Logf("%v %s: %v %v", p.Elapsed(), h.name, e.Kind, e.Path)
						}
					}
					p.Run(10 * time.Minute)
					if moves > 0 || up.Sent < rate*500 || down.Came.IsZero() {
						t.Errorf("%d false moves in ten minutes with %d datagrams", moves, up.Sent)
					}
				})
			}
		}
	}
}

// TestNoFalseAlarmOfFullQueuesOfPackets: paths are full of datagrams as short as a probe, so that their queues swallow
// probes as they do data, or more of them. No path may be avoided or left in five minutes, also the only one in use.
func TestNoFalseAlarmOfFullQueuesOfPackets(t *testing.T) {
	const rate, size, each = 500, 60, 108 // datagrams a second each way, their bytes, and those on the wire
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for _, pct := range []int{80, 90, 95, 98, 99} { // of what is sent has a place
			p := newForked(t, mode, multipath.Normal, 1, near)
			p.up.Stop()
			p.down.Stop()
			p.Run(time.Second)
			full := sim.Params{Delay: 5 * time.Millisecond, Rate: rate * each * pct / 100, Queue: 100 * each}
			if mode == ilnp.Duality {
				full.Rate /= 2
			}
			for link := range roam.LinkID(2) {
				p.mobile.at(link+1).wire.Set(sim.Both, full)
			}
			p.mobile.Stream(p.server, time.Second/rate, size)
			p.server.Stream(p.mobile, time.Second/rate, size)
			p.Brief = true
			p.Told = func(h *Node, e ilnp.Event) {
				if e.Kind == ilnp.PathAvoided || e.Kind == ilnp.PeerDead || e.Kind == ilnp.UpdateSent {
					t.Errorf("%v, %d %%: %v %s: %v %v", mode, pct, p.Elapsed(), h.name, e.Kind, e.Path)
				}
			}
			p.Run(5 * time.Minute)
		}
	}
}

// TestNoFalseAlarmWhenPathsBecomeUneven: both paths begin to vary by 300 ms at once, one of them that of a rule, or
// both of all packets. The answers of one of them are late then, too, and what the other one has not answered or
// delivered yet is no reason to leave it.
func TestNoFalseAlarmWhenPathsBecomeUneven(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for _, interval := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond} {
			for seed := range uint64(24) {
				p := newForked(t, mode, multipath.Normal, seed, near)
				p.up.Stop()
				p.down.Stop()
				if mode == ilnp.Soft {
					p.mobile.setRule(1, ruledPort, netA)
				}
				p.Run(time.Second)
				for link := range roam.LinkID(2) {
					p.mobile.at(link+1).wire.Set(sim.Both, sim.Params{Delay: 5 * time.Millisecond, Jitter: 300 * time.Millisecond})
				}
				p.mobile.Stream(p.server, interval, 1000)
				p.server.Stream(p.mobile, interval, 1000)
				p.Run(3 * time.Second)
				if n := p.mobile.Count(ilnp.PathAvoided) + p.server.Count(ilnp.PathAvoided); n > 0 {
					t.Errorf("%v, every %v, seed %d: a path was avoided %d times", mode, interval, seed, n)
				}
			}
		}
	}
}
