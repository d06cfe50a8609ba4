package runner

import (
	"strings"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
)

// A time that was measured while the daemon under test kept a core from others is judged; one
// that was measured while somebody else did is not.
func TestOwnStallsAreJudged(t *testing.T) {
	gap := []result.Expectation{
		{ID: "g", Says: "is quick", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing, Source: "s"},
		{ID: "l", Says: "loses nothing", Metric: "lost", Op: "==", Kind: result.Correctness, Source: "s"},
	}
	at := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		engine string
		owners []result.Owner
		want   result.Verdict // of a gap beyond the bound
		says   string
	}{
		"no stall":     {exp.Netns, nil, result.Failed, ""},
		"the daemon's": {exp.Netns, []result.Owner{result.OwnerRoam}, result.Failed, "Roam's daemon kept a core"},
		"others'":      {exp.Netns, []result.Owner{result.OwnerOthers}, result.Inconclusive, "1 by other processes"},
		"both": {exp.Netns, []result.Owner{result.OwnerRoam, result.OwnerHypervisor}, result.Inconclusive,
			"1 by Roam's daemon, 1 by the hypervisor"},
		"in virtual time": {exp.VM, []result.Owner{""}, result.Failed, ""},
	} {
		r := result.New("x")
		w := watcher{}
		excused := false
		for _, o := range c.owners {
			stall := result.Stall{At: at, Ms: 60, Owner: o}
			w.stalls = append(w.stalls, stall)
			excused = excused || o != result.OwnerRoam
		}
		r.StallMonitor = result.StallMonitor{LimitMs: stallLimitMs, Stalls: w.stalls}
		if ms := w.within(exp.Span{From: at.Add(-time.Second), To: at}); (ms > 0) != excused {
			t.Errorf("%s: a cell would be measured again for %g ms", name, ms)
		}
		weigh(&r.StallMonitor, &exp.Tally{}, c.engine)
		r.Set("gap_ms", 80)
		r.Set("lost", 0)
		r.Judge(gap)
		says := strings.Join(r.StallMonitor.InWords(), "\n")
		if r.Verdict != c.want || !strings.Contains(says, c.says) {
			t.Errorf("%s: %s, want %s with %q:\n%s", name, r.Verdict, c.want, c.says, says)
		}
		r.Set("lost", 1)
		if r.Judge(gap); r.Verdict != result.Failed {
			t.Errorf("%s: a loss is %s", name, r.Verdict)
		}
	}
}
