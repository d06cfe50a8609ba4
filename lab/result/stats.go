package result

import (
	"fmt"
	"math"
	"slices"
	"time"

	"roam/lab/stats"
)

// Run holds the results of one of several runs.
type Run struct {
	Seed         uint64             `json:"seed"`
	Started      time.Time          `json:"started"`
	Seconds      float64            `json:"seconds"`
	Pass         bool               `json:"pass"`
	Metrics      map[string]float64 `json:"metrics"`
	Unmeasured   map[string]string  `json:"unmeasured,omitempty"`
	Series       []Series           `json:"series"`
	Events       []Event            `json:"events"`
	StallMonitor StallMonitor       `json:"stall_monitor"`
	Losses       []Loss             `json:"losses,omitempty"`
}

// Stats describes the values that a metric took in several runs.
type Stats struct {
	N      int     `json:"n"` // number of runs that measured it
	Min    float64 `json:"min"`
	Q1     float64 `json:"q1"` // quartiles: linear between the two nearest values
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
	// CILow and CIHigh are the 95 % confidence interval of the mean by
	// Student's t distribution; absent for fewer than two runs.
	CILow  *float64 `json:"ci95_low,omitempty"`
	CIHigh *float64 `json:"ci95_high,omitempty"`
}

// describe returns the statistics of values, at least one.
func describe(v []float64) Stats {
	v = slices.Sorted(slices.Values(v))
	s := Stats{
		N:      len(v),
		Min:    v[0],
		Max:    v[len(v)-1],
		Q1:     stats.Quantile(v, 0.25),
		Median: stats.Median(v),
		Q3:     stats.Quantile(v, 0.75),
		Mean:   stats.Mean(v),
	}
	if s.N < 2 {
		return s
	}
	square := 0.0
	for _, x := range v {
		square += (x - s.Mean) * (x - s.Mean)
	}
	half := student(s.N-1) * math.Sqrt(square/float64(s.N-1)/float64(s.N))
	low, high := s.Mean-half, s.Mean+half
	s.CILow, s.CIHigh = &low, &high
	return s
}

// studentTable holds the 97.5 % points of Student's t distribution for 1 to 30
// degrees of freedom.
var studentTable = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// student returns the 97.5 % point. Beyond the table it uses the first terms of the
// expansion around the normal distribution, which is exact to the third decimal there.
func student(freedom int) float64 {
	if freedom <= len(studentTable) {
		return studentTable[freedom-1]
	}
	const z = 1.959964
	n := float64(freedom)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}

// value returns the statistic that judges a claim about several runs.
func (s Stats) value(of string) float64 {
	switch of {
	case Spread:
		return s.Max - s.Min
	case Mean:
		return s.Mean
	}
	return s.Median
}

// fewRuns says why n runs cannot decide a claim about several; "" if they can.
func fewRuns(e Expectation, n int) string {
	if need := max(2, e.Runs); n < need {
		return fmt.Sprintf("the %s takes %d runs that measured it, there are %d", e.Of, need, n)
	}
	return ""
}
