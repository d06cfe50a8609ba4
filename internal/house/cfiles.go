package house

import (
	"regexp"
	"strings"
)

// cDoc says in a table what each file of the data plane is for.
const cDoc = "bpf/README.md"

var (
	fileRow  = regexp.MustCompile(`(?m)^\|([^|]+)\|`)
	fileName = regexp.MustCompile("`([\\w./]+\\.[ch])`")
)

// CFiles finds files of the data plane that the table of bpf/README.md does not
// name, and rows for files that are not there.
func CFiles(t *Tree) []Finding {
	named := map[string]bool{}
	for _, row := range fileRow.FindAllStringSubmatch(string(t.Other[cDoc]), -1) {
		for _, m := range fileName.FindAllStringSubmatch(row[1], -1) {
			named[m[1]] = true
		}
	}
	var all []Finding
	for _, f := range t.C {
		name := strings.TrimPrefix(f.Path, "bpf/")
		if !f.Vendored && !named[name] {
			all = append(all, Finding{Path: cDoc, Text: "does not say what " + name + " is"})
		}
		delete(named, name)
	}
	for _, name := range keys(named) {
		all = append(all, Finding{Path: cDoc, Text: "has a row for " + name + ", which is not there"})
	}
	return sortFindings(all)
}
