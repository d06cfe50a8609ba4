package testutil

import (
	"math"
	"testing"
)

func TestInterval(t *testing.T) {
	mean, half := Interval([]float64{1, 2, 3})
	if mean != 2 || math.Abs(half-4.303/math.Sqrt(3)) > 1e-9 {
		t.Errorf("interval %v +- %v", mean, half)
	}
	if _, half := Interval([]float64{1}); !math.IsInf(half, 1) {
		t.Errorf("one value has the half-width %v", half)
	}
}

// The interval of a median holds the true one, and outliers move neither.
func TestQuotientsBearOutliers(t *testing.T) {
	over, under := make([]float64, 100), make([]float64, 100)
	for i := range over {
		over[i], under[i] = 90+float64(i%5), 100
	}
	over[3], over[70] = 9_000, 1
	if e := Quotients(over, under); e.Mid != 0.92 || e.Half < 0.005 || e.Half > 0.011 {
		t.Errorf("median %+v, want 0.92 +- 0.01", e)
	}
	if e := Differences(over, under); e.Mid != -8 {
		t.Errorf("difference %+v, want -8", e)
	}
}

// A value that drifts through a run is not known as well as one that scatters by as much.
func TestEstimatedSeesDrift(t *testing.T) {
	scatter, drift := make([]float64, 1000), make([]float64, 1000)
	for i := range scatter {
		scatter[i], drift[i] = float64(i*7919%1000)/1000, float64(i)/1000
	}
	a, b := Estimated(scatter), Estimated(drift)
	if math.Abs(a.Mid-b.Mid) > 1e-9 || b.Half < 4*a.Half {
		t.Errorf("scatter %+v, drift %+v: the drift must be much wider", a, b)
	}
}
