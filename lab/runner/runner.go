// Package runner runs the lab's experiments and judges what they measured.
//
// Implements the list of experiments, presets and settings, repetition, the
// watch over the machine's own stalls, and the writing of JSON and report.
// Omits measuring (the packages below lab/exp) and the command line (cmd/roam),
// which drives it.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/report"
	"roam/lab/result"
	"roam/lab/topo"
)

// JudgeVariable names the environment variable that, when it is "correctness",
// lets only correctness claims decide Verdict: on a machine that is known to
// be noisy, timing claims are shown and not judged.
const JudgeVariable = "ROAM_LAB_JUDGE"

// Options say how to run an experiment. The zero value runs the standard
// preset once and writes nothing.
type Options struct {
	Preset string    // quick, standard or paper; "" is standard
	Runs   int       // 0 is 1
	Seed   uint64    // 0 is 1
	Set    []string  // KEY=VALUE
	JSON   string    // file for the result; "" for none
	Report string    // file for the HTML page; "" for none
	Bin    string    // directory of roam and roamd; "" is that of the running program
	Out    io.Writer // for the live view and the table; nil for silence
}

// Run runs an experiment as root and returns its judged result. The error says
// that it could not measure; whether the claims hold is for Verdict. When ctx
// ends, the topology is removed before Run returns; so it is on SIGINT and
// SIGTERM.
func Run(ctx context.Context, name string, opt Options) (*result.Result, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := prepare(name, opt)
	if err != nil {
		return nil, err
	}
	if err := topo.Sweep(); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left behind: %w", err)
	}
	var runs []*result.Result
	for n := range max(1, opt.Runs) {
		res, err := r.run(ctx, uint64(n))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("experiment %s was interrupted; what it had built is removed: %w", name, ctx.Err())
		}
		if err != nil {
			return nil, fmt.Errorf("experiment %s: %w", name, err)
		}
		runs = append(runs, res)
	}
	res, err := result.Merge(runs)
	if err != nil {
		return nil, err
	}
	if opt.Out != nil {
		Print(opt.Out, res)
	}
	return res, write(res, opt)
}

// Verdict reports whether a result is good: every measured claim holds, or
// under JudgeVariable every measured correctness claim.
func Verdict(r *result.Result) bool {
	if os.Getenv(JudgeVariable) == result.Correctness {
		return r.CorrectnessHolds()
	}
	return r.Pass
}

// write writes the files that were asked for and says where they lie.
func write(res *result.Result, opt Options) error {
	var errs []error
	if opt.JSON != "" {
		errs = append(errs, res.WriteJSON(opt.JSON))
	}
	if opt.Report != "" {
		errs = append(errs, report.Write(opt.Report, res))
	}
	err := errors.Join(errs...)
	if err == nil && opt.Out != nil {
		for what, path := range map[string]string{"result": opt.JSON, "report": opt.Report} {
			if path != "" {
				fmt.Fprintf(opt.Out, "%s: %s\n", what, absolute(path))
			}
		}
	}
	return err
}

func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

// runner is one experiment with everything checked that can be checked before.
type runner struct {
	exp     exp.Experiment
	opt     Options
	params  exp.Params
	preset  exp.Preset
	expect  []result.Expectation
	bin     string
	machine result.Machine
}

func prepare(name string, opt Options) (*runner, error) {
	e, err := find(name)
	if err != nil {
		return nil, err
	}
	opt.Preset = cmp.Or(opt.Preset, "standard")
	opt.Seed = cmp.Or(opt.Seed, 1)
	r := &runner{exp: e, opt: opt, bin: opt.Bin}
	d, err := exp.ParseParams(e.Params)
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", name, err)
	}
	if r.params, err = d.Resolve(opt.Preset, opt.Set); err != nil {
		return nil, err
	}
	r.preset = d.Presets[opt.Preset]
	if r.expect, err = result.ParseExpect(e.Expect); err != nil {
		return nil, fmt.Errorf("experiment %s: %w", name, err)
	}
	if r.bin == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own binary: %w", err)
		}
		r.bin = filepath.Dir(self)
	}
	return r, r.equipped()
}

// equipped reports what the machine lacks, all at once and with the remedy.
func (r *runner) equipped() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes network namespaces: run it as root")
	}
	lack := map[string]bool{}
	for tool, pkg := range r.exp.Tools {
		if !installed(tool) {
			lack[pkg] = true
		}
	}
	if len(lack) > 0 {
		return fmt.Errorf("programs are missing: apt-get install %s", strings.Join(slices.Sorted(maps.Keys(lack)), " "))
	}
	for _, name := range []string{"roam", "roamd"} {
		if _, err := os.Stat(filepath.Join(r.bin, name)); err != nil {
			return fmt.Errorf("find %s to measure: %w: build it with `make build`", name, err)
		}
	}
	return nil
}

// installed looks in PATH and where the PATH of an ordinary account does not.
func installed(tool string) bool {
	for _, p := range []string{tool, "/usr/sbin/" + tool, "/sbin/" + tool} {
		if _, err := exec.LookPath(p); err == nil {
			return true
		}
	}
	return false
}

// run measures once, and again as often as the preset allows while the machine
// itself disturbs. A run is never repeated for its result.
func (r *runner) run(ctx context.Context, n uint64) (*result.Result, error) {
	for repeats := 0; ; repeats++ {
		res, err := r.once(ctx, n)
		if err != nil {
			return nil, err
		}
		res.Sentinel.Repeats = repeats
		if !res.Sentinel.Disturbed || repeats >= r.preset.Repeats {
			res.Judge(r.expect)
			return res, nil
		}
		if r.opt.Out != nil {
			fmt.Fprintf(r.opt.Out, "the machine stood still for %.0f ms: run is repeated\n", res.Sentinel.WorstMs)
		}
	}
}

func (r *runner) once(ctx context.Context, n uint64) (*result.Result, error) {
	dir, err := topo.TempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	res := r.blank(ctx, n)
	watch, err := watchStalls(ctx)
	if err != nil {
		return nil, err
	}
	view := live.New(cmp.Or[io.Writer](r.opt.Out, io.Discard))
	view.Start(r.exp.Title)
	err = r.exp.Run(ctx, &exp.Env{
		Params: r.params, Preset: r.opt.Preset, Seed: res.Seed, Dir: dir, Result: res, View: view,
		Roam: filepath.Join(r.bin, "roam"), Roamd: filepath.Join(r.bin, "roamd"),
	})
	view.Stop()
	s, werr := watch()
	if err != nil {
		return nil, err
	}
	if werr != nil {
		return nil, werr
	}
	s.Disturbed = len(s.Stalls) > 0
	res.Sentinel = s
	res.Seconds = time.Since(res.Started).Seconds()
	return res, nil
}

// blank is a result with everything but measurements.
func (r *runner) blank(ctx context.Context, n uint64) *result.Result {
	res := result.New(r.exp.Name)
	res.Title, res.Preset, res.LeftOut, res.Drawing = r.exp.Title, r.opt.Preset, r.preset.LeavesOut, r.exp.Drawing
	res.Seed, res.Params, res.Started = r.opt.Seed+n, r.params, time.Now()
	if r.machine.Kernel == "" {
		r.machine = result.Describe(ctx, map[string][]string{
			"iperf3": {"iperf3", "--version"}, "curl": {"curl", "--version"}, "ssh": {"ssh", "-V"}, "radvd": {"/usr/sbin/radvd", "--version"},
			"roam": {filepath.Join(r.bin, "roam"), "version"},
		})
	}
	res.Machine = r.machine
	return res
}
