package testutil

import (
	"math"
	"slices"
)

// The rounds of a comparison are cut into this many blocks, if they suffice: what the
// machine does for a second weighs on neighbouring rounds alike, so the intervals of rounds
// alone would be too narrow.
const blocks, leastInBlock = 10, 10

// Estimate is the median of a sample with the half-width of its 95 % interval.
type Estimate struct{ Mid, Half float64 }

// Estimated returns the median of a sample in the order in which it was measured. The
// half-width is the greater one of two: by the ranks between which the median lies, and by
// Student's distribution over the medians of consecutive blocks.
func Estimated(sample []float64) Estimate {
	n := len(sample)
	if n < 2 {
		return Estimate{Mid: math.NaN(), Half: math.Inf(1)}
	}
	s := slices.Sorted(slices.Values(sample))
	off := int(math.Ceil(0.98 * math.Sqrt(float64(n))))
	low, high := max(n/2-off, 0), min(n/2+off, n-1)
	e := Estimate{Mid: middle(s), Half: (s[high] - s[low]) / 2}
	if size := n / blocks; size >= leastInBlock {
		var medians []float64
		for i := range blocks {
			medians = append(medians, middle(slices.Sorted(slices.Values(sample[i*size:(i+1)*size]))))
		}
		_, half := Interval(medians)
		e.Half = max(e.Half, half)
	}
	return e
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quotients returns the estimate of over / under, round by round.
func Quotients(over, under []float64) Estimate {
	return pairwise(over, under, func(a, b float64) float64 { return a / b })
}

// Differences returns the estimate of over - under, round by round.
func Differences(over, under []float64) Estimate {
	return pairwise(over, under, func(a, b float64) float64 { return a - b })
}

func pairwise(over, under []float64, of func(a, b float64) float64) Estimate {
	var sample []float64
	for i := range min(len(over), len(under)) {
		sample = append(sample, of(over[i], under[i]))
	}
	return Estimated(sample)
}

// Interval returns the mean of a sample and the half-width of its 95 % confidence interval,
// by Student's distribution.
func Interval(sample []float64) (mean, half float64) {
	n := float64(len(sample))
	if n < 2 {
		return 0, math.Inf(1)
	}
	for _, v := range sample {
		mean += v / n
	}
	var squares float64
	for _, v := range sample {
		squares += (v - mean) * (v - mean)
	}
	return mean, student(len(sample)-1) * math.Sqrt(squares/(n-1)/n)
}

// student is the 97.5 % quantile of Student's distribution; for the degrees of freedom
// between those listed the next lower one's, which is on the safe side.
func student(df int) float64 {
	table := []struct {
		df int
		t  float64
	}{
		{39, 2.023}, {30, 2.042}, {20, 2.086}, {15, 2.131}, {12, 2.179}, {10, 2.228}, {9, 2.262}, {8, 2.306}, {6, 2.447},
		{5, 2.571}, {4, 2.776}, {3, 3.182}, {2, 4.303},
	}
	for _, row := range table {
		if df >= row.df {
			return row.t
		}
	}
	return 12.706
}
