package live

import (
	"fmt"
	"time"
)

// plan is the progress of a whole run, of which the clock of the traffic may cover only a
// part.
type plan struct {
	begun  time.Time
	expect time.Duration // of one run; 0 is unknown
	run    int           // the present one, from 0
	runs   int           // 0 is unknown
	cells  int           // 0 is unknown
	done   int           // cells, including stored ones
	fresh  int           // cells measured since begun
}

// Expect sets the approximate duration of one run, and the number of this run, from 0, of
// runs.
func (v *View) Expect(d time.Duration, run, runs int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.plan.expect, v.plan.run, v.plan.runs = d, run, runs
}

// Cells sets the number of cells of the run.
func (v *View) Cells(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.plan.cells = n
}

// CellDone counts a finished cell; kept means that it was stored, not measured.
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

// line returns the progress in one line; "" while it is unknown.
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
