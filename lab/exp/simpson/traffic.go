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
	p := env.Params
	before, err := s.Counted(ctx)
	if err != nil {
		return err
	}
	out, err := s.InsideHost.AppCommand(ctx, "ping", "-n", "-i", "0.002", "-s", strconv.Itoa(echoData),
		"-c", strconv.Itoa(p.Int("echoes")), target.String()).Output()
	if err != nil {
		return fmt.Errorf("ping %v: %w", target, err)
	}
	if v.echoes, v.echoesLost, v.rtts, err = echoes(string(out)); err != nil {
		return err
	}
	rate := p.Int("rate")
	flow, err := workload.StartUDP(ctx, s.Far, s.InsideHost, env.Dir, workload.UDPOptions{
		Name: "udp-" + v.name, Target: target.String(), Port: port, Up: rate, Down: rate, Size: p.Int("size"),
	})
	if err != nil {
		return err
	}
	start, length := time.Now(), time.Duration(p.Float("packets")/float64(rate)*float64(time.Second))
	env.View.Clock(start, length)
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return ctx.Err()
	}
	up, down, err := flow.Stop(ctx, time.Second/5)
	if err != nil {
		return err
	}
	u, d := up.Count(start, start.Add(length)), down.Count(start, start.Add(length))
	v.datagrams, v.datagramsLost = u.Written+d.Written, u.Lost+d.Lost
	after, err := s.Counted(ctx)
	for b := range after {
		v.sent[b] = after[b].Since(before[b])
	}
	return err
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
