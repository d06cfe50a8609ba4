package exptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam/lab/result"
)

// asks are the names by which the lab learns what Roam says of itself.
var asks = []string{"Added", "Events", "Sessions", "Session", "Established", "Keyed", "Locators", "Counters", "Counts",
	"Status", "WaitUsable", "WaitActive", "AskFor", "Event", "Cmd"}

// allowed are the functions of experiments that ask Roam, and why no claim depends on the
// answer.
var allowed = map[string]string{
	"beyond.(*opinion).hear":       "the daemon's opinion",
	"beyond.(*outcome).judge":      "hands events to the opinion",
	"beyond.(*outcome).resume":     "the daemon's opinion",
	"beyond.probe":                 "waits for links before the traffic",
	"beyond.transfer":              "waits for links before the traffic",
	"falsealarm.(*seen).read":      "counters of the emulated links",
	"falsealarm.measure":           "waits for links before the traffic",
	"falsealarm.pass":              "the daemon's opinion",
	"flood.(*world).counted":       "the daemon's opinion",
	"flood.(*world).daemons":       "waits for addresses, and finds the process whose memory is judged",
	"flood.(*world).flood":         "the daemon's opinion",
	"hostile.(*outcome).look":      "the daemon's opinion, which ends a stay with haste",
	"hostile.(*outcome).lookWhole": "the daemon's opinion, which ends a stay with haste",
	"hostile.(*outcome).read":      "the daemon's opinion",
	"hostile.(*reaction).spread":   "the daemon's opinion; the claim is that it tells of the change, too",
	"hostile.(*stage).build":       "waits for addresses before the traffic",
	"hostile.(*stage).settled":     "waits for a session before the attack; its round-trip time is a parameter",
	"hostile.introduce":            "pairs two hosts",
	"hostile.left":                 "waits before the network under test",
	"hostile.setUp":                "waits for a session before the handoff",
	"instants.(*seen).instants":    "the daemon's opinion",
	"paths.(cell).build":           "waits for links before the traffic",
	"phoomikiattisak.(*cell).gaps": "the daemon's opinion",
	"phoomikiattisak.drops":        "counters in a table",
	"phoomikiattisak.dropsOf":      "counters in a table",
	"phoomikiattisak.waitBoth":     "waits for links before the traffic",
	"quickstart.(*round).endRoam":  "counters in a table, and the daemon's opinion",
	"quickstart.(*round).pass":     "hands events to the opinion, and waits for keyed sessions before the schedule",
	"quickstart.(*round).record":   "the recording of roam monitor",
	"quickstart.(*trace).told":     "the daemon's opinion",
	"shares.measure":               "waits for links before the traffic",
	"simpson.(*pair).start":        "waits for links before the traffic",
	"simpson.measure":              "makes the address of a session",
	"simpson.(*seen).divide":       "the border's opinion, and waits for acknowledged locators before the traffic",
	"silent.measure":               "waits for links before the traffic",
	"yanagida.(*seen).judge":       "the daemon's opinion",
}

// What a claim judges comes from packets and from the applications' own records. Whatever asks
// Roam is listed with a reason, and no claim judges a metric that is the daemon's.
func TestJudgedFromOutside(t *testing.T) {
	for _, file := range expectations(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := result.ParseExpect(b)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range claims {
			metrics := []string{c.Metric}
			for _, g := range c.Needs {
				metrics = append(metrics, g.Metric)
			}
			for _, m := range metrics {
				if slices.Contains(strings.Split(m, "_"), "daemon") {
					t.Errorf("%s: claim %s judges %s, which the daemon says", file, c.ID, m)
				}
			}
		}
	}
	found := askers(t)
	for _, f := range found {
		if allowed[f] == "" {
			t.Errorf("%s asks Roam: take it from packets or applications, or list it with the reason", f)
		}
	}
	for f := range allowed {
		if !slices.Contains(found, f) {
			t.Errorf("%s does not ask Roam any more", f)
		}
	}
}

// askers returns the functions of the experiments that ask Roam.
func askers(t *testing.T) (found []string) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if name := filepath.Base(filepath.Dir(path)) + "." + nameOf(f); asking(f) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// nameOf is a function's name with its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	switch r := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return "(*" + r.X.(*ast.Ident).Name + ")." + f.Name.Name
	case *ast.Ident:
		return "(" + r.Name + ")." + f.Name.Name
	}
	return f.Name.Name
}

// asking reports whether a function uses one of the names, but for those that a result, a
// packet, an application or a router has, too.
func asking(f *ast.FuncDecl) (yes bool) {
	others := []string{"r", "router", "u", "e", "update", "result", "packets", "live", "workload", "Result", "Host", "Core"}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(asks, s.Sel.Name) {
			return true
		}
		of := ""
		switch x := s.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		yes = yes || !slices.Contains(others, of)
		return true
	})
	return yes
}
