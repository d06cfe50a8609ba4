package phoomikiattisak

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"roam/lab/result"
)

// draw adds tables, series and figures.
func (m *matrix) draw() {
	r := m.env.Result
	r.Tables = append(r.Tables, m.handoffTable(), m.transferTable(), m.udpTable())
	if m.extra != nil {
		r.Tables = append(r.Tables, m.beyondTables()...)
	}
	for _, s := range m.scenarios {
		r.Figures = append(r.Figures, m.profileFigure(s))
	}
	for _, s := range m.scenarios {
		if f, ok := m.sequenceFigure(s); ok {
			r.Figures = append(r.Figures, f)
		}
	}
	r.Figures = append(r.Figures, m.gapFigure())
}

// cellsOf iterates over scenarios, kinds and variants in order.
func (m *matrix) cellsOf(do func(name string, list []outcome)) {
	for _, s := range m.scenarios {
		for _, k := range m.kindsOf(s) {
			for _, v := range m.variants {
				list := m.pick(func(o outcome) bool { return o.Scenario == s && o.Kind == k && o.Variant == v })
				do(strings.ToUpper(s)+" "+k+" "+v, list)
			}
		}
	}
}

// spread formats a median, with the range if there are several values.
func spread(list []outcome, format string, f func(outcome) float64) string {
	mid := middle(list, f)
	if math.IsNaN(mid) {
		return "–"
	}
	text := fmt.Sprintf(format, mid)
	if len(list) > 1 {
		least, most := -worst(list, func(o outcome) float64 { return -f(o) }), worst(list, f)
		text += fmt.Sprintf(" ("+format+"–"+format+")", least, most)
	}
	return text
}

// handoffTable lists the cost of each handoff.
func (m *matrix) handoffTable() result.Table {
	tab := result.Table{
		Title: "Handoffs (M4, M5 and gaps)",
		Note: "Medians, with the range where a cell has several flows. Gap: longest time in which the stream did not grow " +
			"at the mobile host. " +
			"Control: what it is without a handoff on the worse of both networks. Outage: from the cut to the new network's " +
			"first advertisement. " +
			"RTO: of the sender, just before. " +
			"LU to ack: each exchange. Stale: segments that came to the old locator after it was given up and were delivered " +
			"all the same; the paper's hard handoff loses them (about 229).",
		Columns: []string{"cell", "lost", "gap", "control", "outage", "RTO", "LU to ack", "messages", "stale",
			"counted by the data planes"},
	}
	m.cellsOf(func(name string, list []outcome) {
		if len(list) == 0 {
			return
		}
		var lu []string
		for _, took := range list[0].DelayMs {
			lu = append(lu, duration(took))
		}
		tab.Rows = append(tab.Rows, []string{
			name,
			spread(list, "%.0f", func(o outcome) float64 { return float64(o.Lost) }),
			spread(list, "%.0f", func(o outcome) float64 { return o.GapMs }) + " ms",
			fmt.Sprintf("%.0f ms", m.control(list[0])),
			spread(list, "%.0f", func(o outcome) float64 { return o.OutageMs }) + " ms",
			spread(list, "%.0f", func(o outcome) float64 { return o.RTOMs }) + " ms",
			strings.Join(lu, ", "),
			spread(list, "%.0f", func(o outcome) float64 { return float64(o.Updates) }),
			spread(list, "%.0f", func(o outcome) float64 { return float64(o.Stale) }),
			dropsOf(list[0]),
		})
	})
	return tab
}

// duration is a time in milliseconds as a table has it.
func duration(ms float64) string {
	if ms == never {
		return "never"
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// dropsOf lists the drops of a flow's hosts with their reasons, and the packets accepted
// from withdrawn locators.
func dropsOf(o outcome) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(o.Counters)) {
		all = append(all, fmt.Sprintf("%s %d", name, o.Counters[name]))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// transferTable lists throughput and retransmissions.
func (m *matrix) transferTable() result.Table {
	tab := result.Table{
		Title: "Data and retransmissions (M2, M3)",
		Note: "Retransmitted: segments that repeated what had been sent. Twice: segments that reached the mobile host " +
			"twice, so that sending them again was in vain. " +
			"Late: first copies that came after later ones. Rates: before the handoff, and from three seconds after it. " +
			"Published values of M2 and M3 are in figures only, without numbers.",
		Columns: []string{"cell", "MB", "retransmitted", "twice", "late", "duplicate acks", "before", "after"},
	}
	m.cellsOf(func(name string, list []outcome) {
		if len(list) == 0 {
			return
		}
		number := func(f func(outcome) int) string {
			return spread(list, "%.0f", func(o outcome) float64 { return float64(f(o)) })
		}
		tab.Rows = append(tab.Rows, []string{
			name,
			spread(list, "%.1f", func(o outcome) float64 { return o.MB }),
			number(func(o outcome) int { return o.Retransmits }),
			number(func(o outcome) int { return o.Duplicates }),
			number(func(o outcome) int { return o.Late }),
			number(func(o outcome) int { return o.DupAcks }),
			spread(list, "%.1f", func(o outcome) float64 { return o.OldMbps }) + " Mb/s",
			spread(list, "%.1f", func(o outcome) float64 { return o.NewMbps }) + " Mb/s",
		})
	})
	return tab
}

func (m *matrix) udpTable() result.Table {
	tab := result.Table{
		Title: "UDP through a soft handoff",
		Note: "A steady flow below the rate of the link, both ways. Drop: the worst second's arrivals below the mean, " +
			"less what the longer path holds back.",
		Columns: []string{"scenario", "datagrams", "lost", "late", "drop"},
	}
	for _, o := range m.udps {
		tab.Rows = append(tab.Rows, []string{strings.ToUpper(o.Scenario), fmt.Sprint(o.Written), fmt.Sprint(o.Lost),
			fmt.Sprint(o.Late), fmt.Sprintf("%.1f %%", o.DropPct)})
	}
	return tab
}

// beyondTables lists the cells beyond the paper, each with its counterpart.
func (m *matrix) beyondTables() []result.Table {
	load := result.Table{
		Title: "False handoffs under load",
		Note: "Two near networks, nothing happens to either; one flow. The paper met false handoffs when a deep queue " +
			"delayed advertisements, and bounded the window.",
		Columns: []string{"flow", "preferred lifetime", "longest time in the queue", "longest between advertisements",
			"false handoffs"},
	}
	for _, c := range [][2]string{{"limited", "window of the paper"}, {"deep", "no limit"},
		{"lasting", "no limit, long lifetime"}} {
		o := m.extra.Load[c[0]]
		load.Rows = append(load.Rows, []string{c[1], fmt.Sprintf("%.0f s", o.LifetimeS), fmt.Sprintf("%.0f ms", o.QueueMs),
			fmt.Sprintf("%.1f s", o.AdvertGapS), fmt.Sprint(o.Handoffs)})
	}
	priority := result.Table{
		Title: "Signals before data",
		Note: "The mobile host sends as fast as TCP can. Roam marks its signals with class CS6; with \"on\", the queues " +
			"of the access links let that class go first.",
		Columns: []string{"class CS6 first", "LU to ack, new link came", "LU to ack, old link went"},
	}
	prefer := result.Table{
		Title: "Staying on the better network",
		Note: "Near to far; both there for four seconds, then the near one is withdrawn. With uplinks.prefer the host " +
			"stays until then.",
		Columns: []string{"uplinks.prefer", "handoffs before it had to", "MB", "lost"},
	}
	for _, on := range []string{"off", "on"} {
		p, f := m.extra.Priority[on], m.extra.Prefer[on]
		priority.Rows = append(priority.Rows, []string{on, duration(p.GainMs), duration(p.EndMs)})
		prefer.Rows = append(prefer.Rows, []string{on, fmt.Sprint(f.Early), fmt.Sprintf("%.1f", f.MB), fmt.Sprint(f.Lost)})
	}
	return []result.Table{load, priority, prefer}
}

// profileFigure is the paper's rate over time (Figs. 9 to 12), one flow each.
func (m *matrix) profileFigure(s string) result.Figure {
	f := result.Figure{
		Title: "Data rate at the mobile host, " + strings.ToUpper(s), XLabel: "time (s)",
		Caption: "What arrived by each network, stacked, in bins of 200 ms; the first flow of each kind. " +
			"Dashed: the handoff.",
	}
	v := m.variants[0]
	for _, k := range m.kinds {
		list := m.pick(func(o outcome) bool { return o.Scenario == s && o.Kind == k && o.Variant == v })
		if len(list) == 0 {
			continue
		}
		o, name := list[0], strings.Join([]string{s, k, v}, " ")
		panel := result.Panel{
			Title:  k + ", " + v,
			Kind:   result.Stack,
			YLabel: "Mb/s",
			Arm:    name,
			Marks:  true,
			Height: 120,
			Labels: []string{"net1", "net2"},
		}
		for _, link := range panel.Labels {
			y := o.Profile[link]
			x := make([]float64, len(y))
			for i := range x {
				x[i] = math.Round(float64(i+1)*drawn.Seconds()*1e3) / 1e3
			}
			m.env.Result.AddSeries(name+" "+link, "Mb/s", x, y)
			panel.Series = append(panel.Series, name+" "+link)
		}
		m.env.Result.Mark(result.Event{T: math.Round(o.At*1e3) / 1e3, Arm: name, Kind: "handoff", Label: k})
		f.Panels = append(f.Panels, panel)
	}
	return f
}

// sequenceFigure plots the sent and received sequence numbers around the handoff.
func (m *matrix) sequenceFigure(s string) (result.Figure, bool) {
	f := result.Figure{
		Title: "Sequence numbers around the handoff, " + strings.ToUpper(s), XLabel: "time (s)",
		Caption: "Position in the stream of what the correspondent sent and of what reached the mobile host (every fourth " +
			"segment).",
	}
	v := m.variants[0]
	for _, k := range m.kinds {
		list := m.pick(func(o outcome) bool { return o.Scenario == s && o.Kind == k && o.Variant == v && o.Sequence != nil })
		if len(list) == 0 {
			continue
		}
		panel := result.Panel{Title: k + ", " + v, Kind: result.Points, YLabel: "MB", Height: 160,
			Arm: strings.Join([]string{s, k, v}, " "), Marks: true}
		for _, what := range []string{"sent", "retransmitted", "came by net1", "came by net2"} {
			xy, name := list[0].Sequence[what], strings.Join([]string{"seq", s, k, v, what}, " ")
			if len(xy[0]) == 0 {
				continue
			}
			m.env.Result.AddSeries(name, "MB", xy[0], xy[1])
			panel.Series, panel.Labels = append(panel.Series, name), append(panel.Labels, what)
		}
		f.Panels = append(f.Panels, panel)
	}
	return f, len(f.Panels) > 0
}

// gapFigure compares the gaps of handoffs with those of the control.
func (m *matrix) gapFigure() result.Figure {
	panel := result.Panel{Kind: result.CDF, YLabel: "share of windows", LogX: true}
	put := func(name, label string, v []float64) {
		if len(v) == 0 {
			return
		}
		for i := range v {
			v[i] = math.Round(v[i]*1e3) / 1e3
		}
		m.env.Result.AddSeries(name, "ms", nil, v)
		panel.Series, panel.Labels = append(panel.Series, name), append(panel.Labels, label)
	}
	var still []float64
	for _, o := range m.runs {
		still = append(still, slices.Concat(o.OldGaps, o.NewGaps)...)
	}
	put("gap control", "no handoff", still)
	for _, k := range m.kinds {
		var v []float64
		for _, o := range m.kind(k) {
			v = append(v, o.AfterMs)
		}
		put("gap "+k, k, v)
	}
	return result.Figure{
		Title: "Longest gaps", XLabel: "time in which the stream did not grow (ms, logarithmic)",
		Caption: "Per window of a second without a handoff, and per handoff; of a cut without the outage itself.",
		Panels:  []result.Panel{panel},
	}
}
