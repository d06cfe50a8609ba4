package live

import (
	"fmt"
	"time"
)

// plan is how far a whole run is, of which the clock of the traffic may show
// a part only.
type plan struct {
	begun  time.Time
	expect time.Duration // of one run; 0 is unknown
	run    int           // the present one, from 0
	runs   int           // 0 is unknown
	cells  int           // 0 is unknown
	done   int           // cells, those kept from before among them
	fresh  int           // cells measured since begun
}

// Expect tells how long one run takes, about, and which of how many this is,
// counted from 0.
func (v *View) Expect(d time.Duration, run, runs int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.plan.expect, v.plan.run, v.plan.runs = d, run, runs
}

// Cells tells of how many cells the run consists.
func (v *View) Cells(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.plan.cells = n
}

// CellDone counts a cell as finished; kept says that it was found, not
// measured.
func (v *View) CellDone(kept bool) {
	v.mu.Lock()
	v.plan.done++
	if !kept {
		v.plan.fresh++
	}
	text := v.plan.line(time.Now(), 80)
	v.mu.Unlock()
	if text != "" && !v.tty {
		v.Logf("%s", text)
	}
}

// share returns how much of all runs is done, 0 to 1, and how long the rest will
// take; a negative time is unknown. Cells measure better than a guess, once one
// is finished.
func (p plan) share(now time.Time) (done float64, rest time.Duration) {
	spent := now.Sub(p.begun)
	one, rest := 0.0, time.Duration(-1)
	switch {
	case p.cells > 0 && p.fresh > 0:
		one = float64(p.done) / float64(p.cells)
		rest = spent / time.Duration(p.fresh) * time.Duration(p.cells-p.done)
	case p.cells > 0:
		one = float64(p.done) / float64(p.cells)
		if p.expect > 0 {
			rest = time.Duration(float64(p.expect)*(1-one)) - spent
		}
	case p.expect > 0:
		one = min(1, spent.Seconds()/p.expect.Seconds())
		rest = p.expect - spent
	}
	runs := max(1, p.runs)
	if rest >= 0 || p.expect > 0 {
		rest = max(0, rest) + time.Duration(runs-1-p.run)*max(p.expect, spent+max(0, rest))
	}
	return (float64(p.run) + one) / float64(runs), rest
}

// line is the progress of the whole in one line; "" while nothing is known.
func (p plan) line(now time.Time, width int) string {
	if p.expect == 0 && p.cells == 0 && p.runs < 2 {
		return ""
	}
	done, rest := p.share(now)
	s := fmt.Sprintf("[%s] %3.0f %%", bar(done, min(30, max(5, width/4)), '·'), 100*done)
	if p.runs > 1 {
		s += fmt.Sprintf("  run %d of %d", p.run+1, p.runs)
	}
	if p.cells > 0 {
		s += fmt.Sprintf("  %d of %d cells", p.done, p.cells)
	}
	if rest >= 0 {
		s += fmt.Sprintf("  about %s left", clockText(rest))
	}
	return s
}

// clockText is a duration as minutes and seconds, or hours and minutes.
func clockText(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%d:%02d h", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
