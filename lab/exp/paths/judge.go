package paths

import (
	"slices"
	"strconv"
	"strings"

	"roam/lab/result"
	"roam/lab/stats"
	"roam/lab/workload"
)

// record is what one run of an arm left behind.
type record struct {
	iperf workload.IperfRecord
	drops map[string]uint64 // of the emulator, by kind
}

// outcome is what one cell gave, a figure for each run. Cells store it.
type outcome struct {
	Mbps       map[string][]float64 // by arm
	Least      []float64            // Mb/s of the slowest connection over all links
	Sent       []float64            // datagrams of those that the cell wants, in per cent
	Lost       []float64            // datagrams
	Misordered []float64            // datagrams that came after one with a higher number, in per cent
	Buffers    float64              // datagrams that had no room in the receiver's socket
	Overflow   float64              // frames that the emulator's queues dropped
}

// add reads the record of one more run of an arm.
func (o *outcome) add(which string, rec record) error {
	r, err := rec.iperf.Report()
	if err != nil {
		return err
	}
	if o.Mbps == nil {
		o.Mbps = make(map[string][]float64)
	}
	o.Mbps[which] = append(o.Mbps[which], r.Mbps)
	o.Overflow += overflow(rec.drops)
	if which == both && len(r.Streams) > 0 {
		o.Least = append(o.Least, slices.Min(r.Streams))
	}
	return nil
}

// runs is a table of what each run of each cell gave: the medians do not show a single bad one.
func (o outcome) runs(c cell, t *result.Table) {
	figures := func(list []float64) string {
		text := make([]string, len(list))
		for i, v := range list {
			text[i] = strconv.FormatFloat(v, 'f', 1, 64)
		}
		return strings.Join(text, " ")
	}
	for _, which := range c.arms() {
		if len(o.Mbps[which]) > 0 {
			t.Rows = append(t.Rows, []string{c.name, which, figures(o.Mbps[which])})
		}
	}
}

// overflow is how many frames the emulator's queues dropped.
func overflow(drops map[string]uint64) float64 { return float64(drops["queue"] + drops["refused"]) }

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
func (o outcome) metrics(c cell, r *result.Result) {
	set := func(name string, v float64) { r.Set(c.name+"_"+name, v) }
	set("overflow", o.Overflow)
	if c.udp > 0 {
		set("sent_pct", slices.Min(o.Sent))
		set("lost", slices.Max(o.Lost))
		set("misordered_pct", slices.Max(o.Misordered))
		set("rcvbuf_errors", o.Buffers)
		return
	}
	set("both_mbps", stats.Median(o.Mbps[both]))
	var ratios []float64
	for i, mbps := range o.Mbps[both] {
		ratios = append(ratios, mbps/max(o.Mbps[alone][i], 1e-9))
	}
	sum := 0.0
	for _, l := range c.links[:len(c.links)-c.long] {
		sum += l.mbps
	}
	set("alone_mbps", stats.Median(o.Mbps[alone]))
	set("ratio", stats.Median(ratios))
	set("worst", slices.Min(ratios))
	set("of_sum", stats.Median(ratios)*c.links[0].mbps/sum) // of what the links would give one after the other
	if c.flows > 1 && len(o.Least) == len(o.Mbps[alone]) {
		least := 1.0
		for i, mbps := range o.Least {
			least = min(least, mbps*c.links[0].mbps/max(o.Mbps[alone][i]*sum, 1e-9))
		}
		set("least", least)
	}
	if c.mptcp {
		set("mptcp_mbps", stats.Median(o.Mbps[mptcp]))
		set("to_mptcp", stats.Median(o.Mbps[both])/max(stats.Median(o.Mbps[mptcp]), 1e-9))
	}
}
