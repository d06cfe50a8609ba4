package hostile

import (
	"encoding/json"
	"strings"
	"time"

	"roam/lab/node"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// read takes the state of the only session from what Roam says of it, and from the events
// how its last update was acknowledged. It reports whether there is one session.
func (o *outcome) read(list []node.Session, events []node.Event, alone time.Time) bool {
	if len(list) != 1 {
		return false
	}
	d := &o.Daemon
	d.ILNP, d.UsedUDP, d.InUse = list[0].State == "established", list[0].Encapsulation == "udp", ""
	if p := list[0].InUse; p != nil {
		d.InUse = p.Link
	}
	d.Acked = "not"
	for _, e := range events {
		switch {
		case e.Time.Before(alone):
		case e.Kind == "update-sent":
			d.Acked = "not"
		case e.Kind == "update-acked" && e.Encapsulated:
			d.Acked = "udp"
		case e.Kind == "update-acked":
			d.Acked = "options"
		}
	}
	return true
}

// hear takes the findings about the network from doctor's output.
func (o *outcome) hear(output []byte, n network) {
	var said struct {
		Findings []struct {
			Level, About, Text string
		} `json:"findings"`
	}
	_ = json.Unmarshal(output, &said) // no output means no findings
	for _, f := range said.Findings {
		switch f.About {
		case "path", "mtu", "label", "updates", "session":
			o.Doctor = append(o.Doctor, f.Level+": "+f.Text)
			o.Told = o.Told || n.told != "" && strings.Contains(f.Text, n.told)
		}
	}
}

// came holds the traffic that a cell received.
type came struct {
	entered, now time.Time        // of the handoff into the network, and of the end
	states       []workload.State // of the connections at the end
	broken       error            // of a connection that did not end well
	streams      []tcpflow.Stream
	up, down     *udpflow.Flow
	queues       *scene.Losses
}

// flows judges the traffic.
func (o *outcome) flows(c came) {
	o.TCP = c.broken == nil
	if c.broken != nil {
		o.Why = c.broken.Error()
	}
	for _, s := range c.states {
		o.TCP = o.TCP && s.Alive && c.now.Sub(s.Last) < lively
	}
	o.UDP = c.up.Arrived(c.now.Add(-lively), c.now) > 0 && c.down.Arrived(c.now.Add(-lively), c.now) > 0
	o.Owned = scene.Owners{Overflows: c.queues}.Account("into network "+o.Name, c.up, c.down,
		[2]time.Time{c.entered, c.now})
	o.Lost = o.Owned.Lost
	o.GapUp = float64(c.up.LongestGap(c.entered, c.now).Length().Milliseconds())
	o.GapDown = float64(c.down.LongestGap(c.entered, c.now).Length().Milliseconds())
}

// wired takes what the captures show.
func (o *outcome) wired(w wire, n network, entered, alone, end time.Time) {
	o.ILNP, o.Missed = w.ilnp(entered), w.dropped
	o.Wire = w.reacted(entered, alone, end)
	switch {
	case n.late:
		o.Wire.turned(w, entered, end)
	case n.duality:
		o.Wire.pinned(w, entered, end)
		o.Whole.Changed = o.Wire.Changed
	}
}

// turned takes the datagrams that were lost after the correspondent sent the last data into a network that loses what
// comes in.
func (o *outcome) turned(c came) {
	from := o.Wire.Turned
	if from.Before(c.entered) {
		from = c.entered
	}
	l := scene.Owners{Overflows: c.queues}.Account("in network "+o.Name+", after the last data into it", c.up, c.down,
		[2]time.Time{from, c.now})
	o.After = &l
}

// watched takes the records of the stay with two paths: the traffic from began on, the second
// path from entered on, the router's counters before and after the last part.
func (w *whole) watched(c came, began, end time.Time, before, after map[string]counter) {
	w.judge(c.streams, began, c.entered, end)
	for _, u := range []*udpflow.Flow{c.up, c.down} {
		if from := w.Changed; from.After(c.entered) && from.Before(end) {
			w.QuietMs = max(w.QuietMs, stats.Millis(u.LongestGap(from, end).Length()))
		}
	}
	for way, names := range [2][2]string{{"out1", "out2"}, {"in1", "in2"}} {
		for i, name := range names {
			w.Datagrams[way][i] = after[name].Packets - before[name].Packets
		}
	}
}

// spread takes from both daemons how TCP is spread, and from the events when that changed.
func (r *reaction) spread(ends [2][]node.Session, events []node.Event) bool {
	r.Spread, r.Changed = [2]string{}, time.Time{}
	for i, list := range ends {
		if len(list) != 1 {
			return false
		}
		r.Spread[i] = list[0].Spread
	}
	for _, e := range events {
		if e.Kind == "spread-changed" && e.Reason == "flow" {
			r.Changed = e.Time
		}
	}
	return true
}
