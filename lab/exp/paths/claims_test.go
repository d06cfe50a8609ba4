package paths

import (
	"slices"
	"strings"
	"testing"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/result"
)

// fault is what one cell shows beside what it should.
type fault struct {
	mbps   float64 // of all runs over both links, in place of sound ones
	once   float64 // of one run
	mptcp  float64
	lost   float64 // in one run
	least  float64 // of the slowest connection in one run, in place of a sound one
	held   float64 // ms for which a connection stands still besides
	single float64 // ms more where Multipath TCP has one link
	full   bool    // the receiver's socket was full
}

// measured returns what a cell gave in three runs, just within the bounds: over the better link
// alone a transfer gets 95 % of its rate.
func measured(c cell, f fault) *outcome {
	o := &outcome{cell: c, mbps: make(map[string][]float64), lost: []float64{0, f.lost, 0}}
	if f.full {
		o.buffers = 1
	}
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
	for i := range 3 {
		mbps := good
		if f.once > 0 && i == 1 {
			mbps = f.once * one
		}
		least := 0.11 * sum
		if f.least > 0 && i == 1 {
			least = f.least * sum
		}
		o.least = append(o.least, least)
		o.mbps[alone] = append(o.mbps[alone], one)
		o.mbps[both] = append(o.mbps[both], mbps)
		o.mbps[mptcp] = append(o.mbps[mptcp], max(f.mptcp*one, good))
	}
	return o
}

// judged returns what a cell gave, whatever its load.
func judged(c cell, f fault) interface{ metrics(*result.Result) } {
	if c.death {
		return death{c.name, map[string][]float64{"roam": {5, 100, 300 + f.held, 400},
			"mptcp": {5, 200, 310, 1000 + f.single}}}
	}
	return measured(c, f)
}

// also are the claims that fail with one: less than the better link is less than the sum.
var also = map[string][]string{"rate50-better": {"rate50-sum"}, "rate20-better": {"rate20-sum"},
	"three-better": {"three-sum"}}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	test := func(e exp.Experiment, cells []cell, faults map[string]map[string]fault) {
		var cases []exptest.Case
		add := func(name string, red, grey []string, bad map[string]fault) {
			cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey, Judge: func(r *result.Result, _ int) {
				for _, c := range cells {
					judged(c, bad[c.name]).metrics(r)
				}
			}})
		}
		add("sound", nil, nil, nil)
		if slices.ContainsFunc(cells, func(c cell) bool { return c.death }) {
			add("Multipath TCP over one link", nil, []string{"death-mptcp"}, map[string]fault{"death": {single: 2000}})
		}
		add("a full socket", nil, []string{"udp-lost"}, map[string]fault{"udp": {lost: 1, full: true}})
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

// A cell that is left out leaves all of its claims, and none of another cell, not measured.
func TestCellsLeftOut(t *testing.T) {
	for i, cells := range [][]cell{equal, unequal} {
		expect, err := result.ParseExpect(Experiments[i].Expect)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range cells {
			r := result.New("")
			for _, c := range cells {
				if c.name == out.name {
					c.miss(r)
				} else {
					judged(c, fault{}).metrics(r)
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

// Short transfers: each claim fails by one cell just beyond its bound, and by no other.
func TestFetchClaims(t *testing.T) {
	of := func(name, size, end string, factor float64) fetched {
		f := fetched{Name: name, Took: map[string]map[int][]float64{alone: {}, both: {}}}
		for _, z := range fetchSizes {
			f.Took[alone][z.bytes] = []float64{90, 100, 140}
			f.Took[both][z.bytes] = []float64{80, 109, 149}
			if z.name == size && end == "median" {
				f.Took[both][z.bytes][1] *= factor
			} else if z.name == size {
				f.Took[both][z.bytes][2] *= factor
			}
		}
		return f
	}
	judge := func(bad fetched) func(*result.Result, int) {
		return func(r *result.Result, _ int) {
			for _, c := range fetches {
				f := of(c.name, "", "", 1)
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
				exptest.Case{Name: id, Red: []string{id}, Judge: judge(of(c.name, z.name, "median", 1.02))},
				exptest.Case{Name: id + " once", Red: []string{id + "-worst"}, Judge: judge(of(c.name, z.name, "worst", 1.02))})
		}
	}
	exptest.Claims(t, Experiments[2], nil, cases...)
}

// Links that change: the same.
func TestChangeClaims(t *testing.T) {
	judge := func(name string, soon, late float64) func(*result.Result, int) {
		return func(r *result.Result, _ int) {
			for _, c := range changes {
				o := changed{Name: c.name, Soon: 0.91, Late: 0.91, Mbps: []float64{100}}
				if c.name == name {
					o.Soon, o.Late = soon, late
				}
				o.metrics(r)
			}
		}
	}
	cases := []exptest.Case{{Name: "sound", Judge: judge("", 0, 0)}}
	for _, c := range changes {
		cases = append(cases,
			exptest.Case{Name: c.name + " soon", Red: []string{c.name + "-better"}, Judge: judge(c.name, 0.89, 0.91)},
			exptest.Case{Name: c.name + " late", Red: []string{c.name + "-sum"}, Judge: judge(c.name, 0.91, 0.89)})
	}
	exptest.Claims(t, Experiments[3], nil, cases...)
}

// What counts as better and as the sum follows the rates after the change.
func TestRatesAfterChange(t *testing.T) {
	for _, c := range changes {
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
