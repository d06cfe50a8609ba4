// Package bothmove is the experiment both-move: two hosts move at once, where neither finds the
// other one, and their hosts files say later where both are.
//
// It implements the schedule of moves, the change of the names, the traffic and the figures of each move. It
// omits moves of one host, and a resolver. It is driven by lab/runner; it uses only Roam's command
// line and its hosts file, as a user would.
package bothmove

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"roam"
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
	Name:   "both-move",
	Title:  "Both ends move at once, with nothing in common left",
	Group:  "Beyond the papers",
	Source: "claim of Roam: two hosts that lost each other flow on within 2 s of a change of the names",
	Tools:  scene.Tools,
	Run:    run,
}.With(files)

const (
	// lead is the time before the first move; its last part shows what gaps the machine makes by
	// itself.
	lead      = 4 * time.Second
	leadQuiet = 2 * time.Second
	patience  = 20 * time.Second
)

// links returns those that each host uses one after the other. It returns to none: peers remember
// where the other one was.
func links(p exp.Params) (list []string) {
	for i := range p.Int("moves") + 1 {
		list = append(list, fmt.Sprintf("net%d", i+1))
	}
	return list
}

// seen holds all measurements of a mode.
type seen struct {
	mode string
	*scene.Trace
	up, down     *udpflow.Flow
	bulk         tcpflow.Stream // to the mobile host
	broken       error          // why that connection did not end in good order with what was sent
	bufferErrors int
}

func run(ctx context.Context, env *exp.Env) error {
	var all []*seen
	for _, mode := range modes(env.Params) {
		t, err := measure(ctx, env, mode)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	judge(env, all)
	return nil
}

// modes returns the modes that are measured.
func modes(p exp.Params) []string { return strings.Split(p.Text("modes"), ",") }

// measure runs one scene.
func measure(ctx context.Context, env *exp.Env, mode string) (t *seen, err error) {
	p := env.Params
	link := scene.Symmetric(linkem.Params{Delay: p.Millis("delay_ms"), Rate: int64(p.Float("rate_mbps") * 1e6)})
	nets := make([]scene.Access, len(links(p)))
	for i := range nets {
		nets[i] = link
	}
	s, err := scene.Build(ctx, env, scene.Config{
		Name: "both" + mode[:1], Arm: arm.Roam, Seed: env.Seed, Mobile: nets,
		Correspondents: []scene.Correspondent{{Access: nets}}, Mode: mode, PeerMode: mode, Keep: true,
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return pass(ctx, env, s, mode)
}

// begin is the time of a move, and change that of the names after it.
func begin(p exp.Params, i int) time.Duration {
	return lead + time.Duration(i)*(p.Seconds("apart_s")+p.Seconds("stay_s"))
}

func change(p exp.Params, i int) time.Duration { return begin(p, i) + p.Seconds("apart_s") }

// plan moves both hosts again and again, and changes the names later each time. s is not needed to
// know the times.
func plan(p exp.Params, s *scene.Scene) (list scene.Schedule) {
	for i := range p.Int("moves") {
		old, link := links(p)[i], links(p)[i+1]
		list.Steps = append(list.Steps,
			scene.Step{At: begin(p, i), Op: scene.Call, From: old, Name: fmt.Sprintf("move %d: both to %s", i+1, link),
				Do: func(context.Context) error { return move(s, old, link) }},
			scene.Step{At: change(p, i), Op: scene.Call, Do: func(context.Context) error { return rename(s, link) }})
	}
	list.Length = begin(p, p.Int("moves"))
	return list
}

// move takes the link in use from both hosts, and then gives each another one.
func move(s *scene.Scene, old, link string) error {
	var errs []error
	for _, on := range []bool{false, true} {
		for _, e := range s.Ends {
			name := old
			if on {
				name = link
			}
			errs = append(errs, s.Carrier(e, name, on))
		}
	}
	return errors.Join(errs...)
}

// rename writes in the hosts files of both that both are on a link.
func rename(s *scene.Scene, link string) error {
	var text strings.Builder
	for _, e := range s.Ends {
		v := roam.ILVFromAddr(e.Prefix[link].Addr())
		v.NID = e.NID
		fmt.Fprintf(&text, "%s %s\n", v, e.Host.Name())
	}
	for _, e := range s.Ends {
		if err := os.WriteFile(e.Node.Hosts(), []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("change names: %w", err)
		}
	}
	return nil
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
	t := &seen{mode: mode}
	board := func() []live.Session { return []live.Session{workload.Row(udp), workload.Row(tcp)} }
	if t.Trace, err = s.Run(ctx, plan(p, s), board); err != nil {
		return nil, err
	}
	e, err := workload.End(ctx, patience, 4*p.Millis("delay_ms"), udp, tcp)
	if err != nil {
		return nil, err
	}
	t.up, t.down, t.bufferErrors, t.bulk, t.broken = e.Up, e.Down, e.BufferErrors, e.Reads[0], e.Broken[0]
	return t, nil
}
