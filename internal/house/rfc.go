package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// The directory of the requirement tables, and the head that begins each one.
const (
	rfcDocs   = "docs/rfc"
	rfcTotals = "docs/rfc/README.md"
	rfcHead   = "| id | requirement | level | status | where | proven by | note |"
)

// What may stand in a row's columns of level and status.
var (
	rfcLevels   = []string{"MUST", "MUST NOT", "MUST ONLY", "SHOULD", "SHOULD NOT", "MAY"}
	rfcStatuses = []string{"implemented", "DEVIATION", "omitted", "not applicable"}
)

var (
	rfcFile    = regexp.MustCompile(`^docs/rfc/rfc(\d{4})\.md$`)
	rfcID      = regexp.MustCompile(`^(\d{4})-(\d+(?:\.\d+)*)-(\d+)$`)
	rfcCount   = regexp.MustCompile(`(?m)^Keywords counted: (\d+)\.`)
	rfcTest    = regexp.MustCompile(`^([\w/]+)\.((?:Test|Fuzz)\w+)(?:/(.+))?$`)
	notInSlugs = regexp.MustCompile(`[^a-z0-9 -]`)
)

// Requirement is one row of the tables in docs/rfc: one keyword of RFC 2119 in
// an RFC, and what became of it.
type Requirement struct {
	Path                                    string
	Line                                    int
	ID, Text, Level, Status, Where, By, Why string
}

func (r Requirement) find(format string, args ...any) Finding {
	return Finding{r.Path, r.Line, r.ID + " " + fmt.Sprintf(format, args...)}
}

// Requirements reads every row, and finds rows that do not have all columns.
func (t *Tree) Requirements() ([]Requirement, []Finding) {
	var rows []Requirement
	var bad []Finding
	for p, src := range t.Other {
		if rfcFile.FindString(p) == "" {
			continue
		}
		inTable := false
		for i, line := range strings.Split(string(src), "\n") {
			switch {
			case line == rfcHead:
				inTable = true
				continue
			case !strings.HasPrefix(line, "|"):
				inTable = false
			}
			if !inTable || strings.HasPrefix(line, "|---") {
				continue
			}
			c := strings.Split(strings.Trim(line, "|"), "|")
			if len(c) != 7 {
				bad = append(bad, Finding{p, i + 1, fmt.Sprintf("a row of %d columns, want 7", len(c))})
				continue
			}
			for j := range c {
				c[j] = strings.TrimSpace(c[j])
			}
			rows = append(rows, Requirement{p, i + 1, c[0], c[1], c[2], c[3], c[4], c[5], c[6]})
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		if rows[i].Path != rows[j].Path {
			return rows[i].Path < rows[j].Path
		}
		return rows[i].Line < rows[j].Line
	})
	return rows, bad
}

// RFCs finds rows of docs/rfc that are incomplete, that name a file or a test
// which is not there, or that depart from an RFC without saying so in a section
// of their own; and tables with fewer rows than the RFC has requirements, or
// other totals than the overview gives.
func RFCs(t *Tree) []Finding {
	rows, all := t.Requirements()
	if len(all) > 0 {
		return sortFindings(all) // what is not read would be missed everywhere
	}
	there, tests, sections := t.paths(), t.testNames(), t.deviationSections()
	numbers := map[string]int{} // rows so far, by RFC and section
	linked := map[string]bool{}
	for _, r := range rows {
		all = append(all, r.form(numbers)...)
		all = append(all, r.claims(there, tests)...)
		if r.Status != "DEVIATION" {
			continue
		}
		if to := r.deviation(); !sections[to] {
			all = append(all, r.find("departs, and its note links to no section of DEVIATION"))
		} else {
			linked[to] = true
		}
	}
	for to := range sections {
		if !linked[to] {
			p, name, _ := strings.Cut(to, "#")
			all = append(all, Finding{Path: p, Text: "no requirement links to the section " + name})
		}
	}
	return sortFindings(append(all, t.totals(rows)...))
}

// form checks what a row says of itself; numbers counts the rows of each
// section, so that none is left out or there twice.
func (r Requirement) form(numbers map[string]int) []Finding {
	var all []Finding
	id := rfcID.FindStringSubmatch(r.ID)
	if id == nil || id[1] != rfcFile.FindStringSubmatch(r.Path)[1] {
		return []Finding{r.find("is no id of this RFC: want number-section-count")}
	}
	section := id[1] + "-" + id[2]
	numbers[section]++
	if n := strconv.Itoa(numbers[section]); id[3] != n {
		all = append(all, r.find("is number %s of its section", n))
	}
	if r.Text == "" {
		all = append(all, r.find("does not say what is required"))
	}
	if !slices.Contains(rfcLevels, r.Level) {
		all = append(all, r.find("has the level %q", r.Level))
	}
	if !slices.Contains(rfcStatuses, r.Status) {
		all = append(all, r.find("has the status %q", r.Status))
	}
	return all
}

// claims checks the places and the tests that a row names.
func (r Requirement) claims(there map[string]bool, tests map[string]*GoFile) []Finding {
	var all []Finding
	places, proofs := codeNames(r.Where), codeNames(r.By)
	switch {
	case r.Status == "implemented" && len(places) == 0:
		all = append(all, r.find("does not say where"))
	case r.Status == "implemented" && len(proofs) == 0:
		all = append(all, r.find("is proven by nothing"))
	case r.Status != "implemented" && r.Why == "":
		all = append(all, r.find("does not say why"))
	}
	for _, p := range places {
		if !there[p] {
			all = append(all, r.find("is in %s, which is not there", p))
		}
	}
	for _, name := range proofs {
		m := rfcTest.FindStringSubmatch(name)
		if m == nil {
			all = append(all, r.find("names the test %q: want directory.TestName", name))
			continue
		}
		f := tests[m[1]+"."+m[2]]
		switch {
		case f == nil:
			all = append(all, r.find("is proven by %s.%s, which is not there", m[1], m[2]))
		case m[3] != "" && !strings.Contains(string(f.Src), strconv.Quote(m[3])):
			all = append(all, r.find("is proven by the case %q of %s, which is not there", m[3], m[2]))
		}
	}
	return all
}

// deviation returns the section that a row's note links to, as file#anchor.
func (r Requirement) deviation() string {
	for _, m := range link.FindAllStringSubmatch(r.Why, -1) {
		if p, anchor, ok := strings.Cut(m[1], "#"); ok {
			if p == "" {
				p = path.Base(r.Path)
			}
			return rfcDocs + "/" + p + "#" + anchor
		}
	}
	return ""
}

// deviationSections lists the sections of docs/rfc on departures, by the links
// that lead to them.
func (t *Tree) deviationSections() map[string]bool {
	sections := map[string]bool{}
	for p, src := range t.Other {
		if path.Dir(p) != rfcDocs {
			continue
		}
		for _, m := range deviation.FindAllStringSubmatch(string(src), -1) {
			slug := notInSlugs.ReplaceAllString(strings.ToLower("deviation "+m[1]), "")
			sections[p+"#"+strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	return sections
}

// testNames lists every test and fuzz target as directory.TestName, with the
// file that it is in. The root package is called by its name.
func (t *Tree) testNames() map[string]*GoFile {
	names := map[string]*GoFile{}
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		dir := f.Dir
		if dir == "." {
			dir = Module
		}
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[dir+"."+fn.Name.Name] = f
			}
		}
	}
	return names
}

func codeNames(cell string) []string {
	var names []string
	for _, m := range codeName.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// totals compares the rows of each RFC with the number of keywords that were
// counted in it, and with its line in the overview.
func (t *Tree) totals(rows []Requirement) []Finding {
	var all []Finding
	for p, src := range t.Other {
		m := rfcFile.FindStringSubmatch(p)
		if m == nil {
			continue
		}
		counts := map[string]int{}
		n := 0
		for _, r := range rows {
			if r.Path == p {
				counts[r.Status]++
				n++
			}
		}
		want := rfcCount.FindSubmatch(src)
		if want == nil {
			all = append(all, Finding{Path: p, Text: `does not say "Keywords counted: N."`})
		} else if k, _ := strconv.Atoi(string(want[1])); n < k {
			all = append(all, Finding{Path: p, Text: fmt.Sprintf("%d rows for %d requirements of the RFC", n, k)})
		}
		line := fmt.Sprintf("| %d |", n)
		for _, s := range rfcStatuses {
			line += fmt.Sprintf(" %d |", counts[s])
		}
		said := false
		for l := range strings.Lines(string(t.Other[rfcTotals])) {
			said = said || strings.HasPrefix(l, "| ["+m[1]+"]") && strings.HasSuffix(l, line+"\n")
		}
		if !said {
			all = append(all, Finding{Path: rfcTotals, Text: fmt.Sprintf("the line of RFC %s must end in %q", m[1], line)})
		}
	}
	return all
}
