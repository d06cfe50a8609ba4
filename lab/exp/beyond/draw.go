package beyond

import (
	"fmt"
	"math"

	"roam/lab/figure"
	"roam/lab/result"
)

// comparison is one pair of transfers of a cell that compares unequal paths.
type comparison struct {
	*outcome
	i int
}

// draw adds a table of all cells, and the arrivals over time of each.
func draw(r *result.Result, all []*outcome) {
	var transfers []comparison
	var probes []*outcome
	for _, o := range all {
		for i := range o.Mbps {
			transfers = append(transfers, comparison{o, i})
		}
		if len(o.Mbps) == 0 {
			probes = append(probes, o)
			arrivals(o).AddTo(r)
			for _, m := range o.Marks {
				figure.Step(r, o.Cell, m.T, m.Label)
			}
		}
	}
	if len(transfers) > 0 {
		r.Tables = append(r.Tables, transferTable(transfers))
	}
	if len(probes) > 0 {
		r.Tables = append(r.Tables, probeTable(probes))
	}
}

// transferTable sets each transfer beside the better path alone.
func transferTable(list []comparison) result.Table {
	return figure.Table("One TCP connection over unequal paths", "", list,
		figure.Col("cell", func(t comparison) string { return t.Cell }),
		figure.Col("pair", func(t comparison) string { return fmt.Sprint(t.i + 1) }),
		figure.Col("better path alone", func(t comparison) string { return fmt.Sprintf("%.1f Mb/s", t.AloneMbps[t.i]) }),
		figure.Col("both, duality", func(t comparison) string { return fmt.Sprintf("%.1f Mb/s", t.Mbps[t.i]) }),
		figure.Col("ratio", func(t comparison) string {
			return fmt.Sprintf("%.3f", t.Mbps[t.i]/math.Max(t.AloneMbps[t.i], 1e-9))
		}),
	)
}

// probeTable lists the results of the probes in each cell.
func probeTable(list []*outcome) result.Table {
	count := func(pick func(*outcome) int) func(*outcome) string {
		return func(o *outcome) string { return fmt.Sprint(pick(o)) }
	}
	gap := func(pick func(*outcome) float64) func(*outcome) string {
		return func(o *outcome) string { return fmt.Sprintf("%.0f ms", pick(o)) }
	}
	return figure.Table("Cells under the probes",
		"Gaps: longest time without an arrival at either receiving application, less the longest of the lead of the same "+
			"protocol, in which nothing happens. Lost by links: those of the datagrams lost that the emulator counted as "+
			"lost, by its loss rate or by a cut. The daemon's own counts decide nothing.",
		list,
		figure.Col("cell", func(o *outcome) string { return o.Cell }),
		figure.Col("alive", (*outcome).ending),
		figure.Col("datagrams sent", count(func(o *outcome) int { return o.Sent })),
		figure.Col("lost", count(func(o *outcome) int { return o.Lost })),
		figure.Col("lost by links", count(func(o *outcome) int { return o.ByLinks })),
		figure.Col("misordered", count(func(o *outcome) int { return o.Misordered })),
		figure.Col("UDP gap", gap(func(o *outcome) float64 { return o.UDPGapMs })),
		figure.Col("TCP gap", gap(func(o *outcome) float64 { return o.TCPGapMs })),
		figure.Col("UDP lead", gap(func(o *outcome) float64 { return o.UDPLeadMs })),
		figure.Col("TCP lead", gap(func(o *outcome) float64 { return o.TCPLeadMs })),
		figure.Col("daemon: handoffs", func(o *outcome) string {
			return fmt.Sprintf("%d of %d", o.Daemon.Handoffs, o.Changes)
		}),
		figure.Col("daemon: failures", count(func(o *outcome) int { return o.Daemon.Failed })),
	)
}

// ending says in words whether the flows lived.
func (o *outcome) ending() string {
	if o.Alive {
		return "yes"
	}
	return o.Why
}

// arrivals plots the arrivals at the probe. With many steps it omits the lines of the
// steps, which would hide the curve.
func arrivals(o *outcome) figure.Plot {
	return figure.Plot{
		Title: "Arrivals: " + o.Cell, X: figure.Time,
		Caption: "Datagrams of the UDP probe that reached the receiving application, in bins of 100 ms.",
		Panels: []figure.Panel{{Kind: result.Lines, Y: "1/s", Height: 120, Arm: o.Cell,
			Marked: len(o.Marks) <= 12, Curves: []figure.Curve{
				{Name: o.Cell + " out", Label: figure.Way("out"), Unit: "1/s", X: o.X, Y: o.Out},
				{Name: o.Cell + " in", Label: figure.Way("in"), Unit: "1/s", X: o.X, Y: o.In},
			}}},
	}
}
