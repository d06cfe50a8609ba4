package sbr

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
)

// policyOf is a policy that divides packets among these locators, the first with the lowest precedence.
func policyOf(t *testing.T, sites ...roam.L64) Policy {
	t.Helper()
	text := fmt.Appendf(nil, "%v 50 0 vlb 1 2\n", internal.Prefix())
	for i, l := range sites {
		text = fmt.Appendf(text, "%v %d 0 none 2\n", l.Prefix(), 20+i)
	}
	p, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A policy with more, fewer or other site locators, or in another order, leaves of each flow what its outside node has
// acknowledged and the policy still has: packets do not turn to a locator that the outside node does not know, and of a
// flow whose updates have MACs nobody would announce the others again.
func TestPolicyKeepsAnnounced(t *testing.T) {
	a, b, ab, ba := []roam.L64{siteA}, []roam.L64{siteB}, []roam.L64{siteA, siteB}, []roam.L64{siteB, siteA}
	for name, c := range map[string]struct {
		before, after, want []roam.L64
		sealed              bool
		renamed             uint16
	}{
		"a preferred one comes": {b, ab, b, false, 0},
		"another order":         {ab, ba, ab, false, 0},
		"another order, MACs":   {ab, ba, ab, true, 0},
		"one goes":              {ab, b, b, false, 1},
		"one goes, MACs":        {ab, b, b, true, 1},
		"another one":           {a, b, nil, false, 1},
	} {
		b := newBorder(t)
		b.HandlePolicy(b.now, policyOf(t, c.before...))
		b.drain()
		b.HandleIndices(c.before) // those of no policy before
		seen := seenFlow
		seen.Sealed = c.sealed
		b.HandleFlow(b.now, seen, slices.Clone(c.before))
		b.drain()
		b.installs, b.announced, b.sent = nil, nil, nil
		b.HandlePolicy(b.now, policyOf(t, c.after...))
		b.until(b.now.Add(coalesce))
		got := b.Flows()[0].Announced
		if !slices.Equal(b.installs, []Install{{Renamed: c.renamed}}) || !sameSet(got, c.want) {
			t.Errorf("%s: installs %+v, announced %v, want %v", name, b.installs, got, c.want)
		}
		for _, a := range b.announced { // what the data plane keeps must be the same
			if !sameSet(a.Locators, c.want) {
				t.Errorf("%s: announced %+v", name, a)
			}
		}
		if wants := !c.sealed; wants != (len(b.sent) == 1) {
			t.Errorf("%s: %d updates", name, len(b.sent))
		}
		b.until(b.now.Add(time.Hour))
	}
}
