package house

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Sleeps finds fixed sleeps in tests and in the lab, where one waits for a
// condition until a deadline: a fixed sleep is too short on a busy machine and
// too long on every other. The pause of a loop that has a condition, written
// as the loop's post statement, is no fixed sleep.
func Sleeps(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		if !f.Test && !under(f.Dir, "lab") {
			continue
		}
		names := f.imports()
		var pause ast.Stmt // the post statement of the loop last entered
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				if n.Cond != nil && n.Post != nil {
					pause = n.Post
				}
			case *ast.CallExpr:
				if calls(n, names, "time", "Sleep") && !within(n, pause) {
					all = append(all, t.find(f, n.Pos(), "a fixed sleep; wait for a condition with a deadline"))
				}
			case *ast.ExprStmt:
				if receivesAfter(n, names) && !within(n, pause) && !t.chosen(f, n) {
					all = append(all, t.find(f, n.Pos(), "a fixed sleep by time.After"))
				}
			}
			return true
		})
	}
	return sortFindings(all)
}

// within reports whether a node lies in a statement, which may be nil.
func within(n ast.Node, stmt ast.Stmt) bool {
	return stmt != nil && stmt.Pos() <= n.Pos() && n.End() <= stmt.End()
}

// calls reports whether a call is that of a package's function.
func calls(call *ast.CallExpr, names map[string]string, pkg, fn string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != fn {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && names[id.Name] == pkg
}

func receivesAfter(stmt *ast.ExprStmt, names map[string]string) bool {
	recv, ok := stmt.X.(*ast.UnaryExpr)
	if !ok || recv.Op != token.ARROW {
		return false
	}
	call, ok := recv.X.(*ast.CallExpr)
	return ok && calls(call, names, "time", "After")
}

// chosen reports whether a receive is a case of a select, where it is a
// deadline.
func (t *Tree) chosen(f *GoFile, stmt ast.Stmt) bool {
	found := false
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if c, ok := n.(*ast.CommClause); ok && c.Comm == stmt {
			found = true
		}
		return !found
	})
	return found
}

// Errorf is one fmt.Errorf and how it treats its cause.
type Errorf struct {
	File  *GoFile
	Pos   token.Pos
	Cause bool // an error is among the arguments
	Wraps bool // with %w
}

// Errorfs lists the calls of fmt.Errorf in hand-written, non-test code. An
// argument named err, or ending in Err, counts as a cause.
func (t *Tree) Errorfs() []Errorf {
	var all []Errorf
	for _, f := range t.Go {
		if f.Test || f.Generated {
			continue
		}
		names := f.imports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !calls(call, names, "fmt", "Errorf") || len(call.Args) == 0 {
				return true
			}
			e := Errorf{File: f, Pos: call.Pos(), Cause: slices.ContainsFunc(call.Args[1:], isCause)}
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					e.Wraps = e.Wraps || strings.Contains(lit.Value, "%w")
				}
				return true
			})
			all = append(all, e)
			return true
		})
	}
	return all
}

func isCause(arg ast.Expr) bool {
	id, ok := arg.(*ast.Ident)
	return ok && (id.Name == "err" || strings.HasSuffix(id.Name, "Err"))
}

// Wrapping finds errors that are formatted into a text and lost as causes.
func Wrapping(t *Tree) []Finding {
	var all []Finding
	for _, e := range t.Errorfs() {
		if e.Cause && !e.Wraps {
			all = append(all, t.find(e.File, e.Pos, "an error with a cause that is not wrapped with %%w"))
		}
	}
	return sortFindings(all)
}

// leftover is put together so that this file is none itself.
var leftover = regexp.MustCompile(`\b(` + "TO" + `DO|` + "FIX" + `ME|` + "X" + `XX)\b`)

// Leftovers finds notes about work that is still to be done: what is missing
// is said in the documents or in an issue.
func Leftovers(t *Tree) []Finding {
	var all []Finding
	look := func(p string, src []byte) {
		for i, line := range bytes.Split(src, []byte{'\n'}) {
			if m := leftover.Find(line); m != nil {
				all = append(all, Finding{p, i + 1, "a leftover " + string(m)})
			}
		}
	}
	for _, f := range t.Go {
		look(f.Path, f.Src)
	}
	for _, f := range t.C {
		if !f.Vendored {
			look(f.Path, f.Src)
		}
	}
	for p, src := range t.Other {
		look(p, src)
	}
	return sortFindings(all)
}

var emptyNames = []string{"mgr", "manager", "util", "utils", "common", "misc", "helper", "helpers"}

// Names finds packages and files whose name says nothing of what is in them.
func Names(t *Tree) []Finding {
	var all []Finding
	seen := map[string]bool{}
	look := func(p, name string) {
		if slices.Contains(emptyNames, name) && !seen[p] {
			seen[p] = true
			all = append(all, Finding{Path: p, Text: "the name " + name + " says nothing of what is in it"})
		}
	}
	for _, f := range t.Go {
		look(f.Dir, path.Base(f.Dir))
		look(f.Path, strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Path), ".go"), "_test"))
	}
	for _, f := range t.C {
		look(f.Path, strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path)))
	}
	return sortFindings(all)
}

// Licences finds C of ours whose first line does not offer both licences.
func Licences(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.C {
		first, _, _ := strings.Cut(string(f.Src), "\n")
		both := strings.Contains(first, "SPDX-License-Identifier") &&
			strings.Contains(first, "GPL-2.0") && strings.Contains(first, "BSD-2-Clause")
		if !f.Vendored && under(path.Dir(f.Path), "bpf") && !both {
			all = append(all, Finding{f.Path, 1, "the first line must offer GPL-2.0-only and BSD-2-Clause (SPDX)"})
		}
	}
	return sortFindings(all)
}

// Format finds hand-written Go that gofmt would change.
func Format(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		if f.Generated {
			continue
		}
		if want, err := format.Source(f.Src); err != nil || !bytes.Equal(want, f.Src) {
			all = append(all, Finding{Path: f.Path, Text: "gofmt would change it"})
		}
	}
	return sortFindings(all)
}
