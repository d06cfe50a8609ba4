package instants

import (
	"maps"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// hole is a time in which nothing arrives.
type hole struct{ from, to time.Duration }

func (h hole) has(d time.Duration) bool { return d >= h.from && d < h.to }

// datagrams is one per millisecond that arrives after another one, without
// those sent within the hole.
func datagrams(start time.Time, length time.Duration, lost hole) *udpflow.Flow {
	var sent []udpflow.Sent
	var got []udpflow.Got
	for i := range int(length / time.Millisecond) {
		d := time.Duration(i) * time.Millisecond
		at := start.Add(d).UnixNano()
		sent = append(sent, udpflow.Sent{At: at})
		if !lost.has(d) {
			got = append(got, udpflow.Got{Seq: uint64(i), Sent: at, At: at + int64(time.Millisecond)})
		}
	}
	return udpflow.New(sent, got)
}

func reads(start time.Time, length time.Duration, none hole) (s tcpflow.Stream) {
	for d := time.Duration(0); d < length; d += time.Millisecond {
		if !none.has(d) {
			s = append(s, tcpflow.Read{At: start.Add(d).UnixNano(), Bytes: 100})
		}
	}
	return s
}

// stays is a way in which a handoff's data never move, in a trace.
type stays struct {
	n        int // of the handoff
	out, in  bool
	silently bool // the daemon says that it did not happen
}

// allMove is none.
var allMove = stays{n: -1}

// trace is a schedule carried out to the moment, whose handoffs ended 400 ms
// after they began but for one.
func trace(p exp.Params, start time.Time, never stays) *scene.Trace {
	s := plan(p)
	tr := &scene.Trace{
		Start:   start,
		End:     start.Add(s.Length),
		Events:  map[string][]node.Event{},
		Samples: samples(p, start, never),
	}
	n := 0
	for _, step := range s.Steps {
		tr.Steps = append(tr.Steps, scene.Done{Step: step, At: start.Add(step.At)})
		if step.Op != scene.Attach {
			continue
		}
		if n != never.n || !never.silently {
			tr.Events["mn"] = append(tr.Events["mn"], node.Event{
				Time: start.Add(step.At + 30*time.Millisecond), Kind: "handoff-done", To: []node.LinkLocator{{Link: step.Link}},
			})
		}
		n++
	}
	return tr
}

// samples are the links' bytes every 100 ms: an interval in which the old link has a tenth of
// them counts as moved.
func samples(p exp.Params, start time.Time, never stays) (list []scene.Sample) {
	links := [2]string{"net1", "net2"}
	out, in := map[string]uint64{"net1": 0, "net2": 0}, map[string]uint64{"net1": 0, "net2": 0}
	for at := time.Duration(0); at <= plan(p).Length; at += 100 * time.Millisecond {
		n := -1
		for i := range p.Int("instants") {
			if at > begin(p, i)+400*time.Millisecond {
				n = i
			}
		}
		on := links[(n+1)%2]
		outOn, inOn := on, on
		if n == never.n && never.out {
			outOn = links[n%2]
		}
		if n == never.n && never.in {
			inOn = links[n%2]
		}
		for _, l := range links {
			out[l], in[l] = out[l]+1000, in[l]+1000
		}
		out[outOn], in[inOn] = out[outOn]+8000, in[inOn]+8000
		list = append(list, scene.Sample{At: start.Add(at), Out: maps.Clone(out), In: maps.Clone(in)})
	}
	return list
}

// Lost, late and missing data count for the handoff that precedes them.
func TestCostIsOfItsInstant(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick", "instants=4")
	start := time.Unix(1000, 0)
	tr := trace(p, start, stays{n: 3, out: true, in: true})
	length := plan(p).Length
	loss := hole{begin(p, 1) + 10*time.Millisecond, begin(p, 1) + 15*time.Millisecond}
	pause := hole{begin(p, 2) + 20*time.Millisecond, begin(p, 2) + 61*time.Millisecond}
	s := &seen{
		Trace: tr, hasTCP: true, whole: 2, up: datagrams(start, length, loss), down: datagrams(start, length, hole{}),
		out: reads(start, length, hole{}), in: reads(start, length, pause),
	}
	list := s.instants()
	if len(list) != 4 {
		t.Fatalf("%d instants", len(list))
	}
	for i, one := range list {
		lost, gap := 0, time.Millisecond
		if i == 1 {
			lost, gap = 5, 6*time.Millisecond
		}
		if one.lost != lost || one.udpGap != gap {
			t.Errorf("instant %d: lost %d, UDP gap %v; want %d, %v", i, one.lost, one.udpGap, lost, gap)
		}
		if gap = time.Millisecond; i == 2 {
			gap = 42 * time.Millisecond
		}
		if one.tcpGap != gap || one.moved != (i != 3) || !one.told {
			t.Errorf("instant %d: TCP gap %v, moved %t; want %v", i, one.tcpGap, one.moved, gap)
		}
	}
	env := &exp.Env{Params: p, Result: result.New("")}
	s.judge(env)
	rtt := 2 * p.Float("delay_ms")
	for metric, want := range map[string]float64{
		"instants_moved_pct": 75, "daemon_instants_done_pct": 100,
		"udp_lost": 5, "tcp_whole": 2, "udp_gap_worst_rtt": 6 / rtt, "tcp_gap_worst_rtt": 42 / rtt,
		"udp_sent": 2 * float64(length/time.Millisecond),
	} {
		if got := env.Result.Metrics[metric]; got != want {
			t.Errorf("%s is %g, want %g", metric, got, want)
		}
	}
	rows := env.Result.Tables[0].Rows
	if len(rows) != 4 || rows[0][1] != "5" || rows[1][3] != "42.00" {
		t.Errorf("those that cost most: %v", rows)
	}
}

// Handoffs begin a step later in the beat each time, there and back, and a link
// is left before it comes again.
func TestPlan(t *testing.T) {
	for _, preset := range exp.Presets {
		p := exptest.Params(t, Experiment.Params, preset)
		s, up, last := plan(p), map[string]bool{"net1": true}, time.Duration(0)
		for _, step := range s.Steps {
			if step.At < last || up[step.Link] != (step.Op == scene.Detach) {
				t.Errorf("%s: %+v after %v with %v", preset, step, last, up)
			}
			last, up[step.Link] = step.At, step.Op == scene.Attach
		}
		if want := 2 * p.Int("instants"); len(s.Steps) != want || s.Length <= last {
			t.Errorf("%s: %d steps until %v, in %v", preset, len(s.Steps), last, s.Length)
		}
	}
}

// The engine sim goes through the schedule without a loss, and says what it
// cannot judge.
func TestSimulate(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick", "instants=6", "udp_rate=200")
	env := &exp.Env{Params: p, Seed: 1, Engine: exp.Sim, Result: result.New("")}
	if err := run(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	m := env.Result.Metrics
	if m["udp_lost"] != 0 || m["instants_moved_pct"] != 100 || m["udp_sent"] < 1000 || m["udp_gap_worst_rtt"] > 1.2 {
		t.Errorf("%v", m)
	}
	if env.Result.Unmeasured["tcp_whole"] == "" || env.Result.Unmeasured["tcp_gap_worst_rtt"] == "" {
		t.Errorf("TCP is judged: %v", env.Result.Unmeasured)
	}
}
