package stats

import (
	"math"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		v       []float64
		q, want float64
	}{
		{[]float64{3}, 0.9, 3}, {[]float64{4, 0, 2, 1, 3}, 0.25, 1}, {[]float64{1, 2}, 0.75, 1.75}, {[]float64{5, 1}, 1, 5},
		{[]float64{5, 1}, 0, 1},
	} {
		if got := Quantile(c.v, c.q); got != c.want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.v, c.q, got, c.want)
		}
	}
	if v := []float64{3, 1, 2}; Median(v) != 2 || v[0] != 3 {
		t.Errorf("median %v, and values are %v now", Median(v), v)
	}
	if Median([]float64{1, 2, 3, 10}) != 2.5 || !math.IsNaN(Median(nil)) {
		t.Error("median of four, or of none, is wrong")
	}
}

func TestSmallOnes(t *testing.T) {
	if Mean([]float64{1, 2, 6}) != 3 || Mean(nil) != 0 {
		t.Error("mean is wrong")
	}
	if got := Millis(1500 * time.Microsecond); got != 1.5 {
		t.Errorf("Millis: %v", got)
	}
	if got := Round(1.23456, 3); got != 1.235 {
		t.Errorf("Round: %v", got)
	}
}
