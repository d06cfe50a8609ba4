package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// TestLivingDirectionsOfManyPathsStay: one direction of a link dies, by which several paths go. The other direction of
// each of them stays in use, or is again soon, also where their round trips differ and updates have a MAC, of which
// one that is overtaken is refused.
func TestLivingDirectionsOfManyPathsStay(t *testing.T) {
	long := Access{Delay: 100 * time.Millisecond}
	for _, links := range [][2]int{{2, 2}, {2, 3}, {3, 2}} {
		for _, isLong := range []bool{false, true} {
			for _, way := range []sim.Direction{sim.Backward, sim.Forward} {
				w := newMany(links, ilnp.Duality, 3)
				if isLong {
					record := w.server.record(serverLink(0), serverLink(1))
					record.Secret = w.pair(t)
					w.mobile.know(record)
					w.server.Up(1, serverLink(0), long, roam.Infinite)
				}
				up := w.startEvery(t, 5*time.Millisecond, false)
				down := w.server.Flow(w.mobile, 5*time.Millisecond, false)
				w.Run(10*time.Second + time.Duration(w.Rand().IntN(300))*time.Millisecond)
				at := w.Elapsed()
				w.mobile.at(1).wire.Cut(way)
				host, peer, living := w.mobile, w.server, up
				if way == sim.Forward {
					host, peer, living = w.server, w.mobile, down
				}
				w.Run(10 * time.Second)
				avoided := host.Count(ilnp.PathAvoided)
				w.Run(30 * time.Second)
				n := 0
				for _, p := range host.peer(peer).Paths {
					if p.Local.L64 == mobileLink(0) || p.Remote == mobileLink(0) {
						n++
					}
				}
				again := host.Count(ilnp.PathAvoided) - avoided
				if lost := living.Lost(at, w.Elapsed()-time.Second); n < links[1] || again > 0 || lost > 0 {
					t.Errorf("%v links, long %t, cut %v: %d paths by the link are in use, want %d; %d avoided later, %d lost",
						links, isLong, way, n, links[1], again, lost)
				}
			}
		}
	}
}

// TestOtherDirectionOfManyPathsDies: one direction of a link dies, and the other one seconds later. Of several paths by
// that link all live one way before, or one does and the others are dead. Data leave them soon, though what is asked
// about so many paths is limited, and all is asked along those by the other link.
func TestOtherDirectionOfManyPathsDies(t *testing.T) {
	const limit = 800 * time.Millisecond
	for _, links := range [][2]int{{2, 3}, {2, 4}, {3, 4}} {
		for _, areDead := range []bool{false, true} {
			for _, way := range []sim.Direction{sim.Backward, sim.Forward} {
				for seed := range uint64(3) {
					if last := otherDirectionDies(links, areDead, way, seed+1); last > limit {
						t.Errorf("%v links, others dead %t, first %v, seed %d: data were lost for %v, want %v",
							links, areDead, way, seed, last, limit)
					}
				}
			}
		}
	}
}

// otherDirectionDies returns for how long data are lost that leave in the direction that dies second.
func otherDirectionDies(links [2]int, areDead bool, way sim.Direction, seed uint64) (last time.Duration) {
	w := newMany(links, ilnp.Duality, seed)
	f := w.mobile.Flow(w.server, 5*time.Millisecond, false)
	if down := w.server.Flow(w.mobile, 5*time.Millisecond, false); way == sim.Forward {
		f = down
	}
	w.Run(15*time.Second + time.Duration(w.Rand().IntN(300))*time.Millisecond)
	w.Tap = func(p Packet) *Packet {
		isBy := p.Src.L64 == mobileLink(0) || p.Dst.L64 == mobileLink(0)
		if areDead && isBy && p.Src.L64 != serverLink(0) && p.Dst.L64 != serverLink(0) {
			return nil
		}
		return &p
	}
	w.mobile.at(1).wire.Cut(way)
	w.Run(2 * time.Second)
	from := w.Elapsed()
	w.mobile.at(1).wire.Cut(sim.Both)
	w.Run(8 * time.Second)
	for _, a := range f.arrivals {
		if sent := a.sent.Sub(sim.Start); a.at.IsZero() && sent >= from && sent < w.Elapsed()-time.Second {
			last = sent - from
		}
	}
	return last
}
