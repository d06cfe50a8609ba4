package quickstart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/scene"
	"roam/lab/topo"
)

// access are the names of the mobile host's interfaces, one per network.
var access = []string{"net1", "net2", "net3"}

// snaplen is how much of each packet captures keep: the headers.
const snaplen = 160

// setupWithin bounds the wait for data from every application.
const setupWithin = 20 * time.Second

// silentError says which applications delivered no data in time, before the schedule began.
type silentError struct {
	apps   []string
	detail string
}

func (e *silentError) Error() string { return "no data from an application: " + e.detail }

// covers reports whether each application that is silent in the other pass is silent in this one.
func (e *silentError) covers(other *silentError) bool {
	heard := func(app string) bool { return !slices.Contains(e.apps, app) }
	return len(other.apps) > 0 && !slices.ContainsFunc(other.apps, heard)
}

// closed is the error of a pass whose network was removed, with or without an error. One that was not is a failure
// whatever its applications did, so that the error is no silentError.
func closed(err, cerr error) error {
	if silent := (*silentError)(nil); cerr != nil && errors.As(err, &silent) {
		err = errors.New(silent.Error())
	}
	return errors.Join(err, cerr)
}

// round is one pass through the schedule, with Roam or without.
type round struct {
	env     *exp.Env
	name    string // of the events and series: "" with Roam, "control" without
	net     *scene.Scene
	plan    schedule
	traffic *traffic
	before  map[string]bool // the routing table at the start
}

// config is the network of drawing.txt.
func (a *round) config() scene.Config {
	p := a.env.Params
	link := scene.Symmetric(linkem.Params{
		Delay:        p.Millis("delay_ms"),
		Rate:         int64(p.Float("rate_mbps") * 1e6),
		QueuePackets: p.Int("queue_packets"),
	})
	c := scene.Config{
		Name: "roam", Arm: arm.Roam, Seed: a.env.Seed,
		Mobile: []scene.Access{link, link, link}, Correspondents: make([]scene.Correspondent, 2),
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
		Ready:  a.ready, Keys: p.Bool("keys"),
	}
	if a.name != "" {
		c.Name, c.Arm = a.name, arm.Plain
	}
	return c
}

// ready is called before any daemon starts.
func (a *round) ready(ctx context.Context, s *scene.Scene) (err error) {
	a.net = s
	s.CountData()
	// A download that is paced by its reader would else rush into the socket's
	// buffer, megabytes ahead, and leave the network idle.
	if err = s.Mobile().Host.Sysctl("net.ipv4.tcp_rmem", "4096 131072 262144"); err != nil {
		return err
	}
	a.before, err = a.routes(ctx)
	return err
}

// measure executes the schedule once and returns its records. It removes the topology
// before it returns.
func measure(ctx context.Context, env *exp.Env, withRoam bool) (t *trace, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &round{env: env, plan: plan(env.Params, !withRoam)}
	if !withRoam {
		a.name = "control"
	}
	env.View.Phase("setting up: %s", map[bool]string{true: "with Roam", false: "control without Roam"}[withRoam])
	if a.net, err = scene.Build(ctx, env, a.config()); err != nil {
		return nil, err
	}
	defer func() { err = closed(err, a.net.Close()) }()
	var diff []string
	if withRoam {
		diff = a.compare(ctx, "with roamd")
		if err = a.net.CountUpdates(ctx); err != nil {
			return nil, err
		}
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

// pass runs traffic and schedule.
func (a *round) pass(ctx context.Context) (*trace, error) {
	var err error
	a.env.View.Phase("starting applications")
	if a.traffic, err = startTraffic(ctx, a.env, a.net, a.plan.Length, "arm"+a.name); err != nil {
		return nil, err
	}
	defer a.traffic.kill()
	var monitor *recorder
	if a.name == "" {
		if monitor, err = a.record(ctx); err != nil {
			return nil, err
		}
	}
	wctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	if err := topo.Wait(wctx, "data from every application", a.traffic.flowing); err != nil {
		apps, details := a.traffic.silent()
		return nil, &silentError{apps, fmt.Sprintf("%v: %s", err, strings.Join(details, ", "))}
	}
	if a.name == "" {
		keyed := func() (int, error) { return a.net.Mobile().Node.Keyed(wctx) }
		if err := waitKeyed(wctx, a.env.Params.Bool("keys"), len(a.net.Ends)-1, keyed); err != nil {
			return nil, err
		}
	}
	var caps *scene.Captures
	if a.env.Pcap != "" {
		if caps, err = a.net.Capture(ctx, filepath.Join(a.env.Pcap, cmp.Or(a.name, "roam")), snaplen, "ip6"); err != nil {
			return nil, err
		}
	}
	seen, err := a.net.Run(ctx, a.plan.Schedule, a.traffic.board)
	if caps != nil {
		_, cerr := caps.Stop() // dropped packets are missing in the file only
		err = cmp.Or(err, cerr)
	}
	if err != nil {
		return nil, err
	}
	if a.name == "" {
		a.env.View.Phase("waiting for the applications to finish")
		err = a.traffic.finish(ctx)
	} else {
		err = a.traffic.abandon(ctx)
	}
	if err != nil {
		return nil, err
	}
	t := &trace{Trace: seen, arm: a.name, plan: a.plan, traffic: a.traffic, monitor: monitor}
	if n := a.net.Mobile().Node; n != nil {
		t.events = n.Events()
	}
	return t, nil
}

// waitKeyed waits until roam counts the sessions with all peers as keyed, if the hosts have each other's key.
func waitKeyed(ctx context.Context, hasKeys bool, peers int, count func() (int, error)) error {
	if !hasKeys {
		return nil
	}
	return topo.WaitSparing(ctx, "keyed sessions", func() bool {
		n, err := count()
		return err == nil && n == peers
	})
}

// routes returns the mobile host's routes of all tables and its rules, without their
// volatile parts: times, and the routes of links without carrier, which the kernel removes at
// arbitrary times. It omits the routes of our own device, and the table local, in which the
// kernel lists the host's addresses.
func (a *round) routes(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for _, args := range [][]string{{"ip", "-6", "route", "show", "table", "all"},
		{"ip", "-6", "rule", "show"}} {
		out, err := a.net.Mobile().Host.Command(ctx, args...).Output()
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		maps.Copy(all, parseRoutes(string(out)))
	}
	return all, nil
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
		omit := slices.ContainsFunc([]string{"dev roam0", " table local ", "linkdown"}, func(s string) bool {
			return strings.Contains(line, s)
		})
		if !omit && len(keep) > 0 {
			set[strings.Join(keep, " ")] = true
		}
	}
	return set
}

// endRoam removes Roam from all hosts and compares the routes with those of the start, with
// the same links.
func (a *round) endRoam(ctx context.Context, t *trace) error {
	var err error
	if t.updates, err = a.net.Updates(); err != nil {
		return err
	}
	if t.established, err = a.net.Mobile().Node.Established(ctx); err != nil {
		return err
	}
	if t.keyed, err = a.net.Mobile().Node.Keyed(ctx); err != nil {
		return err
	}
	if t.counters, err = a.net.Counters(ctx); err != nil {
		return err
	}
	for _, l := range access[1:] {
		if err := a.net.Carrier(a.net.Mobile(), l, false); err != nil {
			return err
		}
	}
	for _, e := range a.net.Ends {
		if err := e.Node.Stop(ctx); err != nil {
			return err
		}
	}
	t.routeDiff = append(t.routeDiff, a.compare(ctx, "after roam down")...)
	return ctx.Err()
}

// compare waits a while for the routing table to equal that of the start, and returns the
// differences in words.
func (a *round) compare(ctx context.Context, when string) []string {
	wctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var diff []string
	_ = topo.Wait(wctx, "routes as before", func() bool {
		now, err := a.routes(ctx)
		diff = differences(a.before, now, when)
		if err != nil {
			diff = append(diff, err.Error())
		}
		return len(diff) == 0
	}) // the differences are the result
	return diff
}

// differences compares two sets of routes.
func differences(before, now map[string]bool, when string) (diff []string) {
	for r := range before {
		if !now[r] {
			diff = append(diff, when+": lost "+r)
		}
	}
	for r := range now {
		if !before[r] {
			diff = append(diff, when+": new "+r)
		}
	}
	return diff
}
