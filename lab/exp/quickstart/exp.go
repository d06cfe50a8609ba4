// Package quickstart is the introductory experiment: a mobile host moves through three
// access networks under load, and its applications do not notice.
//
// It implements the topology of drawing.txt, the schedule (four soft handoffs in a ring,
// one hard handoff, three-way duality, graceful withdrawal to one link, return), its
// control without Roam, and the figures. It omits benchmarks of throughput and of hundreds
// of Locator Updates. It is driven by lab/runner; it uses only Roam's command line, as a
// user would.
package quickstart

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name:   "quickstart",
	Title:  "Unmodified sessions of a mobile host through handoffs, duality and withdrawal",
	Source: "The main job of Roam: RFC 6740, 6741, 6743, 6744",
	Tools:  tools(),
	Run:    run,
}.With(files)

func tools() map[string]string {
	t := maps.Clone(scene.Tools)
	maps.Copy(t, workload.Tools)
	t["tcpdump"] = "tcpdump"
	return t
}

// run measures with Roam and without, and fills in the result.
func run(ctx context.Context, env *exp.Env) error {
	return both(env, func(withRoam bool) (*trace, error) {
		t, err := measure(ctx, env, withRoam)
		return t, cmp.Or(ctx.Err(), err)
	})
}

// both fills in the result of both passes. If applications of a pass are silent before the schedule begins, plain IPv6
// decides what that says: one that is silent with Roam alone is Roam's fault, one that is without Roam is not.
func both(env *exp.Env, measure func(withRoam bool) (*trace, error)) error {
	with, err := measure(true)
	var silent, plain *silentError
	if err != nil && !(errors.As(err, &silent) && env.Params.Bool("control")) {
		return fmt.Errorf("run with Roam: %w", err)
	}
	var without *trace
	why := "the control was turned off"
	if env.Params.Bool("control") {
		var cerr error
		switch without, cerr = measure(false); {
		case silent != nil && errors.As(cerr, &plain) && plain.covers(silent):
			return missAll(env.Result, fmt.Sprintf("%v, with Roam and without (%v)", err, cerr))
		case silent != nil:
			return fmt.Errorf("run with Roam: %w", err)
		case errors.As(cerr, &plain):
			without, why = nil, cerr.Error()
		case cerr != nil:
			return fmt.Errorf("control without Roam: %w", cerr)
		}
	}
	judge(env, with, without, why)
	draw(env, with, without)
	return nil
}

// missAll says why nothing was measured.
func missAll(r *result.Result, why string) error {
	b, err := files.ReadFile("expect.json")
	if err != nil {
		return fmt.Errorf("read the claims: %w", err)
	}
	expect, err := result.ParseExpect(b)
	for _, e := range expect {
		r.Miss(e.Metric, why)
	}
	r.Summary = "Nothing was measured: " + why + "."
	return err
}

// judge sets the metrics of all claims; without is nil if there was no control, and why says so.
func judge(env *exp.Env, with, without *trace, why string) {
	with.metrics(env)
	if without == nil {
		env.Result.Miss("control_delivered_away", why)
		return
	}
	without.controlMetrics(env.Result)
}
