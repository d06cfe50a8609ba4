package runner

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam/lab/exp"
	"roam/lab/result"
)

// Every experiment's files must be valid; otherwise it would fail only when it is run.
func TestExperimentsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range append(experiments(), unlisted()...) {
		if seen[e.Name] {
			t.Errorf("%s is listed twice", e.Name)
		}
		seen[e.Name] = true
		if e.Title == "" || e.Source == "" || e.Readme == "" || e.Drawing == "" || e.Run == nil {
			t.Errorf("%s: title, source, readme, drawing or run is missing", e.Name)
		}
		d, err := exp.ParseParams(e.Params)
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		for _, p := range exp.Presets {
			if _, err := d.Resolve(p, nil); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
			if d.Presets[p].About == "" {
				t.Errorf("%s: preset %s says nothing about itself", e.Name, p)
			}
		}
		claims, err := result.ParseExpect(e.Expect)
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		if !slices.ContainsFunc(claims, func(c result.Expectation) bool { return c.Key }) {
			t.Errorf("%s: no claim is key, so nothing that it does not measure makes it inconclusive", e.Name)
		}
	}
	if len(List()) != len(experiments()) {
		t.Errorf("%d experiments listed, %d there", len(List()), len(experiments()))
	}
}

func TestRunRefusesBeforeItMeasures(t *testing.T) {
	for name, opt := range map[string]Options{
		"nonsense":   {},
		"quickstart": {Preset: "fast"},
		"example":    {Engine: "sim"},
	} {
		if _, err := Run(t.Context(), name, opt); err == nil {
			t.Errorf("%s %+v: accepted", name, opt)
		}
	}
	_, err := Run(t.Context(), "quickstart", Options{Set: []string{"delay_ms=-1"}})
	if err == nil || !strings.Contains(err.Error(), "delay_ms") {
		t.Errorf("setting out of range: %v", err)
	}
}

// What cannot be asked for is told before anything is measured, as a mistake of the command
// line.
func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		experiment string
		opt        Options
	}{
		"experiment": {"quikstart", Options{}}, "preset": {"quickstart", Options{Preset: "quik"}},
		"parameter": {"quickstart", Options{Set: []string{"delay=1"}}},
		"engine":    {"quickstart", Options{Engine: "netn"}},
		"captures":  {"handoff-instants", Options{Engine: exp.Sim, Pcap: dir}},
		"report":    {"quickstart", Options{Report: dir}},
		"JSON":      {"quickstart", Options{JSON: dir}},
		"directory": {"quickstart", Options{Report: dir + "/new/"}}, // which is not there yet
	} {
		_, err := Run(t.Context(), c.experiment, c.opt)
		if !errors.Is(err, ErrUsage) || strings.Contains(err.Error(), "usage") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStateDir(t *testing.T) {
	t.Setenv("HOME", "/home/user")
	for xdg, want := range map[string]string{"": "/home/user/.local/state/roam-lab",
		"relative":   "/home/user/.local/state/roam-lab",
		"/elsewhere": "/elsewhere/roam-lab"} {
		t.Setenv("XDG_STATE_HOME", xdg)
		if got := stateDir(1000); got != want {
			t.Errorf("%q: %s, want %s", xdg, got, want)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if got := stateDir(1 << 30); got != filepath.Join(os.TempDir(), "roam-lab-1073741824/.local/state/roam-lab") {
		t.Errorf("of a user without a home: %s", got)
	}
	if got := stateDir(0); got != "/var/lib/roam-lab" {
		t.Errorf("of root: %s", got)
	}
}

func TestVerdict(t *testing.T) {
	r := result.New("x")
	r.Set("right", 1)
	r.Set("gap_ms", 80)
	r.Judge([]result.Expectation{
		{ID: "r", Says: "is right", Metric: "right", Op: "==", Bound: 1, Unit: "yes", Kind: result.Correctness, Source: "s"},
		{ID: "g", Says: "is quick", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing, Source: "s"},
		{ID: "n", Says: "was tried", Metric: "absent", Op: "==", Bound: 1, Kind: result.Timing, Source: "s"},
	})
	t.Setenv(JudgeVariable, "")
	if Verdict(r) != result.Failed {
		t.Error("a failed timing claim passed")
	}
	t.Setenv(JudgeVariable, result.Correctness)
	if Verdict(r) != result.Passed {
		t.Error("a timing claim decided although only correctness may")
	}
}

// The code of the example in docs/lab.md is that of the example.
func TestDocumentedExampleIsTheExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("../exp/example/exp.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(doc), "```go\nflow, err")
	shown, _, _ = strings.Cut(shown, "\n```")
	rest := string(code)
	for line := range strings.Lines("flow, err" + shown) {
		if strings.TrimSpace(line) == "..." {
			continue
		}
		_, after, ok := strings.Cut(rest, strings.TrimSpace(line))
		if !ok {
			t.Fatalf("the example has no line %q there", line)
		}
		rest = after
	}
	if strings.Count(shown, "\n") < 10 {
		t.Error("docs/lab.md does not show the example")
	}
}

// Each experiment that takes a link from a host with Roam has the metrics of that, others none.
func TestCutsAreMetrics(t *testing.T) {
	r, kept := result.New("x"), exp.Tally{}
	addCuts(r, &kept)
	if len(r.Metrics)+len(r.Unmeasured) != 0 {
		t.Errorf("without a cut: %v", r.Metrics)
	}
	kept.Cut(exp.Cuts{LateMs: 3, StillCameMs: 90})
	addCuts(r, &kept)
	if r.Metrics["cut_late_ms"] != 3 || r.Metrics["cut_still_came_ms"] != 90 {
		t.Errorf("%v", r.Metrics)
	}
}
