package beyond

import (
	"math"
	"slices"
	"time"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// judge counts the probes' results within the schedule.
func (o *outcome) judge(c cell, t *scene.Trace, l *load, p exp.Params) {
	flows := []*udpflow.Flow{l.up, l.down}
	o.Dropped = t.Drops["queue"] + t.Drops["refused"]
	for way, f := range flows {
		n := f.Count(t.Start, t.End.Add(-time.Second))
		for _, seq := range f.Missing(t.Start, t.End.Add(-time.Second)) {
			if l.links.Has(way, seq) {
				o.ByLinks++
			}
		}
		o.Sent += n.Written
		o.Lost += n.Lost
		o.Doubled += n.Doubled
		o.Misordered += n.Misorders
		o.Tail += f.Arrived(t.End.Add(-time.Second), t.End)
		last := f.Count(t.End.Add(-time.Second), t.End)
		o.Last[way] = tail{Sent: last.Written + last.Refused, Came: last.Written + last.Refused - last.Lost}
	}
	owners := scene.Owners{Overflows: l.queues}
	if c.name == "loss" || c.name == "oneway" { // a link is told to lose, beyond its cuts
		owners.Asked = l.links
	}
	o.Owned = owners.Account("cell "+c.name, l.up, l.down, [2]time.Time{t.Start, t.End.Add(-time.Second)})
	o.Expected = 2 * p.Int("udp_rate")
	o.gaps(t, l, flows)
	o.Daemon.hear(t.Events["mn"], t.Start)
	for _, d := range t.Steps {
		if d.Name != "" {
			o.Marks = append(o.Marks, mark{t.Rel(d.At), d.Name})
		}
	}
	if c.name == "outage" {
		o.resume(t, l)
	}
	o.X, o.Out = l.up.Rate(t.Start, t.End, 100*time.Millisecond)
	_, o.In = l.down.Rate(t.Start, t.End, 100*time.Millisecond)
}

// hear counts the events of the mobile host's daemon.
func (d *opinion) hear(events []node.Event, start time.Time) {
	for _, e := range events {
		switch e.Kind {
		case "handoff-done":
			if len(e.To) > 0 && !e.Time.Before(start) {
				d.Handoffs++
			}
		case "update-failed", "session-fell-back", "peer-dead", "session-replaced":
			d.Failed++
		}
	}
}

// flows reports whether data flow to the end of the schedule: in its last second half of what is due, and of what was
// sent then nine tenths in each direction.
func (o *outcome) flows() bool {
	for _, w := range o.Last {
		if w.Came <= o.Expected/4 || 10*w.Came < 9*w.Sent {
			return false
		}
	}
	return o.Tail > o.Expected/2
}

// gaps takes the longest gap after the lead, above the longest of the same protocol within it.
func (o *outcome) gaps(t *scene.Trace, l *load, flows []*udpflow.Flow) {
	begin := t.At(lead)
	udp, tcp := 0.0, 0.0
	for i, f := range flows {
		o.UDPLeadMs = max(o.UDPLeadMs, stats.Millis(f.LongestGap(t.Start, begin).Length()))
		udp = max(udp, stats.Millis(f.LongestGap(begin, t.End).Length()))
		_, d := l.reads[i].LongestGap(t.Start, begin)
		o.TCPLeadMs = max(o.TCPLeadMs, stats.Millis(d))
		_, d = l.reads[i].LongestGap(begin, t.End)
		tcp = max(tcp, stats.Millis(d))
	}
	o.UDPGapMs, o.TCPGapMs = max(0, udp-o.UDPLeadMs), max(0, tcp-o.TCPLeadMs)
}

// resume finds the first data after the outage, from the network's first advertisement on.
func (o *outcome) resume(t *scene.Trace, l *load) {
	i := slices.IndexFunc(t.Steps, func(d scene.Done) bool { return d.Op == scene.Attach })
	cut := slices.IndexFunc(t.Steps, func(d scene.Done) bool { return d.Op == scene.Cut })
	back := t.Steps[i].At
	if at, ok := node.Added(t.Events["mn"], "net1", back); ok {
		o.Daemon.ReturnToLocatorMs = stats.Millis(at.Sub(back))
	}
	usable, ok := t.Advertised("net1", back)
	if !ok {
		return
	}
	o.Resume = resumed{
		Known:            true,
		ReturnToAdvertMs: stats.Millis(usable.Sub(back)),
		OutageS:          back.Sub(t.Steps[cut].At).Seconds(),
	}
	first := func(at time.Time, ok bool) float64 {
		if !ok {
			return 1e6 // never, within the schedule
		}
		return max(0, stats.Millis(at.Sub(usable)))
	}
	o.Resume.UDPOut = first(l.up.FirstAfter(back, back))
	o.Resume.UDPIn = first(l.down.FirstAfter(back, back))
	for k, to := range []*float64{&o.Resume.TCPOut, &o.Resume.TCPIn} {
		r := l.reads[k]
		j := slices.IndexFunc(r, func(x tcpflow.Read) bool { return x.At >= back.UnixNano() })
		if j < 0 {
			*to = 1e6
			continue
		}
		*to = first(time.Unix(0, r[j].At), true)
	}
}

// metrics sets the metrics of the claims, under the cell's name.
func (o *outcome) metrics(r *result.Result) {
	set := func(name string, v float64) { r.Set(o.Cell+"_"+name, v) }
	if len(o.Mbps) > 0 {
		set("alone_mbps", stats.Median(o.AloneMbps))
		set("duality_mbps", stats.Median(o.Mbps))
		var ratios []float64
		for i := range o.Mbps {
			ratios = append(ratios, o.Mbps[i]/math.Max(o.AloneMbps[i], 1e-9))
		}
		set("ratio", stats.Median(ratios))
		set("emulator_drops", float64(o.Dropped))
		return
	}
	r.SetBool(o.Cell+"_alive", o.Alive && o.flows())
	set("sent", float64(o.Sent))
	r.AddLoss(o.Owned)
	set("lost", float64(o.Owned.Roam()+o.Owned.Asked))
	set("lost_by_links", float64(o.ByLinks))
	set("lost_beyond_links", float64(o.Owned.Roam()))
	set("loss_pct", 100*float64(o.Lost)/math.Max(float64(o.Sent), 1))
	set("misorder_pct", 100*float64(o.Misordered)/math.Max(float64(o.Sent), 1))
	set("gap_udp_ms", o.UDPGapMs)
	set("gap_tcp_ms", o.TCPGapMs)
	set("lead_gap_ms", max(o.UDPLeadMs, o.TCPLeadMs))
	set("daemon_handoffs_done", float64(o.Daemon.Handoffs))
	set("daemon_failures", float64(o.Daemon.Failed))
	set("emulator_drops", float64(o.Dropped))
	set("udp_rcvbuf_errors", float64(o.BufferErrors))
	if q := o.Resume; o.Cell == "outage" && !q.Known {
		for _, way := range []string{"out", "in"} {
			r.Miss(o.Cell+"_resume_"+way+"_ms", "no Router Advertisement came when the network was back")
		}
	} else if q.Known {
		set("length_s", q.OutageS)
		set("return_to_advert_ms", q.ReturnToAdvertMs)
		set("daemon_return_to_locator_ms", o.Daemon.ReturnToLocatorMs)
		set("resume_out_ms", math.Max(q.UDPOut, q.TCPOut))
		set("resume_in_ms", math.Max(q.UDPIn, q.TCPIn))
		set("resume_udp_out_ms", q.UDPOut)
		set("resume_udp_in_ms", q.UDPIn)
		set("resume_tcp_out_ms", q.TCPOut)
		set("resume_tcp_in_ms", q.TCPIn)
	}
}
