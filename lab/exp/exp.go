// Package exp is the frame of the lab's experiments: what an experiment is made
// of, and what it is given when it runs.
//
// Implements the declaration and the checking of parameters and presets. Omits
// running and judging (package runner) and the experiments themselves, which
// are the packages below this one. Driven by package runner.
package exp

import (
	"context"

	"roam/lab/live"
	"roam/lab/result"
)

// Experiment is one experiment of the lab.
type Experiment struct {
	Name    string // as on the command line
	Title   string // one sentence
	Source  string // the publication or rule that it reproduces
	Drawing string // the topology as text
	Params  []byte // params.json, see ParseParams
	Expect  []byte // expect.json, see result.ParseExpect
	Readme  string // README.md
	// Tools maps the programs that it starts to the Debian packages that hold
	// them.
	Tools map[string]string
	// Run builds the topology, measures, and leaves metrics, series, events,
	// tables and figures in env.Result. It returns an error only when it could
	// not measure; a claim that does not hold is no error.
	Run func(ctx context.Context, env *Env) error
}

// Env is what a running experiment is given.
type Env struct {
	Params Params
	Preset string
	Seed   uint64
	Dir    string // for files; removed afterwards
	Roam   string // path of the command line under test
	Roamd  string // path of the daemon under test
	Result *result.Result
	View   *live.View
}
