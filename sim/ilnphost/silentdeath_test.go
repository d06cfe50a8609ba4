package ilnphost

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// forked is a mobile host with two access links, and a server, both with Roam, that send
// each other 1,000 datagrams a second.
type forked struct {
	*world
	up, down *Flow
}

func newForked(
	t *testing.T, mode ilnp.Mode, level multipath.Level, seed uint64, access Access, before ...func(*world),
) *forked {
	t.Helper()
	n := New(seed)
	n.Acquainted = true
	cfg := func(nid roam.NID) ilnp.Config {
		return ilnp.Config{
			NIDs: []roam.NID{nid}, Mode: mode, Silence: level.Timing().Silence,
			Liveness: func(string) multipath.Level { return level },
		}
	}
	w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
	return fork(t, w, access, before...)
}

// fork gives the hosts of a world their links and flows; before: what comes ahead of the flows.
func fork(t *testing.T, w *world, access Access, before ...func(*world)) *forked {
	t.Helper()
	w.mobile.Up(1, netA, access, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile)
	for _, f := range before {
		f(w)
	}
	p := &forked{world: w, up: w.start(t, false)}
	p.down = w.server.Flow(w.mobile, time.Millisecond, false)
	w.mobile.Up(2, netB, access, roam.Infinite)
	w.Run(5 * time.Second)
	return p
}

// cut cuts a link of the mobile host in one direction or both, seen from the host. Neither end
// is told.
func (p *forked) cut(link roam.LinkID, d sim.Direction) { p.mobile.at(link).wire.Cut(d) }

// gapAfter returns the longest time without an arrival, and the datagrams lost as the time
// that they stand for, of what was sent after a moment.
func (f *Flow) gapAfter(from, to time.Duration) (gap, lost time.Duration) {
	var times []time.Duration
	n := 0
	for _, a := range f.arrivals {
		if at := a.at.Sub(sim.Start); !a.at.IsZero() && at >= from-time.Second && at <= to {
			times = append(times, at)
		}
		if sent := a.sent.Sub(sim.Start); sent >= from && sent < to-time.Second && a.at.IsZero() {
			n++
		}
	}
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		gap = max(gap, times[i]-times[i-1])
	}
	if len(times) > 0 {
		gap = max(gap, to-times[len(times)-1])
	}
	return gap, time.Duration(n) * time.Millisecond
}

// TestSilentDeath cuts the path in use, or one of two, in both directions or in one. Neither
// direction may stand still for longer than the level says, and the one that lives loses
// nothing.
func TestSilentDeath(t *testing.T) {
	limits := map[multipath.Level][2]time.Duration{
		multipath.Normal: {500 * time.Millisecond, 700 * time.Millisecond},
		multipath.Fast:   {150 * time.Millisecond, 250 * time.Millisecond},
	}
	for level, limit := range limits {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
			for name, way := range map[string]sim.Direction{"both": sim.Both, "up": sim.Forward, "down": sim.Backward} {
				t.Run(fmt.Sprintf("level %d %v %s", level, mode, name), func(t *testing.T) {
					judgeSilentDeath(t, mode, level, way, limit)
				})
			}
		}
	}
}

func judgeSilentDeath(t *testing.T, mode ilnp.Mode, level multipath.Level, way sim.Direction, limit [2]time.Duration) {
	var worst []time.Duration
	for seed := range uint64(10) {
		p := newForked(t, mode, level, seed, near)
		p.Run(time.Duration(p.Rand().IntN(1000)) * time.Millisecond)
		link := roam.LinkID(2)
		if mode == ilnp.Duality {
			link = roam.LinkID(1 + seed%2)
		}
		at := p.Elapsed()
		p.cut(link, way)
		p.Run(10 * time.Second)
		gaps := []time.Duration{}
		for _, d := range []struct {
			f    *Flow
			way  sim.Direction
			name string
		}{{p.up, sim.Forward, "up"}, {p.down, sim.Backward, "down"}} {
			gap, lost := d.f.gapAfter(at, p.Elapsed())
			gaps = append(gaps, gap, lost)
			if d.way&way == 0 && lost > 0 {
				t.Errorf("seed %d: %v of the direction %s lost, which lives", seed, lost, d.name)
			}
			if d.way&way == 0 {
				last := d.f.By(p.Elapsed()-3*time.Second, p.Elapsed()-time.Second)
				dead := p.mobile.at(link).l64
				if d.name == "down" && last[dead] == 0 {
					t.Errorf("seed %d: the direction %s has left its path, which works: %v", seed, d.name, last)
				}
			}
		}
		worst = append(worst, slices.Max(gaps))
	}
	slices.Sort(worst)
	t.Logf("gaps or losses: median %v, worst %v", worst[len(worst)/2], worst[len(worst)-1])
	if worst[len(worst)/2] > limit[0] || worst[len(worst)-1] > limit[1] {
		t.Errorf("median %v, worst %v; want %v and %v", worst[len(worst)/2], worst[len(worst)-1], limit[0], limit[1])
	}
}

// TestSilentDeathOfAFirstPath: both links are there from the start, so nothing but the session's
// set-up has shown either end that the other one runs Roam. A path that dies 4 s later is left
// as soon as any.
func TestSilentDeathOfAFirstPath(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		n := New(1)
		n.Acquainted = true
		cfg := func(nid roam.NID) ilnp.Config {
			return ilnp.Config{
				NIDs: []roam.NID{nid}, Mode: mode, Silence: multipath.Normal.Timing().Silence,
				Liveness: func(string) multipath.Level { return multipath.Normal },
			}
		}
		w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
		p := &forked{world: w}
		p.mobile.Up(1, netA, near, roam.Infinite)
		p.mobile.Up(2, netB, near, roam.Infinite)
		p.server.Up(1, netS, near, roam.Infinite)
		p.mobile.Know(p.server, netS)
		p.server.Know(p.mobile)
		p.up = p.start(t, false)
		p.down = p.server.Flow(p.mobile, time.Millisecond, false)
		p.Run(4 * time.Second)
		at := p.Elapsed()
		p.cut(2, sim.Both)
		p.Run(5 * time.Second)
		for name, f := range map[string]*Flow{"up": p.up, "down": p.down} {
			if gap, lost := f.gapAfter(at, p.Elapsed()); max(gap, lost) > 500*time.Millisecond {
				t.Errorf("%v: a gap of %v, %v lost in the direction %s", mode, gap, lost, name)
			}
		}
	}
}

// TestSilentDeathOfTheOtherDirection: one direction of a path dies, as where a router takes nothing from a
// host, and the other one some seconds later, as that router no longer finds the host's hardware
// address. In soft that is noticed as soon as any death. In duality the other path still brings packets, and the
// correspondent's counts, which show it.
func TestSilentDeathOfTheOtherDirection(t *testing.T) {
	const limit = 700 * time.Millisecond
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for name, way := range map[string]sim.Direction{"up": sim.Forward, "down": sim.Backward} {
			for _, later := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
				var worst time.Duration
				for seed := range uint64(4) {
					p := newForked(t, mode, multipath.Normal, seed, near)
					p.Run(time.Duration(p.Rand().IntN(1000)) * time.Millisecond)
					p.cut(2, way)
					p.Run(later)
					at := p.Elapsed()
					p.cut(2, sim.Both)
					p.Run(10 * time.Second)
					for _, f := range []*Flow{p.up, p.down} {
						gap, lost := f.gapAfter(at, p.Elapsed())
						worst = max(worst, gap, lost)
					}
				}
				t.Logf("%v, first %s, the other one %v later: worst %v", mode, name, later, worst)
				if worst > limit {
					t.Errorf("%v, first %s, the other one %v later: worst %v, want %v", mode, name, later, worst, limit)
				}
			}
		}
	}
}
