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
		t.Run(mode.String(), func(t *testing.T) { dropDataAlone(t, mode, func(*forked) {}) })
	}
}

// dropDataAlone judges what is lost on a path that drops data, of hosts as begin leaves them.
func dropDataAlone(t *testing.T, mode ilnp.Mode, begin func(*forked)) {
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
		begin(p)
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

// TestDaemonKilledInMidSuspicion: the daemon of either end ends while it doubts a path that has died, or has avoided
// it, and starts again at once or some seconds later, with the state that it had saved before the path died or at its
// end. Data flow over what works within a second of its start. Meanwhile the other end leaves the path, and all that it
// sends arrives. The programs of the host without a daemon go on with what they know: of two paths in use half arrives.
func TestDaemonKilledInMidSuspicion(t *testing.T) {
	const ms = time.Millisecond
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for _, after := range []time.Duration{0, 100 * ms, 200 * ms, 300 * ms, 2000 * ms} {
			for _, who := range []string{"mobile", "server"} {
				t.Run(fmt.Sprint(mode, after, who), func(t *testing.T) {
					killed{mode: mode, after: after, who: who, before: true}.judge(t)
					if after >= 200*ms {
						killed{mode: mode, after: after, who: who}.judge(t)
						killed{mode: mode, after: after, who: who, away: 3 * time.Second}.judge(t)
					}
				})
			}
		}
	}
}

// killed is the end of a daemon some time after a path has died.
type killed struct {
	mode   ilnp.Mode
	after  time.Duration
	who    string
	before bool          // its state is from before the path died
	away   time.Duration // until it starts again
}

func (k killed) judge(t *testing.T) {
	p := newForked(t, k.mode, multipath.Normal, 1, near)
	h, own, other := p.mobile, p.up, p.down
	if k.who == "server" {
		h, own, other = p.server, p.down, p.up
	}
	saved := h.core.Export()
	p.cut(2, sim.Both)
	p.Run(k.after)
	if !k.before {
		saved = h.core.Export()
	}
	h.kill()
	gone := p.Elapsed()
	p.Run(k.away)
	if k.away > 0 {
		k.judgeAway(t, gone+time.Second, p.Elapsed(), own, other)
	}
	if err := h.restart(saved); err != nil {
		t.Fatal(err)
	}
	at := p.Elapsed()
	p.Run(5 * time.Second)
	for name, f := range map[string]*Flow{"of it": own, "to it": other} {
		if _, lost := f.gapAfter(at, p.Elapsed()); lost > time.Second {
			t.Errorf("%+v: %v lost in the direction %s after the start, want 1 s", k, lost, name)
		}
	}
}

// judgeAway judges what arrived between two moments while the daemon was away.
func (k killed) judgeAway(t *testing.T, from, to time.Duration, own, other *Flow) {
	sent := int((to - from) / time.Millisecond)
	if lost := other.Lost(from, to-pathRTT); lost > 0 {
		t.Errorf("%+v: %d of %d datagrams to a host without a daemon lost", k, lost, sent)
	}
	if lost := own.Lost(from, to-pathRTT); k.mode == ilnp.Duality && lost > sent*6/10 {
		t.Errorf("%+v: %d of %d datagrams of a host without a daemon lost", k, lost, sent)
	}
}
