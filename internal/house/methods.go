package house

import (
	"fmt"
	"go/ast"
)

// MaxMethods bounds the methods of one type, those of its tests left out. A type with
// more is several things that share a name.
const MaxMethods = 80

// methods counts the methods that each type of hand-written code declares, by its
// directory and name. Those of an embedded type are that type's.
func (t *Tree) methods() map[string]int {
	counts := map[string]int{}
	for _, f := range t.Go {
		if f.Test || f.Generated {
			continue
		}
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				if id := receiverIdent(fn); id != nil {
					counts[f.Dir+"."+id.Name]++
				}
			}
		}
	}
	return counts
}

// Methods finds types with more methods than one type may have.
func Methods(t *Tree) []Finding {
	var all []Finding
	for name, n := range t.methods() {
		if n > MaxMethods {
			all = append(all, Finding{Path: name, Text: fmt.Sprintf("has %d methods, at most %d", n, MaxMethods)})
		}
	}
	return sortFindings(all)
}

// widest says which type has the most methods.
func (t *Tree) widest() string {
	best, most := "", 0
	for name, n := range t.methods() {
		if n > most || n == most && name < best {
			best, most = name, n
		}
	}
	return fmt.Sprintf("%d (%s)", most, best)
}
