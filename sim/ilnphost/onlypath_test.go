package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestOnlyPathWithLossesDies: soft, the path in use loses some packets, so its counts are asked for along the link in
// reserve. Once it dies both ends leave it within a second all the same: what is asked there does not hide the silence.
func TestOnlyPathWithLossesDies(t *testing.T) {
	const rate, size, seeds = 500, 60, 8
	for _, loss := range []float64{0.02, 0.05, 0.08} {
		var took []time.Duration
		for seed := range uint64(seeds) {
			p := newForked(t, ilnp.Soft, multipath.Normal, seed, near)
			p.up.Stop()
			p.down.Stop()
			p.Run(time.Second)
			p.mobile.at(2).wire.Set(sim.Both, sim.Params{Delay: 5 * time.Millisecond, Loss: loss})
			p.mobile.Stream(p.server, time.Second/rate, size)
			p.server.Stream(p.mobile, time.Second/rate, size)
			p.Brief = true
			p.Run(20*time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
			at := p.Elapsed()
			p.cut(2, sim.Both)
			left := map[string]time.Duration{}
			p.Told = func(h *Node, e ilnp.Event) {
				if e.Kind == ilnp.PathAvoided && left[h.name] == 0 {
					left[h.name] = p.Elapsed() - at
				}
			}
			p.Run(5 * time.Second)
			if len(left) < 2 {
				t.Errorf("loss %v, seed %d: left by %v only", loss, seed, left)
			}
			for _, d := range left {
				took = append(took, d)
			}
		}
		if worst := slices.Max(took); worst > time.Second {
			t.Errorf("loss %v: left after %v at worst, want a second", loss, worst)
		}
	}
}

// TestOneLinkOfManyPathsDies: duality with a peer that has several locators, so that three or more paths die at once
// and as many live. Data leave all of them within 0.7 s, as where there are fewer, though what is asked waits for room.
func TestOneLinkOfManyPathsDies(t *testing.T) {
	for _, links := range [][2]int{{2, 2}, {2, 3}, {3, 3}, {2, 4}, {4, 4}} {
		for seed := range uint64(6) {
			w := newMany(links, ilnp.Duality, seed+1)
			w.startEvery(t, 5*time.Millisecond, false)
			w.server.Flow(w.mobile, 5*time.Millisecond, false)
			w.Run(20*time.Second + time.Duration(w.Rand().IntN(300))*time.Millisecond)
			dead := mobileLink(0)
			w.Tap = func(p Packet) *Packet {
				if p.Src.L64 == dead || p.Dst.L64 == dead {
					return nil
				}
				return &p
			}
			isDead := func(p ilnp.Path) bool { return p.Local.L64 == dead || p.Remote == dead }
			isLeft := func() bool {
				paths := slices.Concat(w.mobile.peer(w.server).Paths, w.server.peer(w.mobile).Paths)
				return !slices.ContainsFunc(paths, isDead)
			}
			at := w.Elapsed()
			w.RunUntil(10*time.Second, isLeft)
			if took := w.Elapsed() - at; took > 700*time.Millisecond {
				t.Errorf("%v links, seed %d: a dead path was in use for %v, want 700 ms", links, seed, took)
			}
		}
	}
}
