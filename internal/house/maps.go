package house

import (
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// mapsDoc is the written contract between the data plane and the daemon.
const mapsDoc = "docs/maps.md"

var (
	mapDefinition = regexp.MustCompile(
		`(?m)^(?:\}\s*(\w+)\s+SEC\("\.maps"\)|SEC\("\.struct_ops\.link"\)\nstruct \w+ (\w+) =)`)
	mapHeading = regexp.MustCompile("(?m)^#+ .*$|^\\| *`\\w+` *\\|")
	quotedName = regexp.MustCompile("`(\\w+)`")
)

// CMaps lists the maps that our C defines.
func (t *Tree) CMaps() []string {
	set := map[string]bool{}
	for _, f := range t.C {
		for _, m := range mapDefinition.FindAllStringSubmatch(string(f.Src), -1) {
			set[m[1]+m[2]] = true // one of them is empty
		}
	}
	return keys(set)
}

// ObjectMaps lists the maps of the compiled objects, as bpf2go found them: the
// tags in the generated structs whose name ends in MapSpecs.
func (t *Tree) ObjectMaps() []string {
	set := map[string]bool{}
	for _, f := range t.Go {
		if !f.Generated {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !strings.HasSuffix(spec.Name.Name, "MapSpecs") {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					if field.Tag != nil {
						set[reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("ebpf")] = true
					}
				}
			}
			return false
		})
	}
	delete(set, "")
	return keys(set)
}

// DocumentedMaps lists the maps that docs/maps.md describes: the names in code
// style in its headings, and those that fill the first cell of a table's row.
func (t *Tree) DocumentedMaps() []string {
	set := map[string]bool{}
	for _, line := range mapHeading.FindAllString(string(t.Other[mapsDoc]), -1) {
		for _, m := range quotedName.FindAllStringSubmatch(line, -1) {
			set[m[1]] = true
		}
	}
	return keys(set)
}

// Maps finds maps that docs/maps.md does not describe, maps that exist only
// there, and objects compiled from other sources than those in the tree.
func Maps(t *Tree) []Finding {
	var all []Finding
	inC, inObject, inDoc := t.CMaps(), t.ObjectMaps(), t.DocumentedMaps()
	for _, name := range inC {
		if !slices.Contains(inDoc, name) {
			all = append(all, Finding{Path: mapsDoc, Text: "does not describe the map " + name})
		}
		if len(inObject) > 0 && !slices.Contains(inObject, name) {
			all = append(all, Finding{Path: "internal/dataplane", Text: "no compiled object has the map " + name})
		}
	}
	for _, name := range inObject {
		if !slices.Contains(inC, name) {
			all = append(all, Finding{Path: "internal/dataplane", Text: "the object's map " + name + " is not in the C"})
		}
	}
	for _, name := range inDoc {
		if !slices.Contains(inC, name) {
			all = append(all, Finding{Path: mapsDoc, Text: "describes a map " + name + " that no C defines"})
		}
	}
	return sortFindings(all)
}

func keys(set map[string]bool) []string {
	var all []string
	for key := range set {
		all = append(all, key)
	}
	sort.Strings(all)
	return all
}
