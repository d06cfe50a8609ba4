package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	deviation = regexp.MustCompile(`(?m)^## DEVIATION: (.*)$`)
	where     = regexp.MustCompile(`(?m)^\*Where\.\* (.*)$`)
	codeName  = regexp.MustCompile("`([^`]+)`")
)

// Links finds links of the documents to files that are not there.
func Links(t *Tree) []Finding {
	there := t.paths()
	var all []Finding
	for p, src := range t.Other {
		if path.Ext(p) != ".md" {
			continue
		}
		for i, line := range strings.Split(string(src), "\n") {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				to, _, _ := strings.Cut(m[1], "#")
				if to == "" || strings.Contains(to, ":") {
					continue
				}
				if target := path.Join(path.Dir(p), to); !there[target] {
					all = append(all, Finding{p, i + 1, "links to " + target + ", which is not there"})
				}
			}
		}
	}
	return sortFindings(all)
}

// paths holds every file and every directory of the tree.
func (t *Tree) paths() map[string]bool {
	there := map[string]bool{}
	add := func(p string) {
		for ; p != "."; p = path.Dir(p) {
			there[p] = true
		}
	}
	for _, f := range t.Go {
		add(f.Path)
	}
	for _, f := range t.C {
		add(f.Path)
	}
	for p := range t.Other {
		add(p)
	}
	return there
}

// Deviations finds departures from an RFC that only one side knows of: a
// section of docs/rfc that names no place, or a place without the word, and a
// file with the word that no section names.
func Deviations(t *Tree) []Finding {
	marked := t.marked()
	var all []Finding
	for p, src := range t.Other {
		if path.Dir(p) != "docs/rfc" {
			continue
		}
		for _, section := range strings.Split(string(src), "\n## ")[1:] {
			section = "## " + section
			title := deviation.FindStringSubmatch(section)
			if title == nil {
				continue
			}
			place := where.FindStringSubmatch(section)
			if place == nil {
				all = append(all, Finding{Path: p, Text: fmt.Sprintf("%q does not say *Where.*", title[1])})
				continue
			}
			for _, m := range codeName.FindAllStringSubmatch(place[1], -1) {
				if _, ok := marked[m[1]]; !ok {
					all = append(all, Finding{Path: p, Text: fmt.Sprintf("%q: nothing is marked in %s", title[1], m[1])})
				}
				marked[m[1]] = true
			}
		}
	}
	for p, named := range marked {
		if !named {
			all = append(all, Finding{Path: p, Text: "marks a departure that no section of docs/rfc names"})
		}
	}
	return sortFindings(all)
}

// marked lists the files of code that mark a departure; none is named yet.
func (t *Tree) marked() map[string]bool {
	files := map[string]bool{}
	const word = "DEVIATION"
	for _, f := range t.Go {
		if !under(f.Dir, "internal/house") && strings.Contains(string(f.Src), word) {
			files[f.Path] = false
		}
	}
	for _, f := range t.C {
		if strings.Contains(string(f.Src), word) {
			files[f.Path] = false
		}
	}
	return files
}
