package result

import (
	"fmt"
	"math"
)

// Merge makes one result of several runs of the same experiment. Each claim
// shows its worst value and passes only if it passed in every run that measured
// it; metrics that no claim judges are means, with the least and the greatest
// beside them as NAME_min and NAME_max. Series, events and tables are those of
// the last run. The runs must have been judged.
func Merge(runs []*Result) (*Result, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("merge results: no runs")
	}
	out := *runs[len(runs)-1]
	out.Runs = len(runs)
	if len(runs) == 1 {
		return &out, nil
	}
	out.Started, out.Seconds = runs[0].Started, 0
	out.Metrics = map[string]float64{}
	for _, r := range runs {
		out.Seconds += r.Seconds
		if r.Sentinel.WorstMs > out.Sentinel.WorstMs {
			out.Sentinel.WorstMs = r.Sentinel.WorstMs
		}
		out.Sentinel.Disturbed = out.Sentinel.Disturbed || r.Sentinel.Disturbed
	}
	mergeMetrics(out.Metrics, runs)
	out.Claims = mergeClaims(runs)
	for _, c := range out.Claims {
		if c.Value != nil {
			out.Metrics[c.Metric] = *c.Value
		}
	}
	out.Pass = out.allHold("")
	return &out, nil
}

func mergeMetrics(into map[string]float64, runs []*Result) {
	for name := range runs[len(runs)-1].Metrics {
		sum, n := 0.0, 0
		least, most := math.Inf(1), math.Inf(-1)
		for _, r := range runs {
			if v, ok := r.Metrics[name]; ok {
				sum, n = sum+v, n+1
				least, most = math.Min(least, v), math.Max(most, v)
			}
		}
		into[name] = sum / float64(n)
		into[name+"_min"], into[name+"_max"] = least, most
	}
}

func mergeClaims(runs []*Result) []Claim {
	out := make([]Claim, len(runs[0].Claims))
	for i := range out {
		worst := runs[0].Claims[i]
		for _, r := range runs[1:] {
			if c := r.Claims[i]; worse(c, worst) {
				worst = c
			}
		}
		out[i] = worst
	}
	return out
}

// worse reports whether claim a says less well of the system than b. What was
// not measured says nothing, so that any measured run outranks it.
func worse(a, b Claim) bool {
	switch {
	case !a.Measured:
		return false
	case !b.Measured:
		return true
	case a.Op == "<=":
		return *a.Value > *b.Value
	case a.Op == ">=":
		return *a.Value < *b.Value
	}
	return math.Abs(*a.Value-a.Bound) > math.Abs(*b.Value-b.Bound)
}
