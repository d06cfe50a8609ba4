package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// open opens a file of export data.
func open(path string) (io.ReadCloser, error) {
	if path == "" {
		return nil, errors.New("no export data")
	}
	return os.Open(path)
}

// variable chooses the fault in a test binary; "trace" notes in the file that the second
// variable names which faults are reached.
const (
	variable = "ROAM_MUTANT"
	tracing  = "ROAM_MUTANT_TRACE"
)

// helper is compiled into the package.
const helper = `package %s

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
)

var (
	mutantID, _  = strconv.Atoi(os.Getenv("` + variable + `"))
	mutantTrace  = os.Getenv("` + tracing + `")
	mutantLock   sync.Mutex
	mutantSeen   = map[int]bool{}
)

func mutantOn(id int) bool {
	if mutantTrace != "" {
		mutantLock.Lock()
		defer mutantLock.Unlock()
		if !mutantSeen[id] {
			mutantSeen[id] = true
			f, err := os.OpenFile(mutantTrace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				fmt.Fprintln(f, id)
				f.Close()
			}
		}
	}
	return id == mutantID
}

func mutantNot(id int, b bool) bool { return b != mutantOn(id) }

// mutantIs is for a condition that one fault makes never true, and the next one always. Each is
// reached where it makes a difference.
func mutantIs(id int, b bool) bool {
	if !b {
		id++
	}
	return b != mutantOn(id)
}

type mutantNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint16 | ~uint32 | ~uint64 | ~float64
}

func mutantTen[T mutantNumber](id int, v T) T {
	if mutantOn(id) {
		return v * 10
	}
	return v
}

func mutantSum[T cmp.Ordered](id int, a, b T) T {
	if mutantOn(id) {
		return a
	}
	return a + b
}

func mutantMax[T cmp.Ordered](id int, v ...T) T {
	if mutantOn(id) {
		return v[len(v)-1]
	}
	return slices.Max(v)
}

func mutantMin[T cmp.Ordered](id int, v ...T) T {
	if mutantOn(id) {
		return v[len(v)-1]
	}
	return slices.Min(v)
}
`

// run plants the faults of a package and reports which the tests notice.
func (t target) run() ([]*mutant, error) {
	work, err := os.MkdirTemp("", "roam-mutants")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(work)
	exports, err := exportsOf(t.dir)
	if err != nil {
		return nil, err
	}
	p, files, names, err := load(t.dir, exports)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.dir, err)
	}
	p.live, p.only, p.check = t.live, t.in, t.check
	o := overlay{work, map[string]string{}}
	for i, path := range names {
		if !slices.Contains(t.files, filepath.Base(path)) {
			continue
		}
		b, err := p.file(path, files[i])
		if err == nil {
			err = o.put(path, b)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := o.put(filepath.Join(t.dir, "zz_mutant.go"), fmt.Appendf(nil, helper, p.pkg.Name())); err != nil {
		return nil, err
	}
	for _, path := range privileged(t.dir) {
		if err := o.leaveOut(path); err != nil {
			return nil, err
		}
	}
	bin, err := o.compile(t.dir)
	if err != nil {
		return nil, err
	}
	return p.list, try(t.dir, bin, work, p.list)
}

// exportsOf returns the export data of everything that a package imports.
func exportsOf(dir string) (map[string]string, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+dir).Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s imports: %w", dir, err)
	}
	m := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			m[path] = file
		}
	}
	return m, nil
}

// overlay has files in place of those of a package.
type overlay struct {
	work    string            // a directory for them
	replace map[string]string // by their absolute paths
}

func (o overlay) put(path string, b []byte) error {
	to := filepath.Join(o.work, fmt.Sprintf("%d.go", len(o.replace)))
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	o.replace[whole] = to
	return os.WriteFile(to, b, 0o600)
}

func (o overlay) leaveOut(path string) error {
	whole, err := filepath.Abs(path)
	o.replace[whole] = ""
	return err
}

// compile builds the test binary of a package.
func (o overlay) compile(dir string) (string, error) {
	b, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return "", err
	}
	file, bin := filepath.Join(o.work, "overlay.json"), filepath.Join(o.work, "test")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-c", "-trimpath", "-vet=off", "-overlay", file, "-o", bin, "./"+dir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w: %s", dir, err, out)
	}
	return bin, nil
}

// reach is what a test executes without a fault.
type reach struct {
	test   string
	took   time.Duration
	faults []string // their numbers
}

// reaches runs each test by itself, without a fault, and returns the quickest first.
func reaches(dir, bin, work string) (list []reach, err error) {
	out, err := test(dir, bin, time.Minute, []string{"-test.list=^Test"})
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w: %s", dir, err, out)
	}
	trace := filepath.Join(work, "trace")
	for _, name := range strings.Fields(string(out)) {
		began := time.Now()
		if out, err := test(dir, bin, time.Minute*10, only(name), variable+"=0", tracing+"="+trace); err != nil {
			return nil, fmt.Errorf("%s: %s fails without a fault: %w: %s", dir, name, err, out)
		}
		b, _ := os.ReadFile(trace) // absent if nothing is reached
		_ = os.Remove(trace)
		list = append(list, reach{name, time.Since(began), strings.Fields(string(b))})
	}
	slices.SortStableFunc(list, func(a, b reach) int { return cmp.Compare(a.took, b.took) })
	return list, nil
}

// try runs, with each fault, the tests that reach it until one notices: as many faults at once
// as there are processors. It tells of a survivor at once, for runs that are ended early.
func try(dir, bin, work string, list []*mutant) error {
	tests, err := reaches(dir, bin, work)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	next := make(chan *mutant)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for m := range next {
				if m.tryAll(dir, bin, tests); !m.killed {
					fmt.Fprintf(os.Stderr, "alive, %d of %d in %s: %s\n", m.id, len(list), dir, m)
				}
			}
		})
	}
	for _, m := range list {
		next <- m
	}
	close(next)
	all.Wait()
	return nil
}

// tryAll runs the tests that reach the fault until one notices: the quickest by itself, then ever more
// at once.
func (m *mutant) tryAll(dir, bin string, tests []reach) {
	id := strconv.Itoa(m.id)
	left := slices.DeleteFunc(slices.Clone(tests), func(r reach) bool { return !slices.Contains(r.faults, id) })
	for n := 1; len(left) > 0 && !m.killed; n *= 4 {
		var names []string
		var took time.Duration
		for _, r := range left[:min(n, len(left))] {
			names, took = append(names, r.test), took+r.took
		}
		left = left[len(names):]
		_, err := test(dir, bin, 10*took+10*time.Second, only(names...), variable+"="+id)
		m.killed = err != nil
	}
}

// only is the argument that chooses tests.
func only(names ...string) []string {
	return []string{"-test.run=^(" + strings.Join(names, "|") + ")$"}
}

// test runs a test binary in the directory of its package, with further arguments and variables.
func test(dir, bin string, limit time.Duration, args []string, env ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"-test.failfast", "-test.short"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOGC=400"), env...) // a third less time
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return bytes.TrimSpace(out), err
}
