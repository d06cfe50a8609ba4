package hostile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/topo"
	"roam/lab/workload/tcpflow"
)

const (
	controlWindows = 10
	// longGap is how much longer than the control's longest gap a gap may be.
	longGap = 100.0 // ms
	// change is the time that Roam's reaction may take: it moves connections that were
	// alive to their path as well, and resyncs that path's firewall. The standstill
	// includes it.
	change = time.Second
	// calm is for how long whole connections are watched at least.
	calm = change + 2500*time.Millisecond
)

// whole holds the results of a network in duality in which Roam pins each TCP connection to
// one path.
type whole struct {
	Changed   time.Time // from when on each connection kept to one path, by captures; zero: never
	ControlMs float64   // longest gap of a connection over the first path alone, median of ten windows
	StallMs   float64   // longest gap with two paths
	GapsMs    []float64 // over 100 ms above the control, from the first bytes a second after the change to the end
	QuietMs   float64   // longest time without a datagram from then on, which is the machine's
	Datagrams [2][2]int // on each of the two paths after that: from the mobile host, and to it
}

// gather attaches the mobile host to a second path beside the network's, and observes the
// traffic until Roam has reacted, and then for a while.
func (o *outcome) gather(ctx context.Context, env *exp.Env, s *scene.Scene, n network, f *flows,
	caps *scene.Captures) error {
	o.Whole = &whole{}
	if err := countDatagrams(ctx, s.Core, filepath.Join(env.Dir, n.name+"-count.nft")); err != nil {
		return err
	}
	away := env.Params.Seconds("away_s")
	t, err := s.Run(ctx, scene.Schedule{Length: away, Steps: []scene.Step{
		{At: away, Op: scene.Attach, Link: "net2", Name: n.name + ": both"},
	}}, nil)
	if err != nil {
		return err
	}
	entered := t.Steps[0].At
	end := entered.Add(env.Params.Seconds("inside_s"))
	answer := func() bool { return o.look(ctx, s, entered) && o.lookWhole(ctx, s) && o.Daemon.answered(n) }
	o.await(ctx, end, answer)
	before, err := s.Core.Counters(ctx)
	if err != nil {
		return err
	}
	if env.Params.Bool("haste") {
		end = time.Now()
	}
	if least := time.Now().Add(calm); end.Before(least) {
		end = least
	}
	o.await(ctx, end, func() bool { return false })
	answer() // as it is at the end
	o.ask(ctx, env, s, n)
	got, err := f.end(ctx, o, entered)
	if err != nil {
		return err
	}
	after, err := s.Core.Counters(ctx)
	if err != nil {
		return err
	}
	seen, err := readWire(caps, s, n)
	if err != nil {
		return err
	}
	o.wired(seen, n, entered, entered, end)
	o.Whole.watched(got, t.Start, end, before, after)
	return ctx.Err()
}

// await waits for a condition until a moment, which is no failure.
func (o *outcome) await(ctx context.Context, end time.Time, ok func() bool) {
	wctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	_ = topo.WaitSparing(wctx, "end of the stay", ok)
}

// lookWhole reads at both ends how TCP is spread, and when that changed.
func (o *outcome) lookWhole(ctx context.Context, s *scene.Scene) bool {
	var ends [2][]node.Session
	for i, e := range []*scene.End{s.Mobile(), s.Peer(0)} {
		var err error
		if ends[i], err = e.Node.Sessions(ctx); err != nil {
			return false
		}
	}
	return o.Daemon.spread(ends, s.Mobile().Node.Events())
}

// judge finds the standstills of connections: with one path, which is the control, with two
// paths, and after the change.
func (w *whole) judge(streams []tcpflow.Stream, began, entered, end time.Time) {
	window := entered.Sub(began) / controlWindows
	var usual []float64
	for _, s := range streams {
		for i := range controlWindows {
			from := began.Add(time.Duration(i) * window)
			_, gap := s.LongestGap(from, from.Add(window))
			usual = append(usual, stats.Millis(gap))
		}
		_, gap := s.LongestGap(entered, end)
		w.StallMs = max(w.StallMs, stats.Millis(gap))
	}
	w.ControlMs = stats.Median(usual)
	for _, s := range streams {
		from, ok := s.FirstAfter(w.Changed.Add(change))
		if w.Changed.IsZero() || !ok || !from.Before(end) {
			w.GapsMs = append(w.GapsMs, stats.Millis(end.Sub(entered))) // it stalled until the end
			continue
		}
		// A gap at the end of the observation counts, too.
		watched := append(slices.Clone(s), tcpflow.Read{At: end.UnixNano()})
		slices.SortFunc(watched, func(a, b tcpflow.Read) int { return cmp.Compare(a.At, b.At) })
		w.GapsMs = append(w.GapsMs, slices.DeleteFunc(watched.Gaps(from, end.Add(1)), func(ms float64) bool {
			return ms <= w.ControlMs+longGap
		})...)
	}
}

// shareOff is the deviation of the first path's share of datagrams from one half, in
// points, in the worse direction; ok is false without datagrams.
func (w *whole) shareOff() (off float64, ok bool) {
	for _, n := range w.Datagrams {
		if n[0]+n[1] == 0 {
			return 0, false
		}
		off = max(off, math.Abs(100*float64(n[0])/float64(n[0]+n[1])-50))
	}
	return off, true
}

// report adds the metrics to the result; lost is the number of datagrams of Roam's that were
// lost with two paths.
func (w *whole) report(r *result.Result, name string, lost int) {
	r.Set(name+"_tcp_control_ms", w.ControlMs)
	r.Set(name+"_tcp_stall_ms", w.StallMs)
	r.Set(name+"_udp_quiet_ms", w.QuietMs)
	r.Set(name+"_tcp_gaps", float64(len(w.GapsMs)))
	r.Set(name+"_udp_lost", float64(lost))
	if off, ok := w.shareOff(); ok && !w.Changed.IsZero() {
		r.Set(name+"_udp_share_off", off)
	} else {
		r.Miss(name+"_udp_share_off", "connections never came to keep to one path each")
	}
}

// row is it as people read it.
func (w *whole) row(name string) []string {
	answer := "none"
	if !w.Changed.IsZero() {
		answer = "by connection"
	}
	gaps := "none"
	if len(w.GapsMs) > 0 {
		gaps = fmt.Sprintf("%.0f ms", w.GapsMs)
	}
	return []string{name, fmt.Sprintf("%.0f ms", w.ControlMs), fmt.Sprintf("%.0f ms", w.StallMs), answer, gaps,
		fmt.Sprintf("%d + %d out, %d + %d in", w.Datagrams[0][0], w.Datagrams[0][1], w.Datagrams[1][0], w.Datagrams[1][1])}
}

// countDatagrams has the core count the flow's datagrams on each of the mobile
// host's two paths.
func countDatagrams(ctx context.Context, core *topo.Host, path string) error {
	text := fmt.Sprintf(`table ip6 datagrams {
	counter out1 {}
	counter out2 {}
	counter in1 {}
	counter in2 {}
	chain forward {
		type filter hook forward priority -10;
		iifname "r1" udp dport %[1]d counter name out1
		iifname "r2" udp dport %[1]d counter name out2
		oifname "r1" udp sport %[1]d counter name in1
		oifname "r2" udp sport %[1]d counter name in2
	}
}
`, udpPort)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return run(ctx, core, "/usr/sbin/nft", "-f", path)
}
