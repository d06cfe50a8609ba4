package testutil

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Figure
		want string
	}{
		{"at least", Figure{Op: ">=", Bound: 0.94, Value: 0.94, Half: 0.015}, Pass},
		{"too small", Figure{Op: ">=", Bound: 0.94, Value: 0.939, Half: 0.001}, Fail},
		{"at most", Figure{Op: "<=", Bound: 60, Value: 60, Within: 10, Half: 9}, Pass},
		{"too great", Figure{Op: "<=", Bound: 60, Value: 61, Within: 10, Half: 9}, Fail},
		{"wide", Figure{Op: ">=", Bound: 0.94, Value: 2, Half: 0.016}, NotMeasured},
		{"wide in its unit", Figure{Op: "<=", Bound: 60, Value: 1, Within: 10, Half: 11}, NotMeasured},
		{"wide and too small", Figure{Op: ">=", Bound: 0.94, Value: 0.8, Half: 0.1}, Fail},
		{"wide and too great", Figure{Op: "<=", Bound: 60, Value: 134, Within: 10, Half: 12}, Fail},
		{"wide, about the bound", Figure{Op: "<=", Bound: 60, Value: 65, Within: 10, Half: 12}, NotMeasured},
		{"wide, about it from below", Figure{Op: ">=", Bound: 0.9, Value: 0.89, Half: 0.02}, NotMeasured},
		{"wide, by far enough", Figure{Op: "<=", Bound: 300, Value: 100, Within: 10, Half: 12}, NotMeasured},
		{"no value", Figure{Op: ">=", Bound: 0.94, Value: math.NaN(), Half: math.NaN()}, NotMeasured},
		{"no bound", Figure{Value: 1, Half: 1}, ""},
	} {
		if got := c.f.Judge(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// recorder is a benchmark whose end is looked at.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Log(...any)   {}
func (r *recorder) Error(...any) { r.failed = true }

// A figure beyond its bound, or too wide, fails its benchmark; each is kept once.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	t.Setenv(Results, path)
	for _, c := range []struct {
		f      Figure
		failed bool
	}{
		{Figure{Name: "b", Op: ">=", Bound: 0.9, Value: 0.8, Half: 0.01}, true},
		{Figure{Name: "a", Op: ">=", Bound: 0.9, Value: 0.95, Half: 0.1}, true},
		{Figure{Name: "b", Op: ">=", Bound: 0.9, Value: 0.95, Half: 0.01}, false},
		{Figure{Name: "c/of", Value: 3, Half: 1, Unit: "ns", Raw: map[string][]float64{"ns now": {2, 4}}}, false},
	} {
		r := &recorder{TB: t}
		if Report(r, c.f); r.failed != c.failed {
			t.Errorf("%+v: failed %v", c.f, r.failed)
		}
	}
	all, err := ReadFigures(path)
	if err != nil || len(all) != 3 || all[0].Name != "a" || all[0].Verdict != NotMeasured || all[1].Value != 0.95 {
		t.Fatalf("kept %+v: %v", all, err)
	}
	release, err := os.ReadFile("../../VERSION")
	for _, f := range all {
		if err != nil || f.Build == "" || !strings.HasPrefix(f.Build, strings.TrimSpace(string(release))) {
			t.Errorf("%s was measured on build %q of %q: %v", f.Name, f.Build, release, err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), "results.raw", "c_of.json"))
	if list, _ := filepath.Glob(filepath.Dir(path) + "/results.raw/*"); err != nil || len(list) != 1 ||
		!strings.Contains(string(raw), `"raw":{"ns now":[2,4]}`) || !strings.Contains(string(raw), `"name":"c/of"`) {
		t.Errorf("rounds %s in %v: %v", raw, list, err)
	}
	table := Table(append(all, Figure{Name: "d", Unit: "ns", Value: 7, Rounds: 2, Load: 1}))
	rows := []string{"| **not measured** |", "| `b` |  | >= 0.900 | 0.950 ± 0.010 |", "| 3 ± 1 ns |",
		" | " + all[0].Build + " | **not measured** |", "| `d` |  |  | 7 ns | 2, 1.0 |  |  |"}
	for _, want := range rows {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

var draw = flag.Bool("draw", false, "draw docs/results.md anew from docs/results.json")

const tableBegins, tableEnds = "<!-- drawn from results.json -->\n", "<!-- end of what is drawn -->\n"

// The table of docs/results.md is drawn from docs/results.json, and nobody edits it.
func TestResultsAreDrawn(t *testing.T) {
	all, err := ReadFigures("../../docs/results.json")
	if err != nil || len(all) == 0 {
		t.Fatalf("figures %v: %v", all, err)
	}
	for _, f := range all {
		if strings.HasPrefix(f.Says, "the same") {
			t.Errorf("%s says %q: the table is in the order of names", f.Name, f.Says)
		}
	}
	const page = "../../docs/results.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableBegins)
	_, after, there := strings.Cut(rest, tableEnds)
	if !ok || !there {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + tableBegins + Table(all) + tableEnds + after
	if string(b) == want {
		return
	}
	if !*draw {
		t.Fatalf("%s does not show docs/results.json: make results", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
