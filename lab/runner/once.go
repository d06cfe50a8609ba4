package runner

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/topo"
)

// run measures once, and again as often as the preset allows if the machine itself
// disturbed the run. It never repeats a run because of its result, and never a run of cells
// as a whole, since those repeat by themselves.
func (r *runner) run(ctx context.Context, n int) (*result.Result, error) {
	store := r.store(n)
	if res := result.New(""); r.opt.Resume && store.Load(wholeRun, res) {
		r.say("run %d of %d: kept from before", n+1, max(1, r.opt.Runs))
		res.Judge(r.expect)
		return res, nil
	}
	if !r.opt.Resume {
		if err := store.Clear(); err != nil {
			return nil, err
		}
	}
	for repeats := 0; ; repeats++ {
		measure := r.once
		switch {
		case r.opt.Engine == exp.Sim:
			measure = r.simulate
		case !r.here():
			measure = r.guest
		}
		res, cells, err := measure(ctx, n, store)
		if err != nil {
			return nil, err
		}
		res.StallMonitor.Repeats += repeats
		if !res.StallMonitor.Disturbed || repeats >= r.preset.Repeats || cells {
			res.Judge(r.expect)
			// A single one is about to be written anyway, and virtual time repeats itself.
			if r.opt.Runs > 1 && r.opt.Engine != exp.Sim {
				err = store.Save(wholeRun, res)
			}
			return res, err
		}
		r.say("the machine stood still for %.0f ms: run is repeated", res.StallMonitor.WorstMs)
		if err := store.Clear(); err != nil {
			return nil, err
		}
	}
}

// say prints a line, unless the output is off.
func (r *runner) say(format string, args ...any) {
	if r.opt.Out != nil {
		fmt.Fprintf(r.opt.Out, format+"\n", args...)
	}
}

// once measures once, and reports whether the result consists of cells.
func (r *runner) once(ctx context.Context, n int, store *exp.Store) (res *result.Result, cells bool, err error) {
	dir, err := topo.TempDir()
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	res = r.blank(ctx, n)
	if res.Emulator, err = r.calibrate(); err != nil {
		return nil, false, err
	}
	pcap, err := r.pcapDir(n)
	if err != nil {
		return nil, false, err
	}
	watch, err := watchStalls(ctx, r.opt.Engine == exp.Netns)
	if err != nil {
		return nil, false, err
	}
	view := live.New(cmp.Or[io.Writer](r.opt.Out, io.Discard))
	view.Expect(time.Duration(r.preset.Seconds*float64(time.Second)), n, max(1, r.opt.Runs))
	view.Start(r.exp.Title)
	under := node.In(r.bin)
	env := &exp.Env{
		Params: r.params, Preset: r.opt.Preset, Engine: r.opt.Engine, Seed: res.Seed, Dir: dir, Pcap: pcap, Cells: store,
		Result: res, View: view, Roam: under.Roam, Roamd: under.Roamd,
		Repeats: r.preset.Repeats,
	}
	if r.opt.Engine == exp.Netns {
		env.Stalled = watch.within // a guest's stalls are those of its virtual processor, equal in every run
	}
	err = r.exp.Run(ctx, env)
	view.Stop()
	s, werr := watch.stop()
	if err = cmp.Or(err, werr); err != nil {
		return nil, false, err
	}
	addCuts(res, &env.Kept)
	weigh(&s, &env.Kept, r.opt.Engine)
	res.StallMonitor, res.Captures = s, filesIn(pcap)
	res.Seconds = time.Since(res.Started).Seconds()
	return res, env.Kept.Used > 0, nil
}

// addCuts sets the metrics of the links that hosts with Roam lost, which no experiment needs to
// care about.
func addCuts(res *result.Result, kept *exp.Tally) {
	if c := kept.Cuts(); c != nil {
		res.Set("cut_late_ms", c.LateMs)
		res.Set("cut_still_came_ms", c.StillCameMs)
	}
}

// simulate measures once in virtual time. The machine has no influence, so it needs neither
// the stall monitor nor root.
func (r *runner) simulate(ctx context.Context, n int, store *exp.Store) (*result.Result, bool, error) {
	res := r.blank(ctx, n)
	view := live.New(cmp.Or[io.Writer](r.opt.Out, io.Discard))
	view.Start(r.exp.Title)
	defer view.Stop()
	if err := r.exp.Run(ctx, &exp.Env{
		Params: r.params, Preset: r.opt.Preset, Engine: r.opt.Engine, Seed: res.Seed, Cells: store, Result: res, View: view,
	}); err != nil {
		return nil, false, err
	}
	res.Seconds = time.Since(res.Started).Seconds()
	return res, false, nil
}

// blank is a result with everything but measurements.
func (r *runner) blank(ctx context.Context, n int) *result.Result {
	res := result.New(r.exp.Name)
	res.Title, res.Group, res.Engine = r.exp.Title, cmp.Or(r.exp.Group, r.exp.Source), r.opt.Engine
	res.Preset, res.LeftOut, res.Drawing = r.opt.Preset, r.preset.LeavesOut, r.exp.Drawing
	res.Seed, res.Params, res.Started = r.seed(n), r.params, time.Now()
	if r.machine.Kernel == "" {
		versions := map[string][]string{"roam": {node.In(r.bin).Roam, "version"}}
		for tool := range r.exp.Tools {
			if r.opt.Engine == exp.Sim {
				break // none of its programs is needed
			}
			versions[tool] = []string{topo.Program(tool), cmp.Or(versionFlag[tool], "--version")}
		}
		r.machine = result.Describe(ctx, versions)
	}
	res.Machine = r.machine
	return res
}

// versionFlag makes a program print its version, where it is not --version.
var versionFlag = map[string]string{"ssh": "-V", "sshd": "-V", "ip": "-V", "ffmpeg": "-version", "ffprobe": "-version"}

// calibrateTrial is the test of the emulator's accuracy before each run: long
// enough for a median and a 99th percentile, short enough to be always done.
var calibrateTrial = linkem.Trial{
	Params: linkem.Params{Delay: 10 * time.Millisecond}, Offered: 20e6, Size: 1400, Span: 500 * time.Millisecond,
}

// calibrate measures the link emulator on the machine under its current load.
func (r *runner) calibrate() (*result.Emulator, error) {
	if r.opt.Engine != exp.Netns {
		return nil, nil
	}
	t := calibrateTrial
	f, err := linkem.Accuracy(t)
	if err != nil {
		return nil, fmt.Errorf("test the link emulator: %w", err)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return &result.Emulator{
		DelayMs: ms(t.Params.Delay), LoadMbps: float64(t.Offered) / 1e6, Sent: f.Sent, Received: f.Received,
		MedianMs: ms(f.ErrMedian), P99Ms: ms(f.ErrP99), MaxMs: ms(f.ErrMax),
	}, nil
}

// pcapDir creates the directory for the captures of a run, one for each of several runs.
func (r *runner) pcapDir(n int) (string, error) {
	dir := r.opt.Pcap
	if dir == "" {
		return "", nil
	}
	if r.opt.Runs > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("seed-%d", r.seed(n)))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make directory for captures: %w", err)
	}
	return filepath.Abs(dir)
}

// filesIn lists the files below a directory; none for "".
func filesIn(dir string) (paths []string) {
	if dir == "" {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil // unreadable programs are not listed
	})
	slices.Sort(paths)
	return paths
}
