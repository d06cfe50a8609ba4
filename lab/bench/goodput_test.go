package bench

import (
	"math"
	"strings"
	"testing"

	"roam/internal/testutil"
)

// goodput is one set-up in which bulk TCP is compared.
type goodput struct {
	name    string
	rate    int64   // of an emulated link, bits per second; 0: veth pairs
	slice   int     // bytes of a transfer: a fifth of a second or so
	least   float64 // Roam's rate / that of plain IPv6
	mostCPU float64 // its processor time per byte / that of plain IPv6; 0: no bound
	decides bool    // even where this machine cannot tell plain IPv6 from itself
	options string  // of the correspondents in the hosts files
}

// goodputs are all set-ups. The one at 1 Gb/s leaves a machine some time, so that the rates do
// not depend on what else it does.
var goodputs = []goodput{
	{name: "1Gbps", rate: 1e9, slice: 24 << 20, least: 0.98, mostCPU: 1 / 0.98, decides: true},
	{name: "10Gbps", rate: 10e9, slice: 64 << 20, least: 0.98, mostCPU: 1 / 0.98},
	{name: "veth", slice: 128 << 20, least: 0.98, mostCPU: 1 / 0.98},
	{name: "1Gbps-nonce-always", rate: 1e9, slice: 24 << 20, least: 0.60, options: "nonce=always"},
}

// What is compared: the last two are plain IPv6 at the MTU of the link, and that at the MTU of
// sessions a second time.
const (
	withRoam = iota
	plainSame
	plainFull
	plainAgain
	arms
)

// transfers are the figures of all transfers, by arm.
type transfers struct {
	mbps, cpu [arms][]float64 // CPU seconds per gigabyte
}

func (m *transfers) add(arm int, mbps, cpu float64) {
	m.mbps[arm], m.cpu[arm] = append(m.mbps[arm], mbps), append(m.cpu[arm], cpu)
}

// settled reports whether all ratios that are judged are known well enough.
func (m *transfers) settled() bool {
	for _, of := range []*[arms][]float64{&m.mbps, &m.cpu} {
		for _, over := range []int{withRoam, plainAgain} {
			if testutil.Quotients(of[over], of[plainSame]).Half > testutil.HalfWidth {
				return false
			}
		}
	}
	return true
}

// figures returns the results of a set-up. No ratio is known better than plain IPv6 is equal
// to itself.
func (m *transfers) figures(c goodput) (all []testutil.Figure) {
	name := "TCPGoodput/" + c.name
	mid := func(sample []float64) float64 { return testutil.Estimated(sample).Mid }
	for _, part := range []struct {
		suffix, says, itself, unit, op string
		bound                          float64
		of                             *[arms][]float64
	}{
		{"", "bulk TCP at the same MTU, Roam / plain IPv6", "/itself", "Mb/s", ">=", c.least, &m.mbps},
		{"/cpu", "its processor time per byte, Roam / plain IPv6", "/cpu-itself", "s/GB", "<=", c.mostCPU, &m.cpu},
	} {
		ratio := testutil.Quotients(part.of[withRoam], part.of[plainSame])
		again := testutil.Quotients(part.of[plainAgain], part.of[plainSame])
		f := testutil.Figure{Name: name + part.suffix, Says: part.says, Value: ratio.Mid, Rounds: len(part.of[withRoam]),
			Raw: map[string][]float64{part.unit + " Roam": part.of[withRoam], part.unit + " plain": part.of[plainSame],
				part.unit + " plain again": part.of[plainAgain]},
			Half: max(ratio.Half, math.Abs(again.Mid-1)), Details: map[string]float64{
				part.unit + " Roam": mid(part.of[withRoam]), part.unit + " plain": mid(part.of[plainSame])}}
		if part.bound > 0 {
			f.Op, f.Bound = part.op, part.bound
		}
		itself := testutil.Figure{Name: name + part.itself, Says: "plain IPv6 / itself in the same set-up, off 1 by",
			Value: math.Abs(again.Mid - 1), Half: again.Half, Rounds: f.Rounds, Op: "<=", Bound: testutil.HalfWidth}
		if known := max(f.Half, again.Half) <= testutil.HalfWidth; !known && !c.decides {
			f, itself = undecided(f), undecided(itself)
		}
		all = append(all, f, itself)
	}
	mtu := testutil.Quotients(m.mbps[plainSame], m.mbps[plainFull])
	return append(all, testutil.Figure{Name: name + "/mtu", Says: "plain IPv6 at the MTU of sessions / at the link's",
		Value: mtu.Mid, Half: mtu.Half, Rounds: len(m.mbps[plainSame]), Raw: map[string][]float64{
			"Mb/s plain": m.mbps[plainSame], "Mb/s plain, full MTU": m.mbps[plainFull]}})
}

// undecided is a figure without its bound.
func undecided(f testutil.Figure) testutil.Figure {
	f.Op, f.Bound = "", 0
	f.Says += " (this machine cannot tell: TCPGoodput/1Gbps counts)"
	return f
}

// A ratio counts as well as plain IPv6 is equal to itself, and where a machine cannot tell the
// two apart, the set-up at 1 Gb/s decides alone.
func TestGoodputFigures(t *testing.T) {
	sample := func(v, spread float64) (all []float64) {
		for i := range 40 {
			all = append(all, v*(1+spread*float64(i%9-4)/4))
		}
		return all
	}
	for name, c := range map[string]struct {
		roam, again, cpu, spread float64
		at                       int // in goodputs
		want                     string
	}{
		"sound":                 {roam: 0.985, again: 1, cpu: 1.01, want: "pass pass pass pass"},
		"slow":                  {roam: 0.97, again: 1, cpu: 1.01, want: "fail pass pass pass"},
		"dear":                  {roam: 0.985, again: 1, cpu: 1.03, want: "pass pass fail pass"},
		"not equal to itself":   {roam: 1, again: 1.02, cpu: 1, want: "not measured fail pass pass"},
		"artefact":              {roam: 1.8, again: 1.5, cpu: 0.656, want: "not measured fail pass pass"},
		"not known":             {roam: 1, again: 1, cpu: 1, spread: 0.2, want: "not measured not measured pass pass"},
		"not known, 10 Gb/s":    {roam: 1, again: 1, cpu: 1, spread: 0.2, at: 1, want: "pass pass"},
		"not itself, 10 Gb/s":   {roam: 1, again: 1.02, cpu: 1, at: 1, want: "pass pass"},
		"known, 10 Gb/s":        {roam: 0.97, again: 1, cpu: 1, at: 1, want: "fail pass pass pass"},
		"no bound of processor": {roam: 0.97, again: 1, cpu: 3, at: 3, want: "pass pass pass"},
	} {
		var m transfers
		for arm, v := range [arms][2]float64{withRoam: {c.roam, c.cpu}, plainSame: {1, 1}, plainFull: {1.05, 1},
			plainAgain: {c.again, 1}} {
			m.mbps[arm], m.cpu[arm] = sample(900*v[0], 0), sample(v[1], 0)
		}
		m.mbps[withRoam], m.mbps[plainAgain] = sample(900*c.roam, c.spread), sample(900*c.again, c.spread)
		var got []string
		figures := m.figures(goodputs[c.at])
		for _, f := range figures {
			if v := f.Judge(); v != "" {
				got = append(got, v)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q: %+v", name, got, c.want, figures)
		}
		if mtu := figures[4]; !strings.HasSuffix(mtu.Name, "/mtu") || math.Abs(mtu.Value-1/1.05) > 1e-9 || mtu.Op != "" {
			t.Errorf("%s: %+v", name, mtu)
		}
		if m.settled() != (c.spread == 0) {
			t.Errorf("%s: settled %v", name, m.settled())
		}
	}
}
