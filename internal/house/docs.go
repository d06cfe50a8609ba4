package house

import (
	"go/ast"
	"go/token"
	"sort"
)

// PackageDocs finds packages without a doc comment.
func PackageDocs(t *Tree) []Finding {
	var all []Finding
	for dir, files := range t.Packages() {
		documented := false
		for _, f := range files {
			documented = documented || f.AST.Doc != nil
		}
		if !documented {
			all = append(all, Finding{Path: dir, Text: "package " + files[0].AST.Name.Name + " has no doc comment"})
		}
	}
	return sortFindings(all)
}

// Symbol is one exported name of a package.
type Symbol struct {
	File       *GoFile
	Name       string
	Pos        token.Pos
	Documented bool
}

// Symbols lists the exported names of hand-written code: functions, methods of
// exported types, types, constants and variables. A comment on a group, above
// a name or behind it documents the name.
func (t *Tree) Symbols() []Symbol {
	var all []Symbol
	for _, f := range t.Go {
		if f.Test || f.Generated || f.AST.Name.Name == "main" {
			continue
		}
		for _, decl := range f.AST.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Name.IsExported() && exportedReceiver(decl) {
					all = append(all, Symbol{f, receiver(decl) + decl.Name.Name, decl.Pos(), decl.Doc != nil})
				}
			case *ast.GenDecl:
				all = append(all, declared(f, decl)...)
			}
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].File.Path < all[j].File.Path })
	return all
}

func declared(f *GoFile, decl *ast.GenDecl) []Symbol {
	var all []Symbol
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				documented := decl.Doc != nil || spec.Doc != nil || spec.Comment != nil
				all = append(all, Symbol{f, spec.Name.Name, spec.Pos(), documented})
			}
		case *ast.ValueSpec:
			documented := decl.Doc != nil || spec.Doc != nil || spec.Comment != nil
			for _, name := range spec.Names {
				if name.IsExported() {
					all = append(all, Symbol{f, name.Name, name.Pos(), documented})
				}
			}
		}
	}
	return all
}

// receiver returns the name of a method's type and a dot, or "".
func receiver(decl *ast.FuncDecl) string {
	if id := receiverIdent(decl); id != nil {
		return id.Name + "."
	}
	return ""
}

func exportedReceiver(decl *ast.FuncDecl) bool {
	id := receiverIdent(decl)
	return id == nil || id.IsExported()
}

func receiverIdent(decl *ast.FuncDecl) *ast.Ident {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return nil
	}
	expr := decl.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e
		default:
			return nil
		}
	}
}

// ExportedDocs finds exported symbols without a comment.
func ExportedDocs(t *Tree) []Finding {
	var all []Finding
	for _, s := range t.Symbols() {
		if !s.Documented {
			all = append(all, t.find(s.File, s.Pos, "exported %s has no comment", s.Name))
		}
	}
	return sortFindings(all)
}
