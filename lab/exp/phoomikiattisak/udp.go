package phoomikiattisak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// udpOutcome holds the results of a UDP flow through a soft handoff.
type udpOutcome struct {
	Scenario  string
	Written   int // datagrams, both ways
	Lost      int
	LostAt    []float64 // when each was sent, in seconds
	Late      int       // datagrams that arrived after a later one
	DropPct   float64   // arrivals of the worst second below the mean, in per cent, minus the longer path's delay
	Refused   int       // datagrams that the receive buffers refused
	QueueDrop int
	Owned     result.Loss
	Counters  map[string]uint64 // drops of the hosts, by HOST NAME
	Y         []float64         // arrivals per bin in Mb/s, to the mobile host
}

// udp measures the paper's criterion for UDP in every scenario: a steady flow
// below the rate of the link, softly handed over.
func (m *matrix) udp(ctx context.Context) error {
	for _, s := range m.scenarios {
		o, err := exp.Cell(m.env, s+"-udp", func(w *exp.Window) (udpOutcome, error) { return udpCell(ctx, m.env, w, s) })
		if err != nil {
			return err
		}
		m.udps = append(m.udps, o)
	}
	return nil
}

// udpPort is the port of the listening end.
const udpPort = 7001

func udpCell(ctx context.Context, env *exp.Env, w *exp.Window, scenario string) (o udpOutcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, name := env.Params, scenario+"-udp"
	env.View.Phase("%s: setting up", name)
	net, err := scene.Build(ctx, env, config(env, name, scenario, "soft"))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	dir := filepath.Join(env.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, fmt.Errorf("make directory: %w", err)
	}
	size := p.Int("udp_size")
	w.Open()
	queues := net.WatchOverflows(udpPort)
	flow, err := workload.StartUDP(ctx, net.Peer(0).Host, net.Mobile().Host, dir, workload.UDPOptions{
		Name: "UDP", Target: "cn1", Port: udpPort, Size: size, Up: 200,
		Down: int(p.Float("udp_mbps") * 1e6 / 8 / float64(size)),
	})
	if err != nil {
		return o, err
	}
	defer flow.Kill()
	wctx, stop := context.WithTimeout(ctx, startWithin)
	defer stop()
	if err := topo.Wait(wctx, "datagrams", func() bool { return flow.State().Progress > 0 }); err != nil {
		return o, err
	}
	length := p.Seconds("udp_s")
	var s scene.Schedule
	s.Length = length
	s.Add(length/3, scene.Attach, "net2", "net1", "soft: net1 to net2")
	s.Add(length*2/3, scene.Detach, "net1", "", "")
	t, err := net.Run(ctx, s, func() []live.Session {
		return []live.Session{workload.Row(flow)}
	})
	if err != nil {
		return o, err
	}
	counters, err := drops(ctx, net)
	if err != nil {
		return o, err
	}
	up, down, err := flow.Stop(ctx, 2*p.Millis("wan_rtt_ms")+200*time.Millisecond)
	if err != nil {
		return o, fmt.Errorf("read the UDP flow: %w", err)
	}
	w.Shut()
	o = udpOutcome{
		Scenario:  scenario,
		Counters:  counters,
		Refused:   flow.BufferErrors(),
		QueueDrop: int(t.Drops["queue"] + t.Drops["refused"]),
	}
	o.judge(env, t, up, down, queues)
	return o, nil
}

// judge extracts the figures from the logs. The first second sets up the session, which has
// different rules.
func (o *udpOutcome) judge(env *exp.Env, t *scene.Trace, up, down *udpflow.Flow, queues *scene.Losses) {
	from, length := t.At(time.Second), env.Params.Seconds("udp_s")
	for _, f := range []*udpflow.Flow{up, down} {
		n := f.Count(from, t.At(length))
		at, lost := f.Losses(from, t.At(length), 10*time.Millisecond)
		for i, v := range lost {
			if v > 0 {
				o.LostAt = append(o.LostAt, at[i])
			}
		}
		o.Written, o.Lost, o.Late = o.Written+n.Written, o.Lost+n.Lost, o.Late+n.Misorders
	}
	o.Owned = scene.Owners{Overflows: queues}.Account("UDP, "+o.Scenario, up, down, [2]time.Time{from, t.At(length)})
	far := paths[o.Scenario]
	o.DropPct = rateDrop(down, from, t.At(length), (rtt(env, far[1])-rtt(env, far[0]))/2)
	_, o.Y = down.Rate(t.Start, t.At(length), drawn)
	for i := range o.Y {
		o.Y[i] *= env.Params.Float("udp_size") * 8e-6
	}
}

// rateDrop returns by how many per cent the arrivals of the worst second are below the
// mean. A path that is longer by some milliseconds delays the arrivals once by that time,
// which is not a drop.
func rateDrop(f *udpflow.Flow, from, to time.Time, longerMs float64) float64 {
	total, seconds := f.Arrived(from, to), to.Sub(from).Seconds()
	mean := float64(total) / seconds
	worst := 0.0
	for at := from; !at.Add(time.Second).After(to); at = at.Add(100 * time.Millisecond) {
		worst = max(worst, 100*(1-float64(f.Arrived(at, at.Add(time.Second)))/mean))
	}
	return max(0, worst-max(0, longerMs)/10)
}
