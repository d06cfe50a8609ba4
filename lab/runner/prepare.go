package runner

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/topo"
)

// runner is one experiment with everything checked that can be checked before.
type runner struct {
	exp     exp.Experiment
	opt     Options
	params  exp.Params
	preset  exp.Preset
	expect  []result.Expectation
	bin     string
	build   []byte // tells the binaries under test from others
	machine result.Machine
}

func prepare(name string, opt Options) (*runner, error) {
	e, err := find(name)
	if err != nil {
		return nil, usage(err)
	}
	opt.Preset = cmp.Or(opt.Preset, "standard")
	opt.Engine = cmp.Or(opt.Engine, exp.Netns)
	opt.State = cmp.Or(opt.State, StateDir())
	opt.Seed = cmp.Or(opt.Seed, 1)
	r := &runner{exp: e, opt: opt, bin: opt.Bin}
	d, err := exp.ParseParams(e.Params)
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", name, err)
	}
	if r.params, err = d.Resolve(opt.Preset, opt.Set); err != nil {
		return nil, usage(err)
	}
	r.preset = d.Presets[opt.Preset]
	if r.expect, err = result.ParseExpect(e.Expect); err != nil {
		return nil, fmt.Errorf("expect.json of %s: %w", name, err)
	}
	if err := errors.Join(supported(e, opt.Engine), capturable(opt), files(opt.JSON, opt.Report)); err != nil {
		return nil, usage(err)
	}
	if r.bin, err = binaries(r.bin); err != nil {
		return nil, err
	}
	if err := r.equipped(); err != nil {
		return nil, err
	}
	for _, dir := range []string{opt.Pcap, dirOf(opt.JSON), dirOf(opt.Report)} {
		if err := writable(dir); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// binaries returns the directory of the programs under test: dir, or that of this program.
func binaries(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own binary: %w", err)
	}
	return filepath.Dir(self), nil
}

// supported reports why an engine cannot run an experiment.
func supported(e exp.Experiment, engine string) error {
	switch {
	case !slices.Contains(exp.Engines, engine):
		return exp.Unknown("engine", engine, exp.Engines)
	case !e.Supports(engine):
		return fmt.Errorf("experiment %s does not run on engine %s, only on %s", e.Name, engine,
			strings.Join(slices.DeleteFunc(slices.Clone(exp.Engines), func(s string) bool { return !e.Supports(s) }), ", "))
	}
	return nil
}

// capturable reports that captures were asked for where there are none.
func capturable(opt Options) error {
	if opt.Engine == exp.Sim && opt.Pcap != "" {
		return errors.New("the engine sim has no captures: omit --pcap")
	}
	return nil
}

// here reports whether the experiment builds its network on this machine: the
// engine sim builds none, and vm does so in its guest.
func (r *runner) here() bool {
	return r.opt.Engine == exp.Netns || r.opt.Engine == exp.VM && inGuest()
}

// equipped reports everything that the machine lacks, with the remedies, and takes a
// fingerprint of the programs under test.
func (r *runner) equipped() error {
	if r.opt.Engine == exp.Sim {
		return nil // cores in this process: no root, no tools, no binaries
	}
	if r.here() {
		if err := mayBuild(); err != nil {
			return err
		}
	}
	if err := installed(r.exp.Tools); err != nil {
		return err
	}
	build, err := fingerprint(r.bin)
	r.build = build
	return err
}

// mayBuild reports why this process cannot make networks.
func mayBuild() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes network namespaces: run it as root")
	}
	return kernelHas()
}

// installed reports which programs are missing; tools maps each to its package.
func installed(tools map[string]string) error {
	lack := map[string]bool{}
	for tool, pkg := range tools {
		if !topo.Installed(tool) {
			lack[pkg] = true
		}
	}
	if len(lack) > 0 {
		return fmt.Errorf("programs are missing: apt-get install %s", strings.Join(slices.Sorted(maps.Keys(lack)), " "))
	}
	return nil
}

// fingerprint identifies the binaries under test and the lab itself.
func fingerprint(bin string) ([]byte, error) {
	sum := sha256.New()
	under := node.In(bin)
	self, err := os.Executable() // the lab's own code determines what is measured
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	for _, name := range []string{under.Roam, under.Roamd, self} {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("find %s to measure: %w: build it with `make build`", filepath.Base(name), err)
		}
		_, err = io.Copy(sum, f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return sum.Sum(nil), nil
}

// kernelHas reports the first feature that every experiment needs and the kernel lacks.
func kernelHas() error {
	for _, f := range []struct{ path, what string }{
		{"/proc/self/ns/net", "network namespaces (CONFIG_NET_NS)"},
		{"/dev/net/tun", "TAP devices (CONFIG_TUN; modprobe tun, or the container is not given /dev/net/tun)"},
		{"/proc/sys/net/ipv6", "IPv6 (CONFIG_IPV6; or it is off: ipv6.disable=1)"},
	} {
		if _, err := os.Stat(f.path); err != nil {
			return fmt.Errorf("the lab takes a kernel with %s: %w", f.what, err)
		}
	}
	return nil
}

// files reports which paths of output files are directories.
func files(paths ...string) (err error) {
	for _, p := range paths {
		if info, e := os.Stat(p); e == nil && info.IsDir() || strings.HasSuffix(p, "/") {
			err = errors.Join(err, fmt.Errorf("%s is a directory, not a file to write", p))
		}
	}
	return err
}

// dirOf is the directory of a file; "" for no file.
func dirOf(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Dir(path)
}

// writable creates a directory, but none above it, and tries to write there, so that an error
// appears before an hour's measurement. It accepts "", no directory.
func writable(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory for output: %w", err)
	}
	f, err := os.CreateTemp(dir, ".try-")
	if err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	_, err = f.Write(make([]byte, 4096)) // a full disk has room for names
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	return nil
}

// wholeRun names the cell that holds a finished run of several.
const wholeRun = "whole run"

func (r *runner) seed(n int) uint64 { return r.opt.Seed + uint64(n) }

// store returns the place of a run's cells: another one for every difference that could
// change them.
func (r *runner) store(n int) *exp.Store {
	key, _ := json.Marshal([]any{r.exp.Name, r.params, r.opt.Engine, r.build, r.opt.Pcap}) // no type in it can fail
	sum := sha256.Sum256(key)
	return exp.OpenStore(filepath.Join(r.opt.State, fmt.Sprintf("%s-%d-%x", r.exp.Name, r.seed(n), sum[:8])))
}

// kept says how to resume an unfinished run with its stored cells.
func (r *runner) kept() string {
	cells := 0
	for n := range max(1, r.opt.Runs) {
		cells += r.store(n).Len()
	}
	if cells == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d finished parts are kept in %s: the same command with --resume goes on)", cells, r.opt.State)
}

// forget removes the stored cells after the result is written.
func (r *runner) forget() error {
	var errs []error
	for n := range max(1, r.opt.Runs) {
		errs = append(errs, r.store(n).Clear())
	}
	_ = os.Remove(r.opt.State) // fails while it holds cells of others
	return errors.Join(errs...)
}
