// Package paths is the experiments paths-equal, paths-unequal, paths-fetch and paths-change: what an
// application gets of several links at once, compared with the better one alone and with the kernel's
// Multipath TCP.
//
// It implements the cells, which are links and a load, and their figures. It omits moves and
// paths that fail. It is driven by lab/runner; iperf3 and the lab's own programs make the load.
package paths

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
)

//go:embed equal unequal fetch change
var files embed.FS

// Experiments are the declarations that package runner lists.
var Experiments = []exp.Experiment{
	declare("equal", "Two links of one rate and length at once", withTools, runOf(equal)),
	declare("unequal", "Two links of different rates and lengths at once", withTools, runUnequal),
	declare("fetch", "Short transfers over several links at once", scene.Tools, runFetches),
	declare("change", "A link whose rate changes under one connection", scene.Tools, runChanges),
}

// withTools are the tools of the experiments that iperf3 and the kernel's Multipath TCP take part in.
var withTools = func() map[string]string {
	tools := maps.Clone(scene.Tools)
	maps.Copy(tools, map[string]string{"iperf3": "iperf3", "mptcpize": "mptcpize"})
	return tools
}()

func runOf(cells []cell) func(context.Context, *exp.Env) error {
	return func(ctx context.Context, env *exp.Env) error { return run(ctx, env, cells) }
}

func declare(name, title string, tools map[string]string, run func(context.Context, *exp.Env) error) exp.Experiment {
	own, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // a fault of the package
	}
	return exp.Experiment{
		Name: "paths-" + name, Title: title, Group: "Beyond the papers",
		Source: "claim of Roam: a second path never makes a connection slower", Tools: tools, Run: run,
	}.With(own)
}

// wire is an access link.
type wire struct {
	mbps float64
	rtt  time.Duration
}

// cell is a network with a load. The first link is the better one.
type cell struct {
	name  string
	links []wire
	cc    string
	flows int
	udp   float64 // Mb/s of datagrams in place of TCP; 0: TCP
	mptcp bool    // the kernel's Multipath TCP is compared
	death bool    // each link dies in turn, and recovers
	long  int     // links at the end that are too long for a single connection: the sum omits them
}

const ms = time.Millisecond

var (
	equal = []cell{
		{name: "tcp", links: []wire{{100, 20 * ms}, {100, 20 * ms}}, cc: "cubic", flows: 1, mptcp: true},
		{name: "udp", links: []wire{{50, 20 * ms}, {50, 20 * ms}}, udp: 95},
		{name: "death", links: []wire{{100, 20 * ms}, {100, 20 * ms}}, cc: "cubic", death: true},
	}
	unequal = []cell{
		{name: "rate50", links: []wire{{100, 20 * ms}, {50, 20 * ms}}, cc: "cubic", flows: 1, mptcp: true},
		{name: "rate20", links: []wire{{100, 20 * ms}, {20, 20 * ms}}, cc: "cubic", flows: 1, mptcp: true},
		{name: "rate5", links: []wire{{100, 20 * ms}, {5, 20 * ms}}, cc: "cubic", flows: 1, mptcp: true},
		{name: "bbr", links: []wire{{25, 10 * ms}, {5, 10 * ms}}, cc: "bbr", flows: 1, mptcp: true},
		{name: "length", links: []wire{{100, 10 * ms}, {20, 100 * ms}}, cc: "cubic", flows: 1, mptcp: true},
		{
			name: "three", links: []wire{{100, 20 * ms}, {20, 20 * ms}, {20, 200 * ms}}, cc: "cubic", flows: 1, long: 1,
			mptcp: true,
		},
		{name: "flows", links: []wire{{100, 10 * ms}, {20, 100 * ms}}, cc: "cubic", flows: 4, mptcp: true},
		{name: "udp", links: []wire{{100, 20 * ms}, {20, 20 * ms}}, udp: 102},
	}
)

// The arms: what is measured in a cell.
const (
	alone = "alone" // Roam over the better link
	both  = "both"  // Roam over all
	mptcp = "mptcp"
)

// arms returns what is measured in the cell.
func (c cell) arms() []string {
	switch {
	case c.udp > 0:
		return []string{both}
	case c.mptcp:
		return []string{alone, both, mptcp}
	}
	return []string{alone, both}
}

func run(ctx context.Context, env *exp.Env, cells []cell) error {
	each := result.Table{Title: "Every run", Columns: []string{"cell", "links", "Mb/s of one run after the other"}}
	err := eachCell(env, cells, func(c cell) { c.miss(env.Result) }, func(c cell) error {
		if c.death {
			return c.runDeath(ctx, env)
		}
		o, err := exp.Cell(env, c.name, func(*exp.Window) (outcome, error) { return c.measure(ctx, env) })
		if err == nil {
			o.metrics(c, env.Result)
			o.runs(c, &each)
		}
		return err
	})
	if len(each.Rows) > 0 {
		env.Result.Tables = append(env.Result.Tables, each)
	}
	return err
}

// comparedAlways is the cell in which Multipath TCP is compared whatever the parameters say.
const comparedAlways = "rate20"

// runUnequal is run, with Multipath TCP in one cell if the parameters do not want it in all.
func runUnequal(ctx context.Context, env *exp.Env) error {
	return run(ctx, env, compared(unequal, env.Params.Bool("mptcp_all"), env.Result))
}

// compared returns cells of which all are compared with Multipath TCP that can be, or one, and says of the others why.
func compared(cells []cell, isAll bool, r *result.Result) []cell {
	list := slices.Clone(cells)
	for i := range list {
		c := &list[i]
		if c.mptcp && c.name != comparedAlways && !isAll {
			c.mptcp = false
			r.Miss(c.name+"_to_mptcp", "Multipath TCP was compared in "+comparedAlways+" alone")
		}
	}
	return list
}

// chosen returns the cell with the congestion control that the parameters name.
func (c cell) chosen(p exp.Params) cell {
	if cc := p.Text("cc"); cc != "own" && c.cc != "" {
		c.cc = cc
	}
	return c
}

// eachCell measures the cells that the parameters choose, in turn, and misses the others.
func eachCell(env *exp.Env, cells []cell, miss func(cell), measure func(cell) error) error {
	chosen := strings.Split(env.Params.Text("cells"), ",")
	for _, name := range chosen {
		if !slices.ContainsFunc(cells, func(c cell) bool { return c.name == name }) {
			return fmt.Errorf("read cells: there is none called %q", name)
		}
	}
	env.View.Cells(len(chosen))
	for _, c := range cells {
		if !slices.Contains(chosen, c.name) {
			miss(c)
			continue
		}
		if err := measure(c.chosen(env.Params)); err != nil {
			return err
		}
	}
	return nil
}

// measure runs all arms of a cell in turn.
func (c cell) measure(ctx context.Context, env *exp.Env) (o outcome, err error) {
	env.View.Phase("cell %s", c.name)
	for i := range env.Params.Int("runs") {
		for _, arm := range c.arms() {
			if err := c.once(ctx, env, fmt.Sprintf("%s%s%d", c.name, arm, i), arm, &o); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// once runs one arm once and adds its record.
func (c cell) once(ctx context.Context, env *exp.Env, name, which string, o *outcome) error {
	if c.udp > 0 {
		d, err := c.loadUDP(ctx, env, name)
		if err == nil {
			o.addUDP(d)
		}
		return err
	}
	rec, err := c.load(ctx, env, name, which)
	if err == nil {
		err = o.add(which, rec)
	}
	return err
}

// access returns the links of an arm.
func (c cell) access(env *exp.Env, which string) (list []scene.Access) {
	for _, l := range c.links {
		a := scene.Symmetric(linkem.Params{
			Delay: l.rtt / 2, Rate: int64(l.mbps * 1e6), QueuePackets: env.Params.Int("queue_packets"),
		})
		a.Up = true
		list = append(list, a)
	}
	if which == alone {
		return list[:1]
	}
	return list
}

// build makes the network of an arm, all of whose links can be used.
func (c cell) build(ctx context.Context, env *exp.Env, name string, system arm.Arm, which string) (*scene.Scene, error) {
	p := env.Params
	cfg := scene.Config{
		Name: name, Arm: system, Seed: env.Seed, Mobile: c.access(env, which), Keep: true,
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	}
	if system.Traits().Updates {
		cfg.Mode = "duality"
	}
	s, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return nil, err
	}
	if n := s.Mobile().Node; n != nil {
		err = n.WaitUsable(ctx, []string{"net1", "net2", "net3"}[:len(cfg.Mobile)]...)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// load runs one arm once.
func (c cell) load(ctx context.Context, env *exp.Env, name, which string) (rec record, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, system := env.Params, arm.Arm(arm.Roam)
	opt := workload.IperfOptions{
		Name: "iperf3 " + which, Target: "cn1", Port: 5201, Seconds: p.Int("load_s"), Interval: 0.5, CC: c.cc,
		Parallel: c.flows,
	}
	if which == mptcp {
		system, opt.Wrap = arm.MPTCP, arm.MPTCP.Wrap()
	}
	s, err := c.build(ctx, env, name, system, which)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return transfer(ctx, s, opt)
}

// transfer runs iperf3 from the mobile host to its correspondent.
func transfer(ctx context.Context, s *scene.Scene, opt workload.IperfOptions) (rec record, err error) {
	test, err := workload.StartIperf(ctx, s.Peer(0).Host, s.Mobile().Host, opt)
	if err != nil {
		return rec, err
	}
	defer test.Kill()
	t, err := s.Run(ctx, scene.Schedule{Length: time.Duration(opt.Seconds) * time.Second}, nil)
	if err != nil {
		return rec, err
	}
	rec.drops = t.Drops
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if rec.iperf, err = test.Record(ctx); err != nil {
		_, reported := rec.iperf.Report()
		err = errors.Join(err, reported)
	}
	return rec, err
}
