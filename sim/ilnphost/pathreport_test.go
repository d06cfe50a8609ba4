package ilnphost

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
)

// states returns what a node knows of its paths to another one, by the mobile host's network.
func (h *Node) states(o *Node) map[roam.L64]multipath.PathState {
	states := make(map[roam.L64]multipath.PathState)
	for _, v := range h.peer(o).Views {
		states[v.Local.L64^netS^v.Remote] = v.PathState
	}
	return states
}

// isNear reports whether two figures differ by less than a part of the second one, or 0.005.
func isNear(got, want, part float64) bool { return math.Abs(got-want) <= max(part*want, 0.005) }

// TestReports: each end of two paths learns what each direction delivers and loses, how much
// longer packets take than they might, and that both directions live.
func TestReports(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	p.mobile.at(1).set(Access{Delay: 5 * time.Millisecond, Loss: 0.02})
	p.Run(15 * time.Second)
	for _, c := range []struct {
		name     string
		from, to *Node
	}{{"mobile", p.mobile, p.server}, {"server", p.server, p.mobile}} {
		states := c.from.states(c.to)
		for net, loss := range map[roam.L64]float64{netA: 0.02, netB: 0} {
			s := states[net]
			for way, d := range map[string]multipath.Direction{"out": s.Out, "in": s.In} {
				// 1,000 datagrams of 1,000 bytes a second each way, half of them on each path.
				rate := 500_000 * (1 - loss)
				if !isNear(d.Rate, rate, 0.1) || !isNear(d.Sent, 500_000, 0.1) || !isNear(d.Most, rate, 0.15) {
					t.Errorf("%s, %v, %s: sends %.0f, delivers %.0f, at most %.0f, want %.0f",
						c.name, net, way, d.Sent, d.Rate, d.Most, rate)
				}
				if !d.LossKnown || math.Abs(d.Loss-loss) > 0.015 {
					t.Errorf("%s, %v, %s: loss %.4f (%v), want %.2f", c.name, net, way, d.Loss, d.LossKnown, loss)
				}
				if d.Life != multipath.Lives || d.Queue > 2*time.Millisecond {
					t.Errorf("%s, %v, %s: %v, queue %v", c.name, net, way, d.Life, d.Queue)
				}
			}
			if s.RTT != pathRTT || s.Least != pathRTT {
				t.Errorf("%s, %v: round trip %v, least %v, want %v", c.name, net, s.RTT, s.Least, pathRTT)
			}
		}
		if c.name == "mobile" {
			all := c.from.Core().Overview(p.Now())
			judgeLinkPaths(t, all.Links())
		}
		if c.from.Core().RejectedInput() != nil && len(c.from.Core().RejectedInput()) > 0 {
			t.Errorf("%s refused %v", c.name, c.from.Core().RejectedInput())
		}
	}
}

// judgeLinkPaths wants of each link of the mobile host what its one path has.
func judgeLinkPaths(t *testing.T, by map[string]ilnp.LinkPaths) {
	t.Helper()
	for link, lost := range map[string]float64{"net1": 10_000, "net2": 0} {
		l := by[link]
		if l.InUse != 1 || l.Avoided+l.Left != 0 || l.RTT != pathRTT || l.Least != pathRTT ||
			!isNear(l.OutRate, 500_000-lost, 0.1) || math.Abs(l.OutLost-lost) > 7_500 {
			t.Errorf("%s: %+v", link, l)
		}
	}
}

// TestReportsOfAQueue: a path that takes less than is sent shows by its queue, in that
// direction alone, and by what it delivers.
func TestReportsOfAQueue(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	p.mobile.SetRate(1, 400_000)
	p.Run(4 * time.Second)
	s := p.mobile.states(p.server)[netA]
	if s.Out.Queue < 100*time.Millisecond || s.In.Queue > 5*time.Millisecond {
		t.Errorf("queues %v out and %v in", s.Out.Queue, s.In.Queue)
	}
	if !isNear(s.Out.Rate, 380_000, 0.06) || s.Out.Loss > 0 { // beside headers
		t.Errorf("delivers %.0f of %.0f, loses %.4f", s.Out.Rate, s.Out.Sent, s.Out.Loss)
	}
}

// TestReportsCost: probes and reports cost less than 20 packets a second on each path, and
// nothing at all when nothing is sent.
func TestReportsCost(t *testing.T) {
	for level, most := range map[multipath.Level]int{multipath.Normal: 8, multipath.Fast: 21} {
		p := newForked(t, ilnp.Duality, level, 1, near)
		probes, bytes := 0, 0
		p.Seen = func(h *Node, _ roam.LinkID, leaves bool, q Packet) {
			if leaves && q.Control != nil {
				probes++
				bytes += len(q.Control)
			}
		}
		p.Run(10 * time.Second)
		// Two paths, two ends that ask, and each probe has an answer.
		if each := probes / 2 / 2 / 2 / 10; each > most {
			t.Errorf("level %d: %d probes a second on each path, want %d at most", level, each, most)
		}
		if level == multipath.Normal && bytes/10 > 20_000*2 {
			t.Errorf("level %d: %d bytes a second", level, bytes/10)
		}
		p.up.Stop()
		p.down.Stop()
		p.Run(4 * time.Second)
		for net, s := range p.mobile.states(p.server) {
			if !s.Out.At.IsZero() || s.Out.Most == 0 {
				t.Errorf("level %d, %v: reports of a session that rests take memory: %+v", level, net, s.Out)
			}
		}
		p.Run(6 * time.Second)
		probes = 0
		p.Run(time.Minute)
		if probes > 0 {
			t.Errorf("level %d: %d control messages in a minute without data", level, probes)
		}
	}
}

// TestOneEndAsks: an end that has left one of two paths, as its direction died, counts for its
// peer, which sends by both.
func TestOneEndAsks(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	p.cut(2, sim.Forward)
	p.Run(20 * time.Second)
	s := p.server.states(p.mobile)[netA]
	if n := len(p.mobile.peer(p.server).Paths); n != 1 || !s.Out.LossKnown || s.Out.Rate < 100_000 {
		t.Errorf("the mobile host uses %d paths; the server knows %+v", n, s.Out)
	}
}

// TestOnePathCountsNothing: where one path is in use, data planes count nothing by path, and
// probes bring round trips alone.
func TestOnePathCountsNothing(t *testing.T) {
	p := newForked(t, ilnp.Soft, multipath.Normal, 1, near)
	p.Run(10 * time.Second)
	for _, h := range []*Node{p.mobile, p.server} {
		if n := len(h.plane.state.PathCounts); n > 0 {
			t.Errorf("%s counts %d paths", h.name, n)
		}
	}
	if s := p.mobile.states(p.server)[netB]; s.RTT != pathRTT || !s.Out.At.IsZero() {
		t.Errorf("%+v", s)
	}
}

// answers has a function change the answers to probes that leave a node.
func (w *world) answers(h *Node, change func(r *ilnpwire.Report, filled bool) bool) {
	w.Tap = func(p Packet) *Packet {
		q, err := ilnpwire.ParseControl(p.Control, udpPort)
		if p.Control == nil || err != nil || q.Type != ilnpwire.TypeEchoReply || q.Src.NID != h.nid || q.Encapsulated {
			return &p
		}
		e, err := ilnpwire.ParseEcho(q.Payload)
		if err != nil || len(e.Data) != ilnpwire.ReportLen {
			return &p
		}
		r, err := ilnpwire.ParseReport(e.Data)
		data := r.AppendRequest(nil, [16]byte(e.Data))
		if change(&r, err == nil) {
			data = r.AppendReply(nil, [16]byte(e.Data))
		}
		p.Control, err = ilnpwire.BuildEcho(q.Src, q.Dst, q.Nonce, false, e.ID, e.Seq, data)
		if err != nil {
			return nil
		}
		return &p
	}
}

// TestPeerWithoutReports: a peer that returns probes as they came is judged by round trips, and
// soon gets the short ones again.
func TestPeerWithoutReports(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	p.answers(p.server, func(*ilnpwire.Report, bool) bool { return false })
	p.Run(10 * time.Second)
	long := 0
	p.Seen = func(h *Node, _ roam.LinkID, leaves bool, q Packet) {
		if leaves && h == p.mobile && len(q.Control) > 40+ilnpwire.ReportLen && q.typ == ilnpwire.TypeEchoRequest {
			long++
		}
	}
	p.Run(10 * time.Second)
	s := p.mobile.states(p.server)[netB]
	if long > 0 || s.RTT != pathRTT || !s.Out.At.IsZero() {
		t.Errorf("%d long probes, %+v", long, s)
	}
	at := p.Elapsed()
	p.cut(2, sim.Both)
	p.Run(10 * time.Second)
	if gap, _ := p.up.gapAfter(at, p.Elapsed()); gap > 700*time.Millisecond {
		t.Errorf("a path without reports died, and its packets were missed for %v", gap)
	}
}

// TestLiesHarmTheLiar: whatever a peer reports, this host sends it no more than its own
// applications do, nothing to other places, and serves another peer as before. What cannot be
// is refused and counted.
func TestLiesHarmTheLiar(t *testing.T) {
	const above, back = "report of more than was sent", "report of less than before"
	for _, c := range []struct {
		name   string
		lie    func(r *ilnpwire.Report)
		reason string
	}{
		{"all that there is", func(r *ilnpwire.Report) { r.Received.Packets = math.MaxUint64 }, above},
		{"twice as much", func(r *ilnpwire.Report) {
			r.Received.Packets, r.Received.Bytes = 2*r.Received.Packets, 2*r.Received.Bytes
		}, above},
		{"ever less", func(r *ilnpwire.Report) { r.Received.Packets = 1 << 20 / (1 + r.Received.Packets) }, back},
		{"nothing", func(r *ilnpwire.Report) { r.Received = ilnpwire.Counts{} }, back},
		{"another clock", func(r *ilnpwire.Report) { r.Clock *= 1000 }, "report from outside of the round trip"},
		{"ever other counters", func(r *ilnpwire.Report) { r.Epoch = r.Clock }, ""},
	} {
		t.Run(c.name, func(t *testing.T) { judgeLies(t, c.lie, c.reason) })
	}
}

func judgeLies(t *testing.T, lie func(*ilnpwire.Report), reason string) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	honest := p.AddNode("honest", ilnp.Config{
		NIDs: []roam.NID{serverNID + 1}, Mode: ilnp.Duality,
		Liveness: func(string) multipath.Level { return multipath.Normal },
	})
	honest.Up(1, netT, near, roam.Infinite)
	p.mobile.Know(honest, netT)
	honest.Know(p.mobile)
	other := p.mobile.Flow(honest, time.Millisecond, false)
	p.Run(5 * time.Second)

	p.answers(p.server, func(r *ilnpwire.Report, filled bool) bool {
		lie(r)
		return filled
	})
	sent, from := 0, p.Elapsed()
	p.Seen = func(h *Node, _ roam.LinkID, leaves bool, q Packet) {
		if h != p.mobile || !leaves {
			return
		}
		if to := q.Dst; to.NID == serverNID && to.L64 != netS || to.NID == honest.nid && to.L64 != netT {
			t.Errorf("a packet leaves for %v", to)
		}
		if q.Control == nil && q.Dst.NID == serverNID {
			sent++
		}
	}
	p.Run(15 * time.Second)
	if n := int((p.Elapsed() - from) / time.Millisecond); sent > n+1 {
		t.Errorf("%d datagrams left for the liar, its application sent %d", sent, n)
	}
	counts := other.By(from, p.Elapsed()-time.Second)
	if n := counts[netT]; n < 13_990 {
		t.Errorf("%d datagrams arrived at another peer in 14 s", n)
	}
	refused := p.mobile.Core().RejectedInput()
	if reason != "" && refused[reason] == 0 {
		t.Errorf("refused %v, want %q", refused, reason)
	}
	if got := slices.Sorted(maps.Keys(refused)); reason == "" && len(got) > 0 {
		t.Errorf("refused %v", got)
	}
}
