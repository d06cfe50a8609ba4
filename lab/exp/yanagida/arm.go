package yanagida

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
)

const (
	flowWithin = 20 * time.Second // for the first data of both tests
	endWithin  = 20 * time.Second // for iperf3 to report
	snaplen    = 160              // captured bytes of each packet: headers and the number of a datagram
	portOut    = 5201             // from the mobile host
	portIn     = 5202             // to the mobile host
)

// cell is one pass through a schedule.
type cell struct {
	name string // 1 to 16 of a-z and 0-9
	arm  arm.Arm
	mode string // of Roam on the mobile host
	tcp  bool
	rtt  time.Duration // added by the access links
	plan plan
}

// pass is a cell at work.
type pass struct {
	env   *exp.Env
	cell  cell
	net   *scene.Scene
	tests [2]*workload.Iperf // out, in
	dir   string

	mu     sync.Mutex
	queued []packets.Packet // those that the emulator had no room for
}

// measure executes the schedule once. It removes the topology before it returns.
func measure(ctx context.Context, env *exp.Env, w *exp.Window, c cell) (o *outcome, err error) {
	if env.Engine == exp.Sim {
		return simulate(env, c)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pass{env: env, cell: c, dir: filepath.Join(env.Dir, c.name)}
	if env.Pcap != "" {
		p.dir = filepath.Join(env.Pcap, c.name)
	}
	env.View.Phase("setting up %s", c.name)
	if p.net, err = scene.Build(ctx, env, config(env, c.name, c.arm, c.mode, c.rtt)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.net.Close()) }()
	caps, err := p.net.Capture(ctx, p.dir, snaplen, "ip6")
	if err != nil {
		return nil, err
	}
	p.net.WatchDropped(p.spilled)
	w.Open()
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	defer p.kill()
	trace, err := p.net.Run(ctx, c.plan.Schedule, p.board)
	if err != nil {
		return nil, err
	}
	o = &outcome{Arm: c.arm.Title(), RTTMs: c.rtt.Seconds() * 1e3}
	p.finish(ctx, o)
	w.Shut()
	if o.CaptureDropped, err = caps.Stop(); err != nil {
		return nil, err
	}
	if err := p.bufferErrors(ctx, o); err != nil {
		return nil, err
	}
	s, err := p.read(caps, trace)
	if err != nil {
		return nil, err
	}
	s.judge(o)
	return o, ctx.Err()
}

// start starts both tests and waits until they deliver data.
func (p *pass) start(ctx context.Context) (err error) {
	q := p.env.Params
	seconds := int(p.cell.plan.Length.Seconds() + 3.5)
	for i, port := range []int{portOut, portIn} {
		p.tests[i], err = workload.StartIperf(ctx, p.net.Peer(0).Host, p.net.Mobile().Host, workload.IperfOptions{
			Name: [2]string{"iperf3 out", "iperf3 in"}[i], Target: "cn1", Port: port, UDP: !p.cell.tcp,
			Mbps: q.Float("rate_iperf_mbps"), Length: q.Int("length"),
			Seconds: seconds, Interval: 0.5, Reverse: i == 1, CC: q.Text("congestion"), Wrap: p.cell.arm.Wrap(),
		})
		if err != nil {
			p.kill()
			return err
		}
	}
	wctx, cancel := context.WithTimeout(ctx, flowWithin)
	defer cancel()
	err = topo.Wait(wctx, "data of iperf3", func() bool {
		// The server of the test towards the mobile host reports sent bytes.
		return p.tests[0].State().Progress > 0 && p.tests[1].State().Progress > 0
	})
	if err != nil {
		p.kill()
	}
	return err
}

func (p *pass) kill() {
	for _, t := range p.tests {
		if t != nil {
			t.Kill()
		}
	}
}

func (p *pass) board() (out []live.Session) {
	for _, t := range p.tests {
		out = append(out, workload.Row(t))
	}
	return out
}

// finish waits for the reports of iperf3. The control is left as it hangs.
func (p *pass) finish(ctx context.Context, o *outcome) {
	if !p.cell.arm.Traits().Survives {
		o.Why = "not waited for"
		p.kill()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	var reports [2]workload.IperfReport
	var errs [2]error
	for i := range reports {
		reports[i], errs[i] = p.tests[i].Wait(ctx)
	}
	o.reported(reports, errs)
}

// reported takes the reports of iperf3, out and in.
func (o *outcome) reported(reports [2]workload.IperfReport, errs [2]error) {
	for i, w := range o.ways() {
		w.AppLost, w.AppSent = reports[i].LostPackets, reports[i].Packets
	}
	if err := errors.Join(errs[:]...); err != nil {
		o.Why = err.Error()
	}
	o.Alive = o.Why == ""
}

// spilled keeps a packet that the emulator had no room for.
func (p *pass) spilled(frame []byte) {
	if q, ok := packets.ParseFrame(frame); ok {
		q.At = time.Now()
		p.mu.Lock()
		p.queued = append(p.queued, q)
		p.mu.Unlock()
	}
}

// bufferErrors counts datagrams that full receive buffers dropped, on both hosts.
func (p *pass) bufferErrors(ctx context.Context, o *outcome) error {
	for host, w := range map[*topo.Host]*way{p.net.Peer(0).Host: &o.Out, p.net.Mobile().Host: &o.In} {
		out, err := host.Command(ctx, "cat", "/proc/net/snmp6").Output()
		if err != nil {
			return fmt.Errorf("read counters of %s: %w", host.Name(), err)
		}
		w.Overflows = field(string(out), "Udp6RcvbufErrors")
		o.BufferErrors += w.Overflows
	}
	return nil
}

// read reads the captures.
func (p *pass) read(caps *scene.Captures, t *scene.Trace) (*seen, error) {
	s := &seen{cell: p.cell, trace: t, prefix: map[string]string{}}
	var lists [][]packets.Packet
	for _, l := range links {
		list, err := packets.Read(caps.File("mn", l), l)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
		s.prefix[p.net.Mobile().Prefix[l].Addr().String()] = l
	}
	s.mn = packets.Merge(lists...)
	p.mu.Lock()
	s.queued = p.queued
	p.mu.Unlock()
	var err error
	s.cn, err = packets.Read(caps.File("cn1", "eth0"), "eth0")
	return s, err
}
