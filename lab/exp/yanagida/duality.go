package yanagida

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/result"
)

// duality returns the function that measures the movement over several links at once, over
// TCP or UDP, for each added round-trip time.
func duality(tcp bool) func(context.Context, *exp.Env) error {
	return func(ctx context.Context, env *exp.Env) error {
		rtts, err := parseRTTs(env.Params.Text("rtts_ms"))
		if err != nil {
			return err
		}
		pl := dualityPlan(env.Params)
		var cells []cell
		for _, ms := range rtts {
			rtt := time.Duration(ms) * time.Millisecond
			cells = append(cells,
				cell{name: fmt.Sprintf("roam%d", ms), arm: arm.Roam, mode: "duality", plan: pl, rtt: rtt},
				cell{name: fmt.Sprintf("static%d", ms), arm: arm.Static, plan: still(env.Params.Seconds("static_s")), rtt: rtt})
			if tcp && env.Params.Bool("mptcp") {
				cells = append(cells, cell{name: fmt.Sprintf("mptcp%d", ms), arm: arm.MPTCP, plan: pl, rtt: rtt})
			}
		}
		all, err := measureAll(ctx, env, cells, tcp, 0, 0)
		if err != nil {
			return err
		}
		dualityMetrics(env.Result, all, rtts, pl, tcp)
		drawDuality(env, all, rtts, pl, tcp)
		return nil
	}
}

// dualityMetrics sets the metrics of the claims about the passes of all round-trip times.
func dualityMetrics(r *result.Result, all map[string]*outcome, rtts []int, pl plan, tcp bool) {
	for _, ms := range rtts {
		one := result.New("") // metrics of this round-trip time alone
		o := all[fmt.Sprintf("roam%d", ms)]
		common(one, o, all[fmt.Sprintf("static%d", ms)], tcp)
		splits(one, o, pl)
		contrast(one, o, all[fmt.Sprintf("mptcp%d", ms)], pl)
		one.Set("late_out_mbps", o.Out.LateMbps)
		one.Set("late_in_mbps", o.In.LateMbps)
		merge(r, one, fmt.Sprintf("_rtt%d", ms))
	}
}

// parseRTTs reads a list of whole milliseconds.
func parseRTTs(text string) (out []int, err error) {
	for f := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || n < 0 || n > 2000 {
			return nil, fmt.Errorf("read rtts_ms: %q is not a number of milliseconds from 0 to 2000", f)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// splits judges the links' shares of each phase, and the arrivals on withdrawn links.
func splits(r *result.Result, o *outcome, pl plan) {
	off, unjudged := 0.0, 0
	for _, w := range o.ways() {
		for i, p := range pl.phases {
			if len(w.Shares[i]) == 0 {
				unjudged++
				continue
			}
			for _, l := range links {
				want := 0.0
				if slices.Contains(p.links, l) {
					want = 100 / float64(len(p.links))
				}
				off = max(off, math.Abs(w.Shares[i][l]-want))
			}
		}
	}
	r.Set("split_error_points", off)
	r.Set("phases_too_short", float64(unjudged))
	r.Set("after_removal", float64(o.AfterRemoval))
	r.Set("after_removal_sent", float64(o.AfterRemovalSent))
	r.Set("after_removal_late_ms", o.AfterRemovalMs)
}

// contrast compares the evenness of each link's use over time with that of MPTCP (A24).
func contrast(r *result.Result, o, mptcp *outcome, pl plan) {
	compare(r, o, mptcp)
	if mptcp == nil {
		return
	}
	for i, way := range []string{"out", "in"} {
		ours, theirs := o.ways()[i].deviation(pl.phases, bucket.Seconds()),
			mptcp.ways()[i].deviation(pl.phases, bucket.Seconds())
		r.Set("link_deviation_"+way+"_mbps", ours)
		r.Set("mptcp_link_deviation_"+way+"_mbps", theirs)
		least(r, "mptcp_deviation_ratio", theirs/max(ours, 1e-3))
	}
}

// merge stores the metrics of one round-trip time under names of their own, and the worst
// of all under the plain names.
func merge(r, one *result.Result, suffix string) {
	for m, v := range one.Metrics {
		r.Set(m+suffix, v)
		switch {
		case strings.HasSuffix(m, "_mbps"):
		case strings.HasSuffix(m, "_alive"), strings.HasSuffix(m, "_ended_well"), m == "mptcp_deviation_ratio":
			least(r, m, v)
		case m == "lu_messages_per_change":
			farthest(r, m, v, 2)
		default:
			worst(r, m, v)
		}
	}
	for m, why := range one.Unmeasured {
		r.Miss(m, why)
		r.Miss(m+suffix, why)
	}
}

// farthest keeps the one of a metric's values that is farthest from where it should be.
func farthest(r *result.Result, metric string, v, from float64) {
	if old, ok := r.Metrics[metric]; !ok || math.Abs(v-from) > math.Abs(old-from) {
		r.Set(metric, v)
	}
}

// least keeps the least of a metric's values.
func least(r *result.Result, metric string, v float64) {
	if old, ok := r.Metrics[metric]; !ok || v < old {
		r.Set(metric, v)
	}
}
