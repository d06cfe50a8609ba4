package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
)

// stuffed is a forked world with full queues.
func stuffed(t *testing.T, seed uint64, percent, queue int) (p *forked, up, down *Flow) {
	t.Helper()
	p = newForked(t, ilnp.Duality, multipath.Normal, seed, near)
	p.up.Stop()
	p.down.Stop()
	p.Run(time.Second)
	up, down = p.stuff(2, 500, percent, queue)
	return p, up, down
}

// stuff sends so many datagrams a second each way along links that carry a little less: small ones take each place in
// the queues as soon as it is free, so that these swallow most probes for seconds.
func (w *world) stuff(links, rate, percent, queue int) (up, down *Flow) {
	const size, each = 80, 128 // bytes of a datagram, and those on the wire
	for link := range links {
		w.mobile.at(roam.LinkID(link+1)).wire.Set(sim.Both, sim.Params{
			Delay: 5 * time.Millisecond, Rate: rate / links * each * percent / 100, Queue: queue * each,
		})
	}
	interval := time.Second / time.Duration(rate)
	return w.mobile.Stream(w.server, interval, size), w.server.Stream(w.mobile, interval, size)
}

// TestNoFalseAlarmOfFullQueues: queues that stay full swallow most probes. Data pass, and both paths stay.
func TestNoFalseAlarmOfFullQueues(t *testing.T) {
	for _, percent := range []int{98, 90} {
		for _, queue := range []int{20, 100} {
			p, up, down := stuffed(t, 1, percent, queue)
			p.Brief = true
			n := 0
			p.Told = func(h *Node, e ilnp.Event) {
				if e.Kind == ilnp.PathAvoided || e.Kind == ilnp.PeerDead || e.Kind == ilnp.UpdateSent {
					n++
					t.Logf("%v %s: %v %v", p.Elapsed(), h.name, e.Kind, e.Path)
				}
			}
			p.Run(3 * time.Minute)
			if n > 0 || up.Sent < 80_000 || down.Came.IsZero() {
				t.Errorf("paths carry %d %%, queues of %d: %d false moves with %d datagrams",
					percent, queue, n, up.Sent)
			}
		}
	}
}

// TestNoFalseAlarmOfManyFullQueues: no path without a turn for its counts is judged by answers alone, however many are
// in doubt at once.
func TestNoFalseAlarmOfManyFullQueues(t *testing.T) {
	for _, percent := range []int{98, 90} {
		w := newMany([2]int{3, 2}, ilnp.Duality, 1)
		f := w.startEvery(t, time.Millisecond, false)
		w.Run(2 * time.Second)
		f.Stop()
		up, _ := w.stuff(3, 1500, percent, 100)
		w.Brief = true
		n := 0
		w.Told = func(_ *Node, e ilnp.Event) {
			if e.Kind == ilnp.PathAvoided {
				n++
			}
		}
		w.Run(20 * time.Second)
		if n > 0 || up.Sent < 29_000 || len(w.mobile.peer(w.server).Paths) < 6 {
			t.Errorf("six paths over links that carry %d %%: avoided %d times with %d datagrams", percent, n, up.Sent)
		}
	}
}

// TestSilentDeathBehindFullQueues: one of these paths dies, in both directions or in one. What dies is left within the
// time of some round trips behind these queues, 0.2 s each, of which most probes find no end; what lives stays.
func TestSilentDeathBehindFullQueues(t *testing.T) {
	for name, way := range map[string]sim.Direction{"both": sim.Both, "up": sim.Forward, "down": sim.Backward} {
		for seed := range uint64(4) {
			p, _, _ := stuffed(t, seed, 98, 20)
			p.Run(12*time.Second + time.Duration(p.Rand().IntN(2000))*time.Millisecond)
			p.cut(2, way)
			p.Brief = true
			left := map[*Node]time.Duration{}
			for range 1000 {
				p.Run(10 * time.Millisecond)
				for h, o := range map[*Node]*Node{p.mobile: p.server, p.server: p.mobile} {
					if p.uses(h, o) {
						left[h] += 10 * time.Millisecond
					}
				}
			}
			for h, d := range map[*Node]sim.Direction{p.mobile: sim.Forward, p.server: sim.Backward} {
				switch dies := d&way != 0; {
				case dies && left[h] > 4*time.Second:
					t.Errorf("%s, seed %d: %s has sent along the dead direction for %v", name, seed, h.name, left[h])
				case !dies && left[h] < 9*time.Second:
					t.Errorf("%s, seed %d: %s has sent along the direction that lives for %v of 10 s",
						name, seed, h.name, left[h])
				}
			}
		}
	}
}

// sentControl counts the control packets that a node sends from now on.
func (w *world) sentControl(h *Node) *int {
	n, tap := new(int), w.Tap
	w.Tap = func(p Packet) *Packet {
		if p.Control != nil && p.Src.NID == h.nid {
			*n++
		}
		if tap != nil {
			return tap(p)
		}
		return &p
	}
	return n
}

// TestPeerThatLiesAboutDelivery: a peer that counts what never arrived keeps data on a dead path for half a minute. An
// idle host asks it nothing.
func TestPeerThatLiesAboutDelivery(t *testing.T) {
	for _, idle := range []bool{false, true} {
		p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
		lies, at := false, time.Duration(0)
		p.answers(p.server, func(r *ilnpwire.Report, filled bool) bool {
			if r.Other && lies {
				r.Received.Packets += uint64((p.Elapsed() - at) / (2 * time.Millisecond)) // as many as are sent
			}
			return filled
		})
		n := p.sentControl(p.mobile)
		p.Run(3 * time.Second)
		lies, at = true, p.Elapsed()
		p.cut(2, sim.Both)
		p.Brief = true
		if idle {
			p.Run(400 * time.Millisecond)
			p.up.Stop()
			p.down.Stop()
			p.Run(10 * time.Second)
			*n = 0
			if p.Run(20 * time.Second); *n > 10 {
				t.Errorf("an idle host has sent %d control packets in 20 s", *n)
			}
			continue
		}
		for p.uses(p.mobile, p.server) && p.Elapsed()-at < time.Minute {
			p.Run(100 * time.Millisecond)
		}
		if took := p.Elapsed() - at; took < 20*time.Second || took > 32*time.Second {
			t.Errorf("a peer that lies keeps data on a dead path for %v, want half a minute", took)
		}
	}
}

// TestLossyPathIsLeft: counts do not keep data on a path that loses most of all packets. On a long path each doubt, and
// each return to it, takes longer.
func TestLossyPathIsLeft(t *testing.T) {
	for delay, most := range map[time.Duration]time.Duration{
		5 * time.Millisecond: 2500 * time.Millisecond, 110 * time.Millisecond: 5 * time.Second,
	} {
		for seed := range uint64(4) {
			p := newForked(t, ilnp.Duality, multipath.Normal, seed, Access{Delay: delay})
			p.Run(10 * time.Second)
			at := p.Elapsed()
			p.mobile.at(2).wire.Set(sim.Both, sim.Params{Delay: delay, Loss: 0.6})
			p.Run(15 * time.Second)
			if _, lost := p.up.gapAfter(at, p.Elapsed()); lost > most {
				t.Errorf("delay %v, seed %d: %v of 15 s lost, want %v", delay, seed, lost, most)
			}
		}
	}
}
