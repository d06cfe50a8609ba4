package phoomikiattisak

import "testing"

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
		o := outcome{Scenario: scenario, Variant: "cubic", GapMs: 105, OutageMs: 40}
		if got := m.control(o); got != want {
			t.Errorf("%s: %g ms, want %g", scenario, got, want)
		}
		if got := m.beyondControl(o); got != 65-want {
			t.Errorf("%s: %g ms beyond the control, want %g", scenario, got, 65-want)
		}
		o.GapMs = 42 // less than the control's is no negative gap
		if got := m.beyondControl(o); got != 0 {
			t.Errorf("%s: %g ms beyond the control", scenario, got)
		}
	}
}
