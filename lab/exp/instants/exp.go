// Package instants is the experiment that starts soft handoffs at many times, one step
// apart, so that no unlucky time stays hidden.
//
// It implements the schedule, the traffic and the figures of each time. It omits captures
// and a control, since it shows an absence of faults. It is driven by lab/runner, best on
// the engine vm, which hides the machine's own noise.
package instants

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name:    "handoff-instants",
	Title:   "Soft handoffs begun at every millisecond of a beat",
	Group:   "Beyond the papers",
	Source:  "claim of Roam: a soft handoff costs nothing, whenever it begins",
	Tools:   scene.Tools,
	Engines: exp.Engines,
	Run:     run,
}.With(files)

const (
	// lead is the time before the first handoff, in which sessions settle.
	lead = 2 * time.Second
	// udpPort is the correspondent's of the UDP probe.
	udpPort = 7001
	// patience bounds every wait for the applications.
	patience = 20 * time.Second
)

// seen holds all measurements.
type seen struct {
	*scene.Trace
	up, down     *udpflow.Flow
	hasTCP       bool // the engine has it
	out, in      tcpflow.Stream
	whole        int // TCP connections that delivered every byte in order
	bufferErrors int
	queues       *scene.Losses // datagrams that the emulator had no room for
}

func run(ctx context.Context, env *exp.Env) error {
	p := env.Params
	link := scene.Symmetric(linkem.Params{Delay: p.Millis("delay_ms"), Rate: int64(p.Float("rate_mbps") * 1e6)})
	cfg := scene.Config{
		Name: "instants", Arm: arm.Roam, Seed: env.Seed, Mobile: []scene.Access{link, link}, Keep: true,
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	}
	if env.Engine == exp.Sim {
		return simulate(env, cfg)
	}
	s, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return err
	}
	t, err := pass(ctx, env, s)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	t.judge(env)
	return nil
}

// plan moves back and forth between two links, a step later each time.
func plan(p exp.Params) (s scene.Schedule) {
	links := [2]string{"net1", "net2"}
	for i := range p.Int("instants") {
		at := begin(p, i)
		s.Add(at, scene.Attach, links[(i+1)%2], links[i%2], fmt.Sprintf("instant %d", i+1))
		s.Add(at+p.Seconds("overlap_s"), scene.Detach, links[i%2], "", "")
	}
	s.Length = begin(p, p.Int("instants"))
	return s
}

// begin is the start of a handoff.
func begin(p exp.Params, i int) time.Duration {
	return lead + p.Millis("first_ms") + time.Duration(i)*(p.Seconds("period_s")+p.Millis("step_ms"))
}

// pass runs traffic and schedule.
func pass(ctx context.Context, env *exp.Env, s *scene.Scene) (*seen, error) {
	p, mn, cn := env.Params, s.Mobile().Host, s.Peer(0).Host
	queues := s.WatchOverflows(udpPort)
	udp, err := workload.StartUDP(ctx, cn, mn, env.Dir, workload.UDPOptions{
		Name: "UDP", Target: "cn1", Port: udpPort, Up: p.Int("udp_rate"), Down: p.Int("udp_rate"), Size: 64,
	})
	if err != nil {
		return nil, err
	}
	defer udp.Kill()
	sessions := []workload.Session{udp}
	var tcp [2]*workload.TCP
	for i, name := range []string{"TCP out", "TCP in"} {
		o := workload.TCPOptions{
			Name:   name,
			Target: "cn1",
			Port:   7002 + i,
			Size:   1000,
			Every:  p.Millis("tcp_every_ms"),
			Down:   i == 1,
			CC:     p.Text("congestion"),
		}
		if tcp[i], err = workload.StartTCP(ctx, cn, mn, env.Dir, o); err != nil {
			return nil, err
		}
		defer tcp[i].Kill()
		sessions = append(sessions, tcp[i])
	}
	wctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := topo.Wait(wctx, "data from every application", func() bool {
		return udp.State().Progress > 0 && tcp[0].State().Progress > 0 && tcp[1].State().Progress > 0
	}); err != nil {
		return nil, err
	}
	t := &seen{queues: queues, hasTCP: true}
	if t.Trace, err = s.Run(ctx, plan(p), func() []live.Session { return board(sessions) }); err != nil {
		return nil, err
	}
	return t, t.collect(ctx, udp, tcp, 4*p.Millis("delay_ms"))
}

// board returns the sessions for the live view.
func board(sessions []workload.Session) (rows []live.Session) {
	for _, s := range sessions {
		rows = append(rows, workload.Row(s))
	}
	return rows
}

// collect ends the applications and reads their logs.
func (t *seen) collect(ctx context.Context, udp *workload.UDP, tcp [2]*workload.TCP, drain time.Duration) error {
	e, err := workload.End(ctx, patience, drain, udp, tcp[:]...)
	if err != nil {
		return err
	}
	t.up, t.down, t.bufferErrors, t.out, t.in = e.Up, e.Down, e.BufferErrors, e.Reads[0], e.Reads[1]
	for _, broken := range e.Broken {
		if broken == nil {
			t.whole++
		}
	}
	return nil
}
