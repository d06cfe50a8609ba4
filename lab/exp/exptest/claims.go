package exptest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"roam/lab/exp"
	"roam/lab/result"
)

// Case is a measurement given by its raw records, with one fault planted or with none.
type Case struct {
	Name string
	Red  []string // identifiers of the claims that fail
	Grey []string // identifiers of the claims that are not measured; every other claim passes
	Runs int      // how many runs are merged; 0 is 1
	// Judge extracts the metrics of run n from the records, as the experiment does.
	Judge func(r *result.Result, n int)
}

// Claims judges every case and compares the verdict of each claim with what the case says.
// Over all cases each claim must have passed and failed, each of its guards must have kept it
// from being measured, and one of its failures must lie so close to the bound that a bound
// ten times as loose would let it pass. never holds the claims that are never measured, with
// the reason.
func Claims(t *testing.T, e exp.Experiment, never map[string]string, cases ...Case) {
	t.Helper()
	expect, err := result.ParseExpect(e.Expect)
	if err != nil {
		t.Fatal(err)
	}
	s := &sight{pass: map[string]bool{}, fail: map[string]bool{}, near: map[string]bool{}, guarded: map[string]bool{}}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { s.judge(t, expect, never, c) })
	}
	for _, e := range expect {
		if never[e.ID] != "" {
			continue
		}
		for what, seen := range map[string]bool{"pass": s.pass[e.ID], "fail": s.fail[e.ID],
			"fail within ten times its bound": s.near[e.ID] || !scaled(e)} {
			if !seen {
				t.Errorf("claim %s: no case makes it %s", e.ID, what)
			}
		}
		for _, g := range e.Needs {
			if !s.guarded[e.ID+"\x00"+g.Reason] {
				t.Errorf("claim %s: in no case it is not measured because %s", e.ID, g.Reason)
			}
		}
	}
}

// scaled reports whether a claim has a bound that can be ten times as loose.
func scaled(e result.Expectation) bool { return e.Bound != 0 && e.Op != "==" }

// loose is the expectation with a bound ten times as loose.
func loose(e result.Expectation) result.Expectation {
	if e.Op == ">=" {
		e.Bound /= 10
	} else {
		e.Bound *= 10
	}
	return e
}

// sight is what the cases have shown, by claim.
type sight struct{ pass, fail, near, guarded map[string]bool }

// judge judges one case.
func (s *sight) judge(t *testing.T, expect []result.Expectation, never map[string]string, c Case) {
	t.Helper()
	var lax []result.Expectation
	for _, e := range expect {
		lax = append(lax, loose(e))
	}
	var runs []*result.Result
	for n := range max(1, c.Runs) {
		r := result.New(c.Name)
		c.Judge(r, n)
		runs = append(runs, r)
	}
	laxly, claims := verdicts(t, lax, runs), verdicts(t, expect, runs)
	known := map[string]bool{}
	for i, claim := range claims {
		known[claim.ID] = true
		want := "pass"
		switch {
		case slices.Contains(c.Red, claim.ID):
			want = "FAIL"
		case slices.Contains(c.Grey, claim.ID), never[claim.ID] != "", claim.Of != "" && c.Runs < max(2, claim.Runs):
			want = "not measured"
		}
		if got := claim.Verdict(); got != want {
			t.Errorf("claim %s: %s, want %s: %s", claim.ID, got, want, said(claim))
			continue
		}
		switch want {
		case "pass":
			s.pass[claim.ID] = true
		case "FAIL":
			s.fail[claim.ID] = true
			s.near[claim.ID] = s.near[claim.ID] || laxly[i].Pass
		default:
			for _, g := range claim.Needs {
				if strings.Contains(claim.Reason, g.Reason) { // of one run, or of the last of several
					s.guarded[claim.ID+"\x00"+g.Reason] = true
				}
			}
		}
	}
	for _, id := range slices.Concat(c.Red, c.Grey) {
		if !known[id] {
			t.Errorf("there is no claim %s", id)
		}
	}
}

// verdicts returns the claims of runs as the lab judges them.
func verdicts(t *testing.T, expect []result.Expectation, runs []*result.Result) []result.Claim {
	t.Helper()
	for _, r := range runs {
		r.Judge(expect)
	}
	out, err := result.Merge(runs)
	if err != nil {
		t.Fatal(err)
	}
	return out.Claims
}

// said is the value of a claim, or why there is none.
func said(c result.Claim) string {
	if c.Value == nil {
		return c.Reason
	}
	return fmt.Sprintf("%s is %g, the bound %s %g", c.Metric, *c.Value, c.Op, c.Bound)
}
