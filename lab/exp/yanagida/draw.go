package yanagida

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"roam/lab/exp"
	"roam/lab/figure"
	"roam/lab/result"
	"roam/lab/stats"
)

// drawMobility adds tables and figures of continuous mobility.
func drawMobility(env *exp.Env, all map[string]*outcome, tcp bool) {
	r := env.Result
	r.Tables = append(r.Tables, armTable(all, []string{"roam", "static", "mptcp", "plain"}, tcp),
		updateTable(all["roam"], ""))
	r.Tables = append(r.Tables, earlyTable(all["roam"], "")...)
	for _, name := range []string{"roam", "mptcp", "plain"} {
		if o := all[name]; o != nil {
			linkPlot(o, name).AddTo(r)
			o.addSteps(r, name)
		}
	}
	linkPlot(all["static"], "static").AddData(r)
	r.Figures = append([]result.Figure{besideFigure(all)}, r.Figures...)
	all["static"].addSteps(r, "static")
	drawn := []string{"roam", "static", "mptcp"}
	bucketPlot(all, drawn).AddTo(r)
	gapPlot(all, drawn, result.Ref{Label: "published: none over 100 ms", At: 100, OnX: true}).AddTo(r)
}

// drawDuality adds tables and figures of the movement over several links.
func drawDuality(env *exp.Env, all map[string]*outcome, rtts []int, pl plan, tcp bool) {
	r := env.Result
	var names []string
	for _, ms := range rtts {
		for _, arm := range []string{"roam", "static", "mptcp"} {
			if name := fmt.Sprintf("%s%d", arm, ms); all[name] != nil {
				names = append(names, name)
			}
		}
	}
	r.Tables = append(r.Tables, armTable(all, names, tcp))
	for _, ms := range rtts {
		o := all[fmt.Sprintf("roam%d", ms)]
		which := fmt.Sprintf(", %d ms", ms)
		r.Tables = append(r.Tables, shareTable(o, pl), updateTable(o, which))
		r.Tables = append(r.Tables, earlyTable(o, which)...)
	}
	for _, name := range names {
		plot := linkPlot(all[name], name)
		if strings.HasPrefix(name, "static") {
			plot.AddData(r) // one link at one rate would be a flat line
		} else {
			plot.AddTo(r)
		}
		all[name].addSteps(r, name)
	}
	bucketPlot(all, names).AddTo(r)
	gapPlot(all, names).AddTo(r)
}

// armTitle names a pass to people.
func armTitle(o *outcome) string {
	return fmt.Sprintf("%s, %g ms added", o.Arm, o.RTTMs)
}

// direction is one direction of a pass, as a row of a table.
type direction struct {
	*outcome
	i       int
	w       *way
	buckets []float64
}

// directions are both ways of the passes that were made.
func directions(all map[string]*outcome, names []string) (list []direction) {
	for _, name := range names {
		o := all[name]
		if o == nil {
			continue
		}
		for i, w := range o.ways() {
			list = append(list, direction{o, i, w, inner(w.total())})
		}
	}
	return list
}

// gapsOver counts the gaps that are longer than a limit.
func (w *way) gapsOver(ms float64) (n int) {
	for _, g := range w.LongGapsMs {
		if g > ms {
			n++
		}
	}
	return n
}

func (w *way) longestGap() float64 { return slices.Max(append([]float64{0}, w.LongGapsMs...)) }

// wayWords name the directions in tables and series.
var wayWords = [2]string{"out", "in"}

// armTable sets the passes beside each other.
func armTable(all map[string]*outcome, names []string, tcp bool) result.Table {
	lost := func(d direction) string { return fmt.Sprintf("%d of %d", max(d.w.Lost, d.w.AppLost), d.w.Sent) }
	again := func(direction) string { return "–" }
	if tcp {
		lost = func(d direction) string { return fmt.Sprintf("%d bytes", d.w.Lost) }
		again = func(d direction) string { return fmt.Sprintf("%.3f %%", percent(d.w.Resent, d.w.Bytes)) }
	}
	t := figure.Table("The arms beside each other",
		"Throughput: bytes of IPv6 payload received over the time from the first packet to the last (§5.3.3). Gaps: "+
			"between packets received, over 100 ms; the control's median of the longest gap in 0.5 s is in the column of that "+
			"arm. Mobile IPv6: the thesis found 55 to 60 s of 120 s without data over TCP, and 38 % of the datagrams lost "+
			"(§5.4); that column has not been run here.",
		directions(all, names),
		figure.Col("arm", func(d direction) string { return armTitle(d.outcome) }),
		figure.Col("direction", func(d direction) string { return wayWords[d.i] }),
		figure.Col("throughput", func(d direction) string { return mbps(d.w.Mbps) }),
		figure.Col("0.5 s: median", func(d direction) string { return mbps(stats.Median(d.buckets)) }),
		figure.Col("0.5 s: quartiles", func(d direction) string {
			return mbps(stats.Quantile(d.buckets, 0.25)) + " to " + mbps(stats.Quantile(d.buckets, 0.75))
		}),
		figure.Col("gaps over 100 ms", func(d direction) string { return fmt.Sprint(d.w.gapsOver(100)) }),
		figure.Col("longest", func(d direction) string { return fmt.Sprintf("%.0f ms", d.w.longestGap()) }),
		figure.Col("usual longest", func(d direction) string { return fmt.Sprintf("%.1f ms", d.controlGap(d.i)) }),
		figure.Col("lost", lost),
		figure.Col("misordered", func(d direction) string { return fmt.Sprintf("%.3f %%", percent(d.w.Misorders, d.w.Got)) }),
		figure.Col("retransmitted", again),
		figure.Col("iperf3 ended", func(d direction) string { return d.ending() }),
	)
	t.Rows = append(t.Rows, []string{"Mobile IPv6", "both", "not run", "", "", "", "", "", "", "", "", ""})
	return t
}

// ending says in words how iperf3 ended.
func (o *outcome) ending() string {
	if o.Alive {
		return "well"
	}
	line, _, _ := strings.Cut(o.Why, "\n")
	return line
}

func mbps(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.3f Mb/s", v)
}

// updateTable lists the Locator Updates of a pass.
func updateTable(o *outcome, which string) result.Table {
	return figure.Table("Locator Updates"+which,
		"As captured at the mobile host. A set is listed with the preference of each locator; the least is used.",
		o.Exchanges,
		figure.Col("at", func(e exchange) string { return fmt.Sprintf("%.2f s", e.T) }),
		figure.Col("set", func(e exchange) string { return e.Set }),
		figure.Col("kind", exchange.kind),
		figure.Col("messages", func(e exchange) string { return fmt.Sprint(e.Messages) }),
		figure.Col("acknowledgements", func(e exchange) string { return fmt.Sprint(e.Acks) }),
		figure.Col("to the first acknowledgement", func(e exchange) string { return fmt.Sprintf("%.1f ms", e.RTTMs) }),
	)
}

// earlyTable lists the packets that left from a new locator before its update; nil: none.
func earlyTable(o *outcome, which string) []result.Table {
	if len(o.BeforeLU) == 0 {
		return nil
	}
	return []result.Table{figure.Table("Data from a new locator before its Locator Update"+which, "", o.BeforeLU,
		figure.Col("at", func(e early) string { return fmt.Sprintf("%.3f s", e.T) }),
		figure.Col("link", func(e early) string { return e.Link }),
		figure.Col("before the update", func(e early) string { return fmt.Sprintf("%.3f ms", e.Ms) }),
		figure.Col("packet", func(e early) string { return e.What }),
	)}
}

// shareTable is the links' shares of each phase.
func shareTable(o *outcome, pl plan) result.Table {
	t := result.Table{Title: fmt.Sprintf("Share of the bytes per link and phase, %g ms", o.RTTMs),
		Columns: append([]string{"phase", "links", "direction"}, links...)}
	for d, w := range o.ways() {
		for i, p := range pl.phases {
			row := []string{fmt.Sprintf("%g–%g s", p.from.Seconds(), p.to.Seconds()), strings.Join(p.links, "+"), wayWords[d]}
			for _, l := range links {
				row = append(row, fmt.Sprintf("%.2f %%", w.Shares[i][l]))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// addSteps marks the steps of a pass.
func (o *outcome) addSteps(r *result.Result, name string) {
	for _, m := range o.Marks {
		if m.T > 0.1 {
			figure.Step(r, name, m.T, m.Label)
		}
	}
}

// nearTen is the thesis's result for ILNPv6, and for Multipath TCP, in Figs. 2.1, 5.2 to
// 5.7 and 6.10 to 6.16: every bucket close to the offered 10 Mb/s.
func nearTen(onX bool) result.Ref {
	return result.Ref{Label: "published: near 10 Mb/s", At: 10, OnX: onX}
}

// linkPlot is the throughput of one pass, link by link.
func linkPlot(o *outcome, name string) figure.Plot {
	var refs []result.Ref
	if name != "plain" {
		refs = []result.Ref{nearTen(false)}
	}
	p := figure.Plot{
		Title: "Throughput per link: " + armTitle(o), X: figure.Time,
		Caption: "IPv6 payload that the receiver captured, in 0.5 s buckets, stacked by the link that it took. Lines are " +
			"the steps of the schedule; a bucket with a step in it has both links.",
	}
	for i, w := range o.ways() {
		panel := figure.Panel{
			Title:  figure.Way(wayWords[i]),
			Kind:   result.Stack,
			Y:      "Mb/s",
			Height: 130,
			Arm:    name,
			Marked: true,
			Refs:   refs,
		}
		for _, l := range links {
			c := figure.Curve{Name: strings.Join([]string{name, wayWords[i], l}, " "), Label: l, Unit: "Mb/s"}
			for k, v := range w.Buckets[l] {
				c.X, c.Y = append(c.X, float64(k+1)*bucket.Seconds()), append(c.Y, math.Round(v*1e4)/1e4)
			}
			panel.Curves = append(panel.Curves, c)
		}
		p.Panels = append(p.Panels, panel)
	}
	return p
}

// besideFigure sets the throughput to the mobile host of each arm under each other.
func besideFigure(all map[string]*outcome) result.Figure {
	f := result.Figure{Title: "The same moves, arm by arm", XLabel: figure.Time,
		Caption: "IPv6 payload that the mobile host captured, in 0.5 s buckets, by the link that it took."}
	for _, name := range []string{"roam", "mptcp", "plain"} {
		if all[name] == nil {
			continue
		}
		p := result.Panel{Title: all[name].Arm, Kind: result.Stack, YLabel: "Mb/s", Arm: name, Height: 110,
			Marks: true, Labels: links}
		for _, l := range links {
			p.Series = append(p.Series, strings.Join([]string{name, wayWords[1], l}, " "))
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

// perPass returns a curve for each pass, made by data.
func perPass(all map[string]*outcome, names []string, what, unit string,
	data func(*outcome) []float64) (list []figure.Curve) {
	for _, name := range names {
		o := all[name]
		if o == nil {
			continue
		}
		if y := data(o); len(y) > 0 {
			list = append(list, figure.Curve{Name: what + " " + name, Label: armTitle(o), Unit: unit, Y: y})
		}
	}
	return list
}

// bucketPlot is the distribution of throughput over all buckets.
func bucketPlot(all map[string]*outcome, names []string) figure.Plot {
	return figure.Plot{
		Title: "Throughput in 0.5 s buckets, all links together", X: "Mb/s",
		Caption: "Distribution over all buckets of both directions. The thesis found all of them near 10 Mb/s.",
		Panels: []figure.Panel{{Kind: result.CDF, Y: "share of buckets", Refs: []result.Ref{nearTen(true)},
			Curves: perPass(all, names, "buckets", "Mb/s", func(o *outcome) []float64 {
				return slices.Concat(inner(o.Out.total()), inner(o.In.total()))
			})}},
	}
}

// gapPlot is the distribution of gaps between the packets that arrived.
func gapPlot(all map[string]*outcome, names []string, refs ...result.Ref) figure.Plot {
	return figure.Plot{
		Title: "Longest gaps between packets that arrived", X: "ms, logarithmic",
		Caption: "The longest in each 0.5 s, both directions.",
		Panels: []figure.Panel{{Kind: result.CDF, Y: "share of windows", LogX: true, Refs: refs,
			Curves: perPass(all, names, "gaps", "ms", func(o *outcome) []float64 {
				return slices.Concat(o.Out.WindowsMs, o.In.WindowsMs)
			})}},
	}
}
