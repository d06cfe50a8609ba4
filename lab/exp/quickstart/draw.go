package quickstart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/workload/udpflow"
)

// draw adds series, events, tables and figures of both passes.
func draw(env *exp.Env, with, without *trace) {
	r := env.Result
	r.Summary, r.Recordings = with.summary(without), with.recordings()
	for _, t := range []*trace{with, without} {
		if t == nil {
			continue
		}
		t.addSeries(r)
		t.addMarks(r)
	}
	r.Tables = append(r.Tables, with.handoffTable(), with.sessionTable(without), with.shareTable(), with.counterTable())
	const time = "time since the start of traffic (s)"
	links := []string{"net1", "net2", "net3"}
	panel := func(arm, title, what, kind string) result.Panel {
		p := result.Panel{Title: title, Kind: kind, YLabel: "Mb/s", Labels: links, Arm: arm, Marks: true, Height: 150}
		for _, l := range links {
			p.Series = append(p.Series, seriesName(arm, what+" "+l))
		}
		return p
	}
	r.Figures = append(r.Figures, result.Figure{
		Title: "Throughput per link with Roam", XLabel: time,
		Caption: "All traffic that the access links delivered, in bins of 100 ms, stacked. Dashed lines are the steps of " +
			"the schedule: a new link comes up, links are added, withdrawn, returned.",
		Panels: []result.Panel{
			panel("", "from the mobile host", "out", result.Stack),
			panel("", "to the mobile host", "in", result.Stack),
			{Title: "datagrams of the probe lost", Kind: result.Lines, YLabel: "per 100 ms", Marks: true, Height: 70,
				Series: []string{"udp out lost", "udp in lost"}, Labels: []string{"from the mobile host", "to the mobile host"}},
			{Title: "ssh, time from a line typed to its echo", Kind: result.Points, YLabel: "ms", Marks: true, Height: 70,
				Series: []string{"ssh"}},
		},
	})
	if without != nil {
		r.Figures = append(r.Figures, controlFigure(time))
	}
	r.Figures = append(r.Figures, result.Figure{
		Title: "Gaps at the receiving applications", XLabel: "time between two reads (ms, logarithmic)",
		Caption: "Spans between two datagrams of the UDP probe and between two reads of the paced TCP connection, longest " +
			"per window of equal length: windows without any event against those that begin with a handoff.",
		Panels: []result.Panel{{Kind: result.CDF, YLabel: "share of windows", LogX: true,
			Series: []string{"gap udp static", "gap udp handoff", "gap tcp static", "gap tcp handoff"},
			Labels: []string{"UDP static", "UDP handoff", "TCP static", "TCP handoff"}}},
	})
}

// controlFigure sets the two passes under each other.
func controlFigure(xlabel string) result.Figure {
	panel := func(arm, title string) result.Panel {
		return result.Panel{Title: title, Kind: result.Lines, YLabel: "datagrams/s", Arm: arm, Marks: true, Height: 120,
			Series: []string{seriesName(arm, "udp out sent"), seriesName(arm, "udp in sent"), seriesName(arm, "udp out"),
				seriesName(arm, "udp in")},
			Labels: []string{"sent by it", "sent to it", "from the mobile host", "to the mobile host"}}
	}
	return result.Figure{
		Title: "With Roam and without", XLabel: xlabel,
		Caption: "Datagrams of the UDP probe: sent, and above it received by the application. Where both fall, the sender " +
			"stood still. The control runs a shorter schedule: without Roam nothing arrives from the " +
			"moment the first network is cut until it is back; the applications of the control sit in their timers.",
		Panels: []result.Panel{panel("", "Roam"), panel("control", "plain IPv6")},
	}
}

func seriesName(arm, name string) string { return strings.TrimSpace(arm + " " + name) }

// addSeries adds rates over time and, for the pass with Roam, the gaps.
func (t *trace) addSeries(r *result.Result) {
	t.AddRates(r, t.arm)
	end := t.At(t.plan.Length)
	for what, f := range map[string]*udpflow.Flow{"udp out": t.traffic.flowUp, "udp in": t.traffic.flowDown} {
		x, y := f.Rate(t.Start, end, 100*time.Millisecond)
		r.AddSeries(seriesName(t.arm, what), "1/s", x, y)
		x, y = f.Offered(t.Start, end, 100*time.Millisecond)
		r.AddSeries(seriesName(t.arm, what+" sent"), "1/s", x, y)
		x, y = f.Losses(t.Start, end, 100*time.Millisecond)
		r.AddSeries(seriesName(t.arm, what+" lost"), "per 100 ms", x, y)
	}
	var x, y []float64
	for _, e := range t.traffic.echoes {
		if at := t.Rel(e.Sent); e.RTT > 0 && at >= 0 {
			x, y = append(x, stats.Round(at, 3)), append(y, stats.Round(stats.Millis(e.RTT), 1))
		}
	}
	r.AddSeries(seriesName(t.arm, "ssh"), "ms", x, y)
	if t.arm == "" {
		t.addGaps(r)
	}
}

// addGaps adds the longest gap of each window: static, and at handoffs.
func (t *trace) addGaps(r *result.Result) {
	w := t.window()
	gaps := map[string][]float64{}
	note := func(kind string, from time.Time) {
		tr := t.traffic
		gaps["gap udp "+kind] = append(gaps["gap udp "+kind], stats.Round(gapUDP(tr.flowUp, from, w), 3),
			stats.Round(gapUDP(tr.flowDown, from, w), 3))
		gaps["gap tcp "+kind] = append(gaps["gap tcp "+kind], stats.Round(gapTCP(tr.readUp, from, w), 3),
			stats.Round(gapTCP(tr.readDown, from, w), 3))
	}
	for i := range t.plan.windows {
		note("static", t.At(t.plan.static.from+time.Duration(i)*w))
	}
	for _, h := range t.handoffs() {
		if !h.hard && !h.advert.IsZero() {
			note("handoff", h.advert)
			note("handoff", h.cut)
		}
	}
	for name, v := range gaps {
		r.AddSeries(name, "ms", nil, v)
	}
}

// addMarks adds the steps of the schedule as events.
func (t *trace) addMarks(r *result.Result) {
	for _, s := range t.Steps {
		switch {
		case s.Name != "" && s.At.After(t.Start.Add(100*time.Millisecond)):
			r.Mark(result.Event{T: stats.Round(t.Rel(s.At), 3), Arm: t.arm, Kind: "step", Label: s.Name})
		case s.Op == scene.Detach && t.arm != "":
			r.Mark(result.Event{T: stats.Round(t.Rel(s.At), 3), Arm: t.arm, Kind: "cut", Label: s.Link + " cut"})
		}
	}
	slices.SortStableFunc(r.Events, func(a, b result.Event) int {
		switch {
		case a.T < b.T:
			return -1
		case a.T > b.T:
			return 1
		}
		return 0
	})
}

// handoffTable lists the cost of each handoff.
func (t *trace) handoffTable() result.Table {
	tab := result.Table{
		Title: "Cost of each handoff",
		Note: "Carrier to RA: from the carrier of the new link to the first Router Advertisement there. RA to data: from " +
			"that to the host's data on the link, as the emulator sees them. Gaps: longest at any receiving application, " +
			"above the static control. The daemon's own times decide nothing: RA to locator is negative where it did not " +
			"wait for an advertisement; LU to ack is from Locator Update to acknowledgement, per correspondent.",
		Columns: []string{"#", "kind", "from", "to", "at", "carrier to RA", "RA to data", "UDP lost", "UDP gap", "TCP gap",
			"daemon: RA to locator", "daemon: LU to ack", "daemon: all acknowledged"},
	}
	for _, h := range t.handoffs() {
		kind := "soft"
		if h.hard {
			kind = "hard"
		}
		var lu []string
		for _, v := range h.opinion.luMs {
			lu = append(lu, fmt.Sprintf("%.1f", v))
		}
		tab.Rows = append(tab.Rows, []string{
			fmt.Sprint(h.number), kind, h.from, h.to, fmt.Sprintf("%.2f s", t.Rel(h.up)), ms(since(h.up, h.advert)),
			ms(since(h.advert, h.carried)), fmt.Sprint(h.lost), ms(h.udpGapMs), ms(h.tcpGapMs),
			ms(since(h.advert, h.opinion.usable)), strings.Join(lu, ", ") + " ms", ms(h.opinion.ackMs),
		})
	}
	return tab
}

func ms(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.1f ms", v)
}

// sessionTable is how each session ended, beside the control.
func (t *trace) sessionTable(control *trace) result.Table {
	tab := result.Table{Title: "Sessions", Columns: []string{"session", "with Roam", "last seen",
		"without Roam, while its network is away"}}
	silence := "not run"
	if control != nil {
		if from, to, ok := control.away(); ok {
			sum := 0
			for _, n := range control.delivered(from, to) {
				sum += n
			}
			silence = fmt.Sprintf("%d delivered in %.1f s", sum, to.Sub(from).Seconds())
		}
	}
	for i, s := range t.traffic.sessions {
		how := "alive to the end"
		if err := t.traffic.outcome[s.Name()]; err != nil {
			how = "died: " + firstLine(err.Error())
		}
		row := []string{s.Name(), how, t.traffic.last[s.Name()], ""}
		if i == 0 {
			row[3] = "all together: " + silence
		}
		tab.Rows = append(tab.Rows, row)
	}
	return tab
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// shareTable is the links' shares of the bytes.
func (t *trace) shareTable() result.Table {
	tab := result.Table{Title: "Share of the data per link", Columns: append([]string{"phase", "direction"}, access...)}
	for _, p := range t.plan.shares {
		from, to := t.phase(p)
		out, in := t.DataShares(p.links, from, to)
		for i, shares := range []map[string]float64{out, in} {
			row := []string{p.name, [2]string{"out", "in"}[i]}
			for _, l := range access {
				row = append(row, fmt.Sprintf("%.2f %%", shares[l]))
			}
			tab.Rows = append(tab.Rows, row)
		}
	}
	return tab
}

// counterTable lists the data planes' non-zero counters.
func (t *trace) counterTable() result.Table {
	tab := result.Table{Title: "Counters of the data planes", Columns: []string{"counter", "mn", "cn1", "cn2", "meaning"}}
	for i, c := range t.counters["mn"] {
		row := []string{c.Name}
		some := false
		for _, h := range []string{"mn", "cn1", "cn2"} {
			v := uint64(0)
			if l := t.counters[h]; i < len(l) {
				v = l[i].Value
			}
			some = some || v > 0
			row = append(row, fmt.Sprint(v))
		}
		if some {
			tab.Rows = append(tab.Rows, append(row, c.Meaning))
		}
	}
	return tab
}
