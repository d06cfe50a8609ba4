package main

import (
	"slices"
	"strings"
	"testing"
)

// TestFaultsOfC: each operand of each condition of a function of C is replaced, and each statement taken out.
func TestFaultsOfC(t *testing.T) {
	const src = `/* if (a) */
static __always_inline int f(struct s *p, int a)
{
	int is = 0, n = a >> 2 & p->at[1];

	if (!p || (a > 3 && p->flags & X)) /* or if (b) */
		return 0;
	for (int i = 0; i < 4; i++)
		is |= p->at[i] == a;
	p->seen = 1;
	note(p, a);
	return is ? p->len < 5 : !(n && a);
}

static __always_inline int g(int a)
{
	return a == 1;
}
`
	var all []string
	for _, f := range cFaults("x.h", src, []string{"f"}, true, 1) {
		all = append(all, f.what)
	}
	want := []string{
		"never !p", "always !p", "never a > 3", "always a > 3", "never p->flags & X", "always p->flags & X",
		"never p->at[i] == a", "always p->at[i] == a", "never is", "always is", "never p->len < 5", "always p->len < 5",
		"never !(n && a)", "always !(n && a)", "never n", "always n", "never a", "always a",
		"take out p->seen = 1;", "take out note(p, a);",
	}
	if !slices.Equal(all, want) {
		t.Errorf("planted\n%q, want\n%q", all, want)
	}
	const text = "if ((mutant == 1 ? 0 : mutant == 2 ? 1 : !!(!p)) || ((mutant == 3 ? 0 : mutant == 4 ? 1 : !!(a > 3)) && "
	if got := cText(src, cFaults("x.h", src, nil, true, 1)); !strings.Contains(got, text) ||
		!strings.Contains(got, "\tif (mutant != 20) note(p, a);\n") {
		t.Errorf("no %q in\n%s", text, got)
	}
	for _, f := range cFaults("x.h", src, nil, false, 1) {
		if f.in == "g" && (f.line != 17 || src[f.from:f.to] != "a == 1") {
			t.Errorf("%v replaces %q", &f.mutant, src[f.from:f.to])
		}
	}
}
