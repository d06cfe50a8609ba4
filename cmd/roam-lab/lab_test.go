package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"roam/internal/cli"
	"roam/lab/result"
	"roam/lab/runner"
)

// world is one command line's surroundings.
type world struct {
	*app
	out, err bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.app = &app{&cli.Terminal{Program: "roam-lab", Out: &w.out, Err: &w.err}}
	return w
}

// try runs one command line and returns its status and what it printed.
func (w *world) try(args ...string) (status int, out, errs string) {
	w.out.Reset()
	w.err.Reset()
	w.JSON = false
	status = w.run(args)
	return status, w.out.String(), w.err.String()
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"", cli.StatusUsage, "needs a verb"},
		{"run", cli.StatusUsage, "needs NAME"},
		{"run quickstart --runs 0", cli.StatusUsage, "want 1 or more"},
		{"show nothing", cli.StatusUsage, `no experiment is called "nothing"`},
		{"compare a.JSON", cli.StatusUsage, "needs B.json"},
		{"report", cli.StatusUsage, "needs DIR"},
		{"report /nonexistent", cli.StatusFailure, "list results"},
		{"export nothing.json d", cli.StatusFailure, "read result"},
		{"interop", cli.StatusUsage, "needs TARGET"},
		{"interop nothing", cli.StatusUsage, `"nothing": no such target; there are [rfc draft linux-2019`},
		{"interop rfc --case nothing", cli.StatusUsage, `case "nothing": no such case; there are tcp-roam, `},
		{"interop mine --link lo", cli.StatusUsage, "needs --link, --nid and --l64"},
		{"interop mine --link nowhere --nid 1:2:3:4 --l64 2001:db8:1:1", cli.StatusUsage, "--link nowhere: there is no such device"},
		{"interop mine --link lo --nid x --l64 2001:db8:1:1", cli.StatusUsage, "--nid: "},
		{"interop mine --link lo --nid 1:2:3:4 --l64 2001:db8", cli.StatusUsage, "--l64: "},
		{"interop mine --link lo --nid 1:2:3:4 --l64 1:1:1:1,2:2:2:2,3:3:3:3", cli.StatusUsage, "3 locators, at most 2"},
		{"interop rfc --options check=ipv6", cli.StatusUsage, "--options: "},
		{"link a/b", cli.StatusUsage, "two ends"},
		{"link a/b c/d delay=20", cli.StatusUsage, "no value of delay"},
		{"link a/b c/d --at 5s", cli.StatusUsage, "want down, up, or KEY=VALUE"},
		{"link nowhere/b c/d", cli.StatusFailure, "open network namespace"},
		{"run quickstart --report /tmp", cli.StatusUsage, "/tmp is a directory, not a file to write"},
		{"run quickstart --json /tmp/none/", cli.StatusUsage, "/tmp/none/ is a directory, not a file to write"},
		{"run yanagida-duality-udp --engine sim --json /nonexistent/d/x.json", cli.StatusFailure,
			"make directory for output: mkdir /nonexistent/d"},
		{"run nothing", cli.StatusUsage, `no experiment is called "nothing"`},
		{"lst", cli.StatusUsage, `did you mean "list"?`},
		{"run --nonsense", cli.StatusUsage, "roam-lab: unknown flag: --nonsense\nhint: see `roam-lab --help` or man 8 roam-lab\n"},
		{"--json report /nonexistent", cli.StatusFailure, `"status":1`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			status, out, errs := newWorld(t).try(strings.Fields(tc.args)...)
			if status != tc.status || !strings.Contains(errs, tc.want) || out != "" {
				t.Errorf("status %d, want %d\nout %q\nerrors %q\nwant %q", status, tc.status, out, errs, tc.want)
			}
		})
	}
}

// Scripts tell by the status what became of a run.
func TestStatuses(t *testing.T) {
	t.Setenv(runner.JudgeVariable, "") // which who runs the tests may have set
	of := func(value float64, key bool) error {
		r := result.New("x")
		r.Set("lost", value)
		r.Judge([]result.Expectation{
			{ID: "l", Says: "nothing is lost", Metric: "lost", Op: "==", Kind: result.Correctness, Source: "s"},
			{ID: "k", Says: "was tried", Metric: "absent", Op: "==", Kind: result.Correctness, Source: "s", Key: key},
		})
		return verdict(r)
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"pass": {of(0, false), 0}, "claim": {of(1, true), 1}, "inconclusive": {of(0, true), 3},
		"interrupted": {fmt.Errorf("run: %w", context.Canceled), 130}, "fault": {context.DeadlineExceeded, 1},
		"usage": {cli.Usagef("what?"), 2},
	} {
		w := newWorld(t)
		root := w.Root(&cobra.Command{Use: "roam-lab", RunE: func(*cobra.Command, []string) error { return c.err }}, "")
		if got := w.Run(root, nil, interrupted); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
}

func TestList(t *testing.T) {
	status, out, errs := newWorld(t).try("list")
	if status != cli.StatusOK || !strings.Contains(out, "quickstart") || errs != "" {
		t.Errorf("list: %d, %q, %q", status, out, errs)
	}
	status, out, _ = newWorld(t).try("list", "--json")
	var list []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != cli.StatusOK || len(list) == 0 || list[0].Name != "quickstart" {
		t.Errorf("list --json: %d, %v, %q", status, err, out)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	if status, out, _ := newWorld(t).try("--version"); status != cli.StatusOK || out != "roam-lab devel\n" {
		t.Errorf("--version: %d, %q", status, out)
	}
	if status, out, _ := newWorld(t).try("__complete", "run", ""); status != cli.StatusOK || !strings.Contains(out, "quickstart\n") {
		t.Errorf("completion of run: %d, %q", status, out)
	}
	if status, out, _ := newWorld(t).try("completion", "bash"); status != cli.StatusOK || !strings.Contains(out, "__start_roam-lab") {
		t.Errorf("completion bash: %d", status)
	}
}
