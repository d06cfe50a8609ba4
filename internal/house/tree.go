package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strings"
)

// Module is the path in go.mod, in front of every import of our own.
const Module = "roam"

// Tree is the repository as the rules see it.
type Tree struct {
	Go    []*GoFile
	C     []*CFile
	Other map[string][]byte // every other text file, by path
	Fset  *token.FileSet
}

// GoFile is one parsed Go file.
type GoFile struct {
	Path      string // from the root, with slashes
	Dir       string // "." for the root package
	Src       []byte
	AST       *ast.File
	Test      bool // a _test.go file
	Generated bool
}

// CFile is one C source or header under bpf.
type CFile struct {
	Path     string
	Src      []byte
	Vendored bool // under bpf/include: the kernel's or libbpf's, not ours
}

// Finding is one place that breaks a rule. Line is 0 when the whole file, or
// something that is absent, is meant.
type Finding struct {
	Path string
	Line int
	Text string
}

// String gives the form that editors jump to.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Rule is one of the house's rules.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Rules lists every rule that has a stop; the tests hold the repository to
// them.
func Rules() []Rule {
	return []Rule{
		{"effects", Effects},
		{"floors", Floors},
		{"doors", Doors},
		{"modules", Modules},
		{"package-docs", PackageDocs},
		{"exported-docs", ExportedDocs},
		{"drivers", Drivers},
		{"sizes", Sizes},
		{"methods", Methods},
		{"layers", Layers},
		{"sleeps", Sleeps},
		{"format", Format},
		{"wrapping", Wrapping},
		{"leftovers", Leftovers},
		{"names", Names},
		{"terms", Terms},
		{"phrases", Phrases},
		{"lines", Lines},
		{"maps", Maps},
		{"c-files", CFiles},
		{"drops", Drops},
		{"skips", Skips},
		{"tools", Tools},
		{"runs", Runs},
		{"links", Links},
		{"deviations", Deviations},
		{"rfcs", RFCs},
		{"licences", Licences},
	}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// skipped are directories that hold no source of ours: what make writes, and
// what tests read.
var skipped = map[string]bool{".git": true, "bin": true, "out": true, "testdata": true}

// Load reads the tree below the root of a file system. A Go file that does not
// parse is an error.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{Other: map[string][]byte{}, Fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped[d.Name()]:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		return t.add(root, p)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the source tree: %w", err)
	}
	return t, nil
}

func (t *Tree) add(root fs.FS, p string) error {
	src, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	switch path.Ext(p) {
	case ".go":
		file, err := parser.ParseFile(t.Fset, p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		t.Go = append(t.Go, &GoFile{Path: p, Dir: path.Dir(p), Src: src, AST: file,
			Test: strings.HasSuffix(p, "_test.go"), Generated: generated.Match(src)})
	case ".c", ".h":
		t.C = append(t.C, &CFile{Path: p, Src: src, Vendored: strings.HasPrefix(p, "bpf/include/")})
	default:
		if !bytes.ContainsRune(src, 0) {
			t.Other[p] = src
		}
	}
	return nil
}

// Packages groups the hand-written, non-test files by directory.
func (t *Tree) Packages() map[string][]*GoFile {
	dirs := map[string][]*GoFile{}
	for _, f := range t.Go {
		if !f.Test && !f.Generated {
			dirs[f.Dir] = append(dirs[f.Dir], f)
		}
	}
	return dirs
}

// imports returns the name under which a file knows each import, and its path.
func (f *GoFile) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range f.AST.Imports {
		p := importPath(spec)
		name := path.Base(p)
		if regexp.MustCompile(`^v[0-9]+$`).MatchString(name) {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, `"`) }

func (t *Tree) line(pos token.Pos) int { return t.Fset.Position(pos).Line }

// find makes a finding at a position in a Go file.
func (t *Tree) find(f *GoFile, pos token.Pos, format string, args ...any) Finding {
	return Finding{Path: f.Path, Line: t.line(pos), Text: fmt.Sprintf(format, args...)}
}

// under reports whether a directory is one of the roots or lies below one.
func under(dir string, roots ...string) bool {
	for _, root := range roots {
		if dir == root || root != "." && strings.HasPrefix(dir, root+"/") {
			return true
		}
	}
	return false
}

// sortFindings puts findings in the order of the tree.
func sortFindings(all []Finding) []Finding {
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].Path != all[j].Path {
			return all[i].Path < all[j].Path
		}
		return all[i].Line < all[j].Line
	})
	return all
}
