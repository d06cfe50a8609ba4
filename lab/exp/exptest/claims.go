package exptest

import (
	"fmt"
	"math"
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
	Grey []string // identifiers of the claims that are not measured, or not judged; every other claim passes
	Runs int      // how many runs are merged; 0 is 1
	// Judge extracts the metrics of run n from the records, as the experiment does.
	Judge func(r *result.Result, n int)
}

// Claims judges every case and compares the verdict of each claim with what the case says.
// Over all cases each claim must have passed and failed, each of its guards must have kept it
// from being measured, and one of its failures must lie within one of the bound, or so close
// that a bound ten times as loose would let it pass. never holds the claims that are never
// measured, with the reason.
func Claims(t *testing.T, e exp.Experiment, never map[string]string, cases ...Case) {
	t.Helper()
	expect, err := result.ParseExpect(e.Expect)
	if err != nil {
		t.Fatalf("expect.json of %s: %v", e.Name, err)
	}
	s := newSight(expect, never)
	for _, c := range cases {
		for _, fault := range s.judge(c) {
			t.Errorf("%s: %s", c.Name, fault)
		}
		if t.Failed() && testing.Short() {
			return // the first fault says enough
		}
	}
	for _, fault := range s.unseen() {
		t.Error(fault)
	}
}

// sight is what the cases have shown.
type sight struct {
	expect, lax []result.Expectation
	never       map[string]string
	seen        map[string]bool // claim and what it was
}

func newSight(expect []result.Expectation, never map[string]string) *sight {
	s := &sight{expect: expect, never: never, seen: map[string]bool{}}
	for _, e := range expect {
		s.lax = append(s.lax, loose(e))
	}
	return s
}

// loose is the expectation with a bound ten times as loose.
func loose(e result.Expectation) result.Expectation {
	if e.Op == ">=" {
		e.Bound /= 10
	} else {
		e.Bound *= 10
	}
	return e
}

const (
	passes = "pass"
	fails  = "FAIL"
	absent = "not measured"
	near   = "fail close to its bound"
)

// judge judges one case and returns what is not as the case says.
func (s *sight) judge(c Case) (faults []string) {
	var runs []*result.Result
	for n := range max(1, c.Runs) {
		r := result.New(c.Name)
		c.Judge(r, n)
		runs = append(runs, r)
	}
	laxly, claims := verdicts(s.lax, runs), verdicts(s.expect, runs)
	known := map[string]bool{}
	for i, claim := range claims {
		known[claim.ID] = true
		want := s.want(c, claim)
		if got := claim.Verdict(); got != want {
			faults = append(faults, fmt.Sprintf("claim %s: %s, want %s: %s", claim.ID, got, want, said(claim)))
			continue
		}
		s.seen[claim.ID+want] = true
		if want == fails && (claim.Op == "==" || laxly[i].Pass || math.Abs(*claim.Value-claim.Bound) <= 1) {
			s.seen[claim.ID+near] = true
		}
		for _, g := range claim.Needs {
			if want == absent && strings.Contains(claim.Reason, g.Reason) { // of one run, or of the last of several
				s.seen[claim.ID+g.Reason] = true
			}
		}
	}
	for _, id := range slices.Concat(c.Red, c.Grey) {
		if !known[id] {
			faults = append(faults, "there is no claim "+id)
		}
	}
	return faults
}

// want is the verdict that a case says of a claim.
func (s *sight) want(c Case, claim result.Claim) string {
	switch {
	case slices.Contains(c.Red, claim.ID):
		return fails
	case slices.Contains(c.Grey, claim.ID) && claim.Disturbed:
		return claim.Verdict()
	case slices.Contains(c.Grey, claim.ID), s.never[claim.ID] != "", claim.Of != "" && c.Runs < max(2, claim.Runs):
		return absent
	}
	return passes
}

// unseen returns what no case has shown.
func (s *sight) unseen() (faults []string) {
	for _, e := range s.expect {
		if s.never[e.ID] != "" {
			continue
		}
		for _, what := range []string{passes, fails, near} {
			if !s.seen[e.ID+what] {
				faults = append(faults, fmt.Sprintf("claim %s: no case makes it %s", e.ID, what))
			}
		}
		for _, g := range e.Needs {
			if !s.seen[e.ID+g.Reason] {
				faults = append(faults, fmt.Sprintf("claim %s: no case keeps it from being measured because %s", e.ID, g.Reason))
			}
		}
	}
	return faults
}

// verdicts returns the claims of runs as the lab judges them.
func verdicts(expect []result.Expectation, runs []*result.Result) []result.Claim {
	for _, r := range runs {
		r.Judge(expect)
	}
	out, err := result.Merge(runs)
	if err != nil {
		panic(err) // there is one run at least
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
