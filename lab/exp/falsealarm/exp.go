// Package falsealarm is the experiment false-alarms: paths that are full, lose packets, delay
// them unevenly, or hold them in long queues, and work.
//
// It implements the schedule of impairments, the traffic, and the count of moves. It omits paths that
// die (lab/exp/silent). It is driven by lab/runner; it uses only Roam's command line, as a user
// would.
package falsealarm

import (
	"context"
	"embed"
	"errors"
	"strings"
	"sync"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name:   "false-alarms",
	Title:  "Bad paths that work: full, lossy, uneven, or with long queues",
	Group:  "Beyond the papers",
	Source: "claim of Roam: no path that works is left, however badly it works",
	Tools:  scene.Tools,
	Run:    run,
}.With(files)

const (
	lead     = 4 * time.Second // before the first impairment, in which sessions settle
	rest     = 4 * time.Second // between two, in which queues drain
	patience = 20 * time.Second
	every    = 100 * time.Millisecond // between two readings of the links
	headers  = 14 + 40 + 8            // of a datagram, in a frame
	asks     = "60"                   // how often a router asks for its host before it takes it for gone, once a second
)

var (
	links = []string{"net1", "net2"}
	cells = []string{"load", "loss", "jitter", "queue"}
)

// reading is what each end has sent by each network so far, in bytes, before any queue.
type reading struct {
	at      time.Time
	up, own map[string]uint64 // what the mobile host has handed to the link; what has come to its router for it
}

// seen holds all measurements of a mode.
type seen struct {
	mode     string
	start    time.Time
	readings []reading
	up, down *udpflow.Flow
	events   map[string][]node.Event
}

func run(ctx context.Context, env *exp.Env) error {
	var all []*seen
	for _, mode := range strings.Split(env.Params.Text("modes"), ",") {
		v, err := measure(ctx, env, mode)
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	judge(env, all)
	return nil
}

// measure runs all cells in one scene.
func measure(ctx context.Context, env *exp.Env, mode string) (v *seen, err error) {
	link := scene.Symmetric(whole(env.Params))
	link.Up = true
	s, err := scene.Build(ctx, env, scene.Config{
		Name: "alarm" + mode[:1], Arm: arm.Roam, Seed: env.Seed, Mobile: []scene.Access{link, link},
		Mode: mode, PeerMode: mode, Keep: true, Advert: scene.RA{Min: 150 * time.Millisecond, Max: 300 * time.Millisecond},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Mobile().Node.WaitUsable(ctx, links...); err != nil {
		return nil, err
	}
	// By default a router asks three times and drops what comes for the host for as long as the answer waits in a
	// queue of 2 s each way. Such a path would not work, and the cells are of paths that do.
	for _, r := range s.Mobile().Routers {
		if err := r.Sysctl("net.ipv6.neigh.lan.ucast_solicit", asks); err != nil {
			return nil, err
		}
	}
	return pass(ctx, env, s, mode)
}

// begin is when a cell begins.
func begin(p exp.Params, i int) time.Duration {
	return lead + time.Duration(i)*(p.Seconds("cell_s")+rest)
}

// whole is a link without impairment.
func whole(p exp.Params) linkem.Params { return linkem.Params{Delay: p.Millis("delay_ms")} }

// impaired is a link of a cell, where the mode uses n of them.
func impaired(p exp.Params, cell string, n int) linkem.Params {
	l, frame := whole(p), p.Int("udp_size")+headers
	perSecond := p.Int("udp_rate") * frame / n
	switch cell {
	case "load":
		l.Rate, l.QueuePackets = int64(8*perSecond)*98/100, 100
	case "loss":
		l.Loss = p.Float("loss_pct") / 100
	case "jitter":
		l.Jitter, l.Reorder = p.Millis("jitter_ms")/2, true
		l.Delay += l.Jitter
	case "queue":
		l.Rate = int64(8*perSecond) * 85 / 100
		l.QueueBytes = int(p.Float("queue_s") * float64(l.Rate) / 8)
	}
	return l
}

// plan impairs both links in one way after the other.
func plan(p exp.Params, mode string) (s scene.Schedule) {
	n := 1
	if mode == "duality" {
		n = len(links)
	}
	for i, cell := range cells {
		alter := func(at time.Duration, to linkem.Params, name string) {
			for _, link := range links {
				s.Steps = append(s.Steps, scene.Step{At: at, Op: scene.Alter, Link: link, Out: to, In: to, Name: name})
			}
		}
		alter(begin(p, i), impaired(p, cell, n), cell)
		alter(begin(p, i)+p.Seconds("cell_s"), whole(p), "")
	}
	s.Length = begin(p, len(cells))
	return s
}

// pass runs traffic and schedule.
func pass(ctx context.Context, env *exp.Env, s *scene.Scene, mode string) (*seen, error) {
	p := env.Params
	udp, err := workload.StartUDP(ctx, s.Peer(0).Host, s.Mobile().Host, env.Dir, workload.UDPOptions{
		Name: "UDP", Target: "cn1", Port: 7001, Up: p.Int("udp_rate"), Down: p.Int("udp_rate"), Size: p.Int("udp_size"),
	})
	if err != nil {
		return nil, err
	}
	defer udp.Kill()
	wctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := topo.Wait(wctx, "datagrams", func() bool { return udp.State().Progress > 0 }); err != nil {
		return nil, err
	}
	rctx, stop := context.WithCancel(ctx)
	v := &seen{mode: mode}
	var reader sync.WaitGroup
	var unread error
	reader.Go(func() { unread = v.read(rctx, s) })
	t, err := s.Run(ctx, plan(p, mode), func() []live.Session { return []live.Session{workload.Row(udp)} })
	stop()
	reader.Wait()
	if err = errors.Join(err, unread); err != nil {
		return nil, err
	}
	v.start, v.events = t.Start, t.Events
	sctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v.up, v.down, err = udp.Stop(sctx, p.Seconds("queue_s"))
	return v, err
}

// read reads the links until the context ends. What the correspondent sends is counted where it comes to the router:
// that may keep or drop it while it looks for its host.
func (v *seen) read(ctx context.Context, s *scene.Scene) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		r := reading{at: time.Now(), up: map[string]uint64{}, own: map[string]uint64{}}
		for _, name := range links {
			r.up[name] = s.Mobile().Links[name].Counters(linkem.AB).Bytes
			stats, err := s.Mobile().Routers[name].Stats("wan")
			if err != nil {
				return err
			}
			r.own[name] = stats.RxBytes
		}
		v.readings = append(v.readings, r)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
