package ilnphost

import (
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestPathThatDropsDataBesideARule: soft, a host sends a flow by another link, by a rule, and the path that all other
// packets take answers every probe and drops all data, as in TestPathThatDropsDataAlone. Data leave it as soon as
// without the rule.
func TestPathThatDropsDataBesideARule(t *testing.T) {
	dropDataAlone(t, ilnp.Soft, func(p *forked) {
		p.mobile.setRule(1, ruledPort, netA)
		p.Run(2 * time.Second)
	})
}

// TestPathOfARuleThatDropsData: a flow with a rule, and its answers, leave the rule's first link for its second one
// when the path there answers every probe and drops all data, whether other packets of the session leave by the second
// one or none do, and whether the rule's path is one of those in use or in reserve.
func TestPathOfARuleThatDropsData(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Duality, ilnp.Soft} {
		for name, alone := range map[string]bool{"alone": true, "beside another flow": false} {
			t.Run(mode.String()+" "+name, func(t *testing.T) {
				p := newForked(t, mode, multipath.Normal, 1, near)
				p.up.Stop()
				p.down.Stop()
				flow := &Flow{From: p.mobile, To: p.server, Echo: true, Port: ruledPort}
				p.mobile.run(flow, time.Millisecond)
				if !alone {
					other := &Flow{From: p.mobile, To: p.server, Port: ruledPort + 1}
					p.mobile.run(other, time.Millisecond)
				}
				p.mobile.setRule(1, ruledPort, netA, netB)
				p.Run(20 * time.Second) // what other flows sent here is forgotten
				p.Tap = func(q Packet) *Packet {
					if q.Control == nil && (q.Src.L64 == netA || q.Dst.L64 == netA) {
						return nil
					}
					return &q
				}
				at := p.Elapsed()
				p.Run(30 * time.Second)
				_, lost := flow.gapAfter(at, p.Elapsed())
				t.Logf("%v of 30 s lost", lost)
				if most := 5 * time.Second; lost > most {
					t.Errorf("%v of 30 s lost, want %v", lost, most)
				}
			})
		}
	}
}

// TestNoFalseAlarmOfAFullQueueBesideARule: soft, a host has a rule for a flow by another link, and the path that all
// other packets take, or all links, are full of datagrams as short as a probe, as in
// TestNoFalseAlarmOfFullQueuesOfPackets. No path is avoided or left in two minutes.
func TestNoFalseAlarmOfAFullQueueBesideARule(t *testing.T) {
	const rate, size, each = 500, 60, 108
	for _, pct := range []int{80, 90, 98} {
		for name, both := range map[string]bool{"one": false, "both": true} {
			p := newForked(t, ilnp.Soft, multipath.Normal, 1, near)
			p.up.Stop()
			p.down.Stop()
			p.mobile.setRule(1, ruledPort, netA)
			p.Run(2 * time.Second)
			full := sim.Params{Rate: rate * each * pct / 100, Queue: 100 * each}
			full.Delay = 5 * time.Millisecond
			p.mobile.at(2).wire.Set(sim.Both, full)
			p.mobile.Stream(p.server, time.Second/rate, size)
			p.server.Stream(p.mobile, time.Second/rate, size)
			if both {
				p.mobile.at(1).wire.Set(sim.Both, full)
				ruled := &Flow{From: p.mobile, To: p.server, Echo: true, Size: size, Port: ruledPort}
				p.mobile.run(ruled, time.Second/rate)
			}
			p.Brief = true
			n := 0
			p.Told = func(h *Node, e ilnp.Event) {
				if e.Kind == ilnp.PathAvoided || e.Kind == ilnp.PeerDead {
					n++
				}
			}
			if p.Run(2 * time.Minute); n > 0 {
				t.Errorf("%d %%, %s: %d false moves", pct, name, n)
			}
		}
	}
}
