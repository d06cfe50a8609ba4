package beyond

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

const (
	udpPort    = 7001 // of the UDP probe
	flowWithin = 20 * time.Second
	endWithin  = 60 * time.Second
)

// outcome holds the results of one cell.
type outcome struct {
	Cell  string
	Alive bool   // every connection, to the end
	Why   string // or which was not
	// Of the UDP probe, both ways.
	Sent, Lost, Doubled, Misordered int
	ByLinks                         int    // the part of Lost that a link lost deliberately
	Dropped                         uint64 // frames that the emulator dropped, not deliberately
	BufferErrors                    int
	Owned                           result.Loss
	// Longest time without an arrival in either direction, minus the longest in the lead.
	UDPGapMs, TCPGapMs   float64
	UDPLeadMs, TCPLeadMs float64 // the longest in the lead
	Changes              int     // handoffs meant
	Daemon               opinion
	Resume               resumed // of the cell outage
	Tail                 int     // datagrams that arrived in the last second, of Expected
	Expected             int
	Last                 [2]tail   // of the last second, by direction
	AloneMbps, Mbps      []float64 // goodput: on the better path alone, on both
	Marks                []mark
	X, Out, In           []float64 // arrivals per second of the UDP probe
}

// opinion is what the mobile host's daemon says. No claim judges it.
type opinion struct {
	Handoffs          int     // done
	Failed            int     // updates without acknowledgement, sessions that became plain or dead
	ReturnToLocatorMs float64 // of the cell outage
}

// resumed is the time of the first data after the first advertisement of the network that is
// back.
type resumed struct {
	Known                        bool
	UDPOut, UDPIn, TCPOut, TCPIn float64 // ms
	ReturnToAdvertMs, OutageS    float64
}

// tail are the datagrams that were sent one way in a span, refused ones included, and those of them that came.
type tail struct{ Sent, Came int }

type mark struct {
	T     float64
	Label string
}

// load is the probes at work.
type load struct {
	udp      *workload.UDP
	tcp      [2]*workload.TCP // out, in
	up, down *udpflow.Flow
	reads    [2]tcpflow.Stream
	links    *scene.Losses
	queues   *scene.Losses // datagrams that the emulator had no room for
}

func (l *load) sessions() []workload.Session { return []workload.Session{l.udp, l.tcp[0], l.tcp[1]} }

// probe measures one cell with the UDP probe and a paced connection each way.
func probe(ctx context.Context, env *exp.Env, w *exp.Window, c cell) (o *outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := env.Params
	s, err := scene.Build(ctx, env, scene.Config{
		Name: c.name, Arm: arm.Roam, Mode: c.mode, Seed: env.Seed, Mobile: c.mobile,
		Correspondents: []scene.Correspondent{{Access: c.peer}},
		Advert:         scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Mobile().Node.WaitUsable(ctx, c.active...); err != nil {
		return nil, err
	}
	var caps *scene.Captures
	if env.Pcap != "" {
		if caps, err = s.Capture(ctx, filepath.Join(env.Pcap, c.name), 160, "ip6"); err != nil {
			return nil, err
		}
	}
	links, queues := s.WatchLosses(udpPort), s.WatchOverflows(udpPort)
	w.Open()
	dir := filepath.Join(env.Dir, c.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	l, err := startLoad(ctx, env, s, dir)
	if err != nil {
		return nil, err
	}
	defer l.kill()
	l.links, l.queues = links, queues
	t, err := s.Run(ctx, c.plan, l.board)
	if err != nil {
		return nil, err
	}
	o = &outcome{Cell: c.name, Changes: c.changes}
	if err := l.finish(ctx, o); err != nil {
		return nil, err
	}
	w.Shut()
	if caps != nil {
		if _, err := caps.Stop(); err != nil {
			return nil, err
		}
	}
	o.judge(c, t, l, p)
	return o, ctx.Err()
}

// startLoad starts the probes and waits until each delivers data.
func startLoad(ctx context.Context, env *exp.Env, s *scene.Scene, dir string) (l *load, err error) {
	l = &load{}
	defer func() {
		if err != nil {
			l.kill()
		}
	}()
	p, cn, mn := env.Params, s.Peer(0).Host, s.Mobile().Host
	if l.udp, err = workload.StartUDP(ctx, cn, mn, dir, workload.UDPOptions{Name: "UDP", Target: "cn1", Port: udpPort,
		Up: p.Int("udp_rate"), Down: p.Int("udp_rate"), Size: 200}); err != nil {
		return l, err
	}
	for i := range l.tcp {
		if l.tcp[i], err = workload.StartTCP(ctx, cn, mn, dir, workload.TCPOptions{
			Name: [2]string{"TCP out", "TCP in"}[i], Target: "cn1", Port: 7002 + i, Size: 500, Every: 2 * time.Millisecond,
			Down: i == 1, CC: p.Text("congestion"),
		}); err != nil {
			return l, err
		}
	}
	wctx, cancel := context.WithTimeout(ctx, flowWithin)
	defer cancel()
	return l, topo.Wait(wctx, "data of all probes", func() bool {
		for _, s := range l.sessions() {
			if s.State().Progress == 0 {
				return false
			}
		}
		return true
	})
}

func (l *load) kill() {
	if l.udp != nil {
		l.udp.Kill()
	}
	for _, t := range l.tcp {
		if t != nil {
			t.Kill()
		}
	}
}

func (l *load) board() (out []live.Session) {
	for _, s := range l.sessions() {
		out = append(out, workload.Row(s))
	}
	return out
}

// finish ends the probes in good order and reads their logs.
func (l *load) finish(ctx context.Context, o *outcome) error {
	e, err := workload.End(ctx, endWithin, 500*time.Millisecond, l.udp, l.tcp[:]...)
	if err != nil {
		return err
	}
	l.up, l.down, o.BufferErrors, l.reads = e.Up, e.Down, e.BufferErrors, [2]tcpflow.Stream(e.Reads)
	o.ended(e.Broken)
	return nil
}

// ended records how the connections ended.
func (o *outcome) ended(errs []error) {
	if e := errors.Join(errs...); e != nil {
		o.Why = e.Error()
	}
	o.Alive = o.Why == ""
}
