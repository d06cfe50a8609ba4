package quickstart

import (
	"errors"
	"strings"
	"testing"

	"roam/lab/exp"
	"roam/lab/result"
)

// Applications that are silent with Roam alone are a failure; on plain IPv6 alone they leave the control unmeasured,
// and with both the whole result.
func TestSilentApplications(t *testing.T) {
	quiet := func(apps ...string) *silentError { return &silentError{apps, strings.Join(apps, ", ")} }
	silent, broken := quiet("ssh"), errors.New("no namespace")
	two, nobody := quiet("ssh", "curl"), quiet()
	expect, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	with, without := healthy(t).passes()
	for _, c := range []struct {
		name          string
		with, without error
		set           []string
		want          error          // of the run
		verdict       result.Verdict // by correctness, if there is none
		reason        string         // of the claim about the control
	}{
		{name: "neither", verdict: result.Passed},
		{name: "with Roam", with: silent, want: silent},
		{name: "with Roam, and no control", with: silent, set: []string{"control=false"}, want: silent},
		{name: "without Roam", without: silent, verdict: result.Inconclusive,
			reason: "no data from an application: ssh"},
		{name: "both", with: silent, without: silent, verdict: result.Inconclusive, reason: "with Roam and without"},
		{name: "more without Roam", with: silent, without: two, verdict: result.Inconclusive,
			reason: "with Roam and without"},
		{name: "more with Roam", with: two, without: silent, want: two},
		{name: "another one with Roam", with: silent, without: quiet("curl"), want: silent},
		{name: "at the last moment nobody", with: nobody, without: silent, want: nobody},
		{name: "both, and one is not removed", with: closed(silent, broken), without: silent, want: broken},
		{name: "both, and the control is not removed", with: silent, without: closed(silent, broken), want: silent},
		{name: "without Roam, which is not removed", without: closed(silent, broken), want: broken},
		{name: "both, removed", with: closed(silent, nil), without: closed(silent, nil), verdict: result.Inconclusive,
			reason: "with Roam and without"},
		{name: "with Roam, and the control is broken", with: silent, without: broken, want: silent},
		{name: "another failure with Roam", with: broken, without: silent, want: broken},
		{name: "another failure without", without: broken, want: broken},
		{name: "no control", set: []string{"control=false"}, verdict: result.Inconclusive,
			reason: "the control was turned off"},
	} {
		x := healthy(t, c.set...)
		r := result.New("quickstart")
		err := both(&exp.Env{Params: x.p, Result: r}, func(withRoam bool) (*trace, error) {
			if withRoam {
				return with, c.with
			}
			return without, c.without
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want != nil {
			continue
		}
		r.Judge(expect)
		if v := r.Correctness(); v != c.verdict {
			t.Errorf("%s: %s", c.name, v)
		}
		for _, claim := range r.Claims {
			if claim.ID == "control" && !strings.Contains(claim.Reason, c.reason) {
				t.Errorf("%s: %q", c.name, claim.Reason)
			}
			if c.with != nil && (claim.Measured || !strings.Contains(r.Summary, c.reason)) {
				t.Errorf("%s is measured without a measurement, or %q", claim.ID, r.Summary)
			}
		}
	}
}

// A pass with keys begins when all sessions have them; one without asks nothing.
func TestWaitKeyed(t *testing.T) {
	asked := 0
	answers := []struct {
		n   int
		err error
	}{{2, errors.New("no daemon")}, {1, nil}, {3, nil}, {2, nil}}
	count := func() (int, error) {
		asked++
		return answers[asked-1].n, answers[asked-1].err
	}
	if err := waitKeyed(t.Context(), false, 2, count); err != nil || asked != 0 {
		t.Errorf("without keys roam was asked %d times: %v", asked, err)
	}
	if err := waitKeyed(t.Context(), true, 2, count); err != nil || asked != len(answers) {
		t.Errorf("the wait ended with answer %d: %v", asked, err)
	}
}
