package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// probesOf counts the probes that leave a node, by the locator that they leave from.
func (p *forked) probesOf(h *Node) map[roam.L64]int {
	counts := make(map[roam.L64]int)
	p.Seen = func(at *Node, _ roam.LinkID, leaves bool, k Packet) {
		if at == h && leaves && kindOf(k) == "probe" {
			counts[k.Src.L64]++
		}
	}
	return counts
}

// TestOneWayDatagrams: a host sends and hears nothing but answers to its probes. Its packets
// leave a path that has died as soon as those of two directions do.
func TestOneWayDatagrams(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		t.Run(mode.String(), func(t *testing.T) {
			for seed := range uint64(10) {
				p := newForked(t, mode, multipath.Normal, seed, near)
				p.down.Stop()
				p.Run(3*time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
				at := p.Elapsed()
				p.cut(2, sim.Both)
				p.Run(5 * time.Second)
				if gap, lost := p.up.gapAfter(at, p.Elapsed()); gap > 500*time.Millisecond || lost > 500*time.Millisecond {
					t.Errorf("seed %d: a gap of %v, %v lost, want 500 ms at most", seed, gap, lost)
				}
			}
		})
	}
}

// TestProbesOfPaths: probes are at most 20 a second on a path while traffic flows, also one
// way only, and none when nothing does.
func TestProbesOfPaths(t *testing.T) {
	for _, level := range []multipath.Level{multipath.Normal, multipath.Fast} {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
			p := newForked(t, mode, level, 1, near)
			limit := func(what string, most int) {
				for _, h := range []*Node{p.mobile, p.server} {
					paths := p.probesOf(h)
					p.Run(10 * time.Second)
					n := 0
					for _, k := range paths {
						n = max(n, k)
					}
					if h == p.server {
						n /= max(len(h.peer(p.mobile).Paths), 1) // all leave from its one locator
					}
					if n > most*10 {
						t.Errorf("%v, level %d, %s: %d probes of %s on a path in 10 s, want %d", mode, level, what, n, h.name, most*10)
					}
				}
			}
			limit("both ways", 21)
			p.down.Stop()
			p.Run(2 * time.Second)
			limit("one way", 21)
			p.up.Stop()
			p.Run(6 * time.Second)
			limit("idle", 0)
		}
	}
}

// TestFlappingPath: a path that passes packets for a second and drops them for a second gets
// data ever more rarely, and the other one carries them.
func TestFlappingPath(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		p := newForked(t, mode, multipath.Normal, 1, near)
		avoided := 0
		p.Told = func(h *Node, e ilnp.Event) {
			if e.Kind == ilnp.PathAvoided {
				avoided++
			}
		}
		for range 60 {
			p.cut(2, sim.Both)
			p.Run(time.Second)
			p.mobile.at(2).wire.Mend(sim.Both)
			p.Run(time.Second)
		}
		_, lost := p.up.gapAfter(p.Elapsed()-60*time.Second, p.Elapsed())
		t.Logf("%v: avoided %d times by both ends, %v lost in the last of two minutes", mode, avoided, lost)
		if avoided < 2 || avoided > 40 || lost > 3*time.Second {
			t.Errorf("%v: avoided %d times, %v lost in the last of two minutes; want 2 to 40, and 3 s", mode, avoided, lost)
		}
	}
}

// TestPathComesBack: a path that was silent for two seconds, or for ten, is used again soon
// after it answers.
func TestPathComesBack(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for cut, within := range map[time.Duration]time.Duration{2 * time.Second: 3 * time.Second,
			10 * time.Second: 16 * time.Second} {
			p := newForked(t, mode, multipath.Normal, 1, near)
			p.cut(2, sim.Both)
			p.Run(cut)
			p.mobile.at(2).wire.Mend(sim.Both)
			mended := p.Elapsed()
			isBack := func() bool {
				for _, path := range p.mobile.peer(p.server).Paths {
					if path.Local.Link == 2 {
						return true
					}
				}
				return false
			}
			if isBack() {
				t.Errorf("%v: still used after a cut of %v", mode, cut)
			}
			if !p.RunUntil(within, isBack) {
				t.Errorf("%v: not used %v after a cut of %v", mode, within, cut)
			}
			t.Logf("%v: used again %v after a cut of %v", mode, p.Elapsed()-mended, cut)
			p.Run(time.Second)
			wantPaths(t, p.server, p.mobile, map[ilnp.Mode][]roam.L64{ilnp.Soft: {netB}, ilnp.Duality: {netA, netB}}[mode]...)
		}
	}
}
