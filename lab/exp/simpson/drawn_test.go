package simpson

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/result"
)

// Each curve has the cells of its policy and frame without a queue; displacements are those with one.
func TestDrawingOfAHost(t *testing.T) {
	all := passages(t)
	for i, v := range all {
		v.displaced, v.rtts = []float64{float64(i)}, []float64{float64(i)}
	}
	r := result.New("x")
	drawHost(r, all)
	for name, want := range map[string][]float64{
		"rtt_ipv6_128": {0}, "rtt_ipv6_1506": {1, 12}, "rtt_100_0_128": {3}, "rtt_80_20_128": {9},
		"rtt_80_20_1506": {10, 15},
		"displaced_ipv6": {2}, "displaced_50_50": {8}, "displaced_80_20": {11},
	} {
		if s, ok := r.Find(name); !ok || !slices.Equal(s.Y, want) {
			t.Errorf("%s: %v, want %v", name, s.Y, want)
		}
	}
	n := 0
	for _, s := range r.Series {
		if len(s.Name) > 9 && s.Name[:9] == "displaced" {
			n++
		}
	}
	if rows := r.Tables[0].Rows; n != len(policies) || rows[2][10] != "-" || rows[3][10] != "3.000, 3.000" {
		t.Errorf("%d displacements; round trips with and without a queue %q, %q", n, rows[2][10], rows[3][10])
	}
	if part([2]uint64{}) != 0 || part([2]uint64{1, 3}) != 25 {
		t.Errorf("parts %g, %g", part([2]uint64{}), part([2]uint64{1, 3}))
	}
}

// The longest delay that Roam adds is that of the worst cell, not of the last.
func TestAddedRoundTrip(t *testing.T) {
	all := []*passage{filled(t, policies[0], frameSizes[0], false), filled(t, policies[1], frameSizes[0], false),
		filled(t, policies[2], frameSizes[0], false)}
	all[1].rtts, all[2].rtts = []float64{0.5}, []float64{0.25}
	if f := figuresOf(all); f.added < 299 || f.added > 301 {
		t.Errorf("added %g µs, want 300", f.added)
	}
}

// Rates are judged beside NPTv6 only.
func TestRatesNeedTheBaseline(t *testing.T) {
	for name, want := range map[string]bool{baseline: true, "forwarding": false} {
		r := result.New("x")
		rates := []*passage{filled(t, policies[0], frameSizes[1], false)}
		judgeSweep(r, []*seen{{cell: cell{name: name}, rates: rates}, {cell: cell{name: baseline}}})
		if _, judged := r.Metrics["rates_share_error_points"]; judged != want {
			t.Errorf("%s: judged %v", name, judged)
		}
	}
}

// An update out answers one update in, and a lost link is announced by the first one that lists the other
// locator alone.
func TestUpdatesOut(t *testing.T) {
	at := func(ms int, locators ...roam.L64) (u update) {
		u.At = exptest.At(time.Duration(ms) * time.Millisecond)
		for _, l := range locators {
			u.Locators = append(u.Locators, packets.Locator{L64: l})
		}
		return u
	}
	if got := added([]update{at(1), at(2)}, []update{at(3), at(9)}); !slices.Equal(got, []float64{2, 7}) {
		t.Errorf("two in, two out: %v", got)
	}
	if got := added([]update{at(1), at(2)}, []update{at(3)}); !slices.Equal(got, []float64{2}) {
		t.Errorf("two in, one out: %v", got)
	}
	out := []update{at(1, 7), at(3, 8), at(4, 7, 8), at(25, 7), at(26, 7)}
	lost := exptest.At(2 * time.Millisecond)
	if v := (&seen{}); !v.announced(out, 7, lost, collected+1) || !slices.Equal(v.lost, []float64{22}) {
		t.Errorf("announced after %v ms", v.lost)
	}
	if v := (&seen{}); v.announced(out[:3], 7, lost, collected) || v.lost != nil {
		t.Error("announced by another one, or by two")
	}
}
