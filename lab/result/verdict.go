package result

// Verdict is what a whole result says.
type Verdict string

// The verdicts of a result.
const (
	// Passed: every measured claim holds, and every key claim was measured.
	Passed Verdict = "pass"
	// Failed: a measured claim does not hold.
	Failed Verdict = "FAIL"
	// Inconclusive: no measured claim fails, but a key claim was not measured, or a time was
	// measured while the machine stood still or other programs had most of it.
	Inconclusive Verdict = "inconclusive"
)

// conclude sets the verdict over all claims.
func (r *Result) conclude() {
	r.Verdict = r.judged(func(c Claim) bool { return true }, func(c Claim) bool { return c.Key || c.Disturbed })
	r.Pass = r.Verdict == Passed
}

// Correctness returns the verdict over the correctness claims alone, each of which must be
// measured. Continuous integration on a shared machine uses it, whatever the timing claims
// say.
func (r *Result) Correctness() Verdict {
	every := func(c Claim) bool { return c.Kind == Correctness }
	return r.judged(every, every)
}

// judged returns the verdict over the claims that count; those that must be measured are
// among them.
func (r *Result) judged(counts, must func(Claim) bool) Verdict {
	measured, missing := 0, false
	for _, c := range r.Claims {
		switch {
		case !counts(c):
		case c.Measured && !c.Pass:
			return Failed
		case c.Measured:
			measured++
		case must(c):
			missing = true
		}
	}
	if measured == 0 || missing {
		return Inconclusive
	}
	return Passed
}

// Undecided returns the claims because of which the result is inconclusive, unless nothing
// at all was measured.
func (r *Result) Undecided() (list []Claim) {
	for _, c := range r.Claims {
		if !c.Measured && (c.Key || c.Disturbed) {
			list = append(list, c)
		}
	}
	return list
}
