package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"roam/lab/result"
)

// spreadRow tells how the metric of a claim came out in several runs.
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
		row := spreadRow{Says: c.Says, N: s.N, Median: strings.TrimSpace(num(s.Median) + " " + c.Unit), Plot: template.HTML(strip(r, c, s))}
		row.Quartiles = num(s.Q1) + " – " + num(s.Q3)
		if s.CILow != nil {
			row.Interval = num(s.Mean) + " ± " + strconv.FormatFloat(*s.CIHigh-s.Mean, 'g', 2, 64)
		}
		out = append(out, row)
	}
	return out
}

const (
	stripWidth  = 300
	stripHeight = 40
	stripAxis   = 24 // from the top
)

// strip draws the runs of a metric as dots, their quartiles as a box with the
// median, the interval of the mean as a bar, and the bound as a line.
func strip(r *result.Result, c result.Claim, s result.Stats) string {
	x := stripAxisOf(c, s)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 %d %d" role="img" aria-label="runs">`, stripWidth, stripHeight)
	fmt.Fprintf(&b, `<path class="axis" d="M%.0f %dH%.0f"/>`, x.from, stripAxis, x.to)
	for _, end := range []struct {
		v      float64
		anchor string
	}{{x.lo, "start"}, {x.hi, "end"}} {
		fmt.Fprintf(&b, `<text class="tick" text-anchor="%s" x="%.0f" y="%d">%s</text>`, end.anchor, x.at(end.v), stripHeight-3, num(end.v))
	}
	fmt.Fprintf(&b, `<rect class="box" x="%.1f" y="5" width="%.1f" height="14" rx="2"/>`, x.at(s.Q1), math.Max(1, x.at(s.Q3)-x.at(s.Q1)))
	fmt.Fprintf(&b, `<path class="median" d="M%.1f 3V21"/>`, x.at(s.Median))
	if s.CILow != nil {
		fmt.Fprintf(&b, `<path class="ci" d="M%.1f %dH%.1f"/>`, x.at(math.Max(x.lo, *s.CILow)), stripAxis, x.at(math.Min(x.hi, *s.CIHigh)))
	}
	for i, run := range r.Each {
		if v, ok := run.Metrics[c.Metric]; ok {
			fmt.Fprintf(&b, `<circle class="run" cx="%.1f" cy="%d" r="2.4"/>`, x.at(v), 8+4*(i%3))
		}
	}
	if c.Of == "" {
		fmt.Fprintf(&b, `<path class="bound" d="M%.1f 1V%d"/>`, x.at(c.Bound), stripAxis+3)
	}
	if c.Published != nil && c.Published.Value != nil && c.Of == "" {
		fmt.Fprintf(&b, `<path class="ref" d="M%.1f 1V%d"/>`, x.at(*c.Published.Value), stripAxis+3)
	}
	return b.String() + "</svg>"
}

// stripAxisOf spans the runs, the bound and the published value. A bound so far
// away that the runs would be one dot is what the reader is to see.
func stripAxisOf(c result.Claim, s result.Stats) axis {
	lo, hi := s.Min, s.Max
	if c.Of == "" {
		lo, hi = math.Min(lo, c.Bound), math.Max(hi, c.Bound)
		if c.Published != nil && c.Published.Value != nil {
			lo, hi = math.Min(lo, *c.Published.Value), math.Max(hi, *c.Published.Value)
		}
	}
	if lo == hi {
		hi = lo + 1
	}
	return axis{lo: lo, hi: hi, from: 6, to: stripWidth - 6}
}
