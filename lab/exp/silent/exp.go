// Package silent is the experiment silent-death: a path loses everything in one direction or
// in both, keeps carrier, route and prefix, and comes back later.
//
// It implements the schedule of cuts, the traffic and the figures of each cut. It omits paths
// that fail slowly and links that lose carrier. It is driven by lab/runner; it uses only Roam's
// command line, as a user would.
package silent

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
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
	Name:   "silent-death",
	Title:  "Paths that die without a sign, in one direction or in both",
	Group:  "Beyond the papers",
	Source: "claim of Roam: a path that dies silently is left within half a second, and its living direction stays in use",
	Tools:  scene.Tools,
	Run:    run,
}.With(files)

const (
	// lead is the time before the first cut, in which sessions settle and round trips are
	// measured; its last part shows what gaps the machine makes by itself.
	lead      = 4 * time.Second
	leadQuiet = 2 * time.Second
	patience  = 20 * time.Second
	victim    = "net2" // the newest link, which the mode soft uses
)

// The directions that a cut kills, seen from the mobile host, in turn.
var ways = []struct {
	name    string
	out, in bool
}{{"both", true, true}, {"out", true, false}, {"in", false, true}}

// series is one scene: a mode at a level of liveness.
type series struct{ mode, level string }

// seen holds all measurements of a series.
type seen struct {
	series
	*scene.Trace
	up, down     *udpflow.Flow
	bulk         tcpflow.Stream // to the mobile host
	broken       error          // why that connection did not end in good order with what was sent
	bufferErrors int
}

func run(ctx context.Context, env *exp.Env) error {
	var all []*seen
	for _, level := range levels(env.Params) {
		for _, mode := range []string{"soft", "duality"} {
			t, err := measure(ctx, env, series{mode, level})
			if err != nil {
				return err
			}
			all = append(all, t)
		}
	}
	judge(env, all)
	return nil
}

// levels returns the levels that are measured.
func levels(p exp.Params) []string { return strings.Split(p.Text("levels"), ",") }

// measure runs one scene.
func measure(ctx context.Context, env *exp.Env, one series) (t *seen, err error) {
	p := env.Params
	link := scene.Symmetric(access(p))
	link.Up = true
	s, err := scene.Build(ctx, env, scene.Config{
		Name: "silent" + one.mode[:1] + one.level[:1], Arm: arm.Roam, Seed: env.Seed,
		Mobile: []scene.Access{link, link}, Mode: one.mode, PeerMode: one.mode, More: one.more(), Keep: true,
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Mobile().Node.WaitUsable(ctx, "net1", "net2"); err != nil {
		return nil, err
	}
	return pass(ctx, env, s, one)
}

// more is what the series adds to the configuration of both hosts.
func (one series) more() map[string]string {
	if one.level != "fast" {
		return nil
	}
	const conf = "[uplinks]\nfast = [\"*\"]\n"
	return map[string]string{"mn": conf, "cn1": conf}
}

func access(p exp.Params) linkem.Params {
	return linkem.Params{Delay: p.Millis("delay_ms"), Rate: int64(p.Float("rate_mbps") * 1e6)}
}

// plan cuts the link again and again, in each way in turn.
func plan(p exp.Params) (s scene.Schedule) {
	whole := access(p)
	for i := range p.Int("cuts") {
		way := ways[i%len(ways)]
		out, in := whole, whole
		out.Cut, in.Cut = way.out, way.in
		s.Steps = append(s.Steps,
			scene.Step{At: begin(p, i), Op: scene.Alter, Link: victim, Out: out, In: in, Name: fmt.Sprintf("cut %d: %s",
				i+1, way.name)},
			scene.Step{At: begin(p, i) + p.Seconds("cut_s"), Op: scene.Alter, Link: victim, Out: whole, In: whole})
	}
	s.Length = begin(p, p.Int("cuts"))
	return s
}

// begin is the time of a cut.
func begin(p exp.Params, i int) time.Duration { return lead + time.Duration(i)*p.Seconds("period_s") }

// pass runs traffic and schedule.
func pass(ctx context.Context, env *exp.Env, s *scene.Scene, one series) (*seen, error) {
	p := env.Params
	udp, err := workload.StartUDP(ctx, s.Peer(0).Host, s.Mobile().Host, env.Dir, workload.UDPOptions{
		Name: "UDP", Target: "cn1", Port: 7001, Up: p.Int("udp_rate"), Down: p.Int("udp_rate"), Size: p.Int("udp_size"),
	})
	if err != nil {
		return nil, err
	}
	defer udp.Kill()
	tcp, err := workload.StartTCP(ctx, s.Peer(0).Host, s.Mobile().Host, env.Dir, workload.TCPOptions{
		Name: "TCP", Target: "cn1", Port: 7002, Size: p.Int("tcp_size"), Every: 5 * time.Millisecond, Down: true, CC: "cubic",
	})
	if err != nil {
		return nil, err
	}
	defer tcp.Kill()
	wctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	flow := func() bool { return udp.State().Progress > 0 && tcp.State().Progress > 0 }
	if err := topo.Wait(wctx, "datagrams and a connection", flow); err != nil {
		return nil, err
	}
	t := &seen{series: one}
	board := func() []live.Session { return []live.Session{workload.Row(udp), workload.Row(tcp)} }
	if t.Trace, err = s.Run(ctx, plan(p), board); err != nil {
		return nil, err
	}
	e, err := workload.End(ctx, patience, 4*p.Millis("delay_ms"), udp, tcp)
	if err != nil {
		return nil, err
	}
	t.up, t.down, t.bufferErrors, t.bulk, t.broken = e.Up, e.Down, e.BufferErrors, e.Reads[0], e.Broken[0]
	return t, nil
}
