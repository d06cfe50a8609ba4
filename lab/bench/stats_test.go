package bench

import (
	"math"
	"regexp"
	"slices"
	"testing"
	"time"
)

var pingLine = regexp.MustCompile(`time=([0-9.]+) ms`)

// roundTrips reads the times from the output of ping.
func roundTrips(out string) (all []time.Duration) {
	for _, m := range pingLine.FindAllStringSubmatch(out, -1) {
		if d, err := time.ParseDuration(m[1] + "ms"); err == nil {
			all = append(all, d)
		}
	}
	return all
}

// quantile returns the q-quantile of a sample, 0 <= q <= 1, by nearest rank.
func quantile(sample []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(sample))
	if len(s) == 0 {
		return 0
	}
	return s[min(int(math.Ceil(q*float64(len(s)))), len(s))-1+boolToInt(q == 0)]
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// interval returns the mean of a sample and the half-width of its 95 %
// confidence interval, by Student's distribution.
func interval(sample []float64) (mean, half float64) {
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

// student is the 97.5 % quantile of Student's distribution; for the degrees of
// freedom between those listed the next lower one's, which is on the safe side.
func student(df int) float64 {
	table := []struct {
		df int
		t  float64
	}{{39, 2.023}, {30, 2.042}, {20, 2.086}, {15, 2.131}, {12, 2.179}, {10, 2.228}, {8, 2.306}, {6, 2.447}, {5, 2.571},
		{4, 2.776}, {3, 3.182}, {2, 4.303}}
	for _, row := range table {
		if df >= row.df {
			return row.t
		}
	}
	return 12.706
}

func TestStats(t *testing.T) {
	rtts := roundTrips("64 bytes from cn: icmp_seq=1 ttl=62 time=0.746 ms\n64 bytes: icmp_seq=2 time=20.1 ms (DUP!)\n")
	if want := []time.Duration{746 * time.Microsecond, 20100 * time.Microsecond}; !slices.Equal(rtts, want) {
		t.Errorf("round trips %v, want %v", rtts, want)
	}
	sample := []time.Duration{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(sample, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	mean, half := interval([]float64{1, 2, 3})
	if mean != 2 || math.Abs(half-4.303/math.Sqrt(3)) > 1e-9 {
		t.Errorf("interval %v +- %v", mean, half)
	}
}
