package phoomikiattisak

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/cc"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
)

const (
	// startWithin bounds the wait for the first data of a flow.
	startWithin = 20 * time.Second
	// endWithin bounds the wait for the end of a flow after the schedule.
	endWithin = 30 * time.Second
	// drawn is the width of a bin of the rate profile (M1).
	drawn = 200 * time.Millisecond
)

// cell is one TCP flow through one handoff.
type cell struct {
	env        *exp.Env
	scenario   string
	kind       string
	control    *cc.Control
	repetition int
}

// name is unique within a run.
func (c *cell) name() string {
	return fmt.Sprintf("%s-%s-%s-%d", c.scenario, c.kind, c.control.Name, c.repetition)
}

// seed returns the cell's own seed, independent of the other cells.
func seed(env *exp.Env, name string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", env.Seed, name) // a hash takes everything
	return h.Sum64()
}

// access is a network of the mobile host, near or far.
func access(env *exp.Env, far bool) scene.Access {
	p := env.Params
	rtt := p.Millis("lan_rtt_ms")
	if far {
		rtt = p.Millis("wan_rtt_ms")
	}
	return scene.Symmetric(linkem.Params{
		Delay:        rtt / 2,
		Rate:         int64(p.Float("rate_mbps") * 1e6),
		QueuePackets: p.Int("queue_packets"),
	})
}

// rtt returns the round-trip time of a network in milliseconds, queues empty.
func rtt(env *exp.Env, far bool) float64 {
	if far {
		return env.Params.Float("wan_rtt_ms")
	}
	return env.Params.Float("lan_rtt_ms")
}

// config is the network of drawing.txt.
func config(env *exp.Env, name, scenario, mode string) scene.Config {
	p := env.Params
	far := paths[scenario]
	return scene.Config{
		Name: "phoomik", Arm: arm.Roam, Seed: seed(env, name), Mode: mode,
		Mobile: []scene.Access{access(env, far[0]), access(env, far[1])},
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
		Ready:  func(_ context.Context, s *scene.Scene) error { return limitWindow(s, p.Float("window_kbytes")) },
	}
}

// windowFactor is the ratio of receive buffer to window: the kernel reserves a part of the
// buffer for overhead.
const windowFactor = 1.54

// limitWindow bounds the window of every connection to the mobile host, as the
// paper does with an option of iperf (§5.3).
func limitWindow(s *scene.Scene, kbytes float64) error {
	buffer := strconv.Itoa(int(kbytes * 1000 * windowFactor))
	return errors.Join(
		s.Mobile().Host.Sysctl("net.ipv4.tcp_rmem", "4096 "+buffer+" "+buffer),
		s.Peer(0).Host.Sysctl("net.ipv4.tcp_wmem", "4096 4194304 16777216"))
}

// schedule is the handoff of the cell: at a random moment of the part of the flow
// in which the paper has both networks (5 s to 20 s of 30 s).
func (c *cell) schedule() (s scene.Schedule, at time.Duration) {
	p := c.env.Params
	s.Length = p.Seconds("flow_s")
	from, to := max(s.Length/6, settled), s.Length*2/3
	// The same moment for all kinds and variants: they are compared.
	draw := rand.New(rand.NewPCG(seed(c.env, fmt.Sprintf("%s-%d", c.scenario, c.repetition)), 0))
	at = from + time.Duration(draw.Float64()*float64(max(0, to-from)))
	if c.kind == cut {
		s.Add(at, scene.Swap, "net2", "net1", "cut: net1 to net2")
		return s, at
	}
	s.Add(at, scene.Attach, "net2", "net1", c.kind+": net1 to net2")
	s.Add(at+p.Seconds("overlap_s"), scene.Detach, "net1", "", "")
	return s, at
}

// measure builds the network, runs the flow through the handoff, and returns the captures'
// results. It removes the topology before it returns.
func (c *cell) measure(ctx context.Context, w *exp.Window) (o outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mode := "hard"
	if c.kind == soft {
		mode = "soft"
	}
	c.env.View.Phase("%s: setting up", c.name())
	net, err := scene.Build(ctx, c.env, config(c.env, c.name(), c.scenario, mode))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	s, at := c.schedule()
	t, err := (&trial{env: c.env, window: w, name: c.name(), net: net, plan: s, at: at, snap: snapLength,
		iperf: workload.IperfOptions{Reverse: true, CC: c.control.Algorithm}}).pass(ctx)
	if err != nil {
		return o, err
	}
	if err := t.assemble(); err != nil {
		return o, err
	}
	return c.judge(t)
}

// trial is one TCP flow through one schedule.
type trial struct {
	env    *exp.Env
	window *exp.Window
	name   string
	net    *scene.Scene
	plan   scene.Schedule
	at     time.Duration         // of the handoff, as planned
	iperf  workload.IperfOptions // direction and congestion control
	snap   int                   // bytes of each packet to be captured, 0: all
}

// pass holds the records of one flow.
type pass struct {
	*scene.Trace
	flow     *flow
	mobile   []packets.Packet // all captured packets of the mobile host
	peer     []packets.Packet // and the correspondent's
	report   workload.IperfReport
	failure  error   // of the application
	rtoMs    float64 // of the sender just before the handoff; 0 for unknown
	algo     string  // the sender's congestion control
	counters map[string]uint64
	dropped  int // packets that the captures missed
}

// pass runs the flow and the schedule.
func (r *trial) pass(ctx context.Context) (t *pass, err error) {
	dir := filepath.Join(r.env.Dir, r.name)
	if r.env.Pcap != "" {
		dir = filepath.Join(r.env.Pcap, r.name)
	}
	net := r.net
	caps, err := net.Capture(ctx, dir, r.snap, "ip6")
	if err != nil {
		return nil, err
	}
	o := r.iperf
	o.Name, o.Target, o.Port, o.Interval = "iperf3 TCP", "cn1", port, 0.5
	o.Seconds = int(r.plan.Length.Seconds() + 1.5)
	r.window.Open()
	flow, err := workload.StartIperf(ctx, net.Peer(0).Host, net.Mobile().Host, o)
	if err != nil {
		return nil, err
	}
	defer flow.Kill()
	wctx, stop := context.WithTimeout(ctx, startWithin)
	defer stop()
	if err := topo.Wait(wctx, "data of the flow", func() bool {
		return carried(net.Mobile().Host) > 100_000
	}); err != nil {
		return nil, err
	}
	t = &pass{}
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		t.rtoMs, t.algo = senderState(ctx, net.Peer(0).Host, r.at-100*time.Millisecond)
	}()
	t.Trace, err = net.Run(ctx, r.plan, func() []live.Session { return board(flow) })
	<-sampled
	if err != nil {
		return nil, err
	}
	ectx, done := context.WithTimeout(ctx, endWithin)
	defer done()
	t.report, t.failure = flow.Wait(ectx)
	r.window.Shut()
	if t.counters, err = drops(ctx, net); err != nil {
		return nil, err
	}
	if t.dropped, err = caps.Stop(); err != nil {
		return nil, err
	}
	return t, t.read(caps, r.env.Pcap == "")
}

// read reads the captures, and removes the files unless the user wants them.
func (t *pass) read(caps *scene.Captures, remove bool) error {
	var err error
	if t.peer, err = packets.Read(caps.File("cn1", "eth0"), "eth0"); err != nil {
		return err
	}
	one, err := packets.Read(caps.File("mn", "net1"), "net1")
	if err != nil {
		return err
	}
	two, err := packets.Read(caps.File("mn", "net2"), "net2")
	if err != nil {
		return err
	}
	t.mobile = packets.Merge(one, two)
	if remove {
		return os.RemoveAll(filepath.Dir(caps.File("mn", "net1")))
	}
	return nil
}

// assemble follows the flow through the captures.
func (t *pass) assemble() (err error) {
	t.flow, err = assemble(t.peer, t.mobile)
	return err
}

// board is the flow in the live view.
func board(i *workload.Iperf) []live.Session { return []live.Session{workload.Row(i)} }

// carried returns the number of bytes on the first link of a host: at a hundred thousand
// the flow is running.
func carried(h *topo.Host) uint64 {
	s, err := h.Stats("net1")
	if err != nil {
		return 0
	}
	return s.RxBytes + s.TxBytes
}

// Of ss: the retransmission time-out and the congestion control of a socket.
var (
	rtoRE  = regexp.MustCompile(`\brto:([\d.]+)`)
	algoRE = regexp.MustCompile(`\b(\S+) wscale:`)
)

// senderState waits a while and reads the retransmission time-out and the congestion
// control of the connection that has sent the most; 0 and "" if there is none.
func senderState(ctx context.Context, h *topo.Host, after time.Duration) (rtoMs float64, algo string) {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return 0, ""
	case <-timer.C:
	}
	out, err := h.Command(ctx, "ss", "-6", "-Htino", "state", "established", "sport", "=", ":"+strconv.Itoa(port)).Output()
	if err != nil {
		return 0, ""
	}
	return parseState(string(out))
}

// drops returns the drops of the hosts' data planes, by host and reason, and the packets
// that they accepted from withdrawn locators.
func drops(ctx context.Context, net *scene.Scene) (map[string]uint64, error) {
	all, err := net.Counters(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for host, list := range all {
		for _, c := range list {
			if c.Value > 0 && (strings.HasPrefix(c.Name, "drop") || c.Name == "rx_stale_locator") {
				out[host+" "+c.Name] = c.Value
			}
		}
	}
	return out, nil
}
