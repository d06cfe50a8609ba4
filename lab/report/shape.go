package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"roam/lab/result"
)

// line draws a polyline; points that fall on one pixel column are drawn as the
// column's least and greatest value, so that no peak is lost and the file stays
// small.
func (p *panel) line(b *strings.Builder, x, y []float64, colour string) {
	p.stroke(b, x, y, colour, 1.6)
}

// stroke draws a line of a given width.
func (p *panel) stroke(b *strings.Builder, x, y []float64, colour string, width float64) {
	if d := p.path(x, y); d != "" {
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="%.1f" stroke-linejoin="round" d="%s"/>`+"\n", colour,
			width, d)
	}
}

func (p *panel) area(b *strings.Builder, s result.Series, colour string) {
	d := p.path(s.X, s.Y)
	if d == "" {
		return
	}
	last := p.x.at(s.X[len(s.X)-1])
	fmt.Fprintf(b, `<path class="area" fill="%s" stroke="%s" d="%sL%.1f %.1fL%.1f %.1fZ"/>`+"\n",
		colour, colour, d, last, p.y.from, p.x.at(s.X[0]), p.y.from)
}

// steps turns a series of bins, each of which ends at its X, into one of their corners:
// slopes between bins would show values that were not measured.
func (p *panel) steps(s result.Series) result.Series {
	out := result.Series{Name: s.Name, Unit: s.Unit}
	for i := range min(len(s.X), len(s.Y)) {
		from := s.X[max(0, i-1)]
		if i == 0 && len(s.X) > 1 {
			from = math.Max(p.x.lo, 2*s.X[0]-s.X[1])
		}
		out.X, out.Y = append(out.X, from, s.X[i]), append(out.Y, s.Y[i], s.Y[i])
	}
	return out
}

// path returns the SVG path of a series, reduced to pixel columns.
func (p *panel) path(x, y []float64) string {
	var b strings.Builder
	verb := "M"
	put := func(px, v float64) {
		fmt.Fprintf(&b, "%s%.1f %.1f", verb, px, p.y.at(math.Min(math.Max(v, p.y.lo), p.y.hi)))
		verb = "L"
	}
	dense := len(x) > 2*(figWidth-left-right)
	for i := 0; i < len(x) && i < len(y); {
		px := p.x.at(x[i])
		least, most, last := y[i], y[i], y[i]
		for i++; dense && i < len(x) && i < len(y) && p.x.at(x[i]) < px+1; i++ {
			least, most, last = math.Min(least, y[i]), math.Max(most, y[i]), y[i]
		}
		put(px, least)
		if most != least {
			put(px, most)
			put(px, last)
		}
	}
	return b.String()
}

func (p *panel) points(b *strings.Builder, s result.Series, colour string) {
	radius := 1.7
	if len(s.X) <= 150 { // dots fit
		radius = 3
	}
	fmt.Fprintf(b, `<g fill="%s" fill-opacity="0.75">`, colour)
	drawn := map[[2]int]bool{} // one dot per pixel
	for i := range s.X {
		x, y := p.x.at(s.X[i]), p.y.at(math.Min(s.Y[i], p.y.hi))
		k := [2]int{int(x), int(y)}
		if drawn[k] {
			continue
		}
		drawn[k] = true
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f"/>`, x, y, radius)
	}
	b.WriteString("</g>\n")
}

// cdf returns the steps of the empirical distribution of v.
func cdf(v []float64) (x, y []float64) {
	v = slices.Sorted(slices.Values(v))
	n := float64(len(v))
	for i, value := range v {
		x = append(x, value, value)
		y = append(y, float64(i)/n, float64(i+1)/n)
	}
	return x, y
}

// marks draws the events of the panel's arm as vertical lines, with labels above the first
// panel of the figure.
func (p *panel) marks(b *strings.Builder, events []result.Event, labelled bool) {
	rows := placeLabels(events, p.Arm, p.x)
	n := maxRow(rows) + 1
	for _, l := range rows {
		top := p.top
		if labelled {
			top = p.top - 34 - p.legendHeight() - float64((n-1-l.row)*markRow)
			anchor, dx := "start", 3.0
			if l.flip {
				anchor, dx = "end", -3.0
			}
			fmt.Fprintf(b, `<text class="mark" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, l.x+dx, top+5,
				html.EscapeString(l.text))
			top -= 6
		}
		fmt.Fprintf(b, `<line class="event" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", l.x, l.x, top, p.y.from)
	}
}

// placed is an event label with its row, 0 uppermost.
type placed struct {
	x    float64
	text string
	row  int
	flip bool // the text is left of its line
}

// placeLabels gives each label the first row where it does not run into the
// label before it.
func placeLabels(events []result.Event, arm string, x axis) []placed {
	var out []placed
	var ends []float64
	for _, e := range events {
		if e.Arm != arm || e.T < x.lo || e.T > x.hi {
			continue
		}
		l := placed{x: x.at(e.T), text: e.Label}
		w := textWidth(e.Label) + 8
		start, end := l.x, l.x+w
		if end > figWidth {
			l.flip, start, end = true, l.x-w, l.x
		}
		for l.row < len(ends) && ends[l.row] > start {
			l.row++
		}
		if l.row == len(ends) {
			ends = append(ends, end)
		}
		ends[l.row] = end
		out = append(out, l)
	}
	return out
}

func maxRow(l []placed) int {
	most := -1
	for _, p := range l {
		most = max(most, p.row)
	}
	return most
}

// markRows returns the number of rows of labels above a figure.
func markRows(r *result.Result, f result.Figure, x axis) int {
	i := slices.IndexFunc(f.Panels, func(p result.Panel) bool { return p.Marks })
	if i != 0 {
		return 0 // labelRows has those of other panels
	}
	return maxRow(placeLabels(r.Events, f.Panels[i].Arm, x)) + 1
}
