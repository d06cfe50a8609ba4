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

// TestPathThatFlapsTenTimesASecond: the path in use, or one of two, loses everything for about 50 ms out of 100. It
// answers about every third probe, so it never falls silent. Data leave it for the other one.
func TestPathThatFlapsTenTimesASecond(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		p := newForked(t, mode, multipath.Normal, 1, near)
		flap := func(n int) {
			for range n {
				p.cut(2, sim.Both)
				p.Run(time.Duration(20+p.Rand().IntN(60)) * time.Millisecond)
				p.mobile.at(2).wire.Mend(sim.Both)
				p.Run(time.Duration(20+p.Rand().IntN(60)) * time.Millisecond)
			}
		}
		flap(300)
		at := p.Elapsed()
		flap(300)
		p.Run(time.Second)
		for name, f := range map[string]*Flow{"up": p.up, "down": p.down} {
			_, lost := f.gapAfter(at, p.Elapsed())
			t.Logf("%v: %v of the second half minute lost in the direction %s", mode, lost, name)
			if lost > 3*time.Second {
				t.Errorf("%v: %v of the second half minute lost in the direction %s, want 3 s", mode, lost, name)
			}
		}
	}
}

// TestPathThatDropsDataAlone: one of two paths answers every probe and drops all data, from
// both ends or from one, as a firewall may that admits ICMPv6. The reports of the receiver show
// it: data leave the path, and try it again ever more rarely. Once it passes data it is used.
// In the soft mode it is the only one in use.
func TestPathThatDropsDataAlone(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Duality, ilnp.Soft} {
		t.Run(mode.String(), func(t *testing.T) { dropDataAlone(t, mode) })
	}
}

func dropDataAlone(t *testing.T, mode ilnp.Mode) {
	most, inUse := 2*time.Second, 2
	if mode == ilnp.Soft {
		most, inUse = 5*time.Second, 1
	}
	for name, drops := range map[string]func(up bool) bool{
		"both": func(bool) bool { return true },
		"up":   func(up bool) bool { return up },
		"down": func(up bool) bool { return !up },
	} {
		p := newForked(t, mode, multipath.Normal, 1, near)
		p.Tap = func(q Packet) *Packet {
			up := q.Src.L64 == netB
			if q.Control == nil && (up || q.Dst.L64 == netB) && drops(up) {
				return nil
			}
			return &q
		}
		at := p.Elapsed()
		p.Run(30 * time.Second)
		for flow, f := range map[string]*Flow{"up": p.up, "down": p.down} {
			_, lost := f.gapAfter(at, p.Elapsed())
			t.Logf("%s: %v of 30 s lost in the direction %s", name, lost, flow)
			switch {
			case drops(flow == "up") && lost > most:
				t.Errorf("%s: %v of 30 s lost in the direction %s, want %v", name, lost, flow, most)
			case !drops(flow == "up") && lost > 0:
				t.Errorf("%s: %v lost in the direction %s, which lives", name, lost, flow)
			}
		}
		p.Tap = nil
		p.Run(time.Minute)
		for _, paths := range [][]ilnp.Path{p.mobile.peer(p.server).Paths, p.server.peer(p.mobile).Paths} {
			isBack := func(q ilnp.Path) bool { return q.Local.L64 == netB || q.Remote == netB }
			if len(paths) != inUse || !slices.ContainsFunc(paths, isBack) {
				t.Errorf("%s: %v, want %d, and this one again", name, paths, inUse)
			}
		}
	}
}

// TestDaemonKilledInMidSuspicion: the daemon of either end ends while it doubts a path that
// has died, or has avoided it, and starts again with the state that it had saved before the
// path died. Data flow over what works within a second.
func TestDaemonKilledInMidSuspicion(t *testing.T) {
	const ms = time.Millisecond
	kills := []time.Duration{0, 100 * ms, 200 * ms, 300 * ms, 2000 * ms}
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for _, after := range kills {
			for _, who := range []string{"mobile", "server"} {
				t.Run(fmt.Sprint(mode, after, who), func(t *testing.T) {
					p := newForked(t, mode, multipath.Normal, 1, near)
					h := p.mobile
					if who == "server" {
						h = p.server
					}
					saved := h.core.Export()
					p.cut(2, sim.Both)
					p.Run(after)
					if err := h.restart(saved); err != nil {
						t.Fatal(err)
					}
					at := p.Elapsed()
					p.Run(5 * time.Second)
					for name, f := range map[string]*Flow{"up": p.up, "down": p.down} {
						_, lost := f.gapAfter(at, p.Elapsed())
						if lost > time.Second {
							t.Errorf("%v lost in the direction %s after the start, want 1 s", lost, name)
						}
					}
				})
			}
		}
	}
}
