package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
)

const (
	// setupWithin bounds the wait for the first session and its traffic.
	setupWithin = 20 * time.Second
	endWithin   = 10 * time.Second
	udpPort     = 7003
	// lively is how recently a flow that lives has delivered something.
	lively = 1500 * time.Millisecond
)

// outcome holds the results of one cell.
type outcome struct {
	Name    string
	SetupMs float64  // from the start of the first program to data of all of them
	ILNP    bool     // both ends sent a nonce before the first handoff
	TCP     bool     // both connections live, and every byte arrived in order
	UDP     bool     // datagrams arrive both ways at the end
	Wire    reaction // how Roam adapted to the network, by captures
	Daemon  reaction // and as the daemon says, which decides when a stay may end, but no claim
	Missed  int      // packets that the captures lost
	GapUp   float64  // ms, longest time without a datagram after the handoff into the network
	GapDown float64
	Lost    int // datagrams after that, in both directions
	Owned   result.Loss
	After   *result.Loss // only of networks that lose what comes in: after the last data into them
	Whole   *whole       // only of networks in duality; nil in others
	Doctor  []string
	Told    bool
	Why     string // the fault, for people
}

// flows is the traffic of a cell.
type flows struct {
	up, down *workload.TCP
	udp      *workload.UDP
	queues   *scene.Losses // datagrams of udp that the emulator had no room for
}

// cell measures one network.
func cell(ctx context.Context, env *exp.Env, w *exp.Window, n network) (out outcome, err error) {
	out.Name = n.name
	link := scene.Symmetric(linkem.Params{Delay: env.Params.Millis("delay_ms")})
	mode := ""
	if n.duality {
		mode = "duality"
	}
	s, err := scene.Build(ctx, env, scene.Config{
		Name: n.name, Arm: arm.Roam, Seed: env.Seed, Mode: mode, Mobile: []scene.Access{link, link},
		Correspondents: []scene.Correspondent{{Access: []scene.Access{scene.Symmetric(linkem.Params{})}}},
		Advert:         scene.RA{Min: 150 * time.Millisecond, Max: 300 * time.Millisecond},
		Ready: func(ctx context.Context, s *scene.Scene) error {
			if n.late {
				return nil
			}
			return n.install(ctx, env, s)
		},
	})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	caps, err := capture(ctx, env, s, n)
	if err != nil {
		return out, err
	}
	defer func() {
		_, cerr := caps.Stop() // none is left if the cell came to its end
		err = errors.Join(err, cerr)
	}()
	w.Open()
	f, err := setUp(ctx, env, s, n, &out)
	if f != nil {
		defer f.kill()
	}
	if err != nil || out.Why != "" {
		return out, err
	}
	if n.duality {
		err = out.gather(ctx, env, s, n, f, caps)
		w.Shut()
		return out, err
	}
	entered, alone, err := move(ctx, env, s, n)
	if err != nil {
		return out, err
	}
	length := env.Params.Seconds("inside_s")
	if !n.late {
		length -= env.Params.Seconds("overlap_s")
	}
	if err := out.stay(ctx, env, s, n, f, alone, alone.Add(length)); err != nil {
		return out, err
	}
	out.ask(ctx, env, s, n)
	got, err := f.end(ctx, &out, entered)
	w.Shut()
	if err != nil {
		return out, err
	}
	seen, err := readWire(caps, s, n)
	out.wired(seen, n, entered, alone, got.now)
	if n.late {
		out.turned(got)
	}
	return out, err
}

// setUp starts the traffic and waits until all of it flows, over ILNP.
func setUp(ctx context.Context, env *exp.Env, s *scene.Scene, n network, out *outcome) (*flows, error) {
	server, client, target := s.Peer(0), s.Mobile(), "cn1"
	if n.atPeer {
		addr, err := introduce(ctx, s.Mobile().Node, s.Peer(0).Node)
		if err != nil {
			return nil, err
		}
		server, client, target = s.Mobile(), s.Peer(0), addr
	}
	dir := filepath.Join(env.Dir, n.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	began := time.Now()
	f := &flows{}
	// So much data that the connections are far beyond the window that a firewall allows
	// when they return to it.
	o := workload.TCPOptions{Name: "TCP up", Target: target, Port: 7001, Size: 16_000,
		Every: 20 * time.Millisecond, CC: "cubic",
		Answer: n.duality}
	var err error
	if f.up, err = workload.StartTCP(ctx, server.Host, client.Host, dir, o); err != nil {
		return f, err
	}
	o.Name, o.Port, o.Down = "TCP down", 7002, true
	if f.down, err = workload.StartTCP(ctx, server.Host, client.Host, dir, o); err != nil {
		return f, err
	}
	rate := env.Params.Int("udp_rate")
	f.queues = s.WatchOverflows(udpPort)
	if f.udp, err = workload.StartUDP(ctx, server.Host, client.Host, dir, workload.UDPOptions{
		Name: "UDP", Target: target, Port: udpPort, Up: rate, Down: rate, Size: env.Params.Int("udp_size"),
	}); err != nil {
		return f, err
	}
	wctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	if werr := topo.WaitSparing(wctx, "traffic of "+n.name, func() bool {
		established, err := s.Mobile().Node.Established(wctx)
		out.Daemon.ILNP = err == nil && established > 0
		return out.Daemon.ILNP && f.up.State().Progress > 0 && f.down.State().Progress > 0 && f.udp.State().Progress > 0
	}); werr != nil {
		out.Why = fmt.Sprintf("set-up: ILNP %v, TCP %d and %d, UDP %d", out.Daemon.ILNP, f.up.State().Progress,
			f.down.State().Progress, f.udp.State().Progress)
		return f, ctx.Err()
	}
	out.SetupMs = float64(time.Since(began).Microseconds()) / 1000
	return f, nil
}

// introduce adds one host as a peer of another, as a user would, and returns its session
// address. The hosts of the lab share the machine's name, so introduce gives them others.
func introduce(ctx context.Context, who, to *node.Node) (string, error) {
	var exported struct {
		Line string `json:"line"`
	}
	if err := who.AskFor(ctx, &exported, "export"); err != nil {
		return "", err
	}
	var added struct {
		Address string `json:"address"`
	}
	err := to.AskFor(ctx, &added, "add", "--as", who.Host.Name(), exported.Line)
	return added.Address, err
}

// move moves the mobile host out of the network and back in. It returns when it arrived,
// and from when on the network was its only one.
func move(ctx context.Context, env *exp.Env, s *scene.Scene, n network) (entered, alone time.Time, err error) {
	away, overlap := env.Params.Seconds("away_s"), env.Params.Seconds("overlap_s")
	const still = 500 * time.Millisecond
	var plan scene.Schedule
	call := func(at time.Duration, do func(context.Context) error) {
		plan.Steps = append(plan.Steps, scene.Step{At: at, Op: scene.Call, Do: do})
	}
	plan.Add(still, scene.Attach, "net2", "net1", n.name+": out")
	plan.Add(still+overlap, scene.Detach, "net1", "", "")
	call(still+overlap, func(ctx context.Context) error { return left(ctx, s.Mobile().Node, "net1") })
	if n.late {
		call(still+away, func(ctx context.Context) error { return n.install(ctx, env, s) })
	}
	plan.Add(still+away, scene.Attach, "net1", "net2", n.name+": in")
	if !n.late {
		plan.Add(still+away+overlap, scene.Detach, "net2", "", "")
		plan.Add(still+away+overlap, scene.Mark, "", "", "")
	}
	plan.Length = still + away + overlap
	t, err := s.Run(ctx, plan, nil)
	if err != nil {
		return entered, alone, err
	}
	for _, d := range t.Steps {
		switch {
		case d.Op == scene.Attach && d.Link == "net1":
			entered, alone = d.At, d.At
		case d.Op == scene.Mark:
			alone = d.At
		}
	}
	return entered, alone, nil
}

// left waits until the daemon knows that a link is down, which Linux reports up to a second
// later: no handoff goes to a link that returns before.
func left(ctx context.Context, n *node.Node, link string) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	return topo.WaitSparing(ctx, "locator of "+link+" to go", func() bool {
		list, err := n.Locators(ctx)
		return err == nil && !slices.ContainsFunc(list, func(l node.Locator) bool { return l.Link == link })
	})
}

// stay waits for the end of the stay in the network, and then reads the session. With haste
// the stay ends when everything is as it should be, and the network has been the only one
// long enough for the last packets to arrive. If the old network stays, no event marks that
// moment.
func (o *outcome) stay(ctx context.Context, env *exp.Env, s *scene.Scene, n network, f *flows,
	alone, end time.Time) error {
	wctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	haste := env.Params.Bool("haste") && !n.late
	// The deadline is the normal end, not a failure.
	_ = topo.WaitSparing(wctx, "end of the stay", func() bool {
		return haste && time.Since(alone) > lively && f.live() && o.look(wctx, s, alone) && o.Daemon.answered(n)
	})
	o.look(ctx, s, alone)
	return ctx.Err()
}

// look reads the only session of the mobile host, and reports whether Roam answered. It
// counts only updates sent when the network was the only one: the other network may have
// carried the acknowledgements of earlier ones.
func (o *outcome) look(ctx context.Context, s *scene.Scene, alone time.Time) bool {
	mn := s.Mobile().Node
	list, err := mn.Sessions(ctx)
	return err == nil && o.read(list, mn.Events(), alone)
}

// ask runs doctor on the mobile host.
func (o *outcome) ask(ctx context.Context, env *exp.Env, s *scene.Scene, n network) {
	// Its exit status reports findings, not a failure to examine.
	b, _ := s.Mobile().Host.AppCommand(ctx, env.Roam, "--config", s.Mobile().Node.Config, "--json",
		"doctor", "cn1").Output()
	o.hear(b, n)
}

// live reports whether each flow has delivered data recently.
func (f *flows) live() bool {
	for _, s := range []workload.Session{f.up, f.down, f.udp} {
		if st := s.State(); !st.Alive || time.Since(st.Last) >= lively {
			return false
		}
	}
	return true
}

// end stops the traffic and judges it.
func (f *flows) end(ctx context.Context, o *outcome, entered time.Time) (c came, err error) {
	c.now, c.entered, c.queues = time.Now(), entered, f.queues
	for _, t := range []*workload.TCP{f.up, f.down} {
		c.states = append(c.states, t.State())
	}
	for _, t := range []*workload.TCP{f.up, f.down} {
		// A stalled connection does not end by itself: that is a result.
		tctx, cancel := context.WithTimeout(ctx, endWithin)
		stream, err := t.Stop(tctx)
		if err != nil {
			c.broken = err
		}
		c.streams = append(c.streams, stream)
		cancel()
	}
	ectx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if c.up, c.down, err = f.udp.Stop(ectx, 300*time.Millisecond); err != nil {
		return c, fmt.Errorf("end of UDP flow: %w", err)
	}
	o.flows(c)
	return c, nil
}

func (f *flows) kill() {
	if f.up != nil {
		f.up.Kill()
	}
	if f.down != nil {
		f.down.Kill()
	}
	if f.udp != nil {
		f.udp.Kill()
	}
}
