package paths

import (
	"slices"

	"roam/lab/result"
	"roam/lab/stats"
)

// outcome is what one cell gave, a figure for each run.
type outcome struct {
	cell
	mbps     map[string][]float64 // by arm
	least    []float64            // Mb/s of the slowest connection over all links
	lost     []float64            // datagrams
	buffers  float64              // datagrams that had no room in the receiver's socket
	overflow float64              // frames that the emulator's queues dropped
}

// miss says of the claims about the cell that it was not run.
func (c cell) miss(r *result.Result) {
	for _, metric := range c.metricNames() {
		r.Miss(metric, "the cell "+c.name+" was not run")
	}
}

// metricNames returns the metrics of the cell that claims are about.
func (c cell) metricNames() (list []string) {
	switch {
	case c.death:
		return []string{c.name + "_to_mptcp"}
	case c.udp > 0:
		return []string{c.name + "_lost"}
	}
	if c.mptcp {
		list = append(list, c.name+"_to_mptcp")
	}
	if c.flows > 1 {
		list = append(list, c.name+"_least")
	}
	return append(list, c.name+"_ratio", c.name+"_worst", c.name+"_of_sum")
}

// metrics sets the figures of a cell.
func (o *outcome) metrics(r *result.Result) {
	set := func(name string, v float64) { r.Set(o.name+"_"+name, v) }
	set("both_mbps", stats.Median(o.mbps[both]))
	set("overflow", o.overflow)
	if o.udp > 0 {
		set("lost", slices.Max(o.lost))
		set("rcvbuf_errors", o.buffers)
		return
	}
	var ratios []float64
	for i, mbps := range o.mbps[both] {
		ratios = append(ratios, mbps/max(o.mbps[alone][i], 1e-9))
	}
	sum := 0.0
	for _, l := range o.links[:len(o.links)-o.long] {
		sum += l.mbps
	}
	set("alone_mbps", stats.Median(o.mbps[alone]))
	set("ratio", stats.Median(ratios))
	set("worst", slices.Min(ratios))
	set("of_sum", stats.Median(ratios)*o.links[0].mbps/sum) // of what the links would give one after the other
	if o.flows > 1 && len(o.least) == len(o.mbps[alone]) {
		least := 1.0
		for i, mbps := range o.least {
			least = min(least, mbps*o.links[0].mbps/max(o.mbps[alone][i]*sum, 1e-9))
		}
		set("least", least)
	}
	if o.mptcp {
		set("mptcp_mbps", stats.Median(o.mbps[mptcp]))
		set("to_mptcp", stats.Median(o.mbps[both])/max(stats.Median(o.mbps[mptcp]), 1e-9))
	}
}
