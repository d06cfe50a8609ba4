package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A package comment claims its importers in a sentence like "Driven by internal/role/ilnphost/engine
// and by tests." or "internal/daemon drives it."
var (
	driverClaim = regexp.MustCompile(`(?i)\b(driven|used|imported) by\b|\bdrives? it\b`)
	sentenceEnd = regexp.MustCompile(`[.;:](\s|$)`)
	packageWord = regexp.MustCompile(`package [a-z0-9]+|[a-z0-9]+(?:[/-][a-z0-9]+)*`)
)

// driverWords are words of such sentences that stand for packages.
var driverWords = map[string]string{"experiments": "lab/exp", "benchmarks": "lab/bench"}

// Drivers finds claims of package comments that no import bears out. A name in a claim
// counts if it is a directory of packages, a word of driverWords, "tests", or follows
// the word "package"; a directory's claim holds if a package below it imports this one.
func Drivers(t *Tree) []Finding {
	importers, dirs := t.importers()
	var all []Finding
	for dir, files := range t.Packages() {
		for _, f := range files {
			for _, name := range claimed(f.AST.Doc.Text()) {
				at := location(name, dirs)
				isAt := func(by string) bool { return under(by, at) }
				if at != "" && !slices.ContainsFunc(importers[dir], isAt) {
					all = append(all, t.find(f, f.AST.Doc.Pos(), "the package comment names %s, which does not import it", at))
				}
			}
		}
	}
	return sortFindings(all)
}

// claimed returns the names in the sentences that claim importers.
func claimed(doc string) []string {
	var names []string
	for _, sentence := range sentenceEnd.Split(strings.Join(strings.Fields(doc), " "), -1) {
		if driverClaim.MatchString(sentence) {
			names = append(names, packageWord.FindAllString(strings.ToLower(sentence), -1)...)
		}
	}
	return names
}

// location returns the directory that a name in a claim stands for, or "".
func location(name string, dirs []string) string {
	if name == "tests" {
		return name
	}
	if dir := driverWords[name]; dir != "" {
		return dir
	}
	if base, ok := strings.CutPrefix(name, "package "); ok {
		for _, dir := range dirs {
			if path.Base(dir) == base {
				return dir
			}
		}
		return base
	}
	if slices.ContainsFunc(dirs, func(dir string) bool { return under(dir, name) }) {
		return name
	}
	return ""
}

// importers returns the directories that import each package, with "tests" for those
// whose tests do, and all directories of packages in order.
func (t *Tree) importers() (map[string][]string, []string) {
	by := map[string][]string{}
	var dirs []string
	for _, f := range t.Go {
		if !slices.Contains(dirs, f.Dir) {
			dirs = append(dirs, f.Dir)
		}
		if f.Test {
			by[f.Dir] = append(by[f.Dir], "tests")
		}
		for _, spec := range f.AST.Imports {
			to := strings.TrimPrefix(importPath(spec), Module+"/")
			by[to] = append(by[to], f.Dir)
			if f.Test {
				by[to] = append(by[to], "tests")
			}
		}
	}
	slices.Sort(dirs)
	return by, dirs
}
