package yanagida

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/stats"
)

const timeLabel = "time since the start of the schedule (s)"

// drawMobility adds tables and figures of continuous mobility.
func drawMobility(env *exp.Env, all map[string]*outcome, tcp bool) {
	r := env.Result
	r.Tables = append(r.Tables, armTable(all, []string{"roam", "static", "mptcp", "plain"}, tcp), updateTable(all["roam"], ""))
	r.Tables = append(r.Tables, earlyTable(all["roam"], "")...)
	for _, name := range []string{"roam", "mptcp", "plain"} {
		if o := all[name]; o != nil {
			addSeries(r, o, name)
			r.Figures = append(r.Figures, linkFigure(name, armTitle(o)))
		}
	}
	addSeries(r, all["static"], "static")
	drawn := []string{"roam", "static", "mptcp"}
	r.Figures = append(r.Figures, bucketFigure(r, all, drawn), gapFigure(r, all, drawn, result.Ref{Label: "published: none over 100 ms", At: 100, OnX: true}))
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
		addSeries(r, all[name], name)
		if !strings.HasPrefix(name, "static") {
			r.Figures = append(r.Figures, linkFigure(name, armTitle(all[name])))
		}
	}
	r.Figures = append(r.Figures, bucketFigure(r, all, names), gapFigure(r, all, names))
}

// armTitle names a pass to people.
func armTitle(o *outcome) string {
	return fmt.Sprintf("%s, %g ms added", o.Arm, o.RTTMs)
}

// armTable sets the passes beside each other.
func armTable(all map[string]*outcome, names []string, tcp bool) result.Table {
	t := result.Table{
		Title:   "The arms beside each other",
		Note:    "Throughput: bytes of IPv6 payload received over the time from the first packet to the last (§5.3.3). Gaps: between packets received, over 100 ms; the control's median of the longest gap in 0.5 s is in the column of that arm. Mobile IPv6: the thesis found 55 to 60 s of 120 s without data over TCP, and 38 % of the datagrams lost (§5.4); that column has not been run here.",
		Columns: []string{"arm", "direction", "throughput", "0.5 s: median", "0.5 s: quartiles", "gaps over 100 ms", "longest", "usual longest", "lost", "misordered", "retransmitted", "iperf3 ended"},
	}
	for _, name := range names {
		o := all[name]
		if o == nil {
			continue
		}
		for i, w := range o.ways() {
			b := inner(w.total())
			over, longest := 0, 0.0
			for _, g := range w.LongGapsMs {
				longest = math.Max(longest, g)
				if g > 100 {
					over++
				}
			}
			lost, again := fmt.Sprintf("%d of %d", max(w.Lost, w.AppLost), w.Sent), "–"
			if tcp {
				lost, again = fmt.Sprintf("%d bytes", w.Lost), fmt.Sprintf("%.3f %%", percent(w.Resent, w.Bytes))
			}
			t.Rows = append(t.Rows, []string{
				armTitle(o), [2]string{"out", "in"}[i], mbps(w.Mbps), mbps(stats.Median(b)), mbps(stats.Quantile(b, 0.25)) + " to " + mbps(stats.Quantile(b, 0.75)),
				fmt.Sprint(over), fmt.Sprintf("%.0f ms", longest), fmt.Sprintf("%.1f ms", o.controlGap(i)), lost,
				fmt.Sprintf("%.3f %%", percent(w.Misorders, w.Got)), again, o.ending(),
			})
		}
	}
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
	t := result.Table{
		Title:   "Locator Updates" + which,
		Note:    "As captured at the mobile host. A set is listed with the preference of each locator; the least is used.",
		Columns: []string{"at", "set", "kind", "messages", "acknowledgements", "to the first acknowledgement"},
	}
	for _, e := range o.Exchanges {
		kind := map[bool]string{true: "refresh", false: "change"}[e.Refresh]
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%.2f s", e.T), e.Set, kind, fmt.Sprint(e.Messages), fmt.Sprint(e.Acks), fmt.Sprintf("%.1f ms", e.RTTMs)})
	}
	return t
}

// earlyTable lists what left from a new locator before its update; nil if nothing did.
func earlyTable(o *outcome, which string) []result.Table {
	if len(o.BeforeLU) == 0 {
		return nil
	}
	t := result.Table{
		Title:   "Data from a new locator before its Locator Update" + which,
		Columns: []string{"at", "link", "before the update", "packet"},
	}
	for _, e := range o.BeforeLU {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%.3f s", e.T), e.Link, fmt.Sprintf("%.3f ms", e.Ms), e.What})
	}
	return []result.Table{t}
}

// shareTable is the links' shares of each phase.
func shareTable(o *outcome, pl plan) result.Table {
	t := result.Table{Title: fmt.Sprintf("Share of the bytes per link and phase, %g ms", o.RTTMs), Columns: append([]string{"phase", "links", "direction"}, links...)}
	for d, w := range o.ways() {
		for i, p := range pl.phases {
			row := []string{fmt.Sprintf("%g–%g s", p.from.Seconds(), p.to.Seconds()), strings.Join(p.links, "+"), [2]string{"out", "in"}[d]}
			for _, l := range links {
				row = append(row, fmt.Sprintf("%.2f %%", w.Shares[i][l]))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// addSeries adds the throughput of each link in buckets, and the steps.
func addSeries(r *result.Result, o *outcome, name string) {
	for i, w := range o.ways() {
		way := [2]string{"out", "in"}[i]
		for _, l := range slices.Sorted(maps.Keys(w.Buckets)) {
			var x, y []float64
			for k, v := range w.Buckets[l] {
				x, y = append(x, float64(k+1)*bucket.Seconds()), append(y, math.Round(v*1e4)/1e4)
			}
			r.AddSeries(strings.Join([]string{name, way, l}, " "), "Mb/s", x, y)
		}
	}
	for _, m := range o.Marks {
		if m.T > 0.1 {
			r.Mark(result.Event{T: math.Round(m.T*1e3) / 1e3, Arm: name, Kind: "step", Label: m.Label})
		}
	}
}

// nearTen is what the thesis found of ILNPv6, and of Multipath TCP, in Figs. 2.1,
// 5.2 to 5.7 and 6.10 to 6.16: no bucket far from the 10 Mb/s that were offered.
func nearTen(onX bool) result.Ref {
	return result.Ref{Label: "published: near 10 Mb/s", At: 10, OnX: onX}
}

// linkFigure is the throughput of one pass, link by link.
func linkFigure(name, title string) result.Figure {
	f := result.Figure{
		Title: "Throughput per link: " + title, XLabel: timeLabel,
		Caption: "IPv6 payload that the receiver captured, in 0.5 s buckets, stacked by the link that it took. Lines are the steps of the schedule.",
	}
	for _, way := range []string{"out", "in"} {
		p := result.Panel{Title: map[string]string{"out": "from the mobile host", "in": "to the mobile host"}[way], Kind: result.Stack, YLabel: "Mb/s", Labels: links, Arm: name, Marks: true, Height: 130}
		if name != "plain" {
			p.Refs = []result.Ref{nearTen(false)}
		}
		for _, l := range links {
			p.Series = append(p.Series, strings.Join([]string{name, way, l}, " "))
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

// bucketFigure is the distribution of throughput over all buckets.
func bucketFigure(r *result.Result, all map[string]*outcome, names []string) result.Figure {
	p := result.Panel{Kind: result.CDF, YLabel: "share of buckets", Refs: []result.Ref{nearTen(true)}}
	for _, name := range names {
		o := all[name]
		if o == nil {
			continue
		}
		var all []float64
		for _, w := range o.ways() {
			all = append(all, inner(w.total())...)
		}
		r.AddSeries("buckets "+name, "Mb/s", nil, all)
		p.Series, p.Labels = append(p.Series, "buckets "+name), append(p.Labels, armTitle(o))
	}
	return result.Figure{Title: "Throughput in 0.5 s buckets, all links together", XLabel: "Mb/s", Caption: "Distribution over all buckets of both directions. The thesis found all of them near 10 Mb/s.", Panels: []result.Panel{p}}
}

// gapFigure is the distribution of gaps between the packets that arrived.
func gapFigure(r *result.Result, all map[string]*outcome, names []string, refs ...result.Ref) result.Figure {
	p := result.Panel{Kind: result.CDF, YLabel: "share of windows", LogX: true, Refs: refs}
	for _, name := range names {
		o := all[name]
		if o == nil {
			continue
		}
		gaps := slices.Concat(o.Out.WindowsMs, o.In.WindowsMs)
		if len(gaps) == 0 {
			continue
		}
		r.AddSeries("gaps "+name, "ms", nil, gaps)
		p.Series, p.Labels = append(p.Series, "gaps "+name), append(p.Labels, armTitle(o))
	}
	return result.Figure{
		Title: "Longest gaps between packets that arrived", XLabel: "ms, logarithmic",
		Caption: "The longest in each 0.5 s, both directions.", Panels: []result.Panel{p},
	}
}
