package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"roam/lab/result"
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

// lines draws the other references, and the labels of all, above the data.
func (p *panel) lines(b *strings.Builder) {
	for _, r := range p.Refs {
		if r.To != nil {
			continue
		}
		if r.OnX {
			fmt.Fprintf(b, `<line class="ref" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", p.x.at(r.At), p.x.at(r.At), p.top, p.y.from)
			continue
		}
		fmt.Fprintf(b, `<line class="ref" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", left, figWidth-right, p.y.at(r.At), p.y.at(r.At))
	}
	p.refLabels(b)
}

// refLabels writes the labels of horizontal references at the right end of
// their line, moved apart where they would overlap, and those of vertical ones
// beside the line, each one row below the one before.
func (p *panel) refLabels(b *strings.Builder) {
	const row = 13.0
	refs := slices.Clone(p.Refs)
	slices.SortStableFunc(refs, func(a, b result.Ref) int { return cmp.Compare(b.End(), a.End()) })
	low, vertical := p.top, 0
	for _, r := range refs {
		x, y, anchor := float64(figWidth-right-4), math.Max(p.y.at(r.End())-4, low+row-2), "end"
		if r.OnX {
			vertical++
			x, y, anchor = p.x.at(r.End())+4, p.top+float64(vertical)*row, "start"
			if x+textWidth(r.Label) > figWidth-right {
				x, anchor = p.x.at(r.At)-4, "end"
			}
		} else {
			low = y
		}
		fmt.Fprintf(b, `<text class="reflabel" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", anchor, x, y, html.EscapeString(r.Label))
	}
}
