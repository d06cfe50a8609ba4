package report

import (
	"fmt"
	"html"
	"strings"
)

// bands draws the references that are bands, below the data.
func (p *panel) bands(b *strings.Builder) {
	for _, r := range p.Refs {
		if r.To == nil {
			continue
		}
		x, y, w, h := float64(left), p.y.at(r.End()), float64(figWidth-left-right), p.y.at(r.At)-p.y.at(r.End())
		if r.OnX {
			x, y, w, h = p.x.at(r.At), p.top, p.x.at(r.End())-p.x.at(r.At), p.y.from-p.top
		}
		fmt.Fprintf(b, `<rect class="band" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", x, y, w, h)
	}
}

// dash is the pattern of reference line number i of a panel, also in the legend.
func dash(i int) string { return []string{"8 4", "2 3", "12 3 2 3"}[i%3] }

// lines draws the other references above the data. References across the horizontal axis
// have labels beside them, each a row below the previous; the legend names the others.
func (p *panel) lines(b *strings.Builder) {
	const row = 13.0
	vertical := 0
	for i, r := range p.Refs {
		if r.To == nil && !r.OnX {
			fmt.Fprintf(b, `<path class="ref" stroke-dasharray="%s" d="M%d %.1fH%d"/>`+"\n", dash(i), left,
				p.y.at(r.At), figWidth-right)
		}
		if r.To == nil && r.OnX {
			fmt.Fprintf(b, `<path class="ref" stroke-dasharray="%s" d="M%.1f %.1fV%.1f"/>`+"\n", dash(i),
				p.x.at(r.At), p.top, p.y.from)
		}
		if !r.OnX || r.To != nil {
			continue
		}
		vertical++
		x, anchor := p.x.at(r.At)+4, "start"
		if x+textWidth(r.Label) > figWidth-right {
			x, anchor = p.x.at(r.At)-4, "end"
		}
		fmt.Fprintf(b, `<text class="reflabel" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", anchor, x,
			p.top+float64(vertical)*row, html.EscapeString(r.Label))
	}
}
