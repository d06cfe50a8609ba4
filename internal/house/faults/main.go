// Command faults plants known faults in Roam and in the lab, one at a time, and fails if the test that is
// to catch one does not, or takes over a minute.
//
// It implements the faults of the tables core, plane and lab: each is a text that replaces another one, and
// the test that fails by it. It omits faults that follow a rule (package mutants) and those of a whole
// experiment (lab/scene, the build tag planted). Each runs in a copy of the tree, where the programs are
// compiled anew if the fault is in them. It is driven by make test-faults.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// fault is one change that makes the tree wrong.
type fault struct {
	what     string // is wrong then
	file     string // in which
	old, now string // one text replaces another, which stands there once
	pkg      string // of the test
	test     string // that fails
}

// all are the faults of all tables.
func all() []fault { return slices.Concat(core, plane, daemon, lab, experiments) }

// limit is how long a test may take to catch a fault.
const limit = time.Minute

func main() {
	only := flag.String("only", "", "plant only faults of which the file or the words contain this")
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(only string) error {
	tree, err := copyTree()
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	list := slices.DeleteFunc(all(), func(f fault) bool {
		return !strings.Contains(f.file, only) && !strings.Contains(f.what, only)
	})
	if err := sound(tree, list); err != nil {
		return err
	}
	missed := 0
	for _, f := range list {
		took, err := f.try(tree)
		verdict := "caught"
		if err != nil {
			missed++
			verdict = "NOT CAUGHT: " + err.Error()
		}
		fmt.Printf("%5.1f s  %s: %s by %s: %s\n", took.Seconds(), f.file, f.what, f.test, verdict)
	}
	fmt.Printf("%d faults planted, %d not caught\n", len(list), missed)
	if missed > 0 || len(list) == 0 {
		return fmt.Errorf("%d of %d faults are not caught", missed, len(list))
	}
	return nil
}

// copyTree copies what git has and what is new here.
func copyTree() (string, error) {
	dir, err := os.MkdirTemp("", "roam-faults")
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	cmd := exec.Command("bash", "-c", `set -euo pipefail
git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar -c --null -T - | tar -x -C "$0"`, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("copy the tree: %w: %s", err, out)
	}
	return dir, nil
}

// sound runs all tests without a fault.
func sound(tree string, list []fault) error {
	tests := map[string][]string{}
	for _, f := range list {
		if !slices.Contains(tests[f.pkg], f.test) {
			tests[f.pkg] = append(tests[f.pkg], f.test)
		}
	}
	for pkg, names := range tests {
		out, err := test(context.Background(), tree, pkg, strings.Join(names, "|"))
		if bytes.Contains(out, []byte("no tests to run")) {
			err = errors.New("no such test")
		}
		if err != nil {
			return fmt.Errorf("%s without a fault: %w: %s", pkg, err, out)
		}
	}
	return nil
}

// try plants a fault, and runs its test until it fails.
func (f fault) try(tree string) (took time.Duration, err error) {
	path := filepath.Join(tree, f.file)
	was, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("plant: %w", err)
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, was, 0o644), f.compile(tree)) }()
	if err := os.WriteFile(path, bytes.Replace(was, []byte(f.old), []byte(f.now), 1), 0o644); err != nil {
		return 0, fmt.Errorf("plant: %w", err)
	}
	if err := f.compile(tree); err != nil {
		return 0, err
	}
	if out, err := goRun(context.Background(), tree, "test", "-run", "^$", f.pkg); err != nil {
		return 0, fmt.Errorf("it does not compile: %s", out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	out, err := test(ctx, tree, f.pkg, f.test)
	took = time.Since(began)
	failed := regexp.MustCompile(`(?m)^--- FAIL: ` + f.test + `\b`).Match(out)
	switch {
	case ctx.Err() != nil:
		return took, fmt.Errorf("the test takes over %v", limit)
	case err == nil:
		return took, errors.New("the test passes")
	case !failed && !bytes.Contains(out, []byte("panic: ")):
		return took, fmt.Errorf("something else fails: %s", out)
	}
	return took, nil
}

// compile makes the programs of the kernel anew if the fault is in them.
func (f fault) compile(tree string) error {
	if !strings.HasPrefix(f.file, "bpf/") {
		return nil
	}
	if out, err := goRun(context.Background(), tree, "generate", f.pkg); err != nil {
		return fmt.Errorf("compile the programs: %w: %s", err, out)
	}
	return nil
}

// test runs tests whose names match.
func test(ctx context.Context, tree, pkg, name string) ([]byte, error) {
	return goRun(ctx, tree, "test", "-count", "1", "-failfast", "-run", "^("+name+")$", pkg)
}

func goRun(ctx context.Context, tree string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "GOFLAGS=-trimpath") // so the tree's objects serve the copy
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}
