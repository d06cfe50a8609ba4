package report

import (
	"fmt"
	"strings"

	"roam/lab/result"
)

// stall is a time in which the machine stood still, in seconds on the axis of a panel.
type stall struct {
	from, to float64
	own      bool // the daemon under test made it
}

// stallsOf returns the stalls in the time of an arm; nothing if the result does not say when
// the arm began.
func stallsOf(r *result.Result, arm string) (out []stall) {
	start, ok := r.Starts[arm]
	if !ok {
		return nil
	}
	for _, s := range r.StallMonitor.Stalls {
		end := s.At.Sub(start).Seconds()
		out = append(out, stall{end - s.Ms/1e3, end, !s.Excuses()})
	}
	return out
}

// within keeps the stalls up to the last value of the panel: the arm was over then.
func (p *panel) within(list []stall) (out []stall) {
	last := 0.0
	for _, s := range p.series {
		if n := len(s.X); n > 0 {
			last = max(last, s.X[n-1])
		}
	}
	for _, s := range list {
		if s.from <= last {
			out = append(out, s)
		}
	}
	return out
}

// shade draws the stalls of the machine above the data, which shine through.
func (p *panel) shade(b *strings.Builder) {
	const least = 2.0 // pixels: a short stall shall be seen
	for _, s := range p.stalls {
		if s.to < p.x.lo || s.from > p.x.hi {
			continue
		}
		from, to := p.x.at(max(s.from, p.x.lo)), p.x.at(min(s.to, p.x.hi))
		class := "stall"
		if s.own {
			class = "stall own"
		}
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", class, from, p.top,
			max(least, to-from), p.y.from-p.top)
	}
}

// shaded explains the shades of a figure, if it has any.
func shaded(r *result.Result, f result.Figure) string {
	if !onTime(f) {
		return ""
	}
	machine, own := "", ""
	x := sharedAxis(r, f)
	for _, p := range f.Panels {
		for _, s := range newPanel(r, p, x, nil).within(stallsOf(r, p.Arm)) {
			switch {
			case s.to < x.lo:
			case s.own:
				own = "Red: Roam's daemon kept a core from others."
			default:
				machine = "Grey: the measuring machine itself stood still."
			}
		}
	}
	return strings.TrimSpace(machine + " " + own)
}
