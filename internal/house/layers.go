package house

import (
	"go/ast"
	"strings"
)

// Layers finds upward arrows between the layers of a pure package. A struct stands on the
// structs of its package that it embeds; neither their fields nor the parameters of
// their methods may name it. So a layer can be made and tested without those above it.
func Layers(t *Tree) []Finding {
	var all []Finding
	for dir, files := range t.Packages() {
		if !Pure(dir) {
			continue
		}
		above := embedders(files)
		for _, f := range files {
			for _, decl := range f.AST.Decls {
				for low, names := range arrows(decl) {
					for _, name := range names {
						if above[low][name.Name] {
							all = append(all, t.find(f, name.Pos(), "%s names %s, which embeds it", low, name.Name))
						}
					}
				}
			}
		}
	}
	return sortFindings(all)
}

// arrows returns the names of types in the fields of each struct that is declared, or in
// the parameters and results of a method of its.
func arrows(decl ast.Decl) map[string][]*ast.Ident {
	to := map[string][]*ast.Ident{}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if on := strings.TrimSuffix(receiver(decl), "."); on != "" {
			to[on] = typesIn(decl.Type)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					to[spec.Name.Name] = typesIn(s)
				}
			}
		}
	}
	return to
}

// typesIn returns the identifiers in the types of the fields or parameters below a node.
func typesIn(n ast.Node) (all []*ast.Ident) {
	ast.Inspect(n, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			ast.Inspect(field.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					all = append(all, id)
				}
				return true
			})
			return false
		}
		return true
	})
	return all
}

// embedders returns the structs that embed each struct of a package, directly or through
// others.
func embedders(files []*GoFile) map[string]map[string]bool {
	direct := map[string][]string{} // by the struct that embeds
	for _, f := range files {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					if id, ok := embedded(field); ok {
						direct[spec.Name.Name] = append(direct[spec.Name.Name], id)
					}
				}
			}
			return true
		})
	}
	above := map[string]map[string]bool{}
	var climb func(top, at string)
	climb = func(top, at string) {
		for _, low := range direct[at] {
			if above[low] == nil {
				above[low] = map[string]bool{}
			}
			if !above[low][top] {
				above[low][top] = true
				climb(top, low)
			}
		}
	}
	for top := range direct {
		climb(top, top)
	}
	return above
}

// embedded returns the name of the type that a field embeds, if it is of this package.
func embedded(field *ast.Field) (string, bool) {
	if len(field.Names) != 0 {
		return "", false
	}
	typ := field.Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}
