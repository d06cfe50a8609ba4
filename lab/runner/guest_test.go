package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/exp"
)

// stub is a source tree whose guests are a shell script that finds the directory
// for its files in $1.
func stub(t *testing.T, script string) *runner {
	t.Helper()
	tree := t.TempDir()
	path := filepath.Join(tree, "build", "kernels", "lab")
	for _, dir := range []string{filepath.Join(tree, "bin"), filepath.Dir(path)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	return &runner{
		bin: filepath.Join(tree, "bin"),
		exp: exp.Experiment{Name: "one", Tools: map[string]string{"radvd": "radvd", "ip": "iproute2"}},
		opt: Options{Engine: exp.VM, Preset: "quick", Seed: 7, Set: []string{"a=1", "b=x y"}},
	}
}

// empty fails the test unless nothing is left where guests put their files.
func empty(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(os.Getenv("TMPDIR") + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A guest gets the same run and its tools; the file that it leaves is the result, also when
// its claims failed and its status is 1.
func TestGuestRunsTheSameCommand(t *testing.T) {
	r := stub(t, `
echo '{"experiment":"one","metrics":{"lost":3}}' >"$1/result.json"
mkdir "$1/pcap" && printf packets >"$1/pcap/mn.pcap"
shift
{ echo "SEED=$SEED"; printf '%s\n' "$@"; } >"$(dirname "$0")/asked"
exit 1
`)
	r.opt.Pcap = filepath.Join(t.TempDir(), "caught")
	res, cells, err := r.guest(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(filepath.Join(r.bin, "../build/kernels/asked"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"SEED=8", "ip", "radvd", "--", "run", "one", "--engine", "vm", "--preset", "quick", "--seed", "8",
		"--json", "result.json", "--set", "a=1", "--set", "b=x y", "--pcap", "pcap"}
	if got := strings.Split(strings.TrimSpace(string(asked)), "\n"); !slices.Equal(got, want) {
		t.Errorf("asked for\n%q, not\n%q", got, want)
	}
	if cells || res.Metrics["lost"] != 3 || res.Guest == nil || res.Guest.WallSeconds <= 0 || len(res.Guest.SHA256) != 64 {
		t.Errorf("cells %v, result %+v, guest %+v", cells, res, res.Guest)
	}
	if b, err := os.ReadFile(filepath.Join(r.opt.Pcap, "mn.pcap")); err != nil || string(b) != "packets" ||
		len(res.Captures) != 1 {
		t.Errorf("captures %v: %q, %v", res.Captures, b, err)
	}
	empty(t)
}

// The digest is of what the guest wrote, so that it tells runs from each other.
func TestGuestDigest(t *testing.T) {
	sums := map[string]int{}
	for _, text := range []string{`{"experiment":"one"}`, `{"experiment":"one"}`, `{"experiment": "one"}`} {
		r := stub(t, fmt.Sprintf(`echo '%s' >"$1/result.json"`, text))
		res, _, err := r.guest(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		sums[res.Guest.SHA256]++
	}
	if len(sums) != 2 {
		t.Errorf("digests %v", sums)
	}
}

// A guest that has nothing to show says why.
func TestGuestWithoutResult(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"failed":     {`echo "experiment one: cannot do it" >&2; exit 2`, "exit status 2: experiment one: cannot do it"},
		"too long":   {`exit 124`, "exit status 124"},
		"nothing":    {`echo fine`, "no such file"},
		"half":       {`echo '{"experiment":' >"$1/result.json"; echo disk full`, "decode the guest's result"},
		"half, says": {`echo '{"experiment":' >"$1/result.json"; echo disk full`, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			r := stub(t, tt.script)
			if _, _, err := r.guest(t.Context(), 0, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, not %q", err, tt.want)
			}
			empty(t)
		})
	}
	r := &runner{bin: t.TempDir()}
	if _, _, err := r.guest(t.Context(), 0, nil); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "source tree") {
		t.Errorf("without a source tree: %v", err)
	}
}

// An interrupt ends the script and what it started.
func TestGuestIsInterrupted(t *testing.T) {
	r := stub(t, `trap 'exit 130' TERM
sleep 1000 & echo $! >"$(dirname "$0")/pid.new"; mv "$(dirname "$0")/pid.new" "$(dirname "$0")/pid"
wait
`)
	pid := filepath.Join(r.bin, "../build/kernels/pid")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		testutil.Wait(20*time.Second, func() bool { _, err := os.Stat(pid); return err == nil })
		cancel()
	}()
	if _, _, err := r.guest(ctx, 0, nil); err == nil {
		t.Error("an interrupted guest has a result")
	}
	b, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, func() bool {
		cmd, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/cmdline")
		return err != nil || len(cmd) == 0
	}, "what the script started lives on")
	empty(t)
}

// The engine vm builds nothing on this machine, and so asks nothing of it.
func TestGuestNeedsNoRoot(t *testing.T) {
	for _, tt := range []struct {
		engine, guest string
		here          bool
	}{{exp.Netns, "", true}, {exp.Sim, "", false}, {exp.VM, "", false}, {exp.VM, "1", true}} {
		t.Setenv(guestVariable, tt.guest)
		r := &runner{opt: Options{Engine: tt.engine}}
		if got := r.here(); got != tt.here {
			t.Errorf("engine %s, %s=%q: here %v", tt.engine, guestVariable, tt.guest, got)
		}
	}
}

func TestTail(t *testing.T) {
	if got := string(tail([]byte(" abc \n"), 3)); got != "c" {
		t.Errorf("%q", got)
	}
	if got := string(tail([]byte("abc\n"), 9)); got != "abc" {
		t.Errorf("%q", got)
	}
}
