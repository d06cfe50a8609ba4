// Package stats has the few numbers that experiments make out of many.
package stats

import (
	"math"
	"slices"
	"time"
)

// Quantile returns the value below which the share q, 0 to 1, of values lies,
// linear between the two nearest; NaN if there are none.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Median returns the middle of values, NaN if there are none.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Mean returns the mean of values, 0 if there are none.
func Mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(len(v), 1))
}

// Millis returns a duration in milliseconds, the unit of metrics whose name ends
// so.
func Millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

// Round rounds to digits decimals, which keeps the JSON small.
func Round(v float64, digits int) float64 {
	p := math.Pow(10, float64(digits))
	return math.Round(v*p) / p
}
