// Package beyond measures situations that the papers omit: unequal and lossy paths, both
// ends moving, handoffs in quick succession, and an outage of minutes.
//
// It implements one cell for each, with the lab's own probes and, for goodput, with iperf3.
// It omits comparators. It is driven by lab/runner.
package beyond

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/scene"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name: "beyond", Title: "Unequal and lossy paths, both ends moving, storms of handoffs, minutes of outage",
	Group: "Beyond the papers", Source: "what the papers name as not studied",
	Tools: tools(), Run: run,
}.With(files)

func tools() map[string]string {
	t := maps.Clone(scene.Tools)
	maps.Copy(t, map[string]string{"iperf3": "iperf3", "tcpdump": "tcpdump"})
	return t
}

// cellNames are all cells in their order, the most informative figure first.
var cellNames = []string{"delay", "rate", "loss", "both", "many", "storm", "outage", "oneway"}

// untimed are the cells without a claim about a time, which are measured at the same time.
var untimed = []string{"loss", "oneway"}

// run measures the cells that the parameters name.
func run(ctx context.Context, env *exp.Env) error {
	chosen, err := choose(env.Params.Text("cells"))
	if err != nil {
		return err
	}
	if err := missing(env.Result, chosen); err != nil {
		return err
	}
	env.View.Cells(len(chosen))
	all, errs := make([]*outcome, len(chosen)), make([]error, len(chosen))
	measure := func(i int) {
		all[i], errs[i] = exp.Cell(env, chosen[i], func(w *exp.Window) (*outcome, error) {
			return measureCell(ctx, env, w, chosen[i])
		})
	}
	for i, name := range chosen {
		if slices.Contains(untimed, name) {
			continue
		}
		if measure(i); errs[i] != nil {
			return errs[i]
		}
	}
	var together sync.WaitGroup
	for i, name := range chosen {
		if slices.Contains(untimed, name) {
			together.Go(func() { measure(i) })
		}
	}
	together.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, o := range all {
		o.metrics(env.Result)
	}
	draw(env.Result, all)
	return nil
}

// choose reads the list of cells.
func choose(text string) (out []string, err error) {
	for f := range strings.SplitSeq(text, ",") {
		f = strings.TrimSpace(f)
		if !slices.Contains(cellNames, f) {
			return nil, fmt.Errorf("read cells: %q is none of %s", f, strings.Join(cellNames, ", "))
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// missing says of the claims about cells that do not run why they have no value.
func missing(r *result.Result, chosen []string) error {
	text, err := files.ReadFile("expect.json")
	if err != nil {
		return fmt.Errorf("read claims: %w", err)
	}
	claims, err := result.ParseExpect(text)
	if err != nil {
		return err
	}
	for _, c := range claims {
		cell, _, _ := strings.Cut(c.Metric, "_")
		if !slices.Contains(chosen, cell) {
			r.Miss(c.Metric, "the cell "+cell+" was not run")
		}
	}
	return nil
}

// measureCell measures one cell.
func measureCell(ctx context.Context, env *exp.Env, w *exp.Window, name string) (*outcome, error) {
	env.View.Phase("cell %s", name)
	if name == "delay" || name == "rate" {
		return goodput(ctx, env, name)
	}
	c := cells[name](env.Params)
	c.name = name
	return probe(ctx, env, w, c)
}
