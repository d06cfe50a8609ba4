package report

import (
	"fmt"
	"slices"
	"strings"

	"roam/lab/result"
)

// claimTable is what the template of claims draws.
type claimTable struct {
	Claims             []result.Claim
	Published, Sources bool // with these columns
}

// tableOf returns the claims of a result that keep keeps.
func tableOf(r *result.Result, sources bool, keep func(result.Claim) bool) (t claimTable) {
	t.Sources = sources
	for _, c := range r.Claims {
		if keep(c) {
			t.Claims = append(t.Claims, c)
			t.Published = t.Published || c.Published != nil
		}
	}
	// What does not hold is what a reader must see.
	slices.SortStableFunc(t.Claims, func(a, b result.Claim) int { return rank(a) - rank(b) })
	return t
}

// rank puts failed claims first, then those whose absence makes a result inconclusive.
func rank(c result.Claim) int {
	switch {
	case class(c) == "fail":
		return 0
	case !c.Measured:
		return 1
	}
	return 2
}

// inSight reports whether the report shows a claim at once: a key claim that was not measured
// is what a reader must see, the others are folded.
func inSight(c result.Claim) bool { return c.Measured || c.Key }

// unfolded are the claims that the report shows at once, and folded the others.
func unfolded(r *result.Result) claimTable { return tableOf(r, true, inSight) }

func folded(r *result.Result) claimTable {
	return tableOf(r, true, func(c result.Claim) bool { return !inSight(c) })
}

// brief are the claims as the overview shows them.
func brief(r *result.Result) claimTable { return tableOf(r, false, inSight) }

// isFlag reports whether a claim is about a yes or a no.
func isFlag(c result.Claim) bool { return c.Unit == "yes" }

// belowControl reports whether a claim is about an excess over something else that there was
// none of: a negative time says that the control was slower.
func belowControl(c result.Claim) bool {
	return c.Value != nil && *c.Value < 0 && c.Op == "<=" && c.Bound >= 0 && num(*c.Value) != "0"
}

func value(c result.Claim) string {
	switch {
	case c.Value == nil:
		return "–"
	case isFlag(c) && *c.Value == 1:
		return "yes"
	case isFlag(c):
		return "no"
	case belowControl(c):
		return "none"
	}
	return amount(*c.Value, c.Unit)
}

// amount is a number with its unit, which is singular for one.
func amount(v float64, unit string) string {
	if one := strings.TrimSuffix(unit, "s"); v == 1 && len(one) > 2 && !strings.Contains(unit, "/") {
		unit = one
	}
	return strings.TrimSpace(num(v) + " " + unit)
}

func bound(c result.Claim) string {
	if isFlag(c) {
		return "yes"
	}
	op := map[string]string{"<=": "≤", ">=": "≥", "==": "="}[c.Op]
	return op + "\u00a0" + amount(c.Bound, c.Unit)
}

// class is the style of a verdict.
func class(c result.Claim) string { return strings.ReplaceAll(strings.ToLower(c.Verdict()), " ", "-") }

// published returns the paper's value, with the place.
func published(c result.Claim) string {
	if c.Published == nil {
		return ""
	}
	s := c.Published.Text
	if v := c.Published.Value; v != nil && isFlag(c) {
		s = map[bool]string{true: "yes", false: "no"}[*v == 1]
	} else if v != nil {
		s = amount(*v, c.Unit)
	}
	if c.Place != "" {
		s += " (" + c.Place + ")"
	}
	return s
}

func anyPublished(r *result.Result) bool {
	return slices.ContainsFunc(r.Claims, func(c result.Claim) bool { return c.Published != nil })
}

// note says which statistic of several runs a claim compares, and by how much there was less
// than nothing of an excess.
func note(c result.Claim) string {
	switch {
	case c.Of != "":
		return c.Of + " of the runs"
	case belowControl(c):
		return num(-*c.Value) + " " + c.Unit + " below what it is compared with"
	}
	return ""
}

// outcome is the verdict on a whole result, which is its style as well.
func outcome(r *result.Result) string { return strings.ToLower(string(r.Verdict)) }

// tally summarizes the claims in words.
func tally(r *result.Result) string {
	pass, fail, missed := r.Count()
	s := fmt.Sprintf("%s: %d of %d claims hold", outcome(r), pass, len(r.Claims))
	if fail == 1 {
		s += ", 1 does not"
	} else if fail > 0 {
		s += fmt.Sprintf(", %d do not", fail)
	}
	if n := unjudged(r); n > 0 {
		missed -= n
		s += fmt.Sprintf(", %d not judged", n)
	}
	if missed > 0 {
		s += fmt.Sprintf(", %d not measured", missed)
	}
	return s
}

// unjudged counts the claims of time that were measured on a disturbed machine.
func unjudged(r *result.Result) (n int) {
	for _, c := range r.Claims {
		if c.Disturbed {
			n++
		}
	}
	return n
}
