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
	Tools: map[string]string{"radvd": "radvd"}, Run: run,
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
	base, err := w.calm(ctx)
	if err != nil {
		return err
	}
	if err := w.flood(ctx, env, base); err != nil {
		return err
	}
	up, down, err := u.Stop(ctx, 300*time.Millisecond)
	if err != nil {
		return err
	}
	out, in := up.Count(time.Time{}, time.Now()), down.Count(time.Time{}, time.Now())
	env.Result.Set("udp_written", float64(out.Written+in.Written))
	env.Result.Set("udp_lost", float64(out.Lost+in.Lost))
	env.Result.Set("udp_refused_by_buffers", float64(u.BufferErrors()))
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
func (w *world) flood(ctx context.Context, env *exp.Env, base time.Duration) error {
	p, r := env.Params, env.Result
	env.View.Phase("the rate that saturates")
	most, err := w.saturation(ctx, p.Int("probe"))
	if err != nil {
		return err
	}
	start, err := w.memory(ctx)
	if err != nil {
		return err
	}
	counted, err := w.counted(ctx)
	if err != nil {
		return err
	}
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	peak, met := w.watch(fctx), w.newcomers(fctx, ctx, p.Millis("honest_every_ms"))
	rate := most * p.Float("share")
	for _, f := range []peergen.Flood{
		{Packets: p.Int("updates"), Rate: rate, Victim: roam.ILV{L64: l64CN, NID: nidCN}},
		{Packets: p.Int("firsts"), Rate: rate},
	} {
		env.View.Phase("%d packets at %.0f a second", f.Packets, f.Rate)
		if _, err := w.sink.Forge(ctx, f); err != nil {
			return err
		}
	}
	stop()
	during := <-met
	after, err := w.counted(ctx)
	if err != nil {
		return err
	}
	r.Set("saturating_pps", most)
	r.Set("flood_pps", rate)
	r.Set("arrived_share", float64(after-counted)/float64(p.Int("updates")+p.Int("firsts")))
	if err := w.judge(ctx, env, base, during); err != nil {
		return err
	}
	end, err := w.memory(ctx)
	if err != nil {
		return err
	}
	// Each honest peer has a session by now, in an entry of the hash.
	const entry = 256
	grown := float64(end.maps-start.maps) - entry*float64(len(during))
	r.Set("map_growth_kib", max(grown, 0)/1024)
	r.Set("maps_kib", float64(end.maps)/1024)
	r.Set("rss_growth_mib", float64(max(<-peak, end.rss)-start.rss)/(1<<20))
	r.Set("rss_before_mib", float64(start.rss)/(1<<20))
	return nil
}

// judge sets the metrics of honest peers.
func (w *world) judge(ctx context.Context, env *exp.Env, base time.Duration, all []honest) error {
	var slowest time.Duration
	var sum time.Duration
	for _, h := range all {
		if h.err != nil {
			return fmt.Errorf("honest peer during the flood: %w", h.err)
		}
		slowest, sum = max(slowest, h.first), sum+h.first
	}
	want := before + len(all) + 1 // and cn
	have, err := w.sessions(ctx, want)
	if err != nil {
		return err
	}
	r := env.Result
	r.Set("honest_rtt_ms", base.Seconds()*1000)
	r.Set("honest_during", float64(len(all)))
	r.Set("honest_left_out", float64(want-have))
	r.Set("honest_slowest_ms", slowest.Seconds()*1000)
	r.Set("honest_slowest_rtts", float64(slowest)/float64(base))
	if len(all) > 0 {
		r.Set("honest_mean_ms", sum.Seconds()*1000/float64(len(all)))
	}
	return nil
}
