package house

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// setupScript installs what tests may need; its list of packages is the
// authority.
const setupScript = "build/setup"

var (
	setupLine = regexp.MustCompile(`(?m)^\t\t(?:build|demo|lab|test) \S+ (\S+)$`)
	// essential tools are on every Debian, so nobody installs them.
	essential = []string{"bash", "cat", "dirname", "git", "grep", "head", "make", "mktemp", "mount",
		"nsenter", "rm", "sed", "sh", "sort", "tail", "chmod", "unshare"}
	// features are what testutil.Need knows besides tools.
	features = []string{"cgroup2", "netns", "ipv6", "root", "tcx"}
	// namedTests are tests that a script names, quoted as the pattern of -run or -skip.
	namedTests = regexp.MustCompile(`'\^(Test\w*)(?:\(([\w|]+)\))?\$+'`)
	testedDir  = regexp.MustCompile(`[ /]((?:internal|lab|cmd|wire|sim)/[\w/]+)\b`)
	sameAs     = map[string]string{"ssh-keygen": "ssh", "bridge": "ip", "promtool": "prometheus", "tc": "ip", "ss": "ip",
		"python3": "python:http.server"}
)

// Skips finds tests that skip by themselves: only testutil may, since it names
// what is lacking and fails where everything is expected.
func Skips(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		if !f.Test || under(f.Dir, "internal/testutil") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
				all = append(all, t.find(f, call.Pos(), "skips by itself; call testutil.Need or NeedRoot"))
			}
			return true
		})
	}
	return sortFindings(all)
}

// Tools finds tools that a test asks for and that build/setup does not
// install.
func Tools(t *Tree) []Finding {
	installed := append([]string{}, essential...)
	for _, m := range setupLine.FindAllStringSubmatch(string(t.Other[setupScript]), -1) {
		installed = append(installed, m[1])
	}
	var all []Finding
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		names := f.imports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !calls(call, names, Module+"/internal/testutil", "Need") || len(call.Args) < 2 {
				return true
			}
			if tool := wanted(call.Args[1]); tool != "" && !slices.Contains(installed, tool) {
				all = append(all, t.find(f, call.Pos(), "needs %s, which %s does not install", tool, setupScript))
			}
			return true
		})
	}
	return sortFindings(all)
}

// wanted returns the tool that an argument of testutil.Need names, under the
// name that the setup script looks for, or "" for a feature or a path.
func wanted(arg ast.Expr) string {
	lit, ok := arg.(*ast.BasicLit)
	if !ok {
		return ""
	}
	name, err := strconv.Unquote(lit.Value)
	if err != nil || strings.HasPrefix(name, "/") || slices.Contains(features, name) {
		return ""
	}
	if same, ok := sameAs[name]; ok {
		return same
	}
	return name
}

// Runs finds tests that a script names and that are not there: a pattern that
// matches nothing runs nothing, and says so to nobody.
func Runs(t *Tree) []Finding {
	tests := map[string]bool{}
	for _, f := range t.Go {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.Test {
				tests[f.Dir+"."+fn.Name.Name] = true
			}
		}
	}
	var all []Finding
	for p, src := range t.Other {
		if p != "Makefile" && !under(p, "build", ".ci") {
			continue
		}
		for i, line := range strings.Split(string(src), "\n") {
			names, dir := namedTests.FindStringSubmatch(line), testedDir.FindStringSubmatch(line)
			if names == nil || dir == nil {
				continue
			}
			for _, rest := range strings.Split(names[2], "|") {
				if name := dir[1] + "." + names[1] + rest; !tests[name] {
					all = append(all, Finding{Path: p, Line: i + 1, Text: "names the test " + name + ", which is not there"})
				}
			}
		}
	}
	return sortFindings(all)
}
