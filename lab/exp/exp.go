// Package exp is the framework of the lab's experiments: the declaration of an experiment
// and the environment in which it runs.
//
// It implements the declaration and the checking of parameters and presets. It omits
// running and judging (lab/runner) and the experiments themselves, which are the packages
// below this one. It is driven by lab/runner.
package exp

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"roam/lab/live"
	"roam/lab/result"
)

// Experiment is one experiment of the lab.
type Experiment struct {
	Name    string // as on the command line
	Title   string // one sentence
	Group   string // the paper under which the list shows it; "" is Source
	Source  string // the publication or rule that it reproduces
	Drawing string // the topology as text
	Params  []byte // params.json, see ParseParams
	Expect  []byte // expect.json, see result.ParseExpect
	Readme  string // README.md
	// Tools maps the programs that it starts to the Debian packages that hold
	// them.
	Tools map[string]string
	// Engines are the engines that can run it; empty: Netns alone.
	Engines []string
	// Run builds the topology, measures, and leaves metrics, series, events,
	// tables and figures in env.Result. It returns an error only when it could
	// not measure; a claim that does not hold is no error.
	Run func(ctx context.Context, env *Env) error
}

// With returns the experiment with the contents of its folder's files: drawing.txt,
// params.json, expect.json and README.md. It panics if one is missing, which is a fault of
// the package.
func (e Experiment) With(files fs.FS) Experiment {
	read := func(name string) []byte {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			panic(fmt.Sprintf("experiment %s: %v", e.Name, err))
		}
		return b
	}
	e.Drawing, e.Readme = string(read("drawing.txt")), string(read("README.md"))
	e.Params, e.Expect = read("params.json"), read("expect.json")
	return e
}

// The engines that can carry an experiment out.
const (
	Netns = "netns" // network namespaces of this kernel, in real time
	Sim   = "sim"   // the cores alone, in virtual time
	VM    = "vm"    // a kernel in a guest whose time is virtual
)

// Engines are all of them, the usual one first.
var Engines = []string{Netns, Sim, VM}

// Supports reports whether an engine can run the experiment.
func (e Experiment) Supports(engine string) bool {
	return slices.Contains(e.Engines, engine) || len(e.Engines) == 0 && engine == Netns
}

// Env is the environment of a running experiment.
type Env struct {
	Params Params
	Preset string
	Engine string // one of the experiment's Engines
	Seed   uint64
	Dir    string // for files; removed afterwards
	// Pcap is a directory for captures to keep, "" for none. All files in it when Run
	// returns are kept; names should contain host, interface and cell (mn-net1.pcap).
	Pcap  string
	Cells *Store // finished cells, see Cell; nil: none are stored
	// Stalled returns the longest stall of the machine itself that overlaps a span, in
	// milliseconds, 0 if there is none; nil: no stalls are known.
	Stalled func(in Span) float64
	Repeats int    // how often Cell repeats a disturbed cell
	Kept    Tally  // of this run's cells
	Roam    string // path of the command line under test
	Roamd   string // path of the daemon under test
	Result  *result.Result
	View    *live.View
}
