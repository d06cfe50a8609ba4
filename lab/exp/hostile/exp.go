// Package hostile is the experiment hostile-paths: what becomes of sessions in
// the networks that people find themselves in, and what a correspondent that
// lies about its locator can have sent to a victim.
//
// Implements one cell per network: a first contact from inside, a soft handoff
// out and one back in, what Roam does about it by itself, and what `roam doctor`
// says. Omits combinations of networks, and every figure that needs a quiet
// machine. Driven by package runner; it asks Roam only what a user can ask.
package hostile

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"sync"

	"roam/lab/exp"
	"roam/lab/scene"
	"roam/lab/workload"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name:   "hostile-paths",
	Title:  "Sessions through networks that drop options or ICMPv6, firewalls, small MTUs and lying correspondents",
	Group:  "Beyond the papers",
	Source: "RFC 7872, RFC 4890, RFC 6744 §4; the rules of Roam's packet path",
	Tools:  tools(),
	Run:    measure,
}.With(files)

func tools() map[string]string {
	t := maps.Clone(scene.Tools)
	maps.Copy(t, workload.Tools)
	return t
}

// measure runs all cells, some at a time, and then the attacker alone.
func measure(ctx context.Context, env *exp.Env) error {
	list, err := chosen(env.Params.Text("networks"))
	if err != nil {
		return err
	}
	outcomes, err := cells(ctx, env, list)
	if err != nil {
		return err
	}
	report(env, list, outcomes)
	if !env.Params.Bool("attacker") {
		for _, p := range plans {
			env.Result.Miss(p.name+"_share", "the attacker was turned off")
		}
		return nil
	}
	attacks, err := exp.Cell(env, "attack", func() ([]attack, error) { return underAttack(ctx, env) })
	if err != nil {
		return fmt.Errorf("attacker: %w", err)
	}
	reportAttacks(env, attacks)
	return nil
}

// cells runs the cells of networks, at most so many at a time as asked for.
func cells(ctx context.Context, env *exp.Env, list []network) ([]outcome, error) {
	free := make(chan struct{}, env.Params.Int("parallel"))
	outcomes, errs := make([]outcome, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	for i, n := range list {
		free <- struct{}{}
		all.Add(1)
		go func() {
			defer func() { <-free; all.Done() }()
			outcomes[i], errs[i] = exp.Cell(env, n.name, func() (outcome, error) { return cell(ctx, env, n) })
			if errs[i] != nil {
				errs[i] = fmt.Errorf("network %s: %w", n.name, errs[i])
			}
		}()
	}
	all.Wait()
	return outcomes, errors.Join(errs...)
}
