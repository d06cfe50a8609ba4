// Package runner runs the lab's experiments and judges their metrics.
//
// It implements the list of experiments, presets and settings, repetition,
// monitoring of the machine's own stalls, and the output of JSON and report. It
// omits measuring, which the packages below lab/exp do, and the command line. It is
// driven by cmd/roam-lab.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"roam/lab/exp"
	"roam/lab/report"
	"roam/lab/result"
	"roam/lab/topo"
)

// JudgeVariable names an environment variable. If it is "correctness", only correctness
// claims decide Verdict, and all of them must be measured: on a noisy machine timing claims
// are reported but not judged.
const JudgeVariable = "ROAM_LAB_JUDGE"

// Options are the parameters of Run. The zero value runs the standard preset once and
// writes nothing.
type Options struct {
	Preset string    // quick, standard or paper; "" is standard
	Engine string    // one of exp.Engines; "" is netns
	Runs   int       // 0 is 1
	Seed   uint64    // 0 is 1
	Set    []string  // KEY=VALUE
	JSON   string    // file for the result; "" for none
	Report string    // file for the HTML page; "" for none
	Pcap   string    // directory for captures; "" for none
	Resume bool      // use the finished runs and cells of an interrupted run
	State  string    // directory where those are kept; "" is StateDir()
	Bin    string    // directory of roam and roamd; "" is that of the running program
	Out    io.Writer // for the live view; nil for silence

	Show func(*result.Result) // prints the result; nil for silence
}

// StateDir returns the directory that keeps the finished cells of unfinished runs: for root
// below /var/lib, for others as the XDG Base Directory Specification says.
func StateDir() string { return stateDir(os.Geteuid()) }

func stateDir(id int) string {
	if id == 0 {
		return "/var/lib/roam-lab"
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(home(id), ".local", "state")
	}
	return filepath.Join(state, "roam-lab")
}

// home returns the home directory of a user: that of the environment, or else of passwd(5).
func home(id int) string {
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return h
	}
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return filepath.Join(os.TempDir(), "roam-lab-"+strconv.Itoa(id))
}

// ErrUsage is wrapped by errors about what was asked for: an unknown experiment, preset,
// engine or parameter, or a file that cannot be one.
var ErrUsage = errors.New("usage")

// usage marks an error as one about what was asked for, without a word of its own.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{e.error, ErrUsage} }

// keepCells is how long the cells of an interrupted run are kept.
const keepCells = 30 * 24 * time.Hour

// Run runs an experiment, as root with the engine netns, and returns its judged result. An
// error means that it could not measure; Verdict says whether the claims hold. When ctx
// ends, or on SIGINT and SIGTERM, Run removes the topology before it returns, and keeps
// finished runs and cells for Options.Resume.
func Run(ctx context.Context, name string, opt Options) (*result.Result, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := prepare(name, opt)
	if err != nil {
		return nil, err
	}
	if r.here() {
		if err := topo.Sweep(); err != nil {
			return nil, fmt.Errorf("remove what an earlier run left behind: %w", err)
		}
	}
	if err := exp.Prune(r.opt.State, keepCells); err != nil {
		return nil, err
	}
	var runs []*result.Result
	for n := range max(1, opt.Runs) {
		res, err := r.run(ctx, n)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("experiment %s was interrupted; what it had built is removed%s: %w",
				name, r.kept(), ctx.Err())
		}
		if err != nil {
			return nil, fmt.Errorf("experiment %s: %w%s", name, err, r.kept())
		}
		runs = append(runs, res)
	}
	res, err := result.Merge(runs)
	if err != nil {
		return nil, err
	}
	if inGuest() {
		opt.Out, opt.Show = nil, nil // whoever booted us shows the result
	}
	if opt.Show != nil {
		opt.Show(res)
	}
	if err := write(res, opt); err != nil {
		return nil, fmt.Errorf("%w%s", err, r.kept())
	}
	return res, r.forget()
}

// Verdict returns what a result says: of all claims, or under JudgeVariable of the
// correctness claims.
func Verdict(r *result.Result) result.Verdict {
	if os.Getenv(JudgeVariable) == result.Correctness {
		return r.Correctness()
	}
	return r.Verdict
}

// write writes the requested files and prints their paths.
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
		for _, f := range []struct{ what, path string }{{"result", opt.JSON}, {"report", opt.Report}} {
			if f.path != "" {
				fmt.Fprintf(opt.Out, "%s: %s\n", f.what, absolute(f.path))
			}
		}
		if opt.Pcap != "" {
			fmt.Fprintf(opt.Out, "captures: %s (%d files)\n", absolute(opt.Pcap), len(res.Captures))
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
