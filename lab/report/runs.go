package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"roam/lab/result"
)

// spreadRow is a claim's metric in several runs.
type spreadRow struct {
	Says, Median, Quartiles, Interval string
	N                                 int
	Plot                              template.HTML
}

// runs are the spreads of the metrics that claims are about, each once.
func runs(r *result.Result) (out []spreadRow) {
	seen := map[string]bool{}
	for _, c := range r.Claims {
		s, ok := r.Stats[c.Metric]
		if !ok || seen[c.Metric] || isFlag(c) {
			continue
		}
		seen[c.Metric] = true
		row := spreadRow{
			Says:   c.Says,
			N:      s.N,
			Median: strings.TrimSpace(num(s.Median) + " " + c.Unit),
			Plot:   template.HTML(strip(r, c, s)),
		}
		row.Quartiles = num(s.Q1) + " – " + num(s.Q3)
		if s.CILow != nil {
			row.Interval = num(s.Mean) + " ± " + strconv.FormatFloat(*s.CIHigh-s.Mean, 'g', 2, 64)
		}
		out = append(out, row)
	}
	return out
}

// besideRow compares a measured value with the published one.
type besideRow struct {
	Says, Value, Published string
	Plot                   template.HTML
}

// beside returns the claims of a single run that have published values; runs does so for
// several runs.
func beside(r *result.Result) (out []besideRow) {
	if len(r.Each) > 0 {
		return nil
	}
	for _, c := range r.Claims {
		_, _, ok := c.Published.Range(c.Unit)
		if !ok || c.Value == nil || isFlag(c) {
			continue
		}
		s := result.Stats{N: 1, Min: *c.Value, Max: *c.Value, Median: *c.Value, Q1: *c.Value, Q3: *c.Value}
		out = append(out, besideRow{c.Says, value(c), published(c), template.HTML(strip(r, c, s))})
	}
	return out
}

const (
	stripWidth  = 300
	stripHeight = 40
	stripAxis   = 24 // from the top
)

// strip draws the runs of a metric as dots, their quartiles as a box with the median, the
// confidence interval of the mean as a bar, the bound as a line, and the published value as
// a line or a band. A single run is one dot.
func strip(r *result.Result, c result.Claim, s result.Stats) string {
	x := stripAxisOf(c, s)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 %d %d" role="img" aria-label="runs">`, stripWidth, stripHeight)
	if lo, hi, ok := c.Published.Range(c.Unit); ok && c.Of == "" && lo < hi {
		fmt.Fprintf(&b, `<rect class="band" x="%.1f" y="2" width="%.1f" height="%d"/>`, x.at(lo),
			x.at(hi)-x.at(lo), stripAxis-2)
	} else if ok && c.Of == "" {
		fmt.Fprintf(&b, `<path class="ref" d="M%.1f 1V%d"/>`, x.at(lo), stripAxis+3)
	}
	fmt.Fprintf(&b, `<path class="axis" d="M%.0f %dH%.0f"/>`, x.from, stripAxis, x.to)
	for _, end := range []struct {
		v      float64
		anchor string
	}{{x.lo, "start"}, {x.hi, "end"}} {
		fmt.Fprintf(&b, `<text class="tick" text-anchor="%s" x="%.0f" y="%d">%s</text>`, end.anchor, x.at(end.v),
			stripHeight-3, num(end.v))
	}
	if c.Of == "" {
		fmt.Fprintf(&b, `<path class="bound" d="M%.1f 1V%d"/>`, x.at(c.Bound), stripAxis+3)
	}
	b.WriteString(dots(r, c, s, x))
	return b.String() + "</svg>"
}

// dots draws the measured values.
func dots(r *result.Result, c result.Claim, s result.Stats, x axis) string {
	var b strings.Builder
	if s.N == 1 {
		fmt.Fprintf(&b, `<circle class="one" cx="%.1f" cy="12" r="4.5"/>`, x.at(s.Median))
		return b.String()
	}
	fmt.Fprintf(&b, `<rect class="box" x="%.1f" y="5" width="%.1f" height="14" rx="2"/>`, x.at(s.Q1),
		math.Max(1, x.at(s.Q3)-x.at(s.Q1)))
	fmt.Fprintf(&b, `<path class="median" d="M%.1f 3V21"/>`, x.at(s.Median))
	if s.CILow != nil {
		fmt.Fprintf(&b, `<path class="ci" d="M%.1f %dH%.1f"/>`, x.at(math.Max(x.lo, *s.CILow)), stripAxis,
			x.at(math.Min(x.hi, *s.CIHigh)))
	}
	for i, run := range r.Each {
		if v, ok := run.Metrics[c.Metric]; ok {
			fmt.Fprintf(&b, `<circle class="run" cx="%.1f" cy="%d" r="2.4"/>`, x.at(v), 8+4*(i%3))
		}
	}
	return b.String()
}

// stripAxisOf spans the runs, the bound and the published values. A far bound reduces the
// runs to one dot, which is the message then.
func stripAxisOf(c result.Claim, s result.Stats) axis {
	lo, hi := s.Min, s.Max
	if c.Of == "" {
		lo, hi = math.Min(lo, c.Bound), math.Max(hi, c.Bound)
		if from, to, ok := c.Published.Range(c.Unit); ok {
			lo, hi = math.Min(lo, from), math.Max(hi, to)
		}
	}
	if lo == hi {
		hi = lo + 1
	}
	return axis{lo: lo, hi: hi, from: 6, to: stripWidth - 6}
}
