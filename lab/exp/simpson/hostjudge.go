package simpson

import (
	"fmt"
	"math"

	"roam/lab/figure"
	"roam/lab/result"
	"roam/lab/stats"
)

// judgeHost sets the metrics of the claims of simpson-host.
func judgeHost(r *result.Result, all []*passage) {
	least, sent := math.Inf(1), math.Inf(1)
	var echoes, echoesLost, datagrams, datagramsLost int
	var behind, longer, added, jitter, one float64
	var answers [2]float64
	shares, misordered := map[string]float64{}, map[string]float64{}
	for _, v := range all {
		sent = min(sent, v.sentPct)
		if v.share == 100 {
			one = max(one, v.misorderedPct)
		}
		if v.Queued {
			misordered[v.name] = v.misorderedPct
			continue
		}
		jitter = max(jitter, v.jitter)
		if v.plain {
			continue
		}
		for h, links := range v.passed.datagrams {
			least = min(least, float64(links[0]+links[1]))
			shares[v.name] = max(shares[v.name], off(links, float64(v.share)/100))
			if v.Frame == frameSizes[1] { // what is counted beside shorter echoes are probes of the path MTU
				answers[h] = max(answers[h], off(v.passed.echoes[h], float64(v.share)/100))
			}
		}
		echoes, echoesLost = echoes+v.echoes, echoesLost+v.echoesLost
		datagrams, datagramsLost = datagrams+v.datagrams, datagramsLost+v.datagramsLost
		if p := plainOf(all, v); p != nil {
			behind = max(behind, 100*(1-v.goodput/p.goodput))
			longer = max(longer, stats.Median(v.rtts)/stats.Median(p.rtts))
			added = max(added, 1000*(stats.Median(v.rtts)-stats.Median(p.rtts)))
		}
	}
	for name, points := range shares {
		r.Set("share_"+name+"_error_points", points)
	}
	r.Set("share_requests_error_points", answers[0])
	r.Set("share_replies_error_points", answers[1])
	r.Set("least_packets", least)
	r.Set("least_sent_pct", sent)
	r.Set("echoes_lost_pct", percent(echoesLost, echoes))
	r.Set("datagrams_lost_pct", percent(datagramsLost, datagrams))
	r.Set("goodput_behind_pct", behind)
	r.Set("rtt_ratio", longer)
	r.Set("rtt_added_us", added)
	r.Set("jitter_ms", jitter)
	r.Set("misordered_one_locator_pct", one)
	r.Set("misordered_50_50_pct", misordered["50_50"])
	r.Set("misordered_80_20_pct", misordered["80_20"])
	r.Set("misordered_order_points", misordered["80_20"]-misordered["50_50"])
}

// plainOf finds plain IPv6 with the same frames at the same rate.
func plainOf(all []*passage, v *passage) *passage {
	for _, p := range all {
		if p.plain && p.Frame == v.Frame && p.Rate == v.Rate && p.Queued == v.Queued {
			return p
		}
	}
	return nil
}

// drawHost lists all cells, and draws round-trip times and displacements.
func drawHost(r *result.Result, all []*passage) {
	r.Tables = append(r.Tables, figure.Table("Cells",
		"The share is that of the first link in the datagrams of either host. With a queue the links of horn have a rate.",
		all,
		figure.Col("policy", func(v *passage) string { return v.title() }),
		figure.Col("frame, B", func(v *passage) string { return fmt.Sprint(v.Frame) }),
		figure.Col("rate, 1/s", func(v *passage) string { return fmt.Sprint(v.Rate) }),
		figure.Col("queue", func(v *passage) string { return map[bool]string{true: "yes", false: "no"}[v.Queued] }),
		figure.Col("sent, %", func(v *passage) string { return fmt.Sprintf("%.1f", v.sentPct) }),
		figure.Col("share horn, reed, %", func(v *passage) string {
			return fmt.Sprintf("%.1f, %.1f", part(v.passed.datagrams[0]), part(v.passed.datagrams[1]))
		}),
		figure.Col("of requests, replies, %", func(v *passage) string {
			return fmt.Sprintf("%.1f, %.1f", part(v.passed.echoes[0]), part(v.passed.echoes[1]))
		}),
		figure.Col("goodput, Mb/s", func(v *passage) string { return fmt.Sprintf("%.2f", v.goodput) }),
		figure.Col("datagrams lost", func(v *passage) string { return fmt.Sprint(v.datagramsLost) }),
		figure.Col("echoes lost", func(v *passage) string { return fmt.Sprint(v.echoesLost) }),
		figure.Col("RTT median, p99, ms", func(v *passage) string {
			if v.Queued {
				return "-"
			}
			return fmt.Sprintf("%.3f, %.3f", stats.Median(v.rtts), stats.Quantile(v.rtts, 0.99))
		}),
		figure.Col("jitter, ms", func(v *passage) string { return fmt.Sprintf("%.3f", v.jitter) }),
		figure.Col("misordered, %", func(v *passage) string { return fmt.Sprintf("%.1f", v.misorderedPct) }),
	))
	times := figure.Plot{Title: "Round-trip times", X: "datagrams a second",
		Caption: "Medians of echoes, by the rate of the datagrams beside which the policy was measured."}
	moved := figure.Plot{Title: "Displacement", X: "datagrams with a higher number that arrived before",
		Caption: "Datagrams of 1,506 bytes over links with a rate; the last value is 30 or more."}
	for _, frame := range frameSizes {
		panel := figure.Panel{Title: fmt.Sprintf("frames of %d bytes", frame), Kind: result.Lines, Y: "ms"}
		for _, p := range policies {
			c := figure.Curve{Name: fmt.Sprintf("rtt_%s_%d", p.name, frame), Label: p.title(), Unit: "ms"}
			for _, v := range all {
				if v.policy == p && v.Frame == frame && !v.Queued {
					c.X, c.Y = append(c.X, float64(v.Rate)), append(c.Y, stats.Median(v.rtts))
				}
			}
			panel.Curves = append(panel.Curves, c)
		}
		times.Panels = append(times.Panels, panel)
	}
	panel := figure.Panel{Kind: result.Lines, Y: "% of the datagrams that arrived"}
	for _, v := range all {
		if v.Queued {
			c := figure.Curve{Name: "displaced_" + v.name, Label: v.title(), Unit: "%", Y: v.displaced}
			for i := range v.displaced {
				c.X = append(c.X, float64(i+1))
			}
			panel.Curves = append(panel.Curves, c)
		}
	}
	moved.Panels = append(moved.Panels, panel)
	times.AddTo(r)
	moved.AddTo(r)
}

// part is that of the first of two counts, in per cent.
func part(n [2]uint64) float64 { return 100 * float64(n[0]) / max(1, float64(n[0]+n[1])) }
