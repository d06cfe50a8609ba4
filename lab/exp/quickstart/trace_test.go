package quickstart

import (
	"math"
	"testing"
	"time"

	"roam/lab/node"
	"roam/lab/scene"
	"roam/lab/stats"
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
			got = append(got, udpflow.Got{
				Seq:  uint64(i),
				Sent: after(at).UnixNano(),
				At:   after(at + 10*time.Millisecond).UnixNano(),
			})
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
// a TCP gap of 40 ms there) and a hard one at 10 s (advertisement at 11 s, first
// datagram 25 ms later).
func synthetic() *trace {
	hole := span{10 * time.Second, 11*time.Second + 15*time.Millisecond}
	flow := steady(20*time.Second, hole)
	read := reads(20*time.Second, span{7 * time.Second, 7*time.Second + 40*time.Millisecond})
	step := func(at time.Duration, s scene.Step) scene.Done { s.At = at; return scene.Done{Step: s, At: after(at)} }
	locator := func(at time.Duration, link string) node.Event {
		return node.Event{Time: after(at), Kind: "locator-added", To: []node.LinkLocator{{Link: link}}}
	}
	return &trace{
		plan: schedule{
			Schedule: scene.Schedule{Length: 20 * time.Second},
			static:   span{0, 5 * time.Second},
			windows:  10,
			hard:     10 * time.Second,
		},
		Trace: &scene.Trace{Start: origin, End: after(20 * time.Second), Steps: []scene.Done{
			step(0, entry(scene.Mark, "", "", "static")),
			step(5*time.Second, entry(scene.Attach, "net2", "net1", "soft 1")),
			step(7*time.Second, entry(scene.Detach, "net1", "", "")),
			step(10*time.Second, entry(scene.Swap, "net3", "net2", "hard")),
			step(15*time.Second, entry(scene.Mode, "duality", "", "duality")),
		}, Adverts: []scene.Advert{{At: after(5900 * time.Millisecond), Link: "net2"},
			{At: after(11 * time.Second), Link: "net3"}}},
		events: []node.Event{
			locator(6*time.Second, "net2"),
			{Time: after(6*time.Second + 21*time.Millisecond), Kind: "update-acked", RTTMs: 21},
			{Time: after(6*time.Second + 22*time.Millisecond), Kind: "handoff-done", To: []node.LinkLocator{{Link: "net2"}},
				DurationMs: 22},
			locator(11*time.Second+10*time.Millisecond, "net3"),
		},
		traffic: &traffic{flowUp: flow, flowDown: flow, readUp: read, readDown: read},
	}
}

func entry(o scene.Op, link, from, name string) scene.Step {
	return scene.Step{Op: o, Link: link, From: from, Name: name}
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.01 }

func TestHandoffCosts(t *testing.T) {
	h := synthetic().handoffs()
	if len(h) != 2 {
		t.Fatalf("%d handoffs", len(h))
	}
	soft, hard := h[0], h[1]
	if soft.hard || soft.from != "net1" || soft.to != "net2" || !soft.cut.Equal(after(7*time.Second)) ||
		!soft.end.Equal(after(10*time.Second)) {
		t.Errorf("soft handoff %+v", soft)
	}
	// 40 ms of silence after a read 1 ms before, and the static windows have 1 ms.
	if !near(soft.tcpGapMs, 40) || !near(soft.udpGapMs, 0) || soft.lost != 0 ||
		!near(soft.opinion.ackMs, 22) || len(soft.opinion.luMs) != 1 {
		t.Errorf("cost of the soft handoff %+v", soft)
	}
	if took := soft.opinion.usable.Sub(soft.advert); took != 100*time.Millisecond {
		t.Errorf("advertisement to locator %v", took)
	}
	if !hard.hard || hard.lost != 2*1015 || !math.IsNaN(hard.opinion.ackMs) || !near(hard.udpGapMs, 24) {
		t.Errorf("hard handoff %+v", hard)
	}
}

// A cut that waits for the locator is where the step ends.
func TestSettledCut(t *testing.T) {
	tr := synthetic()
	tr.Steps[3].Settled, tr.Steps[3].Over = true, after(11*time.Second+7*time.Millisecond)
	if h := tr.handoffs()[1]; !h.cut.Equal(tr.Steps[3].Over) {
		t.Errorf("cut at %v", h.cut.Sub(origin))
	}
}

func TestFullRate(t *testing.T) {
	tr := synthetic()
	at, ok := fullRate(tr.traffic.flowUp, after(11*time.Second), 1000)
	if !ok || !near(stats.Millis(at.Sub(after(11*time.Second))), 25) {
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
		if c := tr.traffic.flowUp.Count(tr.At(x.from), tr.At(x.to)); c.Written == 0 {
			t.Errorf("nothing in %v", x)
		}
	}
}
