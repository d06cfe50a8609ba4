package sbr

import (
	"slices"
	"strings"
	"testing"

	"roam"
)

// Each line that can never act is named with the reason, and no other line is.
func TestIdle(t *testing.T) {
	linked := []roam.L64{siteA, siteB}
	const inside, good = "fd00:0:1:: 50 0 vlb 1 2\n", "2001:db8:a:: 50 0 none 2\n2001:db8:b:: 50 0 none 2\n"
	for text, want := range map[string][]string{
		"":            nil,
		inside + good: nil,
		// A standby.
		"fd00:0:1:: 50 0 none 1 2\n2001:db8:a:: 0 0 none 2\n2001:db8:b:: 50 0 none 2\n": nil,
		inside + good + "2001:db8:d:: 50 0 none 3\n":                                    {"4 no line has Rewrite 3"},
		inside + good + "2001:db8:d:: 50 0 none 2\n":                                    {"4 no link has it"},
		inside + good + "2001:db8:d:: 50 0 none -1\n":                                   {"4 it has neither"},
		inside + good + "2001:db8:b:: 50 0 none 5\n":                                    {"3 no line has Rewrite 5"},
		inside + "2001:db8:a:: 0 0 none 2\n2001:db8:b:: 50 0 none 2\n":                  {"3 its share of label 2 is 0"},
		inside + "2001:db8:a:: 50 0 vlb 2\n2001:db8:b:: 50 0 none 2\n":                  {"2 its Advice vlb"},
		inside + good + "fd00:0:2:: 50 0 none 1 3\n2001:db8:d:: 50 0 none 3\n":          {"4 no locator", "5 no link"},
		inside + "2001:db8:d:: 50 0 none 2\n2001:db8:e:: 50 0 none 2\n": {
			"1 no locator", "2 no link", "3 no link",
		},
	} {
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		list := p.Idle(linked)
		ok := slices.EqualFunc(list, want, func(i Idle, w string) bool {
			line, why, _ := strings.Cut(w, " ")
			return string(rune('0'+i.Line)) == line && strings.HasPrefix(i.Why, why)
		})
		if !ok {
			t.Errorf("%s: %+v, want %q", text, list, want)
		}
	}
}
