package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one planted fault.
type mutant struct {
	id     int
	file   string // within the repository
	line   int
	in     string // the function
	what   string // the fault and the code
	killed bool
}

// String is the mutant as people read it.
func (m *mutant) String() string { return fmt.Sprintf("%s:%d: %s: %s", m.file, m.line, m.in, m.what) }

// key identifies it across changes of other lines.
func (m *mutant) key() string { return fmt.Sprintf("%s: %s: %s", m.file, m.in, m.what) }

// apart gives a further fault with the same key another one, as a reason is for one of them only. seen counts them.
func (m mutant) apart(seen map[string]int) mutant {
	key := m.key()
	if seen[key]++; seen[key] > 1 {
		m.what += fmt.Sprintf(" #%d", seen[key])
	}
	return m
}

// edit inserts text at an offset, in place of some bytes.
type edit struct {
	at, drop, order int
	text            string
}

// planter plants the faults of one package.
type planter struct {
	fset  *token.FileSet
	info  *types.Info
	pkg   *types.Package
	name  string // of the file
	src   []byte
	in    string
	edits []edit
	list  []*mutant
	live  []string          // functions to leave out
	only  []string          // functions that faults are planted in; none: all
	check bool              // each condition is replaced by true and by false, and nothing else is planted
	loops map[ast.Node]bool // statements that cannot be wrapped
	named map[string]int    // how many faults have the same file, function and text
}

// load parses and checks a package; exports maps import paths to files of export data.
func load(dir string, exports map[string]string) (*planter, []*ast.File, []string, error) {
	p := &planter{fset: token.NewFileSet(), loops: map[ast.Node]bool{}, named: map[string]int{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, nil, err
	}
	var files []*ast.File
	var names []string
	for _, path := range paths {
		ours, err := build.Default.MatchFile(dir, filepath.Base(path))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read: %w", err)
		}
		if !ours || strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(p.fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("parse: %w", err)
		}
		files, names = append(files, f), append(names, path)
	}
	look := func(path string) (io.ReadCloser, error) { return open(exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(p.fset, "gc", look)}
	if p.pkg, err = conf.Check(dir, p.fset, files, p.info); err != nil {
		return nil, nil, nil, fmt.Errorf("check types: %w", err)
	}
	return p, files, names, nil
}

// file plants the faults of one file and returns its text.
func (p *planter) file(path string, f *ast.File) ([]byte, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	p.name, p.src, p.edits = path, src, nil
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Body != nil && !slices.Contains(p.live, fn.Name.Name) &&
			(len(p.only) == 0 || slices.Contains(p.only, fn.Name.Name)) {
			p.in = fn.Name.Name
			ast.Inspect(fn.Body, p.visit)
		}
	}
	return apply(src, p.edits), nil
}

// apply carries out edits of a text: at one offset, what closes comes before what opens, and the
// inner before the outer.
func apply(src []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order
	})
	var out bytes.Buffer
	last := 0
	for _, e := range edits {
		out.Write(src[last:e.at])
		out.WriteString(e.text)
		last = e.at + e.drop
	}
	out.Write(src[last:])
	return out.Bytes()
}

func (p *planter) offset(pos token.Pos) int { return p.fset.Position(pos).Offset }

// text is the source of a node in one line.
func (p *planter) text(n ast.Node) string {
	return strings.Join(strings.Fields(string(p.src[p.offset(n.Pos()):p.offset(n.End())])), " ")
}

// add notes a mutant and returns its number.
func (p *planter) add(n ast.Node, what string) int {
	m := &mutant{id: len(p.list) + 1, file: p.name, line: p.fset.Position(n.Pos()).Line, in: p.in,
		what: what + " " + p.text(n)}
	*m = m.apart(p.named)
	p.list = append(p.list, m)
	return m.id
}

// wrap puts a node between two texts. Of nodes that begin at one place the longer opens
// first; of those that end at one place it closes last.
func (p *planter) wrap(n ast.Node, before, after string) {
	from, to := p.offset(n.Pos()), p.offset(n.End())
	p.edits = append(p.edits, edit{at: from, order: 1_000_000 - (to - from), text: before},
		edit{at: to, order: -1_000_000 + (to - from), text: after})
}

// visit plants the faults of one node.
func (p *planter) visit(n ast.Node) bool {
	if p.check {
		p.checks(n)
		return true
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		p.loops[n.Init] = true
		p.condition(n.Cond)
	case *ast.ForStmt:
		p.loops[n.Init], p.loops[n.Post] = true, true
	case *ast.SwitchStmt:
		p.loops[n.Init] = true
		if n.Tag == nil {
			for _, s := range n.Body.List {
				for _, e := range s.(*ast.CaseClause).List {
					p.condition(e)
				}
			}
		}
	case *ast.BinaryExpr:
		p.binary(n)
	case *ast.AssignStmt:
		p.assign(n)
	case *ast.IncDecStmt:
		if n.Tok == token.INC && !p.loops[n] {
			p.wrap(n, fmt.Sprintf("if !mutantOn(%d) { ", p.add(n, "skip")), " }")
		}
	case *ast.CallExpr:
		p.call(n)
	}
	return true
}

// checks replaces the conditions of one node: what it branches by, stores and returns.
func (p *planter) checks(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		p.condition(n.Cond)
	case *ast.SwitchStmt:
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List {
				if n.Tag == nil {
					p.condition(e)
				}
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			p.condition(n.X)
			p.condition(n.Y)
		}
	case *ast.ReturnStmt:
		p.conditions(n.Results)
	case *ast.AssignStmt:
		p.conditions(n.Rhs)
	case *ast.KeyValueExpr:
		p.condition(n.Value)
	}
}

func (p *planter) conditions(list []ast.Expr) {
	for _, e := range list {
		p.condition(e)
	}
}

// condition inverts it, unless its operands are.
func (p *planter) condition(e ast.Expr) {
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return // visited as an expression
	}
	p.invert(e)
}

func (p *planter) invert(e ast.Expr) {
	tv := p.info.Types[e]
	if b, ok := tv.Type.(*types.Basic); !ok || b.Info()&types.IsBoolean == 0 || tv.Value != nil {
		return
	}
	if p.check {
		p.wrap(e, fmt.Sprintf("mutantIs(%d, ", p.add(e, "never")), ")")
		p.add(e, "always")
		return
	}
	p.wrap(e, fmt.Sprintf("mutantNot(%d, ", p.add(e, "invert")), ")")
}

// binary inverts the operands of conjunctions, and makes bounds ten times as large.
func (p *planter) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR:
		p.condition(n.X)
		p.condition(n.Y)
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
		for _, e := range []ast.Expr{n.X, n.Y} {
			tv := p.info.Types[e]
			b, ok := tv.Type.Underlying().(*types.Basic)
			if tv.Value == nil || !ok || b.Info()&types.IsNumeric == 0 || b.Info()&types.IsUntyped != 0 ||
				constant.Sign(tv.Value) == 0 || b.Kind() == types.Uint8 {
				continue
			}
			name := types.TypeString(tv.Type, func(o *types.Package) string {
				if o == p.pkg {
					return ""
				}
				return o.Name()
			})
			p.wrap(e, fmt.Sprintf("mutantTen(%d, %s(", p.add(e, "ten times "+p.text(n)+":"), name), "))")
		}
	}
}

// assign skips a sum.
func (p *planter) assign(n *ast.AssignStmt) {
	if n.Tok == token.ADD_ASSIGN && !p.loops[n] {
		p.wrap(n, fmt.Sprintf("if !mutantOn(%d) { ", p.add(n, "skip")), " }")
		return
	}
	if n.Tok != token.ASSIGN || len(n.Lhs) != len(n.Rhs) {
		return
	}
	for i, e := range n.Rhs {
		b, ok := e.(*ast.BinaryExpr)
		if !ok || b.Op != token.ADD || p.text(b.X) != p.text(n.Lhs[i]) {
			continue
		}
		id := p.add(b, "skip")
		at := p.offset(b.OpPos)
		p.edits = append(p.edits, edit{at: at, drop: 1, text: ","})
		p.wrap(b, fmt.Sprintf("mutantSum(%d, ", id), ")")
	}
}

// call takes the last value in place of the greatest or the least.
func (p *planter) call(n *ast.CallExpr) {
	id, ok := n.Fun.(*ast.Ident)
	if !ok || id.Name != "max" && id.Name != "min" || len(n.Args) < 2 {
		return
	}
	if _, builtin := p.info.Uses[id].(*types.Builtin); !builtin || p.info.Types[n].Value != nil {
		return
	}
	b, ok := p.info.Types[n].Type.Underlying().(*types.Basic)
	if !ok || b.Info()&types.IsUntyped != 0 {
		return
	}
	fn := map[string]string{"max": "mutantMax", "min": "mutantMin"}[id.Name]
	at := p.offset(id.Pos())
	p.edits = append(p.edits, edit{at: at, drop: p.offset(n.Lparen) + 1 - at, order: 2_000_000,
		text: fmt.Sprintf("%s(%d, ", fn, p.add(n, "last of"))})
}
