package phoomikiattisak

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
)

// beyondCells is the number of cells for the paper's future work.
const beyondCells = 8

// extras holds the results of those cells.
type extras struct {
	Load     map[string]loadOutcome
	Priority map[string]priorityOutcome
	Prefer   map[string]preferOutcome
	Sums     sumsOutcome
}

// beyond measures them.
func (m *matrix) beyond(ctx context.Context) error {
	if !m.env.Params.Bool("beyond") {
		return nil
	}
	m.extra = &extras{
		Load:     map[string]loadOutcome{},
		Priority: map[string]priorityOutcome{},
		Prefer:   map[string]preferOutcome{},
	}
	err := m.load(ctx)
	if err != nil {
		return err
	}
	for _, on := range []string{"off", "on"} {
		var e error
		m.extra.Priority[on], e = exp.Cell(m.env, "priority-"+on, func(w *exp.Window) (priorityOutcome, error) {
			return priorityCell(ctx, m.env, w, on)
		})
		err = errors.Join(err, e)
		m.extra.Prefer[on], e = exp.Cell(m.env, "prefer-"+on, func(w *exp.Window) (preferOutcome, error) {
			return preferCell(ctx, m.env, w, on)
		})
		if err = errors.Join(err, e); err != nil {
			return err
		}
	}
	m.extra.Sums, err = exp.Cell(m.env, "checksums", func(w *exp.Window) (sumsOutcome, error) {
		return sumsCell(ctx, m.env, w)
	})
	return err
}

// loadOutcome is the effect of a flow on a host with two networks and no reason to move.
type loadOutcome struct {
	Handoffs   int     // changes of the locator that its packets leave from: each is a false one
	AdvertGapS float64 // longest time between two Router Advertisements on a link
	LifetimeS  float64 // preferred, as advertised
	QueueMs    float64 // longest time in the queue, computed from its length
	Mbps       float64
}

// load reproduces a finding of the paper (§5.3): a flow that fills the queue in front of
// the mobile host delays Router Advertisements until a locator looks stale.
func (m *matrix) load(ctx context.Context) error {
	const short, long = 2 * time.Second, 30 * time.Second
	for _, c := range []struct {
		name     string
		window   float64 // kB
		lifetime time.Duration
	}{
		{"limited", m.env.Params.Float("window_kbytes"), short},
		{"deep", 16_000, short},
		{"lasting", 16_000, long},
	} {
		o, err := exp.Cell(m.env, "load-"+c.name, func(w *exp.Window) (loadOutcome, error) {
			return loadCell(ctx, m.env, w, c.name, c.window, c.lifetime)
		})
		if err != nil {
			return err
		}
		m.extra.Load[c.name] = o
	}
	return nil
}

// deepQueue holds the sender's whole window. The flow uses Reno, whose slow start fills the
// queue: CUBIC leaves slow start when the queue grows.
const deepQueue = 20_000

func loadCell(ctx context.Context, env *exp.Env, w *exp.Window, name string, window float64,
	lifetime time.Duration) (o loadOutcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := config(env, "load-"+name, "lan-lan", "soft")
	for i := range cfg.Mobile {
		cfg.Mobile[i].In.QueuePackets, cfg.Mobile[i].Up = deepQueue, true
	}
	// The advertised lifetime is two intervals, the least possible.
	cfg.Advert = scene.RA{Min: lifetime / 4, Max: lifetime / 2, Preferred: lifetime, Valid: 3 * lifetime}
	if lifetime > 10*time.Second { // the interval stays
		cfg.Advert.Min, cfg.Advert.Max = 500*time.Millisecond, time.Second
	}
	cfg.More = map[string]string{"mn": "[uplinks]\nprefer = [\"net1\"]\n"}
	cfg.Ready = func(_ context.Context, s *scene.Scene) error { return limitWindow(s, window) }
	net, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	if err := waitBoth(ctx, net); err != nil {
		return o, err
	}
	t, err := (&trial{env: env, window: w, name: "load-" + name, net: net, plan: scene.Schedule{Length: 9 * time.Second},
		snap:  snapLength,
		iperf: workload.IperfOptions{Reverse: true, CC: "reno"}}).pass(ctx)
	if err != nil {
		return o, err
	}
	o = loadOutcome{LifetimeS: lifetime.Seconds(), Mbps: t.report.Mbps}
	o.judge(t)
	return o, t.queueing(&o)
}

// judge extracts moves and advertisements from the records.
func (o *loadOutcome) judge(t *pass) {
	o.Handoffs = t.moves(t.End)
	last := map[string]time.Time{}
	for _, a := range t.Adverts {
		if before := last[a.Link]; !before.IsZero() && a.At.After(t.Start) {
			o.AdvertGapS = max(o.AdvertGapS, a.At.Sub(before).Seconds())
		}
		last[a.Link] = a.At
	}
}

// waitBoth waits until the mobile host has a locator on either network.
func waitBoth(ctx context.Context, net *scene.Scene) error {
	ctx, stop := context.WithTimeout(ctx, startWithin)
	defer stop()
	return topo.WaitSparing(ctx, "locators on both networks", func() bool {
		list, err := net.Mobile().Node.Locators(ctx)
		return err == nil && len(list) == 2
	})
}

// queueing records the longest time from the first transmission of a segment to its first arrival.
func (t *pass) queueing(o *loadOutcome) error {
	if err := t.assemble(); err != nil {
		return err
	}
	left := map[int64]time.Time{}
	for _, s := range t.flow.sent {
		for at := s.from; at < s.to; at += int64(t.flow.mss) {
			if s.again == 0 {
				left[at] = s.at
			}
		}
	}
	for _, a := range t.flow.arrived {
		if at, ok := left[a.from]; ok && a.again == 0 {
			o.QueueMs = max(o.QueueMs, float64(a.at.Sub(at))/1e6)
		}
	}
	return nil
}

// priorityOutcome is the duration of Locator Updates on a link that the host's own data
// fills.
type priorityOutcome struct {
	GainMs, EndMs float64 // of the exchange for the new link, and for the old one
}

// priorityCell sends from the mobile host as fast as TCP can. The first update
// leaves before any data does on the new link; the second one finds its queue
// full, unless signals go first in it (the paper's §7.1).
func priorityCell(ctx context.Context, env *exp.Env, w *exp.Window, on string) (o priorityOutcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := config(env, "priority-"+on, "lan-lan", "soft")
	for i := range cfg.Mobile {
		cfg.Mobile[i].Out.ControlFirst, cfg.Mobile[i].In.ControlFirst = on == "on", on == "on"
	}
	net, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	s := scene.Schedule{Length: 8 * time.Second}
	s.Add(2*time.Second, scene.Attach, "net2", "net1", "soft, uplink full, signals first: "+on)
	s.Add(5*time.Second, scene.Cut, "net1", "", "")
	t, err := (&trial{env: env, window: w, name: "priority-" + on, net: net, plan: s, at: s.Steps[0].At, snap: snapLength,
		iperf: workload.IperfOptions{CC: "cubic"}}).pass(ctx)
	if err != nil {
		return o, err
	}
	o.judge(t)
	return o, nil
}

// judge extracts the outcome from the records.
func (o *priorityOutcome) judge(t *pass) {
	o.GainMs, o.EndMs = never, never
	if ms, _, _ := exchanges(t.mobile, t.Steps[0].At); len(ms) > 0 {
		o.GainMs = ms[0]
	}
	if ms, _, _ := exchanges(t.mobile, t.Steps[1].At); len(ms) > 0 {
		o.EndMs = ms[0]
	}
}

// preferOutcome is the throughput of a host that may stay on the better of two networks.
type preferOutcome struct {
	Early int     // handoffs before it had to leave
	MB    float64 // of the whole flow
	Lost  int
}

// preferCell moves from near to far; with the policy the host stays until that network is
// withdrawn (the paper's §6.1.1).
func preferCell(ctx context.Context, env *exp.Env, w *exp.Window, on string) (o preferOutcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := config(env, "prefer", "lan-wan", "soft")
	if on == "on" {
		cfg.More = map[string]string{"mn": "[uplinks]\nprefer = [\"net1\"]\n"}
	}
	net, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	s := scene.Schedule{Length: 9 * time.Second}
	s.Add(2*time.Second, scene.Attach, "net2", "net1", "near to far, near preferred: "+on)
	s.Add(6*time.Second, scene.Disable, "net1", "", "the near network is withdrawn")
	t, err := (&trial{env: env, window: w, name: "prefer-" + on, net: net, plan: s, at: s.Steps[0].At, snap: snapLength,
		iperf: workload.IperfOptions{Reverse: true, CC: "cubic"}}).pass(ctx)
	if err == nil {
		err = t.assemble()
	}
	if err != nil {
		return o, err
	}
	o.judge(t, s.Length)
	return o, nil
}

// judge extracts the outcome from the records.
func (o *preferOutcome) judge(t *pass, length time.Duration) {
	o.Early = t.moves(t.Steps[1].At)
	start := t.flow.arrived[0].at
	o.MB = float64(t.flow.nbytes(start, start.Add(length))) / 1e6
	o.Lost = t.flow.lost(start.Add(length))
}

// moves counts the handoffs of the mobile host's data from the start of the flow to a moment.
func (t *pass) moves(to time.Time) int { return packets.Moves(t.mobile, scene.NID("mn"), t.Start, to) }

// sumsOutcome counts the checksums on the wire if both ends use the rule of RFC 6741 §4.2.
type sumsOutcome struct {
	Segments, Wrong int // TCP over NIDs only
	Updates, Bad    int // Locator Updates and acknowledgements, by the rule of ICMPv6
}

func sumsCell(ctx context.Context, env *exp.Env, w *exp.Window) (o sumsOutcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := config(env, "checksums", "lan-lan", "soft")
	const rule = "[ilnp]\nchecksum = \"rfc6741\"\n"
	cfg.More = map[string]string{"mn": rule, "cn1": rule}
	net, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	s := scene.Schedule{Length: 6 * time.Second}
	s.Add(2*time.Second, scene.Attach, "net2", "net1", "soft, checksums over NIDs")
	s.Add(4*time.Second, scene.Detach, "net1", "", "")
	t, err := (&trial{env: env, window: w, name: "checksums", net: net, plan: s, at: s.Steps[0].At,
		iperf: workload.IperfOptions{Reverse: true, CC: "cubic"}}).pass(ctx)
	if err != nil {
		return o, err
	}
	// Arriving packets crossed an emulated link, which completes checksums; leaving ones
	// may wait for a device to do so.
	o.verify(t.mobile, scene.NID("cn1"))
	o.verify(t.peer, scene.NID("mn"))
	return o, nil
}

// verify checks the packets from a node.
func (o *sumsOutcome) verify(list []packets.Packet, from roam.NID) {
	for _, p := range list {
		upper, ok := p.Upper()
		if !ok || p.SourceNID() != from {
			continue
		}
		_, update := p.Update()
		switch {
		case p.Proto == packets.TCP:
			o.Segments++
			if sum(p, upper, false) != 0xffff {
				o.Wrong++
			}
		case update:
			o.Updates++
			if sum(p, upper, true) != 0xffff {
				o.Bad++
			}
		}
	}
}

// sum adds up a packet with its pseudo-header in one's complement: 0xffff is
// right. Without locators these count as zero.
func sum(p packets.Packet, upper []byte, locators bool) uint16 {
	s := uint32(len(upper)) + uint32(p.Proto)
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			s += uint32(binary.BigEndian.Uint16(b))
			s = s&0xffff + s>>16
		}
		if len(b) > 0 {
			s += uint32(b[0]) << 8
		}
		s = s&0xffff + s>>16
	}
	src, dst := p.Src.As16(), p.Dst.As16()
	if locators {
		add(src[:8])
		add(dst[:8])
	}
	add(src[8:])
	add(dst[8:])
	add(upper)
	return uint16(s&0xffff + s>>16)
}

// beyondMetrics sets the figures of these cells.
func (m *matrix) beyondMetrics(r figures) {
	x := m.extra
	if x == nil {
		for _, name := range []string{"load_limited_handoffs", "load_deep_handoffs", "load_lasting_handoffs",
			"signal_first_ms", "signal_plain_ms", "signal_gain_x",
			"prefer_early", "prefer_lost", "prefer_data_ratio", "checksums_wrong", "checksums_checked",
			"update_checksums_wrong"} {
			r.Miss(name, "the cells beyond the paper were left out")
		}
		return
	}
	for name, o := range x.Load {
		r.Set("load_"+name+"_handoffs", float64(o.Handoffs))
		r.Set("load_"+name+"_advert_gap_s", o.AdvertGapS)
		r.Set("load_"+name+"_queue_ms", o.QueueMs)
	}
	first, plain := x.Priority["on"].EndMs, x.Priority["off"].EndMs
	r.Set("signal_first_ms", first)
	r.Set("signal_plain_ms", plain)
	r.Set("signal_gain_x", plain/first)
	if plain == never {
		r.Miss("signal_gain_x", "no update was acknowledged where signals do not go first")
	}
	r.Set("prefer_early", float64(x.Prefer["on"].Early))
	r.Set("prefer_lost", float64(x.Prefer["on"].Lost))
	r.Set("prefer_data_ratio", x.Prefer["on"].MB/x.Prefer["off"].MB)
	r.Set("checksums_checked", float64(x.Sums.Segments))
	r.Set("checksums_wrong", float64(x.Sums.Wrong))
	r.Set("update_checksums_checked", float64(x.Sums.Updates))
	r.Set("update_checksums_wrong", float64(x.Sums.Bad))
}
