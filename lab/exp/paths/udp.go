package paths

import (
	"context"
	"errors"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

const (
	datagram  = 1428            // bytes of payload: with the options of Roam a frame is full
	firstRate = 100             // datagrams a second of the flow that begins the session: the claim is about settled ones
	drain     = time.Second / 2 // without an arrival, after which a datagram that has not come is lost
)

// datagrams is the record of one run.
type datagrams struct {
	want    float64 // how many the cell wants sent
	flow    *udpflow.Flow
	buffers int // that had no room in the receiver's socket
	drops   map[string]uint64
}

// perSecond is the rate of the cell in datagrams.
func (c cell) perSecond() int { return int(c.udp * 1e6 / 8 / datagram) }

// burst is what a sender that did not run may make up for at once: half of a queue of that many packets before the
// first link. A longer burst overflows it, over one link as well as over several.
func (c cell) burst(packets int) time.Duration {
	queue := float64(packets*datagram*8) / (c.links[0].mbps * 1e6)
	return min(time.Duration(queue/2*float64(time.Second)), udpflow.BurstMost)
}

// loadUDP sends numbered datagrams over all links, whose receiver logs each: iperf3 counts none as lost that nothing
// follows, and counts one that comes twice in place of one that is missing.
func (c cell) loadUDP(ctx context.Context, env *exp.Env, name string) (d datagrams, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.build(ctx, env, name, arm.Roam, both)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	opt := workload.UDPOptions{Name: name + "-first", Target: "cn1", Port: 5200, Up: firstRate, Size: datagram}
	if _, err = sendUDP(ctx, env, s, opt, time.Second); err != nil {
		return d, err
	}
	opt.Name, opt.Port, opt.Up, opt.Burst = name, 5201, c.perSecond(), c.burst(env.Params.Int("queue_packets"))
	length := env.Params.Seconds("load_s")
	d, err = sendUDP(ctx, env, s, opt, length)
	d.want = float64(opt.Up) * length.Seconds()
	return d, err
}

// sendUDP runs a flow from the mobile host to its correspondent.
func sendUDP(
	ctx context.Context, env *exp.Env, s *scene.Scene, opt workload.UDPOptions, length time.Duration,
) (d datagrams, err error) {
	udp, err := workload.StartUDP(ctx, s.Peer(0).Host, s.Mobile().Host, env.Dir, opt)
	if err != nil {
		return d, err
	}
	defer udp.Kill()
	wctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := topo.Wait(wctx, "datagrams", func() bool { return udp.State().Progress > 0 }); err != nil {
		return d, err
	}
	t, err := s.Run(ctx, scene.Schedule{Length: length}, func() []live.Session {
		return []live.Session{workload.Row(udp)}
	})
	if err != nil {
		return d, err
	}
	sctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d.flow, _, err = udp.Stop(sctx, drain)
	d.buffers, d.drops = udp.BufferErrors(), t.Drops
	return d, err
}

// addUDP reads the record of one more run.
func (o *outcome) addUDP(d datagrams) {
	n := d.flow.Count(time.Unix(0, 0), time.Unix(0, 1<<62))
	o.Sent = append(o.Sent, 100*float64(n.Written)/max(d.want, 1))
	o.Lost = append(o.Lost, float64(n.Lost))
	o.Misordered = append(o.Misordered, 100*float64(n.Misorders)/float64(max(n.Written, 1)))
	o.Buffers += float64(d.buffers)
	o.Overflow += overflow(d.drops)
}
