package report

import (
	"fmt"
	"html"
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
		if !ok || seen[c.Metric] || isFlag(c) || constant(c, s) {
			continue
		}
		seen[c.Metric] = true
		row := spreadRow{
			Says:   c.Says,
			N:      s.N,
			Median: strings.TrimSpace(num(s.Median) + " " + c.Unit),
			Plot:   template.HTML(inPage(strip(r, c, s))),
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
// several runs. Values that equal the published ones need no plot: steady names them.
func beside(r *result.Result) (out []besideRow) {
	if len(r.Each) > 0 {
		return nil
	}
	for _, c := range r.Claims {
		p, ok := spanOf(c)
		if !ok || p.equal() {
			continue
		}
		c.Unit = p.unit
		s := result.Stats{N: 1, Min: p.value, Max: p.value, Median: p.value, Q1: p.value, Q3: p.value}
		plot := template.HTML(inPage(strip(r, c, s)))
		out = append(out, besideRow{c.Says, num(p.value) + " " + p.unit, published(c), plot})
	}
	return out
}

// equal reports whether a published value and the measured one are the same number.
func (s span) equal() bool { return s.lo == s.hi && s.value == s.lo }

// constant reports whether a metric was the same in every run, and not to be drawn beside
// something else that was published.
func constant(c result.Claim, s result.Stats) bool {
	p, ok := spanOf(c)
	return s.Max-s.Min <= 1e-9*math.Max(1, math.Abs(s.Max)) && (!ok || p.equal())
}

// steady names what needs no plot: the metrics that were the same in every run and, of a
// single run, the values that equal the published ones.
func steady(r *result.Result) string {
	var same []string
	seen := map[string]bool{}
	for _, c := range r.Claims {
		p, ok := spanOf(c)
		s, several := r.Stats[c.Metric]
		if seen[c.Metric] || isFlag(c) || c.Value == nil {
			continue
		}
		if len(r.Each) == 0 && ok && p.equal() || len(r.Each) > 0 && several && constant(c, s) {
			same = append(same, fmt.Sprintf("%s (%s)", c.Says, value(c)))
			seen[c.Metric] = true
		}
	}
	switch {
	case len(same) == 0:
		return ""
	case len(r.Each) > 0:
		return "The same in every run: " + strings.Join(same, "; ") + "."
	}
	return "Equal to what was published: " + strings.Join(same, "; ") + "."
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
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 %d %d" role="img" aria-label="%s: measured %s">`,
		stripWidth, stripHeight, html.EscapeString(c.Says), num(s.Median))
	lo, hi, ok := publishedRange(c)
	if ok && c.Of == "" && lo < hi {
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

// publishedRange returns the published values in the unit of the claim, or in per cent.
func publishedRange(c result.Claim) (lo, hi float64, ok bool) {
	if p, ok := spanOf(c); ok {
		return p.lo, p.hi, true
	}
	return c.Published.Range(c.Unit)
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
		if from, to, ok := publishedRange(c); ok {
			lo, hi = math.Min(lo, from), math.Max(hi, to)
		}
	}
	if lo == hi {
		hi = lo + 1
	}
	return axis{lo: lo, hi: hi, from: 6, to: stripWidth - 6}
}
