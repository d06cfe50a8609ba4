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

// medianOfRounded is the median of values of which a sample has the nearest multiples of a unit. Those that became
// the median's multiple are taken as spread evenly over its unit: ping prints microseconds, of which a round trip
// may take ten.
func medianOfRounded(sample []float64, unit float64) float64 {
	mid := slices.Sorted(slices.Values(sample))[(len(sample)-1)/2]
	below, equal := 0, 0
	for _, v := range sample {
		switch {
		case v < mid-unit/2:
			below++
		case v <= mid+unit/2:
			equal++
		}
	}
	return mid + unit*((float64(len(sample))/2-float64(below))/float64(equal)-0.5)
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

// Values between multiples of a unit have a median between them.
func TestMedianOfRounded(t *testing.T) {
	for name, c := range map[string]struct {
		sample []float64
		want   float64
	}{
		"all alike":           {[]float64{12, 12, 12, 12}, 12},
		"as many above":       {[]float64{11, 12, 12, 13}, 12},
		"more above":          {[]float64{12, 12, 12, 13}, 12 - 0.5 + 2./3},
		"more below":          {[]float64{11, 12, 12, 12}, 12 - 0.5 + 1./3},
		"between two":         {[]float64{11, 11, 12, 12}, 11.5},
		"an outlier is as is": {[]float64{11, 12, 12, 900}, 12},
	} {
		if got := medianOfRounded(c.sample, 1); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
