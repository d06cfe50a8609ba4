package beyond

import (
	"context"
	"errors"
	"fmt"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/scene"
	"roam/lab/workload"
)

// goodput compares one TCP connection over two unequal paths in duality with the
// same over the better one alone, in pairs.
func goodput(ctx context.Context, env *exp.Env, name string) (*outcome, error) {
	p := env.Params
	better, worse := link(p), link(p)
	switch name {
	case "delay":
		better.Delay, worse.Delay = p.Millis("delay_rtt_better_ms")/2, p.Millis("delay_rtt_worse_ms")/2
		better.Rate, worse.Rate = int64(p.Float("delay_rate_mbps")*1e6), int64(p.Float("delay_rate_mbps")*1e6)
	case "rate":
		better.Rate, worse.Rate = int64(p.Float("rate_better_mbps")*1e6), int64(p.Float("rate_worse_mbps")*1e6)
	}
	o := &outcome{Cell: name, Alive: true}
	for i := range p.Int("pairs") {
		for _, mode := range []string{"alone", "duality"} {
			mbps, dropped, err := transfer(ctx, env, fmt.Sprintf("%s%s%d", name, mode[:3], i), mode, better, worse)
			if err != nil {
				return nil, err
			}
			o.transferred(mode, mbps, dropped)
		}
	}
	return o, nil
}

// transferred adds a transfer over the better path alone, or over both.
func (o *outcome) transferred(mode string, mbps float64, dropped uint64) {
	if mode == "alone" {
		o.AloneMbps = append(o.AloneMbps, mbps)
	} else {
		o.Mbps = append(o.Mbps, mbps)
	}
	o.Dropped += dropped
}

// transfer sends as fast as TCP can for a while, and returns the goodput and how
// many frames the queues dropped.
func transfer(ctx context.Context, env *exp.Env, name, mode string, better, worse linkem.Params) (mbps float64,
	dropped uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := env.Params
	nets, active := []scene.Access{access(better), access(worse)}, []string{"net1", "net2"}
	if mode == "alone" {
		nets, active = nets[:1], active[:1]
	}
	s, err := scene.Build(ctx, env, scene.Config{
		Name: name, Arm: arm.Roam, Mode: "duality", Seed: env.Seed, Mobile: nets,
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Mobile().Node.WaitUsable(ctx, active...); err != nil {
		return 0, 0, err
	}
	length := p.Seconds("goodput_s")
	test, err := workload.StartIperf(ctx, s.Peer(0).Host, s.Mobile().Host, workload.IperfOptions{
		Name: "iperf3 " + mode, Target: "cn1", Port: 5201, Seconds: int(length.Seconds()), Interval: 0.5,
		CC: p.Text("congestion"),
	})
	if err != nil {
		return 0, 0, err
	}
	defer test.Kill()
	t, err := s.Run(ctx, scene.Schedule{Length: length}, nil)
	if err != nil {
		return 0, 0, err
	}
	wctx, wcancel := context.WithTimeout(ctx, endWithin)
	defer wcancel()
	r, err := test.Wait(wctx)
	return r.Mbps, t.Drops["queue"] + t.Drops["refused"], err
}
