// Package example is the experiment to copy: a flow of datagrams over one link
// that is cut for a while, and how many of them are missed.
package example

import (
	"context"
	"embed"
	"errors"
	"net/netip"
	"path/filepath"
	"time"

	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/result"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the entry for lab/runner/registry.go, which does not list this one.
var Experiment = exp.Experiment{
	Name: "example", Group: "How to add an experiment", Source: "docs/lab.md",
	Title: "What a cut of the only link costs a flow of datagrams",
	Tools: map[string]string{"tcpdump": "tcpdump"}, Run: run,
}.With(files)

func run(ctx context.Context, env *exp.Env) (err error) {
	p, rate := env.Params, env.Params.Int("rate")
	net, err := topo.New("example")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	a, errA := net.Host("a")
	b, errB := net.Host("b")
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	link, err := net.Link(a, "eth0", b, "eth0", linkem.Params{Delay: p.Millis("delay_ms"), Seed: env.Seed})
	if err != nil {
		return err
	}
	if err := errors.Join(a.AddAddr("eth0", netip.MustParsePrefix("2001:db8::a/64")),
		b.AddAddr("eth0", netip.MustParsePrefix("2001:db8::b/64"))); err != nil {
		return err
	}
	if env.Pcap != "" {
		capture, e := b.Capture(ctx, "eth0", filepath.Join(env.Pcap, "b-eth0.pcap"), 0)
		if e != nil {
			return e
		}
		defer func() { _, e := capture.Stop(); err = errors.Join(err, e) }()
	}
	flow, err := workload.StartUDP(ctx, b, a, env.Dir, workload.UDPOptions{
		Name:   "udp",
		Target: "2001:db8::b",
		Port:   7000,
		Up:     rate,
		Size:   64,
	})
	if err != nil {
		return err
	}
	start, length, from := time.Now(), p.Seconds("seconds"), p.Seconds("seconds")/2
	env.View.Clock(start, length)
	to := from + p.Millis("cut_ms")
	if err := link.Play(ctx, start, []linkem.Change{{At: from, Command: "cut=true"}, {At: to, Command: "cut=false"},
		{At: length, Command: "cut=false"}}); err != nil {
		return err
	}
	up, _, err := flow.Stop(ctx, time.Second/5)
	if err != nil {
		return err
	}
	judge(env.Result, p, up, start)
	r := env.Result
	x, y := up.Rate(start, start.Add(length), time.Second/20)
	r.AddSeries("arrived", "1/s", x, y)
	r.Mark(result.Event{T: from.Seconds(), Kind: "cut", Label: "cut"})
	r.Mark(result.Event{T: to.Seconds(), Kind: "cut", Label: "whole again"})
	r.Figures = []result.Figure{{Title: "Datagrams that arrived", XLabel: "time (s)", Panels: []result.Panel{{
		Kind: result.Lines, YLabel: "1/s", Series: []string{"arrived"}, Labels: []string{"eth0"}, Marks: true,
		Refs: []result.Ref{{Label: "sent", At: float64(rate)}},
	}}}}
	return nil
}

// judge sets the metrics of the claims from the log of the flow.
func judge(r *result.Result, p exp.Params, up *udpflow.Flow, start time.Time) {
	n := up.Count(start, start.Add(p.Seconds("seconds")))
	r.Set("sent", float64(n.Written))
	r.Set("lost_ms", float64(n.Lost)*1000/p.Float("rate")-p.Float("cut_ms"))
}
