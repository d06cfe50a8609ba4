package house

import (
	"bytes"
	"fmt"
	"go/token"
	"sort"
	"strings"
)

// Measure is one row of the scorecard.
type Measure struct {
	Check string
	Limit string // ours, for people
	Value string
	Good  bool
}

// Measures computes the rows that the tree alone can tell.
func Measures(t *Tree) []Measure {
	goLines, cLines := lengths(t.GoFuncs(), false), lengths(t.CFuncs(), false)
	files := t.FileLines()
	largest, lines := "", 0
	for p, n := range files {
		if n > lines || n == lines && p < largest {
			largest, lines = p, n
		}
	}
	pure, all := documentedShares(t)
	goShare, cShare := commentShares(t)
	ratio := testShare(t)
	caused, wrapped := 0, 0
	for _, e := range t.Errorfs() {
		if e.Cause {
			caused++
			if e.Wraps {
				wrapped++
			}
		}
	}
	return []Measure{
		{"function p90 / max (Go)", "40 / 80", fmt.Sprintf("%d / %d", p90(goLines), last(goLines)),
			p90(goLines) <= GoodGoFunc && last(goLines) <= MaxGoFunc},
		{"function median (Go)", "12", fmt.Sprint(quantile(goLines, 50)), quantile(goLines, 50) <= 12},
		{"function p90 / max (BPF C)", "45 / 60", fmt.Sprintf("%d / %d", p90(cLines), last(cLines)),
			p90(cLines) <= goodCFunc && last(cLines) <= MaxCFunc},
		{"functions of at most 40 lines (Go)", "92%", percent(atMost(goLines, GoodGoFunc), len(goLines)),
			100*atMost(goLines, GoodGoFunc) >= 92*len(goLines)},
		{"largest hand-written file", "500", fmt.Sprintf("%d (%s)", lines, largest), lines <= MaxFile},
		{"methods of a type", fmt.Sprint(MaxMethods), t.widest(), len(Methods(t)) == 0},
		{"exported symbols documented, pure", "100%", pure.text(), pure.percent() == 100},
		{"exported symbols documented, all", "90%", all.text(), all.percent() >= 90},
		{"comment share (Go)", "12-20%", goShare.text(), between(goShare.percent(), 12, 20)},
		{"comment share (BPF C)", "12-20%", cShare.text(), between(cShare.percent(), 12, 20)},
		{"test:code in wire, naming, cores, sim", "0.8", fmt.Sprintf("%.2f", ratio), ratio >= 0.8},
		{"causes wrapped with %w", "all", fmt.Sprintf("%d of %d", wrapped, caused), wrapped == caused},
		zero("effects in pure packages", Effects(t)),
		zero("packages without a doc comment", PackageDocs(t)),
		zero("maps missing from docs/maps.md", Maps(t)),
		zero("drops without a reason counter", Drops(t)),
		zero("fixed sleeps in tests and lab", Sleeps(t)),
		{"direct third-party modules", fmt.Sprint(MaxModules), fmt.Sprint(len(t.DirectModules())),
			len(t.DirectModules()) <= MaxModules},
	}
}

func zero(check string, found []Finding) Measure {
	return Measure{check, "0", fmt.Sprint(len(found)), len(found) == 0}
}

// share is a part of a whole.
type share struct{ part, whole int }

func (s share) percent() float64 {
	if s.whole == 0 {
		return 100
	}
	return 100 * float64(s.part) / float64(s.whole)
}

func (s share) text() string { return percent(s.part, s.whole) }

func percent(part, whole int) string {
	return fmt.Sprintf("%.0f%% (%d of %d)", share{part, whole}.percent(), part, whole)
}

func between(v, low, high float64) bool { return v >= low && v <= high }

// lengths returns the sorted lengths of functions, with or without those of
// tests.
func lengths(funcs []Func, tests bool) []int {
	var all []int
	for _, fn := range funcs {
		if tests || !fn.Test {
			all = append(all, fn.Lines)
		}
	}
	sort.Ints(all)
	return all
}

func quantile(sorted []int, q int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*q/100)]
}

func p90(sorted []int) int { return quantile(sorted, 90) }

func last(sorted []int) int { return quantile(sorted, 100) }

func atMost(sorted []int, limit int) int { return sort.SearchInts(sorted, limit+1) }

func documentedShares(t *Tree) (pure, all share) {
	for _, s := range t.Symbols() {
		for _, sh := range []*share{&pure, &all} {
			if sh == &pure && !Pure(s.File.Dir) {
				continue
			}
			sh.whole++
			if s.Documented {
				sh.part++
			}
		}
	}
	return pure, all
}

// commentShares counts the lines that hold a comment, among those that are not
// blank, in hand-written code without its tests. The line that states a C
// file's licence is no comment.
func commentShares(t *Tree) (inGo, inC share) {
	for _, f := range t.Go {
		if f.Test || f.Generated {
			continue
		}
		commented := map[int]bool{}
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				markLines(t.Fset, c.Pos(), c.End(), commented)
			}
		}
		inGo.part += len(commented)
		inGo.whole += written(f.Src)
	}
	for _, f := range t.C {
		if !f.Vendored {
			inC.part += cComments(string(f.Src))
			inC.whole += written(f.Src)
		}
	}
	return inGo, inC
}

func markLines(fset *token.FileSet, from, to token.Pos, lines map[int]bool) {
	for n := fset.Position(from).Line; n <= fset.Position(to).Line; n++ {
		lines[n] = true
	}
}

func written(src []byte) int {
	n := 0
	for _, line := range bytes.Split(src, []byte{'\n'}) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

func cComments(src string) int {
	n, inside := 0, false
	for _, line := range strings.Split(src, "\n") {
		begins := strings.Contains(line, "/*")
		if (inside || begins || strings.Contains(line, "//")) && !strings.Contains(line, "SPDX-") {
			n++
		}
		if begins {
			inside = true
		}
		if strings.LastIndex(line, "*/") > strings.LastIndex(line, "/*") {
			inside = false
		}
	}
	return n
}

// testShare is the lines of tests for each line of code on the pure floors,
// blank lines and the vocabulary's included.
func testShare(t *Tree) float64 {
	tests, code := 0, 0
	for _, f := range t.Go {
		switch {
		case !Pure(f.Dir) || f.Generated:
		case f.Test:
			tests += bytes.Count(f.Src, []byte{'\n'})
		default:
			code += bytes.Count(f.Src, []byte{'\n'})
		}
	}
	return share{tests, max(code, 1)}.percent() / 100
}
