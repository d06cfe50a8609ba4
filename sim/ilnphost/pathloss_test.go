package ilnphost

import (
	"math"
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
)

// losses returns the events of what was lost since a moment.
func (h *Node) losses(from time.Duration) (list []ilnp.Event) {
	for _, e := range h.Events() {
		if e.Kind == ilnp.PacketsLost && e.Time.Sub(sim.Start) >= from {
			list = append(list, e)
		}
	}
	return list
}

// isCounted reports whether a count is near the true one: the report before a move may have
// overtaken a packet or two.
func isCounted(got uint64, want int) bool { return math.Abs(float64(got)-float64(want)) <= 4 }

// TestLossOfAMove: each end of two paths learns how many packets were lost as data left one of them,
// in both directions, whether the path died silently or with its link.
func TestLossOfAMove(t *testing.T) {
	for _, c := range []struct {
		name string
		ends int // that leave the path: an end whose direction lives stays
		move func(p *forked)
	}{
		{"both directions", 2, func(p *forked) { p.cut(2, sim.Both) }},
		{"from the mobile host", 1, func(p *forked) { p.cut(2, sim.Forward) }},
		{"to the mobile host", 1, func(p *forked) { p.cut(2, sim.Backward) }},
		{"carrier", 2, func(p *forked) { p.mobile.Down(2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
			p.Run(3*time.Second + 71*time.Millisecond)
			from := p.Elapsed()
			c.move(p)
			p.Run(6 * time.Second)
			to := p.Elapsed() - time.Second
			up, down := p.up.Lost(from-pathRTT, to), p.down.Lost(from-pathRTT, to)
			for _, h := range []*Node{p.mobile, p.server} {
				list := h.losses(from)
				sent, received := up, down
				if h == p.server {
					sent, received = down, up
				}
				if stays := c.ends == 1 && received > sent; stays && len(list) == 0 {
					continue
				}
				if len(list) != 1 {
					t.Errorf("%s: %d reports of losses, want 1 (lost %d up, %d down)", h.name, len(list), up, down)
					continue
				}
				if l := list[0].Lost; !isCounted(l.Sent, sent) || !isCounted(l.Received, received) {
					t.Errorf("%s: %+v, want %d and %d", h.name, *l, sent, received)
				}
				if late := list[0].Time.Sub(sim.Start) - from; late > 3*time.Second {
					t.Errorf("%s: known after %v", h.name, late)
				}
			}
			p.Run(15 * time.Second)
			if n := len(p.mobile.losses(from)) + len(p.server.losses(from)); n != c.ends {
				t.Errorf("%d reports of one move", n)
			}
		})
	}
}

// TestLossIsNotKnown: a peer that knows no reports, or none about other paths, leaves the cost of a
// move unknown. Soon nobody is asked, nor is anything counted.
func TestLossIsNotKnown(t *testing.T) {
	for name, change := range map[string]func(r *ilnpwire.Report, filled bool) bool{
		"no reports":           func(*ilnpwire.Report, bool) bool { return false },
		"none of another path": func(r *ilnpwire.Report, filled bool) bool { r.Other = false; return filled },
		"counters begin anew":  func(r *ilnpwire.Report, filled bool) bool { r.Epoch += b2u(r.Other); return filled },
		"nothing counted there": func(r *ilnpwire.Report, filled bool) bool {
			r.Counted = r.Counted && !r.Other
			return filled
		},
	} {
		p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
		p.answers(p.server, change)
		p.Run(10 * time.Second)
		from := p.Elapsed()
		p.mobile.Down(2)
		p.Run(15 * time.Second)
		if list := p.mobile.losses(from); len(list) > 0 {
			t.Errorf("%s: %+v", name, *list[0].Lost)
		}
		before := p.mobile.counted()
		p.Run(5 * time.Second)
		if n := p.mobile.counted() - before; n > 0 {
			t.Errorf("%s: %d packets are counted by path, and one path is left", name, n)
		}
	}
}

// TestLiesAboutLosses: what a peer says it has sent or received in vain is bounded by what can be.
func TestLiesAboutLosses(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	p.answers(p.server, func(r *ilnpwire.Report, filled bool) bool {
		if r.Other {
			r.Received, r.Sent = ilnpwire.Counts{Packets: 1<<63 + 100_000}, ilnpwire.Counts{Packets: math.MaxUint64}
		}
		return filled
	})
	p.Run(3 * time.Second)
	from := p.Elapsed()
	p.mobile.Down(2)
	p.Run(5 * time.Second)
	list := p.mobile.losses(from)
	if len(list) != 1 || list[0].Lost.Sent > uint64(p.up.Sent) || list[0].Lost.Received > math.MaxInt64 {
		t.Errorf("%d reports: %+v", len(list), list)
	}
}

// counted returns how many packets a node has counted by path.
func (h *Node) counted() (n uint64) {
	for _, c := range h.plane.state.PathCounts {
		n += c.Sent.Packets + c.Received.Packets
	}
	return n
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
