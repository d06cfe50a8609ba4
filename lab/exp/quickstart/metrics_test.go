package quickstart

import (
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// holed is a flow of a datagram per millisecond, in which those sent within a hole are lost
// and only every fifth is sent before the sparse part ends.
func holed(sparse time.Duration, holes ...span) *udpflow.Flow {
	var sent []udpflow.Sent
	var got []udpflow.Got
	for at := time.Duration(0); at < 20*time.Second; at += time.Millisecond {
		if at < sparse && at%(5*time.Millisecond) != 0 {
			continue
		}
		seq := uint64(len(sent))
		sent = append(sent, udpflow.Sent{At: after(at).UnixNano()})
		if !within(at, holes) {
			got = append(got, udpflow.Got{Seq: seq, Sent: after(at).UnixNano(), At: after(at + 10*time.Millisecond).UnixNano()})
		}
	}
	return udpflow.New(sent, got)
}

// stream is the like of TCP, without delay.
func stream(sparse time.Duration, holes ...span) (s tcpflow.Stream) {
	for at := time.Duration(0); at < 20*time.Second; at += time.Millisecond {
		if !within(at, holes) && (at >= sparse || at%(5*time.Millisecond) == 0) {
			s = append(s, tcpflow.Read{At: after(at).UnixNano(), Bytes: 1000})
		}
	}
	return s
}

func within(at time.Duration, holes []span) bool {
	for _, h := range holes {
		if at >= h.from && at < h.to {
			return true
		}
	}
	return false
}

const milli = time.Millisecond

// uneven is synthetic with a second soft handoff at 8 s, which costs less than the first.
// Each way and each handoff differs from the other, so that a metric that takes the wrong one
// shows another value.
func uneven() *trace {
	t := synthetic()
	step := func(at time.Duration, s scene.Step) scene.Done { s.At = at; return scene.Done{Step: s, At: after(at)} }
	t.Steps = []scene.Done{
		step(0, entry(scene.Mark, "", "", "static")),
		step(5*time.Second, entry(scene.Attach, "net2", "net1", "soft 1")),
		step(7*time.Second, entry(scene.Detach, "net1", "", "")),
		step(8*time.Second, entry(scene.Attach, "net3", "net2", "soft 2")),
		step(9*time.Second, entry(scene.Detach, "net2", "", "")),
		step(10*time.Second, entry(scene.Swap, "net1", "net3", "hard")),
		step(15*time.Second, entry(scene.Mode, "duality", "", "duality")),
	}
	t.Adverts = []scene.Advert{{At: after(5900 * milli), Link: "net2"}, {At: after(8300 * milli), Link: "net3"},
		{At: after(11 * time.Second), Link: "net1"}}
	locator := func(at time.Duration, link string) node.Event {
		return node.Event{Time: after(at), Kind: "locator-added", To: []node.LinkLocator{{Link: link}}}
	}
	t.events = []node.Event{locator(6*time.Second, "net2"), locator(8340*milli, "net3"), locator(11010*milli, "net1")}
	away := span{10 * time.Second, 11*time.Second + 15*milli}
	first, second, late := span{5500 * milli, 5530 * milli}, span{8500 * milli, 8520 * milli}, span{9850 * milli,
		9860 * milli}
	t.traffic = &traffic{
		flowUp:   holed(0, first, late, away),
		flowDown: holed(0, second, away),
		readUp:   stream(0, span{10 * time.Second, 11*time.Second + 300*milli}),
		readDown: stream(0, span{10 * time.Second, 11*time.Second + 200*milli}),
		outcome:  map[string]error{},
	}
	return t
}

// Losses and gaps belong to the handoff and the way in which they happened.
func TestCostsStayWithTheirHandoff(t *testing.T) {
	h := uneven().handoffs()
	if len(h) != 3 {
		t.Fatalf("%d handoffs", len(h))
	}
	// The loss 150 ms before the hard cut is the hard handoff's.
	if h[0].lost != 30 || h[1].lost != 20 || h[2].lost != 10+2*1015 {
		t.Errorf("lost %d, %d and %d", h[0].lost, h[1].lost, h[2].lost)
	}
	if !near(h[0].udpGapMs, 30) || !near(h[1].udpGapMs, 20) {
		t.Errorf("gaps of UDP: %v and %v ms", h[0].udpGapMs, h[1].udpGapMs)
	}
	if !near(h[2].tcpGapMs, 299) {
		t.Errorf("gap of TCP in the hard handoff: %v ms", h[2].tcpGapMs)
	}
}

// A gap shorter than the path's own is none, and the path's own is that of the worse way.
func TestGapsAreNeverNegative(t *testing.T) {
	tr := uneven()
	tr.traffic.flowUp, tr.traffic.readUp = holed(5*time.Second), stream(5*time.Second)
	tr.traffic.flowDown, tr.traffic.readDown = holed(0), stream(0)
	if udp, tcp := tr.staticGaps(); !near(udp, 5) || !near(tcp, 5) {
		t.Errorf("static gaps of %v and %v ms", udp, tcp)
	}
	for _, h := range tr.handoffs() {
		if h.udpGapMs != 0 || h.tcpGapMs != 0 {
			t.Errorf("handoff %d: gaps of %v and %v ms above the static ones", h.number, h.udpGapMs, h.tcpGapMs)
		}
	}
	r := result.New("quickstart")
	tr.hardMetrics(r, map[string]int{"out": 1000, "in": 1000})
	wantMetrics(t, r, map[string]float64{"hard_first_ms": 0, "hard_full_rate_ms": 0})
}

// Of the hard handoff the worse way counts, whichever it is; data that came before any advertisement have no time
// from it.
func TestHardHandoff(t *testing.T) {
	rate := map[string]int{"out": 1000, "in": 1000}
	for _, isOut := range []bool{true, false} {
		tr := uneven()
		slow := holed(0, span{10 * time.Second, 11*time.Second + 45*milli})
		fast := holed(0, span{10 * time.Second, 11*time.Second + 15*milli})
		if tr.traffic.flowUp, tr.traffic.flowDown = slow, fast; !isOut {
			tr.traffic.flowUp, tr.traffic.flowDown = fast, slow
		}
		used := 11*time.Second + 20*milli
		if !isOut {
			used = 11*time.Second - 20*milli
		}
		tr.Begins = []scene.Begin{{At: after(used), Link: "net1"}}
		r := result.New("quickstart")
		tr.hardMetrics(r, rate)
		wantMetrics(t, r, map[string]float64{"hard_first_ms": 54, "hard_full_rate_ms": 54})
		if took, ok := r.Metrics["hard_ra_to_data_ms"]; ok != isOut || ok && !near(took, 20) {
			t.Errorf("advertisement to data: %v, %v", took, ok)
		}
	}
}

// A rate that comes back after more than ten seconds never came back.
func TestFullRateWithinTenSeconds(t *testing.T) {
	slow := func(d *exptest.Datagram) { d.Lost = d.At < 11*time.Second && d.At/milli%2 == 1 }
	f := exptest.UDP(t, 13*time.Second, milli, 5*milli, slow)
	if at, ok := fullRate(f, exptest.At(0), 1000); ok {
		t.Errorf("full rate after %v", at.Sub(exptest.Origin))
	}
	if _, ok := fullRate(f, exptest.At(2*time.Second), 1000); !ok {
		t.Error("no full rate after nine seconds")
	}
}

// The spans of soft handoffs begin again two seconds after the hard one, or at the next step
// with a name if that is earlier.
func TestSoftSpansBeginAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		at   time.Duration
		want time.Duration
	}{
		{"duality", 11500 * milli, 11500 * milli},
		{"duality", 15 * time.Second, 12 * time.Second},
		{"", 11500 * milli, 12 * time.Second},
	} {
		tr := synthetic()
		tr.plan.Steps = []scene.Step{{At: 10 * time.Second, Name: "hard"}, {At: c.at, Name: c.name}}
		if got := tr.softSpans()[1].from; got != c.want {
			t.Errorf("step %q at %v: soft again from %v, want %v", c.name, c.at, got, c.want)
		}
	}
}

// Metrics that no claim judges stand in the tables: each has its value.
func TestMetricsOfAnUnevenRun(t *testing.T) {
	tr := uneven()
	tr.Drops = map[string]uint64{"cut": 12, "queue": 3, "refused": 2}
	tr.traffic.bufferErrors = 4
	tr.traffic.iperf = map[string]workload.IperfReport{
		"iperf3 UDP": {Mbps: 5, LostPackets: 7, Packets: 900},
		"iperf3 TCP": {Mbps: 60, Retransmits: 8},
	}
	tr.traffic.echoes = []workload.Echo{{Sent: after(-time.Second), RTT: 500 * milli}, {Sent: after(0), RTT: 10 * milli},
		{Sent: after(time.Second), RTT: 30 * milli}, {Sent: after(2 * time.Second), RTT: 20 * milli}}
	up, down := tr.traffic.flowUp, tr.traffic.flowDown
	tr.traffic.flowUp, tr.traffic.flowDown = twice(up, 100, 200), twice(down, 300)
	tr.plan.shares = []sharePhase{
		{name: "two-way duality", links: access[:2], span: span{15 * time.Second, 17 * time.Second}},
		{name: "withdrawn to net1", links: access[:1], span: span{17 * time.Second, 19 * time.Second}},
	}
	tr.Steps = append(tr.Steps, scene.Done{Step: scene.Step{At: 17 * time.Second}, At: after(17 * time.Second)},
		scene.Done{Step: scene.Step{At: 19 * time.Second}, At: after(19 * time.Second)})
	sum := map[string]uint64{}
	for at := time.Duration(0); at <= 20*time.Second; at += 100 * milli {
		s := scene.Sample{At: after(at), Out: map[string]uint64{}, In: map[string]uint64{},
			Towards: map[string]uint64{}, Data: scene.Data{}}
		switch {
		case at <= 15300*milli:
			sum["net3"] += 100_000
		case at <= 17100*milli:
			sum["net1"], sum["net2"] = sum["net1"]+60_000, sum["net2"]+40_000
		default:
			sum["net1"] += 100_000
		}
		for _, l := range access {
			s.Out[l], s.In[l] = sum[l]*5/4, sum[l]*2
			s.Data[scene.Flow{Link: l, Way: linkem.AB}], s.Data[scene.Flow{Link: l, Way: linkem.BA}] = sum[l], sum[l]
		}
		tr.Samples = append(tr.Samples, s)
	}
	r := result.New("quickstart")
	tr.metrics(&exp.Env{Params: exptest.Params(t, Experiment.Params, "quick"), Result: r})
	wantMetrics(t, r, map[string]float64{
		"emulator_drops": 5, "emulator_drops_cut": 12, "emulator_drops_queue": 3, "udp_rcvbuf_errors": 4,
		"iperf_udp_mbps": 5, "iperf_udp_lost": 7, "iperf_udp_sent": 900, "iperf_tcp_mbps": 60, "iperf_tcp_retransmits": 8,
		"ssh_echo_worst_ms":       30,
		"udp_soft_doubled":        3,
		"udp_soft_misordered":     3,
		"daemon_ra_to_locator_ms": 100,
		"udp_soft_gap_ms":         30,
		"hard_tcp_gap_out_ms":     300, "hard_tcp_gap_in_ms": 200,
		"share_two_way_duality_out_net1_pct": 60, "share_two_way_duality_in_net3_pct": 0,
		"share_withdrawn_to_net1_out_net1_pct": 100,
		"duality_share_error_points":           10,
		"duality_change_ms":                    400,
		"duality_phase_ms":                     2000,
		"duality_no_data_pct":                  50,
		"duality_in_effect":                    1,
	})
}

// twice is a flow in which some datagrams arrive again, each after the next one.
func twice(f *udpflow.Flow, numbers ...uint64) *udpflow.Flow {
	var got []udpflow.Got
	for i, g := range f.Got {
		got = append(got, g)
		for _, n := range numbers {
			if i > 0 && g.Seq == n+1 {
				got = append(got, udpflow.Got{Seq: n, Sent: f.Got[i-1].Sent, At: g.At})
			}
		}
	}
	return udpflow.New(f.Sent, got)
}

func wantMetrics(t *testing.T, r *result.Result, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if got, ok := r.Metrics[name]; !ok || !near(got, v) {
			t.Errorf("%s is %v (%s), want %v", name, got, r.Unmeasured[name], v)
		}
	}
}

// levels are sessions with keys and without, by the MACs of their updates.
func levels(t *testing.T) (cases []exptest.Case) {
	for what, c := range map[string]struct {
		keys string
		cn2  scene.Updates
		red  []string
	}{
		"with keys":                     {"keys=true", scene.Updates{Acks: 1, MACs: 2}, nil},
		"with keys, and without a MAC":  {"keys=true", scene.Updates{Acks: 1, MACs: 2, Plain: 1}, []string{"level"}},
		"without keys, and one MAC":     {"keys=false", scene.Updates{Acks: 1, MACs: 1}, []string{"level"}},
		"without keys, no MAC anywhere": {"keys=false", scene.Updates{Acks: 1, Plain: 2}, nil},
	} {
		x := healthy(t, c.keys)
		x.updates = map[string]scene.Updates{"cn1": {Acks: 12}, "cn2": c.cn2}
		cases = append(cases, exptest.Case{Name: what, Red: c.red, Judge: x.judge})
	}
	return cases
}

// rates are the faults of each way after the hard handoff.
func rates(hard time.Duration, add func(name string, alter func(*records), red ...string)) {
	for way, pick := range map[string]func(*records, func(*exptest.Datagram)){
		"out": func(x *records, f func(*exptest.Datagram)) { x.out = f },
		"in":  func(x *records, f func(*exptest.Datagram)) { x.in = f },
	} {
		add("slow "+way+" until 60 ms", func(x *records) {
			at := x.hardAdvert()
			pick(x, func(d *exptest.Datagram) {
				d.Lost = d.Lost || d.At >= at && d.At < at+60*milli && d.At/milli%2 == 1
			})
		}, "hard-full")
		add("half of the rate "+way+" to the end", func(x *records) {
			pick(x, func(d *exptest.Datagram) {
				d.Lost = d.Lost || d.At >= x.hardAdvert() && d.At/milli%2 == 1
			})
		}, "hard-full", "soft-loss")
		add("nothing "+way+" after the hard handoff", func(x *records) { pick(x, lose(hard, x.length)) },
			"hard-first", "hard-full", "soft-loss", "sessions")
	}
}
