package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// phrases are ways to say things of our own that users must not meet: in what the programs
// print, in manual pages and in documents. Comments in code are held to terms alone.
var phrases = []term{
	{word(`told|tells`), "report, announce, notify, or log"},
	{word(`mend(s|ed|ing)?`), "fix, repair, or recover"},
	{word(`whoever`), "name the subject"},
	{word(`in the way`), "what it does: drops, obstructs"},
	{word(`finds? out|found out`), "detect"},
	{word(`hears?|heard`), "receive"},
	{word(`ends? up on`), "the verb of what happens"},
	{word(`gives? back|given back`), "restore"},
	{word(`asks? (a|the|every|each|all) paths?`), "probe"},
	{word(`shows? (a|its|the) nonce|nonce is shown`), "send a nonce"},
	{word(`carriage`), "encapsulation"},
	{word(`room (for|of)|no room|makes room`), "capacity, or space"},
	{word(`round in circles`), "what sends to what"},
	{word(`proven locators?`), "validated locator"},
}

// userDocument reports whether a file is a document that users read.
func userDocument(p string) bool {
	switch path.Ext(p) {
	case ".md":
		return p != "CHANGELOG.md" && p != "CONTRIBUTING.md" && !under(path.Dir(p), "docs/rfc", "LICENSES")
	case ".5", ".8":
		return under(path.Dir(p), "docs")
	}
	return false
}

// says is a claim of an experiment, which reports print.
var says = regexp.MustCompile(`"says": "((?:[^"\\]|\\.)*)"`)

// Phrases finds ways to say things that the field has a verb for: in documents and claims,
// and in string literals of several words, since those are printed. Tests print for their authors.
func Phrases(t *Tree) []Finding {
	var all []Finding
	look := func(p string, line int, text string) {
		for _, ph := range phrases {
			if w := ph.word.FindString(text); w != "" {
				all = append(all, Finding{p, line, fmt.Sprintf("%q: say %s", w, ph.say)})
			}
		}
	}
	for p, src := range t.Other {
		claims := strings.HasPrefix(path.Base(p), "expect") && path.Ext(p) == ".json"
		for i, line := range strings.Split(string(src), "\n") {
			switch m := says.FindStringSubmatch(line); {
			case userDocument(p):
				look(p, i+1, line)
			case claims && m != nil:
				look(p, i+1, m[1])
			}
		}
	}
	for _, f := range t.Go {
		if f.Test || f.Generated || under(f.Dir, "internal/house") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, " ") {
				look(f.Path, t.line(lit.Pos()), s)
			}
			return true
		})
	}
	return sortFindings(all)
}
