package simpson

import (
	"fmt"
	"math"

	"roam/lab/figure"
	"roam/lab/result"
	"roam/lab/stats"
)

const (
	// judgedRate is the greatest rate at which goodput, times and jitter are judged, in datagrams a second;
	// chapters 4 and 5 only report what is above.
	judgedRate = 50_000
	// everySends is a rate that each machine has to send; of a greater one that plain IPv6, or NPTv6, does
	// not send here, nothing but shares and order is judged.
	everySends = 10_000
	// wholeLink is the rate from which on longer frames fill a link of 1 Gb/s.
	wholeLink = 80_000
)

// figures are what cells without a queue have shown, the worst of each.
type figures struct {
	carried                  int     // with Roam, at rates that this machine sends
	cells                    int     // of these, that were judged against their counterpart
	sent, sentWithout        float64 // least, in per cent: of all cells, of those without Roam
	echoes, echoesLost       int
	datagrams, datagramsLost int
	full, fullLost           int // of datagrams, those that fill a link
	behind, longer, added    float64
	jitter                   float64
	one, oneWithout          float64 // out of order by one link, in per cent: with Roam, without
}

// isCarried reports whether the machine sends at the rate of a cell, as its counterpart shows.
func isCarried(v, plain *passage) bool {
	return v.Rate <= everySends || plain == nil || plain.sentPct >= 99
}

// figuresOf reads the cells without a queue against those without Roam.
func figuresOf(all []*passage) figures {
	f := figures{sent: math.Inf(1), sentWithout: math.Inf(1)}
	for _, v := range all {
		if v.plain {
			f.oneWithout = max(f.oneWithout, v.misorderedPct)
		} else if v.share == 100 {
			f.one = max(f.one, v.misorderedPct)
		}
		p := plainOf(all, v)
		if v.Queued {
			f.sent = min(f.sent, v.sentPct)
			continue
		} else if !isCarried(v, p) {
			continue
		}
		if v.Rate <= judgedRate {
			f.sent, f.jitter = min(f.sent, v.sentPct), max(f.jitter, v.jitter)
		}
		if v.plain {
			if v.Rate <= judgedRate {
				f.sentWithout = min(f.sentWithout, v.sentPct)
			}
			continue
		}
		f.carried++
		f.echoes, f.echoesLost = f.echoes+v.echoes, f.echoesLost+v.echoesLost
		if v.Frame == frameSizes[1] && v.Rate >= wholeLink {
			f.full, f.fullLost = f.full+v.datagrams, f.fullLost+v.datagramsLost
		} else {
			f.datagrams, f.datagramsLost = f.datagrams+v.datagrams, f.datagramsLost+v.datagramsLost
		}
		if p != nil && v.Rate <= judgedRate {
			f.cells++
			f.behind = max(f.behind, 100*(1-v.goodput/p.goodput))
			f.longer = max(f.longer, stats.Median(v.rtts)/stats.Median(p.rtts))
			f.added = max(f.added, 1000*(stats.Median(v.rtts)-stats.Median(p.rtts)))
		}
	}
	return f
}

// set sets the metrics that both experiments have.
func (f figures) set(r *result.Result, prefix string) {
	r.Set(prefix+"least_sent_pct", f.sent)
	r.Set(prefix+"least_sent_without_pct", f.sentWithout)
	for _, m := range []string{"echoes_lost_pct", "datagrams_lost_pct", "datagrams_lost_1g_pct"} {
		r.Miss(prefix+m, "not run, or not carried by this machine")
	}
	if f.carried > 0 {
		r.Set(prefix+"echoes_lost_pct", percent(f.echoesLost, f.echoes))
	}
	if f.carried > 0 && (f.datagrams > 0 || f.full == 0) {
		r.Set(prefix+"datagrams_lost_pct", percent(f.datagramsLost, f.datagrams))
	}
	if f.full > 0 {
		r.Set(prefix+"datagrams_lost_1g_pct", percent(f.fullLost, f.full))
	}
	r.Set(prefix+"judged_cells", float64(f.cells))
	r.Set(prefix+"goodput_behind_pct", f.behind)
	r.Set(prefix+"rtt_ratio", f.longer)
	r.Set(prefix+"rtt_added_us", f.added)
	r.Set(prefix+"jitter_ms", f.jitter)
	r.Set(prefix+"misordered_one_locator_pct", f.one)
	r.Set(prefix+"misordered_without_pct", f.oneWithout)
}

// judgeHost sets the metrics of the claims of simpson-host.
func judgeHost(r *result.Result, all []*passage) {
	least := math.Inf(1)
	var answers [2]float64
	shares, misordered := map[string]float64{}, map[string]float64{}
	for _, v := range all {
		if v.Queued {
			misordered[v.name] = v.misorderedPct
		}
		if v.Queued || v.plain {
			continue
		}
		for h, links := range v.passed.datagrams {
			least = min(least, float64(links[0]+links[1]))
			shares[v.name] = max(shares[v.name], off(links, float64(v.share)/100))
			if v.Frame == frameSizes[1] { // what is counted beside shorter echoes are probes of the path MTU
				answers[h] = max(answers[h], off(v.passed.echoes[h], float64(v.share)/100))
			}
		}
	}
	figuresOf(all).set(r, "")
	for name, points := range shares {
		r.Set("share_"+name+"_error_points", points)
	}
	r.Set("share_requests_error_points", answers[0])
	r.Set("share_replies_error_points", answers[1])
	r.Set("least_packets", least)
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

// passagesTable lists cells.
func passagesTable(title, caption string, all []*passage) result.Table {
	return figure.Table(title, caption, all,
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
	)
}

// displacement is the histogram of a cell.
func (v *passage) displacement(label string) figure.Curve {
	c := figure.Curve{Name: "displaced_" + v.name, Label: label, Unit: "%", Y: v.displaced}
	for i := range v.displaced {
		c.X = append(c.X, float64(i+1))
	}
	return c
}

// drawHost lists all cells, and draws round-trip times and displacements.
func drawHost(r *result.Result, all []*passage) {
	r.Tables = append(r.Tables, passagesTable("Cells",
		"The share is that of the first link in the datagrams of either host. With a queue the links of horn have a rate.", all))
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
			panel.Curves = append(panel.Curves, v.displacement(v.title()))
		}
	}
	moved.Panels = append(moved.Panels, panel)
	times.AddTo(r)
	moved.AddTo(r)
}

// part is that of the first of two counts, in per cent.
func part(n [2]uint64) float64 { return 100 * float64(n[0]) / max(1, float64(n[0]+n[1])) }
