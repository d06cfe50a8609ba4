package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"roam/lab/interop/suite"
	"roam/lab/linkem"
	"roam/lab/result"
	"roam/lab/runner"

	"github.com/spf13/cobra"
)

// fits fails for each line with more characters than a terminal usually has.
func fits(t *testing.T, what, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%s: %d characters: %s", what, n, line)
		}
	}
}

// judged has a claim of each verdict, and tables of few and of many columns.
func judged() *result.Result {
	r := result.New("x")
	many := make([]string, 16)
	for i := range many {
		many[i] = fmt.Sprintf("column %d of many", i)
	}
	r.Tables = []result.Table{
		{Title: "costs", Columns: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}},
		{Title: "wide", Columns: many, Rows: [][]string{many, many}},
	}
	r.Set("right", 1)
	r.Set("gap_ms", 80)
	r.Judge([]result.Expectation{
		{ID: "r", Says: "is right", Metric: "right", Op: "==", Bound: 1, Unit: "yes", Kind: result.Correctness, Source: "s"},
		{ID: "g", Says: "is quick", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing, Source: "s"},
		{ID: "n", Says: "was tried", Metric: "absent", Op: "==", Bound: 1, Kind: result.Timing, Source: "s"},
	})
	r.Summary = strings.Repeat("It ran and ran. ", 12)
	r.LeftOut = []string{strings.Repeat("a long way, ", 20)}
	r.StallMonitor.Disturbed = true
	r.AddLoss(result.Loss{What: "the probe", Sent: 90, Lost: 3, Emulator: 2})
	return r
}

func TestResult(t *testing.T) {
	t.Setenv(runner.JudgeVariable, "")
	w := newWorld(t)
	w.result(judged())
	out := w.out.String()
	for _, want := range []string{"costs\na  b\n1  2\n", "FAIL", "80 ms", "<= 50 ms", "not measured", "x: FAIL",
		"column 15 of many  column 15 of many", "datagrams, the probe: 3 of 90 lost; Roam's 1, 2 dropped by queues"} {
		if !strings.Contains(out, want) {
			t.Errorf("text lacks %q:\n%s", want, out)
		}
	}
	fits(t, "result", out)
}

// TestEverythingFitsATerminal prints each table of the program on the widest that it may have,
// and every experiment that there is.
func TestEverythingFitsATerminal(t *testing.T) {
	w := newWorld(t)
	try := func(args ...string) {
		t.Helper()
		status, out, errs := w.try(args...)
		if status != 0 || out == "" {
			t.Fatalf("%v: status %d, %s", args, status, errs)
		}
		fits(t, strings.Join(args, " "), out)
	}
	try("list")
	for _, e := range runner.List() {
		try("show", e.Name)
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	for i, path := range []string{a, b} {
		r := judged()
		r.Params = map[string]any{"a_parameter_with_a_long_name": strings.Repeat("value ", 10) + fmt.Sprint(i)}
		r.Set("a_metric_with_a_long_name_and_its_unit_behind_it_ms", 1e12+float64(i))
		if err := r.WriteJSON(path); err != nil {
			t.Fatal(err)
		}
	}
	try("compare", a, b)
	w.out.Reset()
	most := linkem.Counters{Frames: 1 << 63, Delivered: 1 << 63, Duplicated: 1 << 63, DropLoss: 1 << 63,
		DropQueue: 1 << 63}
	w.countTable(most, most)
	fits(t, "link", w.out.String())
	w.out.Reset()
	runner.InteropOptions{Target: "x", Out: io.Discard, Row: w.Fill}.Show(suite.Outcome{
		Case: suite.Case{Name: "reboot-target-inward"}, Value: strings.Repeat("connected after 12.3 ms; ",
			4), Why: strings.Repeat("why ", 30),
	})
	fits(t, "interop", w.out.String())
}

// TestHelpFitsATerminal looks at the help of every verb.
func TestHelpFitsATerminal(t *testing.T) {
	root := newWorld(t).root()
	root.InitDefaultHelpCmd()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		var out strings.Builder
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fits(t, cmd.CommandPath()+" --help", out.String())
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" { // the library's own texts
				walk(sub)
			}
		}
	}
	walk(root)
}
