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
	"context"
	"embed"
	"fmt"
	"maps"

	"roam/lab/exp"
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
	with, err := measure(ctx, env, true)
	if err != nil {
		return fmt.Errorf("run with Roam: %w", err)
	}
	var without *trace
	if env.Params.Bool("control") {
		if without, err = measure(ctx, env, false); err != nil {
			return fmt.Errorf("control without Roam: %w", err)
		}
	}
	judge(env, with, without)
	draw(env, with, without)
	return nil
}

// judge sets the metrics of all claims; without is nil if the control was turned off.
func judge(env *exp.Env, with, without *trace) {
	with.metrics(env)
	if without == nil {
		env.Result.Miss("control_delivered_away", "the control was turned off")
		return
	}
	without.controlMetrics(env.Result)
}
