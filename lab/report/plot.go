package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"roam/lab/result"
)

// The geometry of a figure in SVG user units, which are pixels at full width.
const (
	figWidth    = 940
	left        = 62
	right       = 18
	plotHeight  = 170
	panelGap    = 40 // between panels; holds the panel's title
	markRow     = 15 // one row of event labels
	bottom      = 46
	charWidth   = 6.9 // the average in the label font, rounded up
	legendSwing = 14
)

// figure draws one Figure as an SVG element.
func figure(r *result.Result, f result.Figure) string { return drawing(r, f, "", "") }

// drawing draws a figure with further attributes of the element, and head
// before all else in it.
func drawing(r *result.Result, f result.Figure, attributes, head string) string {
	var b strings.Builder
	paint := palette(r)
	x := sharedAxis(r, f)
	rows := markRows(r, f, x)
	y := float64(16 + rows*markRow)
	height := y + bottom
	panels := make([]*panel, len(f.Panels))
	for i, p := range f.Panels {
		panels[i] = newPanel(r, p, x, paint)
		height += float64(panelHeight(p)+panelGap) + panels[i].legendHeight() + labelRows(r, f, i, x)
		if onTime(f) {
			panels[i].stalls = panels[i].within(stallsOf(r, p.Arm))
		}
	}
	height -= panelGap - 24
	fmt.Fprintf(&b, `<svg %sviewBox="0 0 %d %.0f" role="img" aria-label="%s">%s`+"\n", attributes, figWidth, height,
		html.EscapeString(f.Title), head)
	for i, p := range f.Panels {
		pn := panels[i]
		y += 24 + pn.legendHeight() + labelRows(r, f, i, x)
		pn.place(y)
		pn.draw(&b)
		if p.Marks {
			pn.marks(&b, r.Events, labelled(f, i))
		}
		pn.head(&b)
		y = pn.bottom() + panelGap - 24
	}
	y += 24 - panelGap
	labelX(&b, x, y, f.XLabel)
	b.WriteString("</svg>\n")
	return b.String()
}

func panelHeight(p result.Panel) int {
	if p.Height > 0 {
		return p.Height
	}
	return plotHeight
}

// labelled reports whether the marks of panel i have their labels above them: the first
// marked panel of each arm does, since arms have their steps at different times.
func labelled(f result.Figure, i int) bool {
	return f.Panels[i].Marks && !slices.ContainsFunc(f.Panels[:i], func(p result.Panel) bool {
		return p.Marks && p.Arm == f.Panels[i].Arm
	})
}

// labelRows is the height of the labels above panel i; markRows has that of the first panel.
func labelRows(r *result.Result, f result.Figure, i int, x axis) float64 {
	if i == 0 || !labelled(f, i) {
		return 0
	}
	return float64((maxRow(placeLabels(r.Events, f.Panels[i].Arm, x)) + 1) * markRow)
}

// onTime reports whether the horizontal axis of a figure is time since the start of traffic.
func onTime(f result.Figure) bool { return strings.HasPrefix(f.XLabel, "time since") }

// sharedAxis is the horizontal axis of a figure. Figures over the same time have the same
// one, so that they can be compared, unless one would fill less than half of it.
func sharedAxis(r *result.Result, f result.Figure) axis {
	x := xAxis(r, f)
	if !onTime(f) || x.log {
		return x
	}
	out := x
	for _, other := range r.Figures {
		if other.XLabel != f.XLabel {
			continue
		}
		o := xAxis(r, other)
		if size := o.hi - o.lo; !o.log && size >= (x.hi-x.lo)/2 && size <= 2*(x.hi-x.lo) {
			out.lo, out.hi = math.Min(out.lo, o.lo), math.Max(out.hi, o.hi)
		}
	}
	return out
}

// xAxis spans the horizontal values of all panels of a figure.
func xAxis(r *result.Result, f result.Figure) axis {
	lo, hi := math.Inf(1), math.Inf(-1)
	logX := false
	for _, p := range f.Panels {
		logX = logX || p.LogX
		for _, ref := range p.Refs {
			if ref.OnX && (ref.At > 0 || !p.LogX) {
				lo, hi = math.Min(lo, ref.At), math.Max(hi, ref.End())
			}
		}
		for _, name := range p.Series {
			s, _ := r.Find(name)
			v := s.X
			if p.Kind == result.CDF {
				v = s.Y
			}
			for _, x := range v {
				if logX && x <= 0 {
					continue
				}
				lo, hi = math.Min(lo, x), math.Max(hi, x)
			}
		}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	if size := math.Max(math.Abs(lo), math.Abs(hi)); !logX && hi-lo <= 1e-6*size {
		lo, hi = lo-0.01*size, hi+0.01*size // as good as one value
	}
	if !logX && lo > 0 && lo < hi/3 {
		lo = 0
	}
	if f.Panels[0].Kind == result.CDF { // a single value would be drawn on the frame
		if pad := 0.03 * (hi - lo); !logX {
			lo, hi = lo-pad, hi+pad
		} else if hi > lo {
			pad := math.Pow(hi/lo, 0.03)
			lo, hi = lo/pad, hi*pad
		}
	}
	if pad := 0.015 * (hi - lo); !logX && slices.ContainsFunc(f.Panels, func(p result.Panel) bool {
		return p.Kind == result.Points && len(f.Panels) == 1
	}) {
		lo, hi = lo-pad, hi+pad // a dot on the edge would be half hidden by the axis
	}
	if logX && lo == hi {
		lo, hi = lo/2, hi*2
	}
	return axis{lo: lo, hi: hi, from: left, to: figWidth - right, log: logX}
}

// panel is one pair of axes while it is drawn.
type panel struct {
	result.Panel
	x, y   axis
	top    float64
	series []result.Series
	labels []string
	colour []string
	legend []entry
	stalls []stall
}

// newPanel makes a panel without its position, which place sets.
func newPanel(r *result.Result, p result.Panel, x axis, paint map[string]string) *panel {
	pn := &panel{Panel: p, x: x}
	for i, name := range p.Series {
		s, ok := r.Find(name)
		if !ok {
			continue
		}
		pn.series = append(pn.series, s)
		pn.labels = append(pn.labels, labelOf(p, i))
	}
	pn.colour = colourAll(pn.labels, paint)
	if p.Kind == result.Stack {
		pn.series = stacked(pn.series)
	}
	pn.y = axis{lo: pn.yMin(), hi: pn.yMax()}
	pn.legend = pn.layLegend()
	return pn
}

// place sets the top of the plot; its legend is above.
func (p *panel) place(top float64) {
	p.top = top
	p.y.from, p.y.to = top+float64(panelHeight(p.Panel)), top
}

func (p *panel) bottom() float64 { return p.y.from }

// yMin is 0, except for dots that are all far above, such as sequence numbers.
func (p *panel) yMin() float64 {
	if p.Kind != result.Points || p.YMax > 0 || len(p.Refs) > 0 {
		return 0
	}
	least, most := math.Inf(1), 0.0
	for _, s := range p.series {
		for _, v := range s.Y {
			least, most = math.Min(least, v), math.Max(most, v)
		}
	}
	return floorNear(least, most)
}

func (p *panel) yMax() float64 {
	switch {
	case p.YMax > 0:
		return p.YMax
	case p.Kind == result.CDF:
		return 1
	}
	most := 0.0
	for _, s := range p.series {
		for _, v := range s.Y {
			most = math.Max(most, v)
		}
	}
	for _, ref := range p.Refs {
		if !ref.OnX {
			most = math.Max(most, ref.End())
		}
	}
	return niceCeil(most)
}

// stacked returns the running sums of series that share their X values.
func stacked(in []result.Series) []result.Series {
	out := make([]result.Series, len(in))
	var sum []float64
	for i, s := range in {
		y := slices.Clone(s.Y)
		for j := range y {
			if j < len(sum) {
				y[j] += sum[j]
			}
		}
		sum = y
		out[i] = result.Series{Name: s.Name, Unit: s.Unit, X: s.X, Y: y}
	}
	return out
}

func (p *panel) draw(b *strings.Builder) {
	p.grid(b)
	p.bands(b)
	switch p.Kind {
	case result.Stack:
		// The topmost sum first, so that each lower one covers its own part.
		for i := len(p.series) - 1; i >= 0; i-- {
			p.area(b, p.steps(p.series[i]), p.colour[i])
		}
	case result.CDF:
		for i, s := range p.series {
			// Curves may coincide: the earlier ones are wider, so that all can be seen.
			x, y := cdf(s.Y)
			p.stroke(b, x, y, p.colour[i], 1.6+0.9*float64(min(3, len(p.series)-1-i)))
		}
	case result.Points:
		for i, s := range p.series {
			p.points(b, s, p.colour[i])
		}
	default:
		for i, s := range p.series {
			p.line(b, s.X, s.Y, p.colour[i])
		}
	}
	p.shade(b)
	p.lines(b)
}

func (p *panel) grid(b *strings.Builder) {
	rows := max(2, panelHeight(p.Panel)/38)
	for _, v := range p.y.ticks(rows) {
		y := p.y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, figWidth-right, y, y)
		fmt.Fprintf(b, `<text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`+"\n", left-7, y+4, p.y.label(v, rows))
	}
	for _, v := range p.x.ticks(10) {
		x := p.x.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", x, x, p.top, p.y.from)
	}
	fmt.Fprintf(b, `<path class="axis" d="M%d %.1fV%.1fH%d"/>`+"\n", left, p.top, p.y.from, figWidth-right)
	mid := (p.top + p.y.from) / 2
	fmt.Fprintf(b, `<text class="label" text-anchor="middle" transform="translate(14 %.1f) rotate(-90)">%s</text>`+"\n",
		mid, html.EscapeString(p.YLabel))
}

func labelX(b *strings.Builder, x axis, y float64, label string) {
	for _, v := range x.ticks(10) {
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, x.at(v), y+17, x.label(v, 10))
	}
	fmt.Fprintf(b, `<text class="label" text-anchor="middle" x="%.1f" y="%.1f">%s</text>`+"\n", (x.from+x.to)/2, y+36,
		html.EscapeString(label))
}
