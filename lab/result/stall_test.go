package result

import (
	"strings"
	"testing"
)

// A stall that the daemon under test made excuses nothing: it is neither the worst of the
// machine's, nor does it keep a claim about time from being judged.
func TestStallsOfTheDaemonExcuseNothing(t *testing.T) {
	for name, c := range map[string]struct {
		stalls      []Stall
		worst, roam float64
		excused     bool
		whose       string
	}{
		"none":                          {nil, 7, 0, false, ""},
		"of nobody that was looked for": {[]Stall{{Ms: 30}}, 30, 0, true, ""},
		"the daemon's": {[]Stall{{Ms: 90, Owner: OwnerRoam}, {Ms: 60, Owner: OwnerRoam}}, 7, 90, false,
			"2 by Roam's daemon"},
		"the hypervisor's beside it": {[]Stall{{Ms: 90, Owner: OwnerRoam}, {Ms: 40, Owner: OwnerHypervisor},
			{Ms: 50, Owner: OwnerOthers}}, 50, 90, true, "1 by Roam's daemon, 1 by the hypervisor, 1 by other processes"},
	} {
		s := StallMonitor{LimitMs: 20, WorstMs: 7, RoamMs: 7, Stalls: c.stalls}
		s.Keep(func(Stall) bool { return true })
		if s.WorstMs != c.worst || s.RoamMs != c.roam || s.Excused() != c.excused || s.Whose() != c.whose {
			t.Errorf("%s: worst %g, Roam's %g, excused %v, %q", name, s.WorstMs, s.RoamMs, s.Excused(), s.Whose())
		}
		text := strings.Join(s.InWords(), "\n")
		if strings.Contains(text, "excuses no figure") != (c.roam > 0) || strings.Contains(text, "not judged") {
			t.Errorf("%s: %q", name, text)
		}
		s.Disturbed = s.Excused()
		if text := strings.Join(s.InWords(), "\n"); strings.Contains(text, "not judged") != c.excused ||
			strings.Count(text, c.whose) != 1 && c.whose != "" {
			t.Errorf("%s, disturbed: %q", name, text)
		}
	}
	s := StallMonitor{Processes: map[Owner]Processes{OwnerEmulator: {10, 2}, OwnerRoam: {30, 4}}}
	want := "Roam's daemon ran for 30 ms and waited for 4 ms; the emulator ran for 10 ms and waited for 2 ms"
	if q := s.Queued(); q != want {
		t.Error(q)
	}
}

// Where other programs had most of the machine, times say nothing of Roam, though no thread of
// the stall monitor was late.
func TestOthersExcuseTimes(t *testing.T) {
	for others, shared := range map[float64]bool{0: false, 50: false, 51: true, 74: true} {
		r := New("x")
		r.StallMonitor = StallMonitor{LimitMs: 20, WorstMs: 7, OthersPct: others}
		for k, v := range map[string]float64{"lost": 0, "rcvbuf_errors": 0, "gap_ms": 80, "ratio": 1} {
			r.Set(k, v)
		}
		r.Judge(expectations(t))
		want := map[bool]Verdict{false: Failed, true: Inconclusive}[shared]
		if r.Verdict != want || r.Correctness() != Passed {
			t.Errorf("%g %%: %s, correctness %s; want %s", others, r.Verdict, r.Correctness(), want)
		}
		words := strings.Join(r.StallMonitor.InWords(), "\n")
		if strings.Contains(words, "had 74 % of the processors; times are not judged") != (others == 74) {
			t.Errorf("%g %%: %q", others, words)
		}
		if shared && !strings.Contains(r.Claims[1].Reason, "of the processors, so 80 does not count") {
			t.Errorf("%g %%: %q", others, r.Claims[1].Reason)
		}
	}
}

func TestMergeWeighsOthers(t *testing.T) {
	a, b := New("x"), New("x")
	a.Seconds, a.StallMonitor.OthersPct = 10, 80
	b.Seconds, b.StallMonitor.OthersPct = 30, 20
	out, err := Merge([]*Result{a, b})
	if err != nil || out.StallMonitor.OthersPct != 35 {
		t.Errorf("%+v, %v; want 35 %%", out.StallMonitor, err)
	}
}

// A guard on a busy machine counts only where processors are scarce; the daemons' waits are compared with their runs.
func TestScarce(t *testing.T) {
	for _, c := range []struct {
		others, run, wait float64
		want              string
	}{
		{50, 100, 2500, ""},
		{50.5, 100, 0, "other programs had 50 % of the processors"},
		{20, 100, 9000, ""},
		{21, 100, 2510, "other programs had 21 % of the processors, and Roam's daemons waited for one " +
			"25 times as long as they ran"},
		{21, 0, 0, ""},
	} {
		r := New("x")
		r.Set("lost", 1)
		r.Set("ready", 0)
		r.StallMonitor.OthersPct = c.others
		r.StallMonitor.Processes = map[Owner]Processes{OwnerRoam: {c.run, c.wait}, OwnerWorkload: {1, 1e6}}
		if got := r.StallMonitor.Scarce(); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
		r.Judge([]Expectation{{ID: "a", Metric: "lost", Op: "==", Kind: Correctness,
			Needs: []Guard{{Metric: "ready", Op: "==", Bound: 1, Reason: "not ready", Busy: true}}}})
		reason := ""
		if c.want != "" {
			reason = "not ready: " + c.want
		}
		if got := r.Claims[0]; got.Measured != (c.want == "") || got.Reason != reason || got.Pass {
			t.Errorf("%v: measured %v, %q", c, got.Measured, got.Reason)
		}
	}
}
