// Package simpson is the experiment simpson-sbr: two sites whose borders divide packets over
// two providers, after B. Simpson's dissertation, chapter 5.
//
// It implements the shares, the losses, the audits of routing tables and of internal
// locators, the delays of Locator Updates, the same traffic across borders without Roam, and goodput,
// losses, jitter and order at rates up to those of table 3.2 against NPTv6. The experiment simpson-host
// has the same of a host that divides its packets itself, after chapter 4. It is driven by lab/runner; it
// uses only Roam's command line, as a user would.
package simpson

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/topo"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name: "simpson-sbr", Group: "Site multihoming (Simpson)",
	Title:  "Two sites whose borders divide packets over two providers",
	Source: "B. Simpson, dissertation, chapter 5: sbr-ILNP",
	Tools: map[string]string{"tcpdump": "tcpdump", "ping": "iputils-ping", "ip": "iproute2", "radvd": "radvd",
		"nft": "nftables"},
	Run: run,
}.With(files)

// cell is a policy of both borders: the precedences of their two locators.
type cell struct {
	name  string
	a, b  int
	share float64 // of the first locator
}

var cells = []cell{{"100_0", 0, 50, 1}, {"50_50", 50, 50, 0.5}, {"80_20", 20, 80, 0.8}}

// seen is what a cell, or a comparator, has shown.
type seen struct {
	cell
	missing string         // why a comparator could not run
	sent    [2]site.Passed // by border, at the receiving ends of its links
	daemon  [2][2]uint64   // by border and locator: the border's own counters
	counts
	routes       [2]string  // of providers and core, before and after
	added        []float64  // by the near border to each Locator Update from inside, in ms
	lost         []float64  // from the loss of a link to the border's update, in ms
	captured     []int64    // sizes of the captures of packets with internal locators
	encapsulated int        //  captured packets with another one in them
	rates        []*passage // at the rates of the sweep
}

const patience = 20 * time.Second

func run(ctx context.Context, env *exp.Env) error {
	var all []*seen
	for _, c := range cells {
		v, err := measure(ctx, env, c)
		if err != nil {
			return fmt.Errorf("shares %s: %w", c.name, err)
		}
		all = append(all, v)
	}
	others, err := compare(ctx, env)
	if err != nil {
		return err
	}
	judge(env.Result, all)
	judgeComparators(env.Result, all[0], others)
	judgeSweep(env.Result, append(slices.Clone(all), others...))
	env.Result.Tables = append(env.Result.Tables, table(all, others))
	return nil
}

// newSites builds the topology, whose providers and core count what borders send.
func newSites(ctx context.Context) (*site.Site, error) {
	s, err := site.New("simpson", true)
	if err == nil {
		err = s.Count(ctx, echoBytes, port)
	}
	return s, err
}

// measure runs one cell.
func measure(ctx context.Context, env *exp.Env, c cell) (v *seen, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v = &seen{cell: c}
	s, err := newSites(ctx)
	defer func() { err = errors.Join(err, s.Close()) }()
	if err != nil {
		return v, err
	}
	var sections []string
	for which := range 2 {
		sections = append(sections, site.Section(which, site.Policy(which, "vlb", c.a, c.b),
			fmt.Sprintf("announce = \"%dms\"\n", env.Params.Int("announce_ms"))))
	}
	err = v.audit(ctx, env, s, func() error {
		err := s.Roam(node.Binaries{Roam: env.Roam, Roamd: env.Roamd}, "", sections...)
		if err == nil {
			err = s.Start(ctx)
		}
		if err != nil {
			return err
		}
		if err := v.divide(ctx, env, s); err != nil {
			return err
		}
		return v.sweep(ctx, env, s, site.Session(site.OutsideNID))
	})
	if err != nil {
		return v, err
	}
	return v, v.updates(ctx, env, s)
}

// audit compares the routing tables of providers and core before and after work, and captures
// what has an internal locator, or another packet in it, meanwhile.
func (v *seen) audit(ctx context.Context, env *exp.Env, s *site.Site, work func() error) (err error) {
	if v.routes[0], err = routes(ctx, s); err != nil {
		return err
	}
	leaks, err := watch(ctx, env, s, v.name, "site", fmt.Sprintf("net %s or net %s", site.Internals[0], site.Internals[1]))
	if err != nil {
		return err
	}
	tunnels, err := watch(ctx, env, s, v.name, "encapsulated", site.EncapsulationFilter())
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	if v.routes[1], err = routes(ctx, s); err != nil {
		return err
	}
	for _, w := range append(slices.Clone(leaks), tunnels...) {
		if _, err := w.Stop(); err != nil {
			return err
		}
	}
	for _, w := range leaks {
		info, err := os.Stat(w.File)
		if err != nil {
			return err
		}
		v.captured = append(v.captured, info.Size())
	}
	for _, w := range tunnels {
		list, err := packets.Read(w.File, "")
		if err != nil {
			return err
		}
		v.encapsulated += len(list)
	}
	return nil
}

type capture struct {
	*topo.Capture
	File string
}

// watch captures what a filter selects at both providers, on their links to the site.
func watch(ctx context.Context, env *exp.Env, s *site.Site, cell, what, filter string) (list []capture, err error) {
	dir := env.Dir
	if env.Pcap != "" {
		dir = env.Pcap
	}
	for i, p := range s.Provider {
		file := filepath.Join(dir, fmt.Sprintf("provider%d-%s-%s.pcap", i, what, cell))
		w, err := p.Capture(ctx, "site", file, 100, filter)
		if err != nil {
			return nil, err
		}
		list = append(list, capture{w, file})
	}
	return list, nil
}

// routes lists the routing tables of providers and core.
func routes(ctx context.Context, s *site.Site) (string, error) {
	var all bytes.Buffer
	for _, h := range []*topo.Host{s.Provider[0], s.Provider[1], s.Core} {
		out, err := h.Command(ctx, "ip", "-6", "route", "show", "table", "all", "type", "unicast").Output()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s:\n%s", h.Name(), out)
	}
	return all.String(), nil
}
