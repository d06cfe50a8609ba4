package exp

import (
	"fmt"
	"slices"
	"strings"
)

// Unknown says that there is no such thing, and which ones may have been meant, or else which
// there are. A list too long for one line has a line for each.
func Unknown(what, name string, known []string) error {
	meant := similar(name, known)
	switch {
	case len(meant) == 1:
		return fmt.Errorf("no %s is called %q; did you mean %q?", what, name, meant[0])
	case len(meant) > 1:
		return fmt.Errorf("no %s is called %q; did you mean one of these?%s", what, name, lines(meant))
	}
	if list := strings.Join(known, ", "); len(list) <= shortList {
		return fmt.Errorf("no %s is called %q; there are %s", what, name, list)
	}
	return fmt.Errorf("no %s is called %q; there are:%s", what, name, lines(known))
}

// shortList is the length of a list that is printed in the line of the error.
const shortList = 40

// leastPart is the length of a part of a name that suggests the name.
const leastPart = 3

// similar returns the known names that contain a name, or else the one that differs from it by
// the fewest letters, if they are few.
func similar(name string, known []string) (best []string) {
	lacks := func(k string) bool { return !strings.Contains(k, name) }
	if len(name) >= leastPart {
		best = slices.DeleteFunc(slices.Clone(known), lacks)
	}
	if len(best) > 0 {
		return best
	}
	least := len(name)/3 + 2
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = []string{k}, d
		}
	}
	return best
}

// lines lists names, each on a line of its own.
func lines(names []string) string { return "\n  " + strings.Join(names, "\n  ") }

// distance is the number of letters to insert, remove or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := last
			if a[i] != b[j] {
				replaced++
			}
			last = row[j+1]
			row[j+1] = min(replaced, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}
