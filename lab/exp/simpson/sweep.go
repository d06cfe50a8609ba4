package simpson

import (
	"context"
	"net/netip"

	"roam/lab/exp"
	"roam/lab/figure"
	"roam/lab/result"
	"roam/lab/site"
	"roam/lab/topo"
)

// baseline is the comparator against which the border's rates are set.
const baseline = "nptv6"

// sweep has packets of both sizes cross both borders at the rates of the parameter rates.
func (v *seen) sweep(ctx context.Context, env *exp.Env, s *site.Site, target netip.Addr) error {
	rates, err := ratesOf(env.Params.Text("rates"))
	if err != nil {
		return err
	}
	p := policy{name: v.name, share: int(100*v.share + 0.5), plain: v.name == baseline}
	crossed := ends{hosts: [2]*topo.Host{s.InsideHost, s.Far}, target: target,
		counted: func(ctx context.Context) (t tally, err error) {
			all, err := s.Counted(ctx)
			for b := range all {
				t.datagrams[b] = all[b].Link // and echoes
			}
			return t, err
		}}
	v.rates, err = exchangeAll(ctx, env, crossed, p, v.title(), rates)
	return err
}

// judgeSweep sets the metrics of the rates, and draws them. Without the baseline nothing is judged.
func judgeSweep(r *result.Result, all []*seen) {
	var list []*passage
	swept := false
	for _, v := range all {
		list = append(list, v.rates...)
		swept = swept || v.name == baseline && len(v.rates) > 0
	}
	for _, m := range []string{"least_sent_pct", "least_sent_without_pct", "echoes_lost_pct", "datagrams_lost_pct", "datagrams_lost_1g_pct",
		"judged_cells", "goodput_behind_pct", "rtt_ratio", "rtt_added_us", "jitter_ms", "misordered_one_locator_pct",
		"misordered_without_pct", "share_error_points"} {
		r.Miss("rates_"+m, "not run")
	}
	if !swept {
		return
	}
	figuresOf(list).set(r, "rates_")
	share := 0.0
	for _, v := range list {
		for _, links := range v.passed.datagrams {
			share = max(share, off(links, float64(v.share)/100))
		}
	}
	r.Set("rates_share_error_points", share)
	r.Tables = append(r.Tables, passagesTable("Rates",
		"The share is that of the first provider in the packets of either border.", list))
	moved := figure.Plot{Title: "Displacement", X: "datagrams with a higher number that arrived before",
		Caption: "Datagrams of 1,506 bytes across both borders, at the greatest rate; the last value is 30 or more."}
	panel := figure.Panel{Kind: result.Lines, Y: "% of the datagrams that arrived"}
	for _, v := range all {
		if len(v.rates) > 0 {
			panel.Curves = append(panel.Curves, v.rates[len(v.rates)-1].displacement(v.title()))
		}
	}
	moved.Panels = append(moved.Panels, panel)
	moved.AddTo(r)
}
