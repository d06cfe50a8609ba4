package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// pureRoots are the packages without effects: the vocabulary, the shared parts of
// cores, the codecs, the cores, the simulator that drives them, and what roles want
// of the network of a host.
var pureRoots = []string{".", "sched", "multipath", "flowrule", "nidkey", "wire", "naming", "ilnp", "sbr", "mip6",
	"nemo", "shim6", "sim", "internal/hostnet/desired"}

// pureImports is what a pure package may import besides our own; a trailing
// slash allows what lies below. The ban is on direct imports, since fmt itself
// imports os.
var pureImports = []string{
	"bytes", "cmp", "container/", "crypto/", "encoding/", "errors", "fmt", "hash", "hash/",
	"io", "iter", "maps", "math", "math/", "net/netip", "slices", "sort", "strconv", "strings",
	"time", "unicode", "unicode/",
}

// impureImports are exceptions below allowed roots: they reach for entropy or
// the network by themselves.
var impureImports = []string{"crypto/rand", "crypto/tls", "crypto/x509"}

// bannedCalls are functions of allowed packages that have an effect, or read
// the clock.
var bannedCalls = map[string][]string{
	"time": {"Now", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick", "Since", "Until"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// clockless are packages with effects that take the time from internal/loop, which hands
// it down, and the functions that they must not call.
var (
	clockless  = []string{"internal/role/ilnphost/engine"}
	clockReads = []string{"Now", "Since", "Until"}
)

// seeded are the names of math/rand that need a seed; all others draw from the
// global source.
var seeded = []string{"New", "NewPCG", "NewSource", "NewChaCha8", "NewZipf",
	"Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}

// Pure reports whether a package directory belongs to the pure floors.
func Pure(dir string) bool { return under(dir, pureRoots...) || under(dir, cores...) }

// Effects finds effects in pure packages: imports outside the allow-list,
// goroutines, channels, clocks, global randomness, printing; and clocks where a loop hands
// the time down.
func Effects(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		if !f.Test && slices.Contains(clockless, f.Dir) {
			all = append(all, t.clocks(f)...)
		}
		if f.Test || !Pure(f.Dir) {
			continue
		}
		for _, spec := range f.AST.Imports {
			if p := importPath(spec); !pureImport(p) {
				all = append(all, t.find(f, spec.Pos(), "imports %s, which a pure package must not", p))
			}
		}
		names := f.imports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if what := effect(n, names); what != "" {
				all = append(all, t.find(f, n.Pos(), "%s in a pure package", what))
			}
			return true
		})
	}
	return sortFindings(all)
}

// clocks finds where a file reads the clock.
func (t *Tree) clocks(f *GoFile) (all []Finding) {
	names := f.imports()
	ast.Inspect(f.AST, func(n ast.Node) bool {
		x, is := n.(*ast.SelectorExpr)
		if !is || !slices.Contains(clockReads, x.Sel.Name) {
			return true
		}
		if id, is := x.X.(*ast.Ident); is && id.Obj == nil && names[id.Name] == "time" {
			all = append(all, t.find(f, n.Pos(), "time.%s; the loop hands the time down", x.Sel.Name))
		}
		return true
	})
	return all
}

func pureImport(p string) bool {
	if p == Module || strings.HasPrefix(p, Module+"/") {
		return true // the floors say which of our own
	}
	if slices.Contains(impureImports, p) {
		return false
	}
	return slices.ContainsFunc(pureImports, func(ok string) bool {
		return p == ok || strings.HasSuffix(ok, "/") && strings.HasPrefix(p, ok)
	})
}

// effect names the effect that a node of the syntax tree has, or "".
func effect(n ast.Node, names map[string]string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType:
		return "a channel"
	case *ast.SelectStmt:
		return "a select"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel receive"
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Obj == nil && (id.Name == "print" || id.Name == "println") {
			return "printing"
		}
	case *ast.SelectorExpr:
		return selected(n, names)
	}
	return ""
}

func selected(n *ast.SelectorExpr, names map[string]string) string {
	id, ok := n.X.(*ast.Ident)
	if !ok || id.Obj != nil { // a local variable hides the package
		return ""
	}
	p := names[id.Name]
	switch {
	case slices.Contains(bannedCalls[p], n.Sel.Name):
		return p + "." + n.Sel.Name
	case strings.HasPrefix(p, "math/rand") && !slices.Contains(seeded, n.Sel.Name):
		return "the global source of " + p + " (" + n.Sel.Name + ")"
	}
	return ""
}
