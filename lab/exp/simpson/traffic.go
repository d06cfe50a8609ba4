package simpson

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// Echo requests of ping are longer than the probes of daemons, by which those that count
// tell them apart: 40 bytes of the IPv6 header and 8 of ICMPv6 are the least around the data.
const (
	echoData  = 200
	echoBytes = 40 + 8 + echoData
	port      = 7000 // of the datagrams
)

// divide has a session's packets cross both borders, and puts beside what the borders
// themselves count.
func (v *seen) divide(ctx context.Context, env *exp.Env, s *site.Site) error {
	target := site.Session(site.OutsideNID)
	if err := greet(ctx, s, target); err != nil {
		return err
	}
	before, err := settled(ctx, s)
	if err != nil {
		return err
	}
	if err := v.exchange(ctx, env, s, target); err != nil {
		return err
	}
	after, err := settled(ctx, s)
	for b := range after {
		for i := range after[b].Sites {
			v.daemon[b][i] = after[b].Sites[i].TXPackets - before[b].Sites[i].TXPackets
		}
	}
	return err
}

// greet has a few echoes pass: neighbours are resolved, and a session is set up.
func greet(ctx context.Context, s *site.Site, target netip.Addr) error {
	out, err := s.InsideHost.AppCommand(ctx, "ping", "-n", "-q", "-c", "5", "-i", "0.2", target.String()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ping %v: %w: %s", target, err, out)
	}
	return nil
}

// exchange has ping and the datagrams pass, and counts what the borders send meanwhile.
func (v *seen) exchange(ctx context.Context, env *exp.Env, s *site.Site, target netip.Addr) error {
	rate := env.Params.Int("rate")
	before, err := s.Counted(ctx)
	if err != nil {
		return err
	}
	length := time.Duration(env.Params.Float("packets") / float64(rate) * float64(time.Second))
	c, err := cross(ctx, env, [2]*topo.Host{s.InsideHost, s.Far}, echoData, length, workload.UDPOptions{
		Name: "udp-" + v.name, Target: target.String(), Port: port, Up: rate, Down: rate, Size: env.Params.Int("size"),
	})
	if err != nil {
		return err
	}
	after, err := s.Counted(ctx)
	if err != nil {
		return err
	}
	return v.read(c, before, after)
}

// read takes the figures from the records of what crossed and from the counters around it.
func (v *seen) read(c crossing, before, after [2]site.Passed) (err error) {
	v.counts, _, err = c.read()
	for b := range after {
		v.sent[b] = after[b].Since(before[b])
	}
	return err
}

// crossing is what ping and the probes recorded.
type crossing struct {
	ping        string // its output; "" if it did not run
	there, back *udpflow.Flow
	start       time.Time // of the datagrams that count
	length      time.Duration
}

// counts are the packets of a crossing.
type counts struct {
	echoes        int // requests
	echoesLost    int
	rtts          []float64 // of echoes, in ms
	datagrams     int       // both ways
	datagramsLost int
}

// cross has echoes with so many bytes of data, and then datagrams, pass from the first host to the second
// and back. Without data there are no echoes.
func cross(
	ctx context.Context, env *exp.Env, hosts [2]*topo.Host, data int, length time.Duration, opt workload.UDPOptions,
) (c crossing, err error) {
	if data > 0 {
		out, err := hosts[0].AppCommand(ctx, "ping", "-n", "-i", "0.002", "-s", strconv.Itoa(data),
			"-c", strconv.Itoa(env.Params.Int("echoes")), opt.Target).Output()
		if err != nil {
			return c, fmt.Errorf("ping %v: %w", opt.Target, err)
		}
		c.ping = string(out)
	}
	flow, err := workload.StartUDP(ctx, hosts[1], hosts[0], env.Dir, opt)
	if err != nil {
		return c, err
	}
	c.start, c.length = time.Now(), length
	env.View.Clock(c.start, c.length)
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return c, ctx.Err()
	}
	c.there, c.back, err = flow.Stop(ctx, time.Second/5)
	return c, err
}

// read counts the packets, and those from the first host.
func (c crossing) read() (n counts, first udpflow.Count, err error) {
	if c.ping != "" {
		if n.echoes, n.echoesLost, n.rtts, err = echoes(c.ping); err != nil {
			return n, first, err
		}
	}
	first = c.there.Count(c.start, c.start.Add(c.length))
	second := c.back.Count(c.start, c.start.Add(c.length))
	n.datagrams, n.datagramsLost = first.Written+second.Written, first.Lost+second.Lost
	return n, first, nil
}

// settled waits until each border's correspondent has acknowledged both locators, and
// returns what both show.
func settled(ctx context.Context, s *site.Site) (list [2]site.BorderReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, b := range []*node.Node{s.Border, s.FarBorder} {
		err := topo.Wait(ctx, "both locators of "+b.Host.Name()+" are acknowledged", func() bool {
			r, err := site.Report(ctx, b)
			list[i] = r
			return err == nil && len(r.Sites) == 2 && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 2
		})
		if err != nil {
			return list, err
		}
	}
	return list, nil
}
