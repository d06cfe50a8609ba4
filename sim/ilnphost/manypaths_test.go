package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// TestOneOfManyPathsLives: several links on both sides, also so many that an entry has no place for all their pairs.
// All paths die but one, which may never have been in use. Data take it: 12 s later at least nine tenths arrive in each
// direction. No path gets more than 20 probes and answers within any second in one direction meanwhile, however many
// are in doubt. Once all live again, data take as many of them as before.
func TestOneOfManyPathsLives(t *testing.T) {
	for _, c := range []struct {
		links [2]int
		every int // of so many pairs one is judged
	}{{[2]int{2, 2}, 1}, {[2]int{3, 3}, 1}, {[2]int{5, 4}, 3}, {[2]int{5, 5}, 3}} {
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
	used := func(of, to *Node) int { return len(of.peer(to).Paths) }
	before := used(w.mobile, w.server)
	var probes departed
	w.Tap = func(p Packet) *Packet {
		probes.take(p, w.Elapsed())
		isUp := p.Src.L64 == mobileLink(up) && p.Dst.L64 == serverLink(down)
		if !isUp && (p.Src.L64 != serverLink(down) || p.Dst.L64 != mobileLink(up)) {
			return nil
		}
		return &p
	}
	w.Run(12 * time.Second)
	at := w.Elapsed()
	w.Run(3 * time.Second)
	if n, of := probes.most(); n > 20 {
		t.Errorf("%v, %d links and %d: %d probes and answers within a second from %v to %v",
			mode, links[0], links[1], n, of[0], of[1])
	}
	for name, f := range flows {
		if lost := f.Lost(at, at+2*time.Second); lost > 40 {
			t.Errorf("%v, %d links and %d, of which the pair %d, %d lives: %d of 400 datagrams lost in the direction %s",
				mode, links[0], links[1], up, down, lost, name)
		}
	}
	w.Tap = nil
	isWhole := func() bool { return used(w.mobile, w.server) == before && used(w.server, w.mobile) == before }
	if !w.RunUntil(time.Minute, isWhole) {
		t.Errorf("%v, %d links and %d, of which the pair %d, %d lived: a minute later %d and %d paths are in use, want %d",
			mode, links[0], links[1], up, down, used(w.mobile, w.server), used(w.server, w.mobile), before)
	}
}

// TestManyPathsStay: a session uses as many paths as it has places for, all of which live, or live again after all but
// one have died. None is avoided in a minute: a session's share of the ring to the daemon is enough for all answers.
func TestManyPathsStay(t *testing.T) {
	for _, dies := range []bool{false, true} {
		w := newMany([2]int{5, 5}, ilnp.Duality, 3)
		w.startEvery(t, 5*time.Millisecond, false)
		w.server.Flow(w.mobile, 5*time.Millisecond, false)
		w.Run(3 * time.Second)
		if dies {
			w.Tap = func(p Packet) *Packet {
				isUp := p.Src.L64 == mobileLink(1) && p.Dst.L64 == serverLink(1)
				if !isUp && (p.Src.L64 != serverLink(1) || p.Dst.L64 != mobileLink(1)) {
					return nil
				}
				return &p
			}
			w.Run(15 * time.Second)
			w.Tap = nil
		}
		w.Run(10 * time.Second)
		w.Told = func(h *Node, e ilnp.Event) {
			if e.Kind == ilnp.PathAvoided {
				t.Errorf("died before: %v; %v %s: avoids %v", dies, w.Elapsed(), h.name, e.Path)
			}
		}
		w.Run(time.Minute)
	}
}

// departed is when probes and answers to them left, by source and destination.
type departed map[[2]roam.L64][]time.Duration

func (d *departed) take(p Packet, at time.Duration) {
	if p.Control == nil {
		return
	}
	if k := messageType(p); k == ilnpwire.TypeEchoRequest || k == ilnpwire.TypeEchoReply {
		if *d == nil {
			*d = make(departed)
		}
		of := [2]roam.L64{p.Src.L64, p.Dst.L64}
		(*d)[of] = append((*d)[of], at)
	}
}

// most returns how many left within a second, at most, and from where to where.
func (d departed) most() (n int, of [2]roam.L64) {
	for path, at := range d {
		for i, first := 0, 0; i < len(at); i++ {
			for at[i]-at[first] >= time.Second {
				first++
			}
			if i-first+1 > n {
				n, of = i-first+1, path
			}
		}
	}
	return n, of
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
