// Package hostile is the experiment hostile-paths: what sessions do in the networks that
// people meet, and how many packets a correspondent that lies about its locator can direct
// at a victim.
//
// It implements one cell per network: a first contact from inside, a soft handoff out and
// one back in, or in duality a second path beside it; Roam's own reaction, and the findings
// of `roam doctor`. It omits combinations of networks, and figures that need a quiet
// machine, except those of whole connections. It is driven by lab/runner; captures judge it, and
// of Roam it uses only the command line, as a user would.
package hostile

import (
	"context"
	"embed"
	"errors"
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
	t["tcpdump"] = "tcpdump"
	return t
}

// measure runs the cells of networks, as many in parallel as requested, and then those of
// the attacker alone: their bound depends on a rate, which parallel cells would disturb.
func measure(ctx context.Context, env *exp.Env) error {
	list, err := chosen(env.Params.Text("networks"))
	if err != nil {
		return err
	}
	cases := plans
	if !env.Params.Bool("attacker") {
		for _, p := range plans {
			env.Result.Miss(p.name+"_share", "the attacker was turned off")
		}
		cases = nil
	}
	outcomes, attacks := make([]outcome, len(list)), make([]attack, len(cases))
	err = sideBySide(env.Params.Int("parallel"), len(list), func(i int) (err error) {
		outcomes[i], err = exp.Cell(env, list[i].name, func(w *exp.Window) (outcome, error) {
			return cell(ctx, env, w, list[i])
		})
		return err
	})
	if err != nil {
		return err
	}
	report(env, list, outcomes)
	err = sideBySide(env.Params.Int("parallel"), len(cases), func(i int) (err error) {
		attacks[i], err = exp.Cell(env, "attacker "+cases[i].name, func(w *exp.Window) (attack, error) {
			return attackOnce(ctx, env, w, cases[i])
		})
		return err
	})
	if err != nil {
		return err
	}
	reportAttacks(env, attacks)
	return nil
}

// sideBySide calls f with 0 to n-1 in order, at most so many at a time, and waits
// for all of them.
func sideBySide(most, n int, f func(i int) error) error {
	free, errs := make(chan struct{}, most), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			errs[i] = f(i)
			<-free
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
