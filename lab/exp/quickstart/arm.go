package quickstart

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/topo"
)

// arm is one pass through the schedule, with Roam or without.
type arm struct {
	env     *exp.Env
	name    string // of the events and series: "" with Roam, "control" without
	net     *network
	node    *node.Node   // on the mobile host; nil without Roam
	nodes   []*node.Node // all of them
	plan    schedule
	traffic *traffic
	ra      *raWatch
	start   time.Time
	before  map[string]bool // the routing table at the start

	mu   sync.Mutex
	isup map[string]bool
	done []doneStep
}

// doneStep is a step with the time at which it was really done.
type doneStep struct {
	step
	at time.Time
}

// measure goes through the schedule once and returns all that was seen. The
// topology is gone when it returns.
func measure(ctx context.Context, env *exp.Env, withRoam bool) (t *trace, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &arm{env: env, plan: plan(env.Params, !withRoam), isup: map[string]bool{"net1": true}}
	name := "roam"
	if !withRoam {
		a.name, name = "control", "control"
	}
	env.View.Phase("setting up: %s", map[bool]string{true: "with Roam", false: "control without Roam"}[withRoam])
	if a.net, err = build(ctx, env.Params, name, env.Seed); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.net.lab.Close()) }()
	if a.before, err = a.routes(ctx); err != nil {
		return nil, err
	}
	var diff []string
	if withRoam {
		if err = a.startRoam(ctx); err == nil {
			diff = a.compare(ctx, "with roamd")
		}
	} else {
		err = a.nameHosts()
	}
	if err != nil {
		return nil, err
	}
	t, err = a.pass(ctx)
	if err != nil {
		return nil, err
	}
	if withRoam {
		t.routeDiff = diff
		err = a.endRoam(ctx, t)
	}
	return t, err
}

// nameHosts gives the applications of the control the correspondents' names.
func (a *arm) nameHosts() error {
	return errors.Join(a.net.mn.AddName(a.net.cnAddr[0], "cn1"), a.net.mn.AddName(a.net.cnAddr[1], "cn2"))
}

// startRoam starts the daemon on the correspondents and on the mobile host, and
// waits until that has a locator.
func (a *arm) startRoam(ctx context.Context) error {
	for _, h := range []*topo.Host{a.net.cn[0], a.net.cn[1], a.net.mn} {
		n, err := startNode(ctx, a.env, h)
		if err != nil {
			return err
		}
		a.nodes = append(a.nodes, n)
	}
	a.node = a.nodes[2]
	return a.node.WaitActive(ctx, access[0])
}

// pass runs traffic and schedule.
func (a *arm) pass(ctx context.Context) (*trace, error) {
	var err error
	if a.ra, err = watchRA(a.net.mn); err != nil {
		return nil, err
	}
	defer a.ra.close()
	a.env.View.Phase("starting applications")
	if a.traffic, err = startTraffic(ctx, a.env, a.net, a.plan.length, "arm"+a.name); err != nil {
		return nil, err
	}
	defer a.traffic.kill()
	wctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	if err := topo.Wait(wctx, "data from every application", a.traffic.flowing); err != nil {
		return nil, fmt.Errorf("%w; silent: %s", err, strings.Join(a.traffic.silent(), ", "))
	}
	a.start = time.Now()
	a.env.View.Clock(a.start, a.plan.length)
	smp := startSampler(ctx, a)
	if a.node != nil {
		if err := a.node.Monitor(ctx, func(e node.Event) { a.show(e); smp.refresh() }); err != nil {
			return nil, err
		}
	}
	err = a.follow(ctx)
	end := time.Now()
	if err == nil && a.node != nil {
		a.env.View.Phase("waiting for the applications to finish")
		err = a.traffic.finish(ctx)
	} else if err == nil {
		err = a.traffic.abandon(ctx)
	}
	samples := smp.finish()
	if err != nil {
		return nil, err
	}
	t := &trace{arm: a.name, plan: a.plan, start: a.start, end: end, steps: a.done, samples: samples, traffic: a.traffic, adverts: a.ra.seen(), drops: a.net.drops()}
	if a.node != nil {
		t.events = a.node.Events()
	}
	return t, nil
}

// follow carries out the steps at their times.
func (a *arm) follow(ctx context.Context) error {
	for _, s := range a.plan.steps {
		if err := a.until(ctx, s.at); err != nil {
			return err
		}
		if s.name != "" {
			a.env.View.Phase("%s", strings.TrimSpace(a.name+" "+s.name))
		}
		at := time.Now()
		if err := a.do(ctx, s); err != nil {
			return fmt.Errorf("step at %v: %w", s.at, err)
		}
		a.mu.Lock()
		a.done = append(a.done, doneStep{s, at})
		a.mu.Unlock()
	}
	return a.until(ctx, a.plan.length)
}

// until waits for a moment of the schedule.
func (a *arm) until(ctx context.Context, at time.Duration) error {
	t := time.NewTimer(time.Until(a.start.Add(at)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (a *arm) do(ctx context.Context, s step) error {
	switch s.op {
	case up:
		return a.carrier(s.link, true)
	case down:
		if a.node != nil {
			if err := a.left(ctx, s.link); err != nil {
				return err
			}
		}
		return a.carrier(s.link, false)
	case swap:
		return a.swap(ctx, s)
	case mode, disable, enable:
		if a.node == nil {
			return nil // the control has nobody to command
		}
		args := map[op][]string{mode: {"mode", s.link}, disable: {"locator", "disable", s.link}, enable: {"locator", "enable", s.link}}[s.op]
		_, err := a.node.Ask(ctx, args...)
		return err
	}
	return nil
}

// swap is the hard handoff: the new link comes up and the old one dies at once,
// or as soon as the new one has a locator.
func (a *arm) swap(ctx context.Context, s step) error {
	if err := a.carrier(s.link, true); err != nil {
		return err
	}
	if a.node != nil && a.env.Params.Text("hard_cut") == "locator" {
		wctx, cancel := context.WithTimeout(ctx, a.env.Params.Seconds("dwell_s"))
		defer cancel()
		from := time.Now()
		if err := topo.Wait(wctx, "locator on "+s.link, func() bool {
			_, ok := added(a.node.Events(), s.link, from)
			return ok
		}); err != nil {
			return err
		}
	}
	return a.carrier(s.from, false)
}

func (a *arm) carrier(link string, on bool) error {
	a.mu.Lock()
	a.isup[link] = on
	a.mu.Unlock()
	if on {
		return a.net.links[link].Up()
	}
	return a.net.links[link].Down()
}

func (a *arm) isUp(link string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isup[link]
}

// show tells the viewer what the daemon reports.
func (a *arm) show(e node.Event) {
	switch e.Kind {
	case "handoff-done":
		a.env.View.Handoff("%s -> %s, acknowledged by all after %.1f ms", linkNames(e.From), linkNames(e.To), e.DurationMs)
	case "update-failed", "session-fell-back", "peer-dead", "session-replaced", "lost":
		a.env.View.Logf("%s %s %s", e.Kind, e.PeerName, e.Reason)
	}
}

func linkNames(l []node.LinkLocator) string {
	set := map[string]bool{}
	for _, x := range l {
		set[x.Link] = true
	}
	var names []string
	for _, n := range access {
		if set[n] {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "+")
}

// routes returns the mobile host's main routing table without what changes by
// itself: times, and the routes of links without carrier, which linger as the
// kernel pleases. The route of our own session prefix is left out.
func (a *arm) routes(ctx context.Context) (map[string]bool, error) {
	out, err := a.net.mn.Command(ctx, "ip", "-6", "route", "show", "table", "main").Output()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return parseRoutes(string(out)), nil
}

func parseRoutes(text string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(text) {
		var keep []string
		f := strings.Fields(line)
		for i := 0; i < len(f); i++ {
			if f[i] == "expires" {
				i++
				continue
			}
			keep = append(keep, f[i])
		}
		if !strings.Contains(line, "dev roam0") && !strings.Contains(line, "linkdown") && len(keep) > 0 {
			set[strings.Join(keep, " ")] = true
		}
	}
	return set
}

// endRoam removes Roam from all hosts and looks at the routes again, with the
// links as they were at the start.
func (a *arm) endRoam(ctx context.Context, t *trace) error {
	var err error
	if t.established, err = a.node.Established(ctx); err != nil {
		return err
	}
	t.counters = map[string][]node.Counter{}
	for _, n := range a.nodes {
		if t.counters[n.Host.Name()], err = n.Counters(ctx); err != nil {
			return err
		}
	}
	for _, l := range access[1:] {
		if err := a.carrier(l, false); err != nil {
			return err
		}
	}
	for _, n := range a.nodes {
		if err := n.Stop(ctx); err != nil {
			return err
		}
	}
	t.routeDiff = append(t.routeDiff, a.compare(ctx, "after roam down")...)
	return ctx.Err()
}

// compare waits a while for the routing table to be as it was at the start, and
// returns in words what is not.
func (a *arm) compare(ctx context.Context, when string) []string {
	wctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var diff []string
	_ = topo.Wait(wctx, "routes as before", func() bool {
		diff = nil
		now, err := a.routes(ctx)
		if err != nil {
			diff = append(diff, err.Error())
		}
		for r := range a.before {
			if !now[r] {
				diff = append(diff, when+": lost "+r)
			}
		}
		for r := range now {
			if !a.before[r] {
				diff = append(diff, when+": new "+r)
			}
		}
		return len(diff) == 0
	}) // what differs is the answer
	return diff
}
