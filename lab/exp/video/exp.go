// Package video repeats the measurements with video of R. Yanagida's thesis on
// the duality of mobility and multihoming (St Andrews, 2021, chapter 7): a host
// receives H.264 in RTP while it moves from network to network, or uses several
// at once.
//
// Implements the cells (clip, resolution, round-trip time), the arms (Roam, IPv6
// that never moves as reference, plain IPv6 as control), and the thesis's
// figures of quality. Omits making and comparing frames (package video of the
// lab) and the thesis's column for Mobile IPv6, which is marked as not run.
// Driven by package runner.
package video

import (
	"context"
	_ "embed"
	"maps"

	"roam/lab/exp"
	"roam/lab/scene"
	"roam/lab/workload"
)

//go:embed drawing.txt
var drawing string

//go:embed params_mobility.json
var mobilityParams []byte

//go:embed params_duality.json
var dualityParams []byte

//go:embed expect_mobility.json
var mobilityExpect []byte

//go:embed expect_duality.json
var dualityExpect []byte

//go:embed README.md
var readme string

// Experiments are the declarations that package runner lists.
var Experiments = []exp.Experiment{
	declare("yanagida-video-mobility", "Continuous mobility: soft handoffs while H.264 in RTP is received", mobilityParams,
		mobilityExpect, kind{"soft", mobilityPlan, mobilityTuples, mobilityMbps}),
	declare("yanagida-video-duality", "Duality: 1, 2, 3, 2, 1 links and back while H.264 in RTP is received",
		dualityParams, dualityExpect, kind{"duality", dualityPlan, dualityTuples, dualityMbps}),
}

// kind holds the differences of the two experiments.
type kind struct {
	mode   string // of Roam on the mobile host
	plan   func(exp.Params) scene.Schedule
	tuples map[cellName]string  // published
	mbps   map[cellName]float64 // published, at 0 ms
}

func declare(name, title string, params, expect []byte, k kind) exp.Experiment {
	tools := maps.Clone(scene.Tools)
	maps.Copy(tools, workload.VideoTools)
	tools["ping"] = "iputils-ping"
	return exp.Experiment{
		Name: name, Title: title, Group: "Yanagida 2021", Drawing: drawing, Params: params, Expect: expect,
		Readme: readme, Tools: tools,
		Source: "R. Yanagida, On the mobility-multihoming duality for IP, PhD thesis, University of St Andrews, 2021, " +
			"chapter 7",
		Run: func(ctx context.Context, env *exp.Env) error { return run(ctx, env, k) },
	}
}

// run measures all cells and fills in the result.
func run(ctx context.Context, env *exp.Env, k kind) error {
	c := &campaign{env: env, kind: k, plan: k.plan(env.Params), studio: newStudio(env)}
	var err error
	if c.groups, err = groups(env.Params, c.plan.Length); err != nil {
		return err
	}
	if err := c.measure(ctx); err != nil {
		return err
	}
	c.metrics()
	return c.draw(ctx)
}
