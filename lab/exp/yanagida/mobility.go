package yanagida

import (
	"context"
	"math"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
)

// mobility returns the function that measures continuous mobility over TCP or UDP.
func mobility(tcp bool) func(context.Context, *exp.Env) error {
	return func(ctx context.Context, env *exp.Env) error {
		pl, rtt := mobilityPlan(env.Params), env.Params.Millis("rtt_ms")
		cells := []cell{
			{name: "roam", arm: arm.Roam, mode: "soft", plan: pl},
			{name: "static", arm: arm.Static, plan: still(env.Params.Seconds("static_s"))},
			{name: "plain", arm: arm.Plain, plan: untilBack(pl)},
		}
		if tcp && env.Params.Bool("mptcp") {
			cells = append(cells, cell{name: "mptcp", arm: arm.MPTCP, plan: pl})
		}
		if linger := env.Params.Seconds("linger_s"); !tcp && linger > 0 {
			cells = append(cells, cell{name: "linger", arm: arm.Roam, mode: "soft", plan: lingerPlan(linger)})
		}
		extra := map[bool]int{false: 1}[tcp] // beside
		all, err := measureAll(ctx, env, cells, tcp, rtt, extra)
		if err != nil {
			return err
		}
		mobilityMetrics(env.Result, env.Params, all, tcp)
		switch {
		case tcp:
		case env.Engine == exp.Sim:
			unsimulated(env)
		default:
			if err := beside(ctx, env); err != nil {
				return err
			}
		}
		drawMobility(env, all, tcp)
		return nil
	}
}

// mobilityMetrics sets the metrics of the claims about all passes.
func mobilityMetrics(r *result.Result, p exp.Params, all map[string]*outcome, tcp bool) {
	o := all["roam"]
	common(r, o, all["static"], tcp)
	r.Set("handoffs", float64(o.HandoffsMeant))
	r.Set("handoffs_unscripted", float64(o.HandoffsOff))
	r.Set("plain_delivered_away_bytes", float64(all["plain"].Away))
	r.Set("plain_away_s", all["plain"].AwayS)
	if l := all["linger"]; l != nil {
		r.Set("linger_handoffs", float64(l.Handoffs))
		r.Set("linger_s", p.Float("linger_s"))
	}
	compare(r, o, all["mptcp"])
	mip6(r)
}

// untilBack is the control's schedule. It ends soon after its first network returns, since
// it only shows that no data arrives in between.
func untilBack(pl plan) plan {
	for i, s := range pl.Steps {
		if s.Op == scene.Attach && s.Link == links[0] {
			pl.Steps, pl.Length = pl.Steps[:i+1], s.At+time.Second
			return pl
		}
	}
	return pl
}

// measureAll measures cells and stores each for a resumed run. extra is the number of further
// cells that the caller measures.
func measureAll(ctx context.Context, env *exp.Env, cells []cell, tcp bool, rtt time.Duration,
	extra int) (map[string]*outcome, error) {
	env.View.Cells(len(cells) + extra)
	all := map[string]*outcome{}
	for _, c := range cells {
		c.tcp = tcp
		if c.rtt == 0 {
			c.rtt = rtt
		}
		o, err := exp.Cell(env, c.name, func(w *exp.Window) (*outcome, error) { return measure(ctx, env, w, c) })
		if err != nil {
			return nil, err
		}
		all[c.name] = o
	}
	return all, nil
}

// common fills in the metrics that all four experiments have, of a pass with Roam
// and the reference that never moved.
func common(r *result.Result, o, static *outcome, tcp bool) {
	n, longest := o.gapsOver(100, static)
	r.Set("gaps_over_100ms", float64(n))
	r.Set("gap_longest_above_control_ms", longest)
	r.SetBool("session_alive", o.Alive)
	for i, w := range o.ways() {
		way := [2]string{"out", "in"}[i]
		s := static.ways()[i]
		r.Set("gap_control_"+way+"_ms", static.controlGap(i))
		r.Set("throughput_"+way+"_mbps", w.Mbps)
		r.Set("static_throughput_"+way+"_mbps", s.Mbps)
		mid, ref := stats.Median(inner(w.total())), stats.Median(inner(s.total()))
		r.Set("bucket_median_"+way+"_mbps", mid)
		r.Set("bucket_iqr_"+way+"_mbps", stats.Quantile(inner(w.total()), 0.75)-stats.Quantile(inner(w.total()), 0.25))
		worst(r, "bucket_median_error_pct", 100*math.Abs(mid-ref)/ref)
		worst(r, "throughput_error_pct", 100*math.Abs(w.LateMbps-s.LateMbps)/s.LateMbps)
		worst(r, "misorder_pct", percent(w.Misorders, w.Got))
		if tcp {
			worst(r, "resent_pct", percent(w.Resent, w.Bytes))
			add(r, "lost_bytes", w.Lost-w.ByQueues)
			add(r, "lost_bytes_emulator", w.ByQueues)
		} else {
			loss := w.loss("iperf3 " + way)
			r.AddLoss(loss)
			worst(r, "loss_pct", percent(loss.Lost, w.Sent))
			add(r, "lost", loss.Roam())
			add(r, "sent", w.Sent)
		}
	}
	signals(r, o)
	guards(r, o)
}

// inner omits the first and the last bucket of a series, in which traffic starts and ends.
func inner(v []float64) []float64 {
	if len(v) < 4 {
		return v
	}
	return v[1 : len(v)-1]
}

// signals sets the metrics of Locator Updates and their effects.
func signals(r *result.Result, o *outcome) {
	n := o.updates()
	worst(r, "lu_exchanges_off", float64(o.ChangesOff))
	if n.changes > 0 {
		worst(r, "lu_messages_per_change", float64(n.messages)/float64(n.changes))
	}
	add(r, "lu_exchanges", n.changes)
	add(r, "lu_changes_of_set", o.Changes)
	add(r, "lu_refreshes", n.refreshes)
	add(r, "lu_refreshes_early", n.early)
	add(r, "lu_repeats", n.repeats)
	add(r, "data_before_lu", len(o.BeforeLU))
	add(r, "new_locators", o.NewLocators)
	add(r, "new_locators_waited", o.NewLocators-o.BeforeAck)
	add(r, "wrong_source", o.WrongSource)
	for _, e := range o.Exchanges {
		if e.Acks == 0 {
			add(r, "lu_unacknowledged", 1)
		} else {
			worst(r, "lu_rtt_excess_ms", e.RTTMs-o.RTTMs)
		}
	}
	add(r, "lu_unacknowledged", 0)
	worst(r, "bring_up_median_ms", stats.Median(o.BringUpMs))
	worst(r, "daemon_bring_up_median_ms", stats.Median(o.DaemonBringUpMs))
}

// guards sets the metrics without which a figure has no meaning.
func guards(r *result.Result, o *outcome) {
	add(r, "emulator_drops", int(o.Drops["queue"]+o.Drops["loss"]+o.Drops["refused"]))
	add(r, "capture_dropped", o.CaptureDropped)
	add(r, "udp_rcvbuf_errors", o.BufferErrors)
}

// compare compares the evenness of the links' use with that of MPTCP.
func compare(r *result.Result, o, mptcp *outcome) {
	if mptcp == nil {
		r.Miss("mptcp_deviation_ratio", "the arm mptcp was not run")
		return
	}
	r.SetBool("mptcp_alive", mptcp.flows())
	r.SetBool("mptcp_iperf3_ended_well", mptcp.Alive)
	r.Set("mptcp_throughput_out_mbps", mptcp.Out.Mbps)
	r.Set("mptcp_throughput_in_mbps", mptcp.In.Mbps)
	n, longest := mptcp.gapsOver(100, nil)
	r.Set("mptcp_gaps_over_100ms", float64(n))
	r.Set("mptcp_gap_longest_ms", longest)
}

// mip6 marks the claims of the thesis's column for Mobile IPv6.
func mip6(r *result.Result) {
	for _, m := range []string{"mip6_gap_cumulative_s", "mip6_loss_pct"} {
		r.Miss(m, "the column of Mobile IPv6 has not been run")
	}
}

// worst keeps the greatest of a metric's values; if one of them is not finite, the metric stays
// not measured.
func worst(r *result.Result, metric string, v float64) {
	if _, missed := r.Unmeasured[metric]; missed {
		return
	}
	if old, ok := r.Metrics[metric]; !ok || v > old || math.IsNaN(v) {
		r.Set(metric, v)
	}
}

// add adds to a metric.
func add(r *result.Result, metric string, n int) { r.Set(metric, r.Metrics[metric]+float64(n)) }

func percent(part, whole int) float64 { return 100 * float64(part) / math.Max(float64(whole), 1) }
