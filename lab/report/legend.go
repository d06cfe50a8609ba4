package report

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"roam/lab/result"
)

// colours is the palette of Okabe and Ito, which colour-blind readers can distinguish,
// ordered so that the first ones also differ in lightness.
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7a00"}

// inPage replaces the colours by those of the page, which have a variant for dark windows.
func inPage(svg string) string {
	var pairs []string
	for i, c := range colours {
		pairs = append(pairs, `"`+c+`"`, fmt.Sprintf(`"var(--s%d)"`, i))
	}
	return strings.NewReplacer(pairs...).Replace(svg)
}

// labelOf returns the label of series number i of a panel.
func labelOf(p result.Panel, i int) string {
	if i < len(p.Labels) {
		return p.Labels[i]
	}
	return p.Series[i]
}

// palette gives each label one colour in all figures of a report: the colour that it has in
// the first panel that shows it.
func palette(r *result.Result) map[string]string {
	paint := map[string]string{}
	for _, f := range r.Figures {
		for _, p := range f.Panels {
			var labels []string
			for i, name := range p.Series {
				if _, ok := r.Find(name); ok {
					labels = append(labels, labelOf(p, i))
				}
			}
			for i, c := range colourAll(labels, paint) {
				if _, ok := paint[labels[i]]; !ok {
					paint[labels[i]] = c
				}
			}
		}
	}
	return paint
}

// colourAll returns a colour for each label: its own, unless another label of the panel has
// it, and the first free one otherwise. With more labels than colours, colours repeat.
func colourAll(labels []string, paint map[string]string) []string {
	out := make([]string, len(labels))
	for i, l := range labels {
		if c := paint[l]; c != "" && !slices.Contains(out, c) {
			out[i] = c
		}
	}
	for i := range out {
		for n := 0; out[i] == ""; n++ {
			if c := colours[n%len(colours)]; n >= len(colours) || !slices.Contains(out, c) {
				out[i] = colours[(n+i*(n/len(colours)))%len(colours)]
			}
		}
	}
	return out
}

// entry is a label of a legend: from x, in a row counted from the top.
type entry struct {
	text string
	mark string // the SVG of its sample, at the origin
	x    float64
	row  int
}

// textWidth is about how wide a text is in the label font; rather too wide than
// too narrow.
func textWidth(s string) (w float64) {
	for _, c := range s {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'()[]|! ", c):
			w += 0.64 * charWidth
		case strings.ContainsRune("mwMWOQGD@%→", c):
			w += 1.4 * charWidth
		default:
			w += charWidth
		}
	}
	return w
}

// entries returns the entries of the legend: the series, unless there is only one under its
// own title, and the references along the panel.
func (p *panel) entries() (out []entry) {
	if len(p.labels) > 1 || p.Title == "" {
		for i, l := range p.labels {
			out = append(out,
				entry{text: l, mark: fmt.Sprintf(`<rect y="-9" width="10" height="10" rx="2" fill="%s"/>`, p.colour[i])})
		}
	}
	for i, r := range p.Refs {
		switch {
		case r.To != nil:
			out = append(out, entry{text: r.Label, mark: `<rect class="band" y="-9" width="10" height="10"/>`})
		case !r.OnX:
			out = append(out,
				entry{text: r.Label, mark: fmt.Sprintf(`<path class="ref" stroke-dasharray="%s" d="M-5 -4H11"/>`, dash(i))})
		}
	}
	return out
}

// layLegend places the legend right of the title if there is space, else in rows below the
// title.
func (p *panel) layLegend() []entry {
	const between = 16
	out := p.entries()
	whole := 0.0
	for _, e := range out {
		whole += legendSwing + textWidth(e.text) + between
	}
	x, row := figWidth-right-whole+between, 0
	if title := left + 1.25*textWidth(p.Title) + 2*between; p.Title != "" && x < title || x < left {
		x, row = left, 1
		if p.Title == "" {
			row = 0
		}
	}
	for i := range out {
		w := legendSwing + textWidth(out[i].text)
		if x+w > figWidth-right+1 && x > left {
			x, row = left, row+1
		}
		out[i].x, out[i].row = x, row
		x += w + between
	}
	return out
}

// legendRow is the height of a row of the legend.
const legendRow = 16

// legendHeight is the height of the legend beyond the row of the title.
func (p *panel) legendHeight() float64 {
	if len(p.legend) == 0 {
		return 0
	}
	return float64(p.legend[len(p.legend)-1].row * legendRow)
}

// head writes the panel's title and its legend.
func (p *panel) head(b *strings.Builder) {
	y := p.top - 8 - p.legendHeight()
	fmt.Fprintf(b, `<text class="ptitle" x="%d" y="%.1f">%s</text>`+"\n", left, y, html.EscapeString(p.Title))
	for _, e := range p.legend {
		at := y + float64(e.row*legendRow)
		fmt.Fprintf(b, `<g transform="translate(%.1f %.1f)">%s</g>`, e.x, at, e.mark)
		fmt.Fprintf(b, `<text class="tick key" x="%.1f" y="%.1f">%s</text>`+"\n", e.x+legendSwing, at,
			html.EscapeString(e.text))
	}
}
