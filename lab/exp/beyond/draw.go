package beyond

import (
	"fmt"
	"math"

	"roam/lab/result"
)

// draw adds a table of all cells, and the arrivals over time of each.
func draw(r *result.Result, all []*outcome) {
	probes := result.Table{
		Title:   "Cells under the probes",
		Note:    "Gaps: longest time without an arrival at either receiving application, less the longest of the lead, in which nothing happens. Lost by links: those of the datagrams lost that a link was seen to lose, because it was told to or because it was cut.",
		Columns: []string{"cell", "alive", "datagrams sent", "lost", "lost by links", "misordered", "UDP gap", "TCP gap", "lead", "handoffs", "failures"},
	}
	transfers := result.Table{Title: "One TCP connection over unequal paths", Columns: []string{"cell", "pair", "better path alone", "both, duality", "ratio"}}
	for _, o := range all {
		if len(o.Mbps) > 0 {
			for i := range o.Mbps {
				transfers.Rows = append(transfers.Rows, []string{o.Cell, fmt.Sprint(i + 1), fmt.Sprintf("%.1f Mb/s", o.AloneMbps[i]), fmt.Sprintf("%.1f Mb/s", o.Mbps[i]), fmt.Sprintf("%.3f", o.Mbps[i]/math.Max(o.AloneMbps[i], 1e-9))})
			}
			continue
		}
		alive := "yes"
		if !o.Alive {
			alive = o.Why
		}
		probes.Rows = append(probes.Rows, []string{
			o.Cell, alive, fmt.Sprint(o.Sent), fmt.Sprint(o.Lost), fmt.Sprint(o.ByLinks), fmt.Sprint(o.Misordered),
			fmt.Sprintf("%.0f ms", o.UDPGapMs), fmt.Sprintf("%.0f ms", o.TCPGapMs), fmt.Sprintf("%.0f ms", o.LeadGapMs),
			fmt.Sprintf("%d of %d", o.Handoffs, o.Changes), fmt.Sprint(o.Failed),
		})
		addFigure(r, o)
	}
	for _, t := range []result.Table{transfers, probes} {
		if len(t.Rows) > 0 {
			r.Tables = append(r.Tables, t)
		}
	}
}

// addFigure adds the arrivals of a cell over time.
func addFigure(r *result.Result, o *outcome) {
	r.AddSeries(o.Cell+" out", "1/s", o.X, o.Out)
	r.AddSeries(o.Cell+" in", "1/s", o.X, o.In)
	for _, m := range o.Marks {
		r.Mark(result.Event{T: math.Round(m.T*1e3) / 1e3, Arm: o.Cell, Kind: "step", Label: m.Label})
	}
	r.Figures = append(r.Figures, result.Figure{
		Title: "Arrivals: " + o.Cell, XLabel: "time since the start of the schedule (s)",
		Caption: "Datagrams of the UDP probe that reached the receiving application, in bins of 100 ms.",
		Panels: []result.Panel{{Kind: result.Lines, YLabel: "1/s", Arm: o.Cell, Marks: len(o.Marks) <= 12, Height: 120,
			Series: []string{o.Cell + " out", o.Cell + " in"}, Labels: []string{"from the mobile host", "to the mobile host"}}},
	})
}
