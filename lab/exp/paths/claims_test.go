package paths

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
)

// fault is what one cell shows beside what it should.
type fault struct {
	mbps   float64 // of all runs over both links, in place of sound ones
	once   float64 // of one run
	mptcp  float64
	lost   int     // datagrams, in one run
	last   bool    // these are the last ones that were sent
	few    bool    // fewer datagrams were sent than the cell wants
	least  float64 // of the slowest connection in one run, in place of a sound one
	held   float64 // ms for which a connection stands still besides
	single float64 // ms more where Multipath TCP has one link
	full   bool    // the receiver's socket was full
}

// stored is what an interrupted experiment has of a cell.
func stored[T any](t *testing.T, v T) (kept T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// tcpRecord is what iperf3 writes of connections at these rates, in Mb/s: as sent they are faster.
func tcpRecord(mbps ...float64) record {
	var streams []string
	sum := 0.0
	for i, x := range mbps {
		sum += x
		streams = append(streams, fmt.Sprintf(`{"sender":{"socket":%d,"bits_per_second":%f,"retransmits":3,"sender":true},`+
			`"receiver":{"socket":%d,"bits_per_second":%f,"sender":true}}`, 5+2*i, 1.1e6*x, 5+2*i, 1e6*x))
	}
	return record{
		iperf: workload.IperfRecord{Client: fmt.Sprintf(`{"start":{},"intervals":[{"sum":{"bits_per_second":%f}}],`+
			`"end":{"streams":[%s],"sum_sent":{"bits_per_second":%f,"retransmits":3},`+
			`"sum_received":{"bits_per_second":%f},"cpu_utilization_percent":{"host_total":9,"remote_total":9}}}`,
			1.2e6*sum, strings.Join(streams, ","), 1.1e6*sum, 1e6*sum)},
		drops: map[string]uint64{"cut": 7, "queue": 2, "refused": 1},
	}
}

// udpRecord is the record of a second of the cell's datagrams, of which one in a hundred comes late and some are lost:
// without last those in the middle.
func udpRecord(t *testing.T, c cell, lost int, last bool, buffers int) datagrams {
	t.Helper()
	n, all := 0, c.perSecond()
	first := all / 2
	if last {
		first = all - lost
	}
	pause := time.Second/time.Duration(all) + 1
	return datagrams{
		want: float64(all), buffers: buffers, drops: map[string]uint64{"queue": 2},
		flow: exptest.UDP(t, time.Duration(all)*pause, pause, 10*ms, func(d *exptest.Datagram) {
			d.Lost = n >= first && n < first+lost
			if n++; n%100 == 1 {
				d.Delay += 2 * pause
			}
		}),
	}
}

// measured reads the records of three runs of a cell, just within the bounds: over the better link
// alone a transfer gets 95 % of its rate.
func measured(t *testing.T, c cell, f fault) outcome {
	t.Helper()
	one, sum := 0.95*c.links[0].mbps, 0.0
	for _, l := range c.links[:len(c.links)-c.long] {
		sum += 0.95 * l.mbps
	}
	good := max(0.98*one, 0.94*sum)
	if c.name == "bbr" || c.name == "length" || c.name == "rate5" {
		good = 0.98 * one
	}
	if f.mbps > 0 {
		good = f.mbps * one
	}
	var o outcome
	for i := range 3 {
		mbps, least := good, 0.11*sum
		if f.once > 0 && i == 1 {
			mbps = f.once * one
		}
		if f.least > 0 && i == 1 {
			least = f.least * sum
		}
		by := map[string]record{alone: tcpRecord(one), both: tcpRecord(mbps), mptcp: tcpRecord(max(f.mptcp*one, good))}
		if c.flows > 1 {
			by[both] = tcpRecord((mbps-least)/2, least, (mbps-least)/2)
		}
		if c.udp > 0 {
			d := udpRecord(t, c, map[int]int{1: f.lost}[i], f.last, map[bool]int{f.full && i == 0: 1}[true])
			if f.few && i == 1 {
				d.want *= 1.02
			}
			o.addUDP(d)
			continue
		}
		for _, arm := range c.arms() {
			if err := o.add(arm, by[arm]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return stored(t, o)
}

// died reads the records of a connection that stands still for so long, in ms, as each link in turn dies,
// and long before: cuts that hit a link without data do not count.
func died(t *testing.T, c cell, f fault) death {
	t.Helper()
	d, plan := death{Name: c.name}, c.deaths(100)
	var steps []scene.Done
	for _, s := range plan.Steps {
		steps = append(steps, scene.Done{Step: s, At: exptest.At(s.At)})
	}
	for _, a := range []struct {
		arm  arm.Arm
		gaps []float64
	}{{arm.Roam, []float64{5, 100}}, {arm.MPTCP, []float64{5, 200}}, {arm.Roam, []float64{300 + f.held, 400}},
		{arm.MPTCP, []float64{310, 1000 + f.single}}} {
		d.add(a.arm, exptest.TCP(t, plan.Length, 5*ms, func(at time.Duration) bool {
			quiet := at < 2900*ms
			for i, gap := range a.gaps {
				cut := plan.Steps[2*i].At
				quiet = quiet || at > cut && at < cut+time.Duration(gap)*ms
			}
			return quiet
		}), steps)
	}
	return stored(t, d)
}

// judged sets the metrics of a cell, whatever its load.
func judged(t *testing.T, c cell, f fault) func(*result.Result) {
	t.Helper()
	if c.death {
		return died(t, c, f).metrics
	}
	o := measured(t, c, f)
	return func(r *result.Result) { o.metrics(c, r) }
}

// also are the claims that fail with one: less than the better link is less than the sum.
var also = map[string][]string{"rate50-better": {"rate50-sum"}, "rate20-better": {"rate20-sum"},
	"three-better": {"three-sum"}}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	test := func(e exp.Experiment, cells []cell, faults map[string]map[string]fault) {
		sound := make(map[string]func(*result.Result))
		for _, c := range cells {
			sound[c.name] = judged(t, c, fault{})
		}
		var cases []exptest.Case
		add := func(name string, red, grey []string, bad map[string]fault) {
			cells, all := cells, maps.Clone(sound)
			for name, f := range bad {
				all[name] = judged(t, cells[slices.IndexFunc(cells, func(c cell) bool { return c.name == name })], f)
			}
			cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey, Judge: func(r *result.Result, _ int) {
				for _, metrics := range all {
					metrics(r)
				}
			}})
		}
		add("sound", nil, nil, nil)
		if sound["death"] != nil {
			add("Multipath TCP over one link", nil, []string{"death-mptcp"}, map[string]fault{"death": {single: 1905}})
		}
		add("a full socket", nil, []string{"udp-lost"}, map[string]fault{"udp": {lost: 1, full: true}})
		add("too few sent", nil, []string{"udp-lost"}, map[string]fault{"udp": {few: true}})
		add("the last ones lost", []string{"udp-lost"}, nil, map[string]fault{"udp": {lost: 3, last: true}})
		for id, bad := range faults {
			add(id, append([]string{id}, also[id]...), nil, bad)
		}
		exptest.Claims(t, e, nil, cases...)
	}
	test(Experiments[0], equal, map[string]map[string]fault{
		"tcp-sum": {"tcp": {mbps: 1.85}}, "tcp-mptcp": {"tcp": {mptcp: 2.1}}, "udp-lost": {"udp": {lost: 1}},
		"death-mptcp": {"death": {held: 15}},
	})
	red := map[string]map[string]fault{
		"rate50-sum": {"rate50": {mbps: 1.34}}, "rate20-sum": {"rate20": {mbps: 1.07}},
		"udp-lost":  {"udp": {lost: 1}},
		"three-sum": {"three": {mbps: 1.07}}, "flows-sum": {"flows": {mbps: 1.11}}, "flows-least": {"flows": {least: 0.09}},
	}
	for name, over := range map[string]float64{ // the better link alone
		"rate50": 1.49, "rate20": 1.19, "rate5": 1.04, "bbr": 1.04, "length": 1.04, "three": 1.19, "flows": 1.19,
	} {
		red[name+"-mptcp"] = map[string]fault{name: {mptcp: over}}
	}
	for _, c := range unequal[:6] {
		red[c.name+"-worst"] = map[string]fault{c.name: {once: 0.92}}
		red[c.name+"-better"] = map[string]fault{c.name: {mbps: 0.96}}
	}
	test(Experiments[1], unequal, red)
}

// The figures that no claim judges: the order of datagrams, full queues, rates, cuts that hit nothing.
func TestFiguresBeside(t *testing.T) {
	r := result.New("")
	for _, c := range equal {
		judged(t, c, fault{})(r)
	}
	judged(t, unequal[6], fault{})(r) // flows
	for metric, want := range map[string]float64{
		"udp_misordered_pct": 100 * 84 / 8315.0, "udp_rcvbuf_errors": 0, "udp_sent_pct": 100, "udp_overflow": 6,
		"tcp_overflow":   27,
		"tcp_alone_mbps": 95, "tcp_mptcp_mbps": 178.6, "flows_least": 0.11,
		"death_roam_worst_ms": 400, "death_roam_hits": 3, "death_roam_ms": 300, "death_mptcp_hits": 3, "death_mptcp_ms": 310,
	} {
		if got := r.Metrics[metric]; got < want-1e-4 || got > want+1e-4 {
			t.Errorf("%s is %g, want %g", metric, got, want)
		}
	}
	d := death{Name: "death", Gaps: map[string][]float64{"roam": {59}, "mptcp": {60}}}
	r = result.New("")
	d.metrics(r)
	if r.Unmeasured["death_roam_ms"] == "" || r.Unmeasured["death_to_mptcp"] == "" || r.Metrics["death_mptcp_ms"] != 60 {
		t.Errorf("no cut hit: %v, not measured %v", r.Metrics, r.Unmeasured)
	}
}

// A record that lacks something is an error, not a figure.
func TestBadRecords(t *testing.T) {
	for name, rec := range map[string]record{
		"no report": {}, "no JSON": {iperf: workload.IperfRecord{Client: "iperf3: error"}},
	} {
		var o outcome
		if err := o.add(both, rec); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	var f fetched
	if err := f.add(both, "100000 5\n", 1); err == nil {
		t.Errorf("a size is missing: %v", f)
	}
}

// A cell that is left out leaves all of its claims, and none of another cell, not measured.
func TestCellsLeftOut(t *testing.T) {
	for i, cells := range [][]cell{equal, unequal} {
		expect, err := result.ParseExpect(Experiments[i].Expect)
		if err != nil {
			t.Fatal(err)
		}
		sound := make(map[string]func(*result.Result))
		for _, c := range cells {
			sound[c.name] = judged(t, c, fault{})
		}
		for _, out := range cells {
			r := result.New("")
			for _, c := range cells {
				if c.name == out.name {
					c.miss(r)
				} else {
					sound[c.name](r)
				}
			}
			r.Judge(expect)
			for _, c := range r.Claims {
				if isOut := strings.HasPrefix(c.Metric, out.name+"_"); c.Measured == isOut ||
					isOut && c.Reason != "the cell "+out.name+" was not run" {
					t.Errorf("without %s: claim %s: measured %v, %q", out.name, c.ID, c.Measured, c.Reason)
				}
			}
		}
	}
}

// The parameters choose cells, which are measured in their order; a name that no cell has is an error.
func TestEachCell(t *testing.T) {
	var did []string
	note := func(what string) func(cell) { return func(c cell) { did = append(did, what+c.name) } }
	broken := errors.New("broken")
	for chosen, want := range map[string][]string{
		"udp,tcp": {"run tcp", "run udp", "miss death"}, "death": {"miss tcp", "miss udp", "run death"}, "tcp,nothing": nil,
	} {
		did = nil
		env := &exp.Env{Params: exp.Params{"cells": chosen, "cc": "own"}, View: &live.View{}}
		err := eachCell(env, equal, note("miss "), func(c cell) error {
			note("run ")(c)
			return map[string]error{"death": broken}[c.name]
		})
		if !slices.Equal(did, want) || (err == nil) != (chosen == "udp,tcp") || chosen == "death" && err != broken {
			t.Errorf("%s: %q, want %q: %v", chosen, did, want, err)
		}
	}
}

// Multipath TCP is compared in one cell, or in each that has it; of the others a reason is given.
func TestCompared(t *testing.T) {
	cells := []cell{{name: "a", mptcp: true}, {name: comparedAlways, mptcp: true}, {name: "b"}}
	for _, isAll := range []bool{true, false} {
		r := result.New("")
		list := compared(cells, isAll, r)
		if list[0].mptcp != isAll || !list[1].mptcp || list[2].mptcp || !cells[0].mptcp {
			t.Errorf("all %v: compared in %v, of %v", isAll, list, cells)
		}
		if (r.Unmeasured["a_to_mptcp"] == "") != isAll || len(r.Unmeasured) > 1 {
			t.Errorf("all %v: not measured %v", isAll, r.Unmeasured)
		}
	}
}

// The arms of a cell, and their links: alone is the better one, and datagrams are sent over all only.
func TestArms(t *testing.T) {
	for _, c := range slices.Concat(equal[:2], unequal) {
		want := []string{alone, both, mptcp}
		if c.name == "udp" {
			want = []string{both}
		}
		if !slices.Equal(c.arms(), want) {
			t.Errorf("%s has arms %q, want %q", c.name, c.arms(), want)
		}
		env := &exp.Env{Params: exp.Params{"queue_packets": 77.0}}
		one, all := c.access(env, alone), c.access(env, both)
		if len(one) != 1 || one[0].Out.Rate != int64(c.links[0].mbps*1e6) || len(all) != len(c.links) || !all[1].Up ||
			all[1].In.Delay != c.links[1].rtt/2 || all[1].In.QueuePackets != 77 {
			t.Errorf("%s has links %+v, and %+v alone", c.name, all, one)
		}
	}
}

// took is what the fetching application writes of three transfers of each size: they take so many ms, of
// one size one or another so much longer.
func took(t *testing.T, name, size, end string, factor float64) fetched {
	t.Helper()
	f := fetched{Name: name}
	for arm, times := range map[string][]float64{alone: {90, 100, 140}, both: {80, 109, 149}} {
		var output strings.Builder
		for i, took := range times {
			for _, z := range fetchSizes {
				of := 1.0
				if arm == both && z.name == size && end == []string{"", "median", "worst"}[i] {
					of = factor
				}
				fmt.Fprintln(&output, z.bytes, int64(took*of*1e6))
			}
		}
		if err := f.add(arm, output.String(), 3); err != nil {
			t.Fatal(err)
		}
	}
	return stored(t, f)
}

// Short transfers: each claim fails by one cell just beyond its bound, and by no other.
func TestFetchClaims(t *testing.T) {
	judge := func(bad fetched) func(*result.Result, int) {
		return func(r *result.Result, _ int) {
			for _, c := range fetches {
				f := took(t, c.name, "", "", 1)
				if bad.Name == c.name {
					f = bad
				}
				f.metrics(r)
			}
		}
	}
	cases := []exptest.Case{{Name: "sound", Judge: judge(fetched{})}}
	for _, c := range fetches {
		for _, z := range fetchSizes {
			id := c.name + "-" + z.name
			cases = append(cases,
				exptest.Case{Name: id, Red: []string{id}, Judge: judge(took(t, c.name, z.name, "median", 1.02))},
				exptest.Case{Name: id + " once", Red: []string{id + "-worst"},
					Judge: judge(took(t, c.name, z.name, "worst", 1.02))})
		}
	}
	exptest.Claims(t, Experiments[2], nil, cases...)
}

// followed reads the record of an application that gets these parts of the better link soon after a
// change, and of both links late, and little at other times.
func followed(t *testing.T, c change, soon, late float64) changed {
	t.Helper()
	plan := c.plan(100)
	better, sum := c.after()
	mbps := func(at time.Duration) float64 {
		switch since := at - plan.Steps[0].At; {
		case since >= changeSoon && since < changeSoon+changeOver:
			return soon * better
		case since >= changeLate && since < changeLate+c.over():
			return late * sum
		}
		return 0.3 * better
	}
	const pause = 10 * ms
	stream := exptest.Reads(t, plan.Length, pause, func(at time.Duration) int {
		return int(mbps(at) * dataOfFrame * 1e6 / 8 * pause.Seconds())
	})
	return stored(t, c.read(stream, &scene.Trace{Start: exptest.Origin, End: exptest.At(plan.Length),
		Steps: []scene.Done{{Step: plan.Steps[0], At: exptest.At(plan.Steps[0].At)}}}))
}

// Links that change: the same.
func TestChangeClaims(t *testing.T) {
	sound := make(map[string]changed)
	for _, c := range changes {
		sound[c.name] = followed(t, c, 0.91, 0.91)
	}
	judge := func(bad changed) func(*result.Result, int) {
		return func(r *result.Result, _ int) {
			for name, o := range sound {
				if name == bad.Name {
					o = bad
				}
				o.metrics(r)
			}
		}
	}
	cases := []exptest.Case{{Name: "sound", Judge: judge(changed{})}}
	for _, c := range changes {
		cases = append(cases,
			exptest.Case{Name: c.name + " soon", Red: []string{c.name + "-better"}, Judge: judge(followed(t, c, 0.89, 0.91))},
			exptest.Case{Name: c.name + " late", Red: []string{c.name + "-sum"}, Judge: judge(followed(t, c, 0.91, 0.89))})
		if n := len(sound[c.name].Mbps); time.Duration(n)*500*ms != c.plan(0).Length {
			t.Errorf("%s: %d half seconds are drawn", c.name, n)
		}
	}
	exptest.Claims(t, Experiments[3], nil, cases...)
}

// What counts as better and as the sum follows the rates after the change. BBR is measured over a cycle of
// its own.
func TestRatesAfterChange(t *testing.T) {
	for _, c := range changes {
		if want := map[string]time.Duration{"bbr": 10 * time.Second, "cubic": 2 * time.Second}[c.cc]; c.over() != want {
			t.Errorf("%s is measured over %v, want %v", c.name, c.over(), want)
		}
		better, sum := c.after()
		want := map[string][2]float64{"falls": {100, 120}, "swaps": {50, 70}, "shrinks": {100, 110}, "rises": {100, 200},
			"bbr": {100, 110}}[c.name]
		if better != want[0] || sum != want[1] {
			t.Errorf("%s: %v and %v, want %v", c.name, better, sum, want)
		}
	}
}

// Each cell has the congestion control that it names, unless a run has one for all; datagrams have none.
func TestCongestionControl(t *testing.T) {
	d, err := exp.ParseParams(Experiments[1].Params)
	if err != nil {
		t.Fatal(err)
	}
	for cc, want := range map[string]string{
		"own": "cubic cubic cubic bbr cubic cubic cubic ",
		"bbr": "bbr bbr bbr bbr bbr bbr bbr ", "cubic": "cubic cubic cubic cubic cubic cubic cubic ",
	} {
		p, err := d.Resolve("standard", []string{"cc=" + cc})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range unequal {
			got = append(got, c.chosen(p).cc)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", cc, got, want)
		}
	}
}
