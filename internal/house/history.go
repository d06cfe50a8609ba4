package house

import (
	"fmt"
	"regexp"
	"strings"
)

// subject is the form of a commit's first line: the areas, then what was done.
var subject = regexp.MustCompile(`^[a-z0-9_./-]+(, ?[a-z0-9_./-]+)*: \S`)

// HistoryFormat is what `git log --format=` has to print for History: one
// record per commit, the subject and the body, parted and ended by the control
// characters that ASCII has for that.
const HistoryFormat = "%s%x1f%b%x1e"

// History measures the messages of the commits that git printed in
// HistoryFormat.
func History(log string) []Measure {
	area, body, commits := 0, 0, 0
	for _, record := range strings.Split(log, "\x1e") {
		head, text, ok := strings.Cut(strings.TrimLeft(record, "\n"), "\x1f")
		if !ok {
			continue
		}
		commits++
		if subject.MatchString(head) {
			area++
		}
		if strings.TrimSpace(text) != "" {
			body++
		}
	}
	return []Measure{
		{"commits with an area: subject", "95%", percent(area, commits), 100*area >= 95*commits},
		{"commits with a body", "80%", percent(body, commits), 100*body >= 80*commits},
	}
}

// Table lays the measures out in columns, a star at those off their limit.
func Table(rows []Measure) string {
	rows = append([]Measure{{"check", "limit", "ours", true}}, rows...)
	wide := [2]int{}
	for _, r := range rows {
		wide[0], wide[1] = max(wide[0], len(r.Check)), max(wide[1], len(r.Limit))
	}
	var s strings.Builder
	for _, r := range rows {
		mark := " "
		if !r.Good {
			mark = "*"
		}
		fmt.Fprintf(&s, "%s %-*s  %-*s  %s\n", mark, wide[0], r.Check, wide[1], r.Limit, r.Value)
	}
	return s.String()
}
