package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// The stops. Most functions stay far below theirs; the scorecard prints how
// far.
const (
	MaxFile    = 500 // lines of a hand-written file
	MaxHeader  = 300 // lines of a C header of ours
	MaxGoFunc  = 80  // lines of a Go function, braces and signature included
	MaxCFunc   = 60  // lines of a C function, likewise
	MaxMain    = 150 // lines of a command's main.go
	GoodGoFunc = 40  // what nine functions in ten keep to
	goodCFunc  = 45
)

// Func is a function and its length in lines.
type Func struct {
	Path  string
	Line  int
	Name  string
	Lines int
	Test  bool
}

// GoFuncs measures every function of hand-written Go.
func (t *Tree) GoFuncs() []Func {
	var all []Func
	for _, f := range t.Go {
		if f.Generated {
			continue
		}
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				from, to := t.line(fn.Type.Pos()), t.line(fn.End())
				lines := to - from + 1
				if f.Test {
					lines -= t.tableLines(fn.Body)
				}
				all = append(all, Func{f.Path, from, receiver(fn) + fn.Name.Name, lines, f.Test})
			}
		}
	}
	return all
}

// tableLines counts the lines inside composite literals: the rows of a test's
// tables are data, and a long table is a good one.
func (t *Tree) tableLines(body *ast.BlockStmt) int {
	n := 0
	ast.Inspect(body, func(node ast.Node) bool {
		lit, ok := node.(*ast.CompositeLit)
		if ok {
			n += max(t.line(lit.Rbrace)-t.line(lit.Lbrace)-1, 0)
		}
		return !ok
	})
	return n
}

// CFuncs measures every function of our C. It knows the kernel's layout only:
// a body ends with a closing brace in the first column, and begins with an
// opening one there or at the end of a line that begins there.
func (t *Tree) CFuncs() []Func {
	var all []Func
	for _, f := range t.C {
		if !f.Vendored {
			all = append(all, cFuncs(f)...)
		}
	}
	return all
}

func cFuncs(f *CFile) []Func {
	var all []Func
	lines := strings.Split(string(f.Src), "\n")
	head, open := -1, -1 // where the signature and the body begin
	for i, line := range lines {
		switch {
		case open >= 0 && strings.HasPrefix(line, "}"):
			if head >= 0 && !strings.HasPrefix(line, "};") && !strings.Contains(line, "SEC(") {
				all = append(all, Func{f.Path, head + 1, cName(lines[head : open+1]), i - head + 1, false})
			}
			head, open = -1, -1
		case open >= 0 || line == "" || strings.ContainsAny(line[:1], "#/ \t*"):
			if open < 0 && (line == "" || line[0] == '#' || line[0] == '/') {
				head = -1
			}
		case line == "{":
			open = i
		case strings.HasSuffix(line, "{"):
			open = i
			if !strings.Contains(line, "(") {
				head = -1 // a struct, union or enum
			} else if head < 0 {
				head = i
			}
		case strings.HasSuffix(line, ";") || strings.HasPrefix(line, "SEC("):
			head = -1
		case head < 0:
			head = i
		}
	}
	return all
}

// cName finds the identifier before the first parenthesis of a signature that
// is not a macro's.
func cName(signature []string) string {
	for _, line := range signature {
		before, _, ok := strings.Cut(line, "(")
		if fields := strings.Fields(before); ok && len(fields) > 0 {
			return strings.TrimLeft(fields[len(fields)-1], "*")
		}
	}
	return "?"
}

// FileLines returns the lines of every hand-written Go and C file.
func (t *Tree) FileLines() map[string]int {
	lines := map[string]int{}
	for _, f := range t.Go {
		if !f.Generated {
			lines[f.Path] = bytes.Count(f.Src, []byte{'\n'})
		}
	}
	for _, f := range t.C {
		if !f.Vendored {
			lines[f.Path] = bytes.Count(f.Src, []byte{'\n'})
		}
	}
	return lines
}

// Sizes finds files and functions over their stops.
func Sizes(t *Tree) []Finding {
	var all []Finding
	for p, lines := range t.FileLines() {
		if stop := fileStop(p); lines > stop {
			all = append(all, Finding{Path: p, Text: fmt.Sprintf("%d lines, at most %d", lines, stop)})
		}
	}
	for _, fn := range t.GoFuncs() {
		all = append(all, tooLong(fn, MaxGoFunc)...)
	}
	for _, fn := range t.CFuncs() {
		all = append(all, tooLong(fn, MaxCFunc)...)
	}
	return sortFindings(all)
}

func fileStop(p string) int {
	switch {
	case path.Ext(p) == ".h":
		return MaxHeader
	case path.Base(p) == "main.go" && under(path.Dir(p), "cmd"):
		return MaxMain
	}
	return MaxFile
}

func tooLong(fn Func, stop int) []Finding {
	if fn.Lines <= stop {
		return nil
	}
	return []Finding{{fn.Path, fn.Line, fmt.Sprintf("%s has %d lines, at most %d", fn.Name, fn.Lines, stop)}}
}
