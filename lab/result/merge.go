package result

import (
	"fmt"
	"maps"
	"math"
)

// Merge combines several runs of one experiment. Each claim shows its worst value and
// passes only if it passed in every run that measured it, unless it concerns all runs
// (Expectation.Of). Metrics without claim are medians. Stats has quartiles and confidence
// intervals of all metrics, and Each every run's own figures and series; Series, Events and
// Tables are those of the last run. The runs must have been judged.
func Merge(runs []*Result) (*Result, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("merge results: no runs")
	}
	out := *runs[len(runs)-1]
	out.Runs = len(runs)
	if len(runs) == 1 {
		return &out, nil
	}
	out.Seed, out.Started, out.Seconds, out.Losses = runs[0].Seed, runs[0].Started, 0, nil
	out.StallMonitor, out.Captures = StallMonitor{Cores: out.StallMonitor.Cores, LimitMs: out.StallMonitor.LimitMs}, nil
	for _, r := range runs {
		out.Seconds += r.Seconds
		out.StallMonitor.add(r.StallMonitor, r.Seconds)
		for _, l := range r.Losses {
			out.AddLoss(l)
		}
		out.Captures = append(out.Captures, r.Captures...)
		out.Each = append(out.Each, Run{
			Seed: r.Seed, Started: r.Started, Seconds: r.Seconds, Pass: r.Pass, Metrics: r.Metrics,
			Unmeasured: r.Unmeasured, Series: r.Series, Events: r.Events, StallMonitor: r.StallMonitor,
			Losses: r.Losses,
		})
	}
	out.StallMonitor.BusyPct /= max(out.Seconds, 1e-9)
	out.StallMonitor.OthersPct /= max(out.Seconds, 1e-9)
	out.mergeMetrics(runs)
	out.Claims = out.mergeClaims(runs)
	for _, c := range out.Claims {
		if c.Value != nil && c.Of == "" {
			out.Metrics[c.Metric] = *c.Value
		}
	}
	out.conclude()
	return &out, nil
}

// mergeMetrics describes every metric that any run measured.
func (r *Result) mergeMetrics(runs []*Result) {
	values := map[string][]float64{}
	r.Metrics, r.Unmeasured, r.Stats = map[string]float64{}, map[string]string{}, map[string]Stats{}
	for _, run := range runs {
		for name, v := range run.Metrics {
			values[name] = append(values[name], v)
		}
		maps.Copy(r.Unmeasured, run.Unmeasured)
	}
	for name, v := range values {
		r.Stats[name] = describe(v)
		r.Metrics[name] = r.Stats[name].Median
		delete(r.Unmeasured, name)
	}
}

func (r *Result) mergeClaims(runs []*Result) []Claim {
	out := make([]Claim, len(runs[0].Claims))
	for i := range out {
		worst := runs[0].Claims[i]
		for _, run := range runs[1:] {
			if c := run.Claims[i]; worse(c, worst) {
				worst = c
			}
		}
		if worst.Of != "" {
			worst = r.judgeAll(worst.Expectation, runs)
		}
		out[i] = worst
	}
	return out
}

// judgeAll judges a claim about several runs. Runs in which one of its guards
// does not hold take no part.
func (r *Result) judgeAll(e Expectation, runs []*Result) Claim {
	c := Claim{Expectation: e}
	each := e
	each.Of = ""
	var v []float64
	why := ""
	for _, run := range runs {
		if one := run.judge(each); one.Measured {
			v = append(v, *one.Value)
		} else {
			why, c.Disturbed = ": "+one.Reason, c.Disturbed || one.Disturbed
		}
	}
	if c.Reason = fewRuns(e, len(v)); c.Reason != "" {
		c.Reason += why
		return c
	}
	c.Disturbed = false
	value := describe(v).value(e.Of)
	c.Measured, c.Value, c.Pass = true, &value, holds(value, e.Op, e.Bound)
	return c
}

// worse reports whether claim a is a worse result than b. Any measured run outranks an
// unmeasured one.
func worse(a, b Claim) bool {
	switch {
	case !a.Measured:
		return !b.Measured && a.Disturbed && !b.Disturbed
	case !b.Measured:
		return true
	case a.Op == "<=":
		return *a.Value > *b.Value
	case a.Op == ">=":
		return *a.Value < *b.Value
	}
	return math.Abs(*a.Value-a.Bound) > math.Abs(*b.Value-b.Bound)
}
