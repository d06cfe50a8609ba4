package house

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	loses  = regexp.MustCompile(`\breturn (TC_ACT_|XDP_)?(SHOT|STOLEN|DROP)\b`)
	counts = regexp.MustCompile(`\b(count|drop)\(`)
	// elsewhere is what a comment says above a function whose packets another
	// program has counted.
	elsewhere = regexp.MustCompile(`counted there\.\n \*/\n(SEC\(.*\)\n)?$`)
	counter   = regexp.MustCompile(`(?m)^\t(DROP_\w+),`)
)

// Drops finds functions of the data plane that take a packet out of its way
// without counting why, and reasons that nothing ever counts.
func Drops(t *Tree) []Finding {
	var all []Finding
	source := map[string][]string{}
	named, used := map[string]Finding{}, strings.Builder{}
	for _, f := range t.C {
		if f.Vendored {
			continue
		}
		source[f.Path] = strings.Split(string(f.Src), "\n")
		for i, line := range source[f.Path] {
			if m := counter.FindStringSubmatch(line); m != nil {
				named[m[1]] = Finding{f.Path, i + 1, "nothing counts " + m[1]}
				continue
			}
			used.WriteString(line + "\n")
		}
	}
	for _, fn := range t.CFuncs() {
		lines := source[fn.Path]
		above := strings.Join(lines[:fn.Line-1], "\n") + "\n"
		body := strings.Join(lines[fn.Line-1:fn.Line-1+fn.Lines], "\n")
		if loses.MatchString(body) && !counts.MatchString(body) && !elsewhere.MatchString(above) {
			all = append(all, Finding{fn.Path, fn.Line, fmt.Sprintf("%s drops without counting why", fn.Name)})
		}
	}
	for name, finding := range named {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(used.String()) {
			all = append(all, finding)
		}
	}
	return sortFindings(all)
}
