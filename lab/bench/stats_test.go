package bench

import (
	"math"
	"regexp"
	"slices"
	"testing"
	"time"

	"roam/internal/testutil"
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

func milli(d time.Duration) float64 { return d.Seconds() * 1000 }

// millis is a sample in ms.
func millis(sample []time.Duration) (all []float64) {
	for _, d := range sample {
		all = append(all, milli(d))
	}
	return all
}

// apart returns the median of the differences of two samples, pair by pair, in ms.
func apart(over, under []time.Duration) testutil.Estimate {
	return testutil.Differences(millis(over), millis(under))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
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
}
