package quickstart

import (
	"math"
	"testing"
	"time"

	"roam/lab/node"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

var origin = time.Unix(1000, 0)

func after(d time.Duration) time.Time { return origin.Add(d) }

// steady is a flow of 1000 datagrams per second that take 10 ms, without those
// sent within the hole.
func steady(length time.Duration, hole span) *udpflow.Flow {
	var sent []udpflow.Sent
	var got []udpflow.Got
	for i := range int(length / time.Millisecond) {
		at := time.Duration(i) * time.Millisecond
		sent = append(sent, udpflow.Sent{At: after(at).UnixNano()})
		if at < hole.from || at >= hole.to {
			got = append(got, udpflow.Got{Seq: uint64(i), Sent: after(at).UnixNano(), At: after(at + 10*time.Millisecond).UnixNano()})
		}
	}
	return udpflow.New(sent, got)
}

func reads(length time.Duration, hole span) (s tcpflow.Stream) {
	for at := time.Duration(0); at < length; at += time.Millisecond {
		if at < hole.from || at >= hole.to {
			s = append(s, tcpflow.Read{At: after(at).UnixNano(), Bytes: 1000})
		}
	}
	return s
}

// synthetic is a pass with one soft handoff at 5 s (locator at 6 s, cut at 7 s,
// a TCP gap of 40 ms there) and a hard one at 10 s (locator at 11 s, first
// datagram 25 ms later).
func synthetic() *trace {
	hole := span{10 * time.Second, 11*time.Second + 15*time.Millisecond}
	flow := steady(20*time.Second, hole)
	read := reads(20*time.Second, span{7 * time.Second, 7*time.Second + 40*time.Millisecond})
	step := func(at time.Duration, s step) doneStep { s.at = at; return doneStep{s, after(at)} }
	locator := func(at time.Duration, link string) node.Event {
		return node.Event{Time: after(at), Kind: "locator-added", To: []node.LinkLocator{{Link: link}}}
	}
	return &trace{
		start: origin, end: after(20 * time.Second),
		plan: schedule{static: span{0, 5 * time.Second}, windows: 10, hard: 10 * time.Second, length: 20 * time.Second},
		steps: []doneStep{
			step(0, entry(phase, "", "", "static")),
			step(5*time.Second, entry(up, "net2", "net1", "soft 1")),
			step(7*time.Second, entry(down, "net1", "", "")),
			step(10*time.Second, entry(swap, "net3", "net2", "hard")),
			step(15*time.Second, entry(mode, "duality", "", "duality")),
		},
		events: []node.Event{
			locator(6*time.Second, "net2"),
			{Time: after(6*time.Second + 21*time.Millisecond), Kind: "update-acked", RTTMs: 21},
			{Time: after(6*time.Second + 22*time.Millisecond), Kind: "handoff-done", To: []node.LinkLocator{{Link: "net2"}}, DurationMs: 22},
			locator(11*time.Second, "net3"),
		},
		adverts: []advertSeen{{after(5900 * time.Millisecond), "net2"}, {after(10990 * time.Millisecond), "net3"}},
		traffic: &traffic{flowUp: flow, flowDown: flow, readUp: read, readDown: read},
	}
}

func entry(o op, link, from, name string) step {
	return step{op: o, link: link, from: from, name: name}
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.01 }

func TestHandoffCosts(t *testing.T) {
	h := synthetic().handoffs()
	if len(h) != 2 {
		t.Fatalf("%d handoffs", len(h))
	}
	soft, hard := h[0], h[1]
	if soft.hard || soft.from != "net1" || soft.to != "net2" || !soft.cut.Equal(after(7*time.Second)) || !soft.end.Equal(after(10*time.Second)) {
		t.Errorf("soft handoff %+v", soft)
	}
	// 40 ms of silence from the start of the window, and the static windows have 1 ms.
	if !near(soft.tcpGapMs, 39) || !near(soft.udpGapMs, 0) || soft.lost != 0 || !near(soft.ackMs, 22) || len(soft.luMs) != 1 {
		t.Errorf("cost of the soft handoff %+v", soft)
	}
	if !near(millis(soft.usable.Sub(soft.advert)), 100) {
		t.Errorf("advertisement to locator %v", soft.usable.Sub(soft.advert))
	}
	if !hard.hard || hard.lost != 2*1015 || !math.IsNaN(hard.ackMs) || !near(hard.udpGapMs, 24) {
		t.Errorf("hard handoff %+v", hard)
	}
}

func TestFullRate(t *testing.T) {
	tr := synthetic()
	at, ok := fullRate(tr.traffic.flowUp, after(11*time.Second), 1000)
	if !ok || !near(millis(at.Sub(after(11*time.Second))), 25) {
		t.Errorf("full rate at %v, %v", at.Sub(origin), ok)
	}
	if _, ok := fullRate(tr.traffic.flowUp, after(11*time.Second), 5000); ok {
		t.Error("a fifth of the rate was taken for the full one")
	}
}

func TestSoftSpansLeaveTheHardHandoffOut(t *testing.T) {
	tr := synthetic()
	s := tr.softSpans()
	if len(s) != 2 || s[0].to >= 10*time.Second || s[1].from != 12*time.Second || s[1].to != 20*time.Second {
		t.Errorf("spans %v", s)
	}
	for _, x := range s {
		if c := tr.traffic.flowUp.Count(tr.at(x.from), tr.at(x.to)); c.Written == 0 {
			t.Errorf("nothing in %v", x)
		}
	}
}

func TestShares(t *testing.T) {
	tr := synthetic()
	for i := range 21 {
		n := uint64(i) * 1000
		tr.samples = append(tr.samples, sample{at: after(time.Duration(i) * time.Second), out: map[string]uint64{"net1": n, "net2": 2 * n, "net3": n}, in: map[string]uint64{"net1": n}})
	}
	p := sharePhase{span: span{2 * time.Second, 12 * time.Second}}
	if s := tr.shares(p, outward); !near(s["net1"], 25) || !near(s["net2"], 50) {
		t.Errorf("shares %v", s)
	}
	if s := tr.shares(p, inward); !near(s["net1"], 100) || !near(s["net3"], 0) {
		t.Errorf("shares %v", s)
	}
}

func TestMedian(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median %g", m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median %g", m)
	}
	if !math.IsNaN(median(nil)) {
		t.Error("median of nothing")
	}
}
