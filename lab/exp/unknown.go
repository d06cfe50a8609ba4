package exp

import (
	"fmt"
	"strings"
)

// Unknown says that there is no such thing, and which one may have been meant, or else which
// there are.
func Unknown(what, name string, known []string) error {
	best, least := "", len(name)/3+2
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return fmt.Errorf("no %s is called %q; did you mean %q?", what, name, best)
	}
	return fmt.Errorf("no %s is called %q; there are %s", what, name, strings.Join(known, ", "))
}

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
