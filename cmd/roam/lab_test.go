package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
)

// TestLabRunsRoamLab passes all arguments on, those that roam would take for its
// own among them.
func TestLabRunsRoamLab(t *testing.T) {
	for args, want := range map[string]string{
		"lab":                           "exec /x/roam-lab",
		"lab run example --preset fast": "exec /x/roam-lab run example --preset fast",
		"lab list --json":               "exec /x/roam-lab list --json",
		"--json lab list":               "exec /x/roam-lab --json list",
		"lab --help":                    "exec /x/roam-lab --help",
		"lab --nonsense -- a":           "exec /x/roam-lab --nonsense -- a",
	} {
		w := newWorld(t)
		w.machine.programs = map[string]string{"roam-lab": "/x/roam-lab"}
		if status, out, errs := w.try(strings.Fields(args)...); status != cli.StatusOK || out+errs != "" {
			t.Errorf("%s: %d, %q, %q", args, status, out, errs)
		}
		if got := strings.Join(w.machine.done, ";"); got != want {
			t.Errorf("%s: did %q, want %q", args, got, want)
		}
		w.machine.fail = errors.New("exec format error")
		if status, _, errs := w.try(strings.Fields(args)...); status != cli.StatusFailure || !strings.Contains(errs, "run /x/roam-lab: exec format error") {
			t.Errorf("%s, which fails: %d, %q", args, status, errs)
		}
	}
}

func TestLabIsAbsent(t *testing.T) {
	status, out, errs := newWorld(t).try("lab", "run", "quickstart")
	if status != cli.StatusFailure || out != "" || !strings.HasPrefix(errs, "roam: find roam-lab: ") || !strings.Contains(errs, "\nhint: the lab is a program of its own") {
		t.Errorf("%d, %q, %q", status, out, errs)
	}
}

// TestLabCompletion asks roam-lab, and does without where there is none.
func TestLabCompletion(t *testing.T) {
	w := newWorld(t)
	for _, want := range []string{":4\n", "quickstart\texample\n:4\n"} {
		if status, out, _ := w.try("__complete", "lab", "run", ""); status != cli.StatusOK || out != want {
			t.Errorf("%d, %q, want %q", status, out, want)
		}
		w.machine.programs = map[string]string{"roam-lab": "/x/roam-lab"}
		w.machine.output = map[string]string{"/x/roam-lab __complete run ": "quickstart\texample\n:4\n"}
	}
}

// TestLabStatus runs the program itself: roam-lab beside it comes first, then that
// of PATH, and its exit status is that of roam.
func TestLabStatus(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := func(dir, status string) string {
		t.Helper()
		file := filepath.Join(dir, "roam-lab")
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho \"$0 $*\"\nexit "+status+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	try := func(want string, status int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "roam"), "lab", "run", "--runs", "0")
		cmd.Env = append(os.Environ(), "PATH="+path)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s, want status %d, %q", err, out, status, want)
		}
	}
	try("find roam-lab beside roam, or in PATH", cli.StatusFailure)
	try(script(path, "7")+" run --runs 0\n", 7)
	try(script(dir, "5")+" run --runs 0\n", 5)
}

// TestNoLabInside holds that the command of a host has nothing of the laboratory,
// forged packets and emulated links among it.
func TestNoLabInside(t *testing.T) {
	for _, command := range []string{"roam/cmd/roam", "roam/cmd/roamd"} {
		out, err := exec.Command("go", "list", "-deps", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for p := range strings.Lines(string(out)) {
			if p = strings.TrimSpace(p); p == "roam/lab" || strings.HasPrefix(p, "roam/lab/") {
				t.Errorf("%s links %s", command, p)
			}
		}
	}
}
