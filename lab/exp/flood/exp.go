// Package flood measures the cost of forged Locator Updates and spoofed first packets: for
// a session, the host's memory and honest peers.
package flood

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/peergen"
	"roam/lab/workload"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the entry for lab/runner/registry.go.
var Experiment = exp.Experiment{
	Name: "flood", Group: "Beyond the papers", Source: "RFC 6740 §10, RFC 6741 §11",
	Title: "A host under a flood of forged Locator Updates and spoofed first packets",
	Tools: map[string]string{"radvd": "radvd", "nft": "nftables"}, Run: run,
}.With(files)

const (
	sessionPort = 5801
	echoPort    = 5802
	sinkPort    = 5803
	before      = 10 // honest peers before the flood
	sentences   = 10 // datagrams of each
	patience    = time.Minute
)

// honest is the result of one new honest peer.
type honest struct {
	first time.Duration
	err   error
}

func run(ctx context.Context, env *exp.Env) (err error) {
	w, err := build(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	u, err := workload.StartUDP(ctx, w.cn, w.mn, env.Dir, workload.UDPOptions{
		Name: "session", Target: "cn", Port: sessionPort, Up: env.Params.Int("rate"), Down: env.Params.Int("rate"), Size: 64,
	})
	if err != nil {
		return err
	}
	env.View.Phase("honest peers without a flood")
	var m measured
	if m.base, err = w.calm(ctx); err != nil {
		return err
	}
	if err := w.flood(ctx, env, &m); err != nil {
		return err
	}
	if m.up, m.down, err = u.Stop(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	m.overflows = u.BufferErrors()
	m.metrics(env.Result)
	return nil
}

// calm returns the median time to the first echo without flood.
func (w *world) calm(ctx context.Context) (time.Duration, error) {
	var all []time.Duration
	for range before {
		first, _, err := w.peers.Talk(ctx, w.next(), sentences)
		if err != nil {
			return 0, fmt.Errorf("honest peer: %w", err)
		}
		all = append(all, first)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// saturation returns how many packets a second one core brings into the host.
func (w *world) saturation(ctx context.Context, n int) (float64, error) {
	took, err := w.sink.Forge(ctx, peergen.Flood{Packets: n, Victim: roam.ILV{L64: l64CN, NID: nidCN}})
	return float64(n) / took.Seconds(), err
}

// flood sends both floods, with honest peers beside them.
func (w *world) flood(ctx context.Context, env *exp.Env, m *measured) (err error) {
	p := env.Params
	env.View.Phase("the rate that saturates")
	if m.most, err = w.saturation(ctx, p.Int("probe")); err != nil {
		return err
	}
	if m.start, err = w.memory(ctx); err != nil {
		return err
	}
	counted, err := w.counted(ctx)
	if err != nil {
		return err
	}
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	peak, met := w.watch(fctx), w.newcomers(fctx, ctx, p.Millis("honest_every_ms"))
	m.rate = m.most * p.Float("share")
	for _, f := range []peergen.Flood{
		{Packets: p.Int("updates"), Rate: m.rate, Victim: roam.ILV{L64: l64CN, NID: nidCN}},
		{Packets: p.Int("firsts"), Rate: m.rate},
	} {
		env.View.Phase("%d packets at %.0f a second", f.Packets, f.Rate)
		if _, err := w.sink.Forge(ctx, f); err != nil {
			return err
		}
	}
	stop()
	m.during = <-met
	after, err := w.counted(ctx)
	if err != nil {
		return err
	}
	m.sent, m.arrived = p.Int("updates")+p.Int("firsts"), after.router-counted.router
	m.daemonArrived = after.daemon - counted.daemon
	if m.acked, err = w.acknowledged(ctx); err != nil {
		return err
	}
	if m.daemonSessions, err = w.node.Established(ctx); err != nil {
		return err
	}
	m.end, err = w.memory(ctx)
	m.peak = <-peak
	return err
}
