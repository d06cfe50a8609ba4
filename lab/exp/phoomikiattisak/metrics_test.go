package phoomikiattisak

import (
	"math"
	"slices"
	"testing"

	"roam/lab/result"
)

// The control is the greater median of the two networks of a scenario, over the windows of all
// flows with the same congestion control, without those after a cut.
func TestControl(t *testing.T) {
	m := &matrix{runs: []outcome{
		{Scenario: "lan-lan", Variant: "cubic", Kind: soft, OldGaps: []float64{1, 3}, NewGaps: []float64{5}},
		{Scenario: "lan-wan", Variant: "cubic", Kind: cut, OldGaps: []float64{3}, NewGaps: []float64{900}},
		{Scenario: "wan-wan", Variant: "cubic", Kind: hard, OldGaps: []float64{40}, NewGaps: []float64{60, 80}},
		{Scenario: "lan-lan", Variant: "hybla", Kind: soft, OldGaps: []float64{500}, NewGaps: []float64{700}},
	}}
	for scenario, want := range map[string]float64{"lan-lan": 3, "lan-wan": 60, "wan-lan": 60, "wan-wan": 60} {
		o := outcome{Scenario: scenario, Variant: "cubic", GapMs: 905, AfterMs: 65, OutageMs: 40}
		if got := m.control(o); got != want {
			t.Errorf("%s: %g ms, want %g", scenario, got, want)
		}
		if got := m.beyondControl(o); got != 65-want {
			t.Errorf("%s: %g ms beyond the control, want %g", scenario, got, 65-want)
		}
		o.AfterMs = 2 // less than the control's is no negative gap
		if got := m.beyondControl(o); got != 0 {
			t.Errorf("%s: %g ms beyond the control", scenario, got)
		}
	}
}

// One figure that is not known leaves the worst one unknown, which is not that there is none.
func TestWorstOfUnknown(t *testing.T) {
	r := figures{result.New("")}
	list := []outcome{{GapMs: 3}, {GapMs: math.NaN()}, {GapMs: 5}}
	gap := func(o outcome) float64 { return o.GapMs }
	r.Set("none", worst(nil, gap))
	r.Set("unknown", worst(list, gap))
	r.Set("worst", worst(slices.Delete(list, 1, 2), gap))
	why := r.Unmeasured
	if why["none"] != whyNoCells || why["unknown"] == "" || why["unknown"] == whyNoCells || r.Metrics["worst"] != 5 {
		t.Errorf("%v, not measured: %v", r.Metrics, why)
	}
}

// The retransmissions of a cell are those of its scenario, kind and congestion control.
func TestAgain(t *testing.T) {
	m := &matrix{runs: []outcome{
		{Scenario: "lan-lan", Kind: soft, Variant: "cubic", Retransmits: 3},
		{Scenario: "lan-lan", Kind: soft, Variant: "cubic", Retransmits: 5},
		{Scenario: "lan-wan", Kind: soft, Variant: "cubic", Retransmits: 100},
		{Scenario: "lan-lan", Kind: hard, Variant: "cubic", Retransmits: 200},
		{Scenario: "lan-lan", Kind: soft, Variant: "veno", Retransmits: 300},
	}}
	if got := m.again("lan-lan", soft, "cubic"); got != 4 {
		t.Errorf("%g, want 4", got)
	}
}

// The spread is that of the greatest and the least, wherever they are in the list.
func TestSpreadOfData(t *testing.T) {
	m := &matrix{scenarios: []string{"lan-lan"}, kinds: []string{soft},
		variants: []string{"cubic", "hybla", "veno"}}
	for variant, mb := range map[string]float64{"cubic": 10, "hybla": 8, "veno": 9} {
		m.runs = append(m.runs, outcome{Scenario: "lan-lan", Kind: soft, Variant: variant, MB: mb})
	}
	r := figures{result.New("")}
	m.dataMetrics(r)
	if got := r.Metrics["soft_lan_lan_spread_pct"]; got != 20 {
		t.Errorf("%g %%, want 20", got)
	}
}

// The figures of all UDP flows are sums, but for the greatest drop of the rate.
func TestUDPSums(t *testing.T) {
	m := &matrix{udps: []udpOutcome{
		{Written: 100, Refused: 1, QueueDrop: 5, DropPct: 7, Owned: result.Loss{Lost: 4, Emulator: 1}},
		{Written: 20, Refused: 2, QueueDrop: 6, DropPct: 3, Owned: result.Loss{Lost: 2}},
	}}
	r := figures{result.New("")}
	m.udpMetrics(r)
	for name, want := range map[string]float64{"udp_written": 120, "udp_refused": 3, "udp_queue_drops": 11,
		"udp_rate_drop_pct": 7, "udp_lost": 5} {
		if got := r.Metrics[name]; got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}
