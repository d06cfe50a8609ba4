package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
)

// TestOneOfManyPathsLives: several links on both sides, also so many that an entry has no place for all their pairs.
// All paths die but one, which may never have been in use. Data take it: 12 s later at least nine tenths arrive in each
// direction. No path gets more than 45 control packets a second in one direction meanwhile, however many are in doubt.
func TestOneOfManyPathsLives(t *testing.T) {
	for _, c := range []struct {
		links [2]int
		every int // of so many pairs one is judged
	}{{[2]int{3, 3}, 1}, {[2]int{5, 4}, 3}, {[2]int{5, 5}, 3}} {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
			for living := 0; living < c.links[0]*c.links[1]; living += c.every {
				oneOfManyLives(t, c.links, mode, living/c.links[1], living%c.links[1])
			}
		}
	}
}

func oneOfManyLives(t *testing.T, links [2]int, mode ilnp.Mode, up, down int) {
	w := newMany(links, mode, uint64(up*links[1]+down))
	flows := map[string]*Flow{"up": w.startEvery(t, 5*time.Millisecond, false)}
	flows["down"] = w.server.Flow(w.mobile, 5*time.Millisecond, false)
	w.Run(3 * time.Second)
	type second struct {
		src, dst roam.L64
		at       time.Duration
	}
	control := make(map[second]int)
	w.Tap = func(p Packet) *Packet {
		if p.Control != nil {
			control[second{p.Src.L64, p.Dst.L64, w.Elapsed() / time.Second}]++
		}
		isUp := p.Src.L64 == mobileLink(up) && p.Dst.L64 == serverLink(down)
		if !isUp && (p.Src.L64 != serverLink(down) || p.Dst.L64 != mobileLink(up)) {
			return nil
		}
		return &p
	}
	w.Run(12 * time.Second)
	at := w.Elapsed()
	w.Run(3 * time.Second)
	for of, n := range control {
		if n > 45 {
			t.Errorf("%v, %d links and %d: %d control packets in a second from %v to %v",
				mode, links[0], links[1], n, of.src, of.dst)
		}
	}
	for name, f := range flows {
		if lost := f.Lost(at, at+2*time.Second); lost > 40 {
			t.Errorf("%v, %d links and %d, of which the pair %d, %d lives: %d of 400 datagrams lost in the direction %s",
				mode, links[0], links[1], up, down, lost, name)
		}
	}
}

func newMany(links [2]int, mode ilnp.Mode, seed uint64) *world {
	n := New(seed)
	n.Acquainted = true
	cfg := func(nid roam.NID) ilnp.Config {
		return ilnp.Config{
			NIDs: []roam.NID{nid}, Mode: mode, Silence: multipath.Normal.Timing().Silence,
			Liveness: func(string) multipath.Level { return multipath.Normal },
		}
	}
	w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
	var at []roam.L64
	for i := range links[1] {
		at = append(at, serverLink(i))
		w.server.Up(roam.LinkID(i+1), serverLink(i), near, roam.Infinite)
	}
	for i := range links[0] {
		w.mobile.Up(roam.LinkID(i+1), mobileLink(i), near, roam.Infinite)
	}
	w.mobile.Know(w.server, at...)
	w.server.Know(w.mobile)
	return w
}

func mobileLink(i int) roam.L64 { return netA + roam.L64(i)<<16 }
func serverLink(i int) roam.L64 { return netS + 0x100_0000 + roam.L64(i)<<16 }
