package phoomikiattisak

import (
	"math"
	"strconv"
	"strings"
	"time"

	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/stats"
)

const (
	// settled is the time after its start in which a flow leaves slow start, and after a
	// handoff in which it recovers.
	settled = 3 * time.Second
	// window is the length of the windows in which the longest gaps of the control are taken.
	window = time.Second
)

// outcome holds the results of one cell; all of it survives JSON.
type outcome struct {
	Scenario, Kind, Variant string
	At                      float64 // the handoff: first Locator Update, or the cut, in seconds of the flow
	Alive                   bool    // the application finished without an error
	RightControl            bool    // the sender used the configured congestion control
	SYNs                    int
	OfferedMSS, Payload     int
	WindowKB                float64   // greatest amount in flight
	MB                      float64   // M2: bytes of the stream that reached the application
	Retransmits             int       // M3, of the whole flow
	AfterRetransmits        int       // of them, from the handoff on
	Lost                    int       // M4, segments
	Duplicates              int       // segments that reached the mobile host twice
	Late                    int       // segments that arrived after later ones, from the handoff on
	DupAcks                 int       // at the sender
	Stale                   int       // segments that arrived on the old locator after it was given up
	DelayMs                 []float64 // M5: Locator Update to its acknowledgement or never, each exchange
	Updates                 int       // Locator Updates sent, repetitions included
	GapMs                   float64   // longest of the handoff
	AfterMs                 float64   // likewise, but from the new network's first advertisement on if the old one was cut
	OutageMs                float64   // from that cut to that advertisement
	DaemonOutageMs          float64   // that before the new locator, as the daemon says; decides nothing
	RTOMs                   float64   // of the sender before; 0 when unknown
	OldGaps, NewGaps        []float64 // longest gaps of the control's windows, on the old and the new network
	OldMbps, NewMbps        float64   // steady rates
	EmptySeconds            int       // bins of a second without any data, after the first
	QueueDrops              int
	Counters                map[string]uint64 // drops of the hosts' data planes, by HOST NAME
	Dropped                 int               // packets that the captures missed
	Profile                 map[string][]float64
	Sequence                map[string][2][]float64 // sent and received around the handoff: seconds, MB
}

// judge turns a pass into figures.
func (c *cell) judge(t *pass) (outcome, error) {
	f := t.flow
	length := c.env.Params.Seconds("flow_s")
	start := f.arrived[0].at
	o := outcome{
		Scenario: c.scenario, Kind: c.kind, Variant: c.control.Name,
		Alive: t.failure == nil, RightControl: t.algo == c.control.Algorithm, RTOMs: t.rtoMs,
		SYNs: f.syns, OfferedMSS: f.offered, Payload: f.mss, WindowKB: float64(f.window) / 1000,
		MB: float64(f.nbytes(start, start.Add(length))) / 1e6, DupAcks: f.dupAcks,
		Lost: f.lost(start.Add(length)), Retransmits: f.retransmissions(time.Time{}),
		Counters: t.counters, QueueDrops: int(t.Drops["queue"] + t.Drops["refused"]), Dropped: t.dropped,
	}
	if !o.Alive {
		c.env.View.Logf("%s: %v", c.name(), t.failure)
	}
	for _, a := range f.arrived {
		if a.again > 0 {
			o.Duplicates++
		}
	}
	planned := t.Steps[0].At
	var first time.Time
	o.DelayMs, o.Updates, first = exchanges(t.mobile, planned)
	moment := planned
	if c.kind != cut && !first.IsZero() {
		moment = first
	}
	o.At = t.Rel(moment)
	c.gaps(&o, t, planned)
	c.rates(&o, t, moment)
	o.Late = f.count(moment, t.End, func(a arrival) bool { return a.late && a.again == 0 })
	o.AfterRetransmits = f.retransmissions(moment)
	if c.kind == hard && !first.IsZero() {
		o.Stale = f.count(first, t.End, func(a arrival) bool { return a.link == "net1" })
	}
	c.series(&o, t, moment)
	return o, nil
}

// gaps measures the handoff, from its first step to the end of the flow, and the windows of the
// control around it.
func (c *cell) gaps(o *outcome, t *pass, planned time.Time) {
	f := t.flow
	end := t.At(c.env.Params.Seconds("flow_s"))
	o.GapMs = stats.Millis(f.longestGap(planned, end))
	o.AfterMs = o.GapMs
	if c.kind == cut {
		if ra, ok := t.Advertised("net2", planned); ok {
			o.OutageMs = stats.Millis(ra.Sub(planned))
			o.AfterMs = stats.Millis(f.longestGap(ra, end))
		}
		if usable, ok := node.Added(t.Events["mn"], "net2", planned); ok {
			o.DaemonOutageMs = stats.Millis(usable.Sub(planned))
		}
	}
	gone := planned
	if len(t.Steps) > 1 {
		gone = t.Steps[1].At
	}
	for at := t.At(settled - window); at.Add(window).Before(planned); at = at.Add(window) {
		o.OldGaps = append(o.OldGaps, stats.Millis(f.longestGap(at, at.Add(window))))
	}
	for at := gone.Add(settled); at.Add(window).Before(t.End); at = at.Add(window) {
		o.NewGaps = append(o.NewGaps, stats.Millis(f.longestGap(at, at.Add(window))))
	}
}

// rates measures the steady rates on either network and the seconds without data.
func (c *cell) rates(o *outcome, t *pass, moment time.Time) {
	f := t.flow
	mbps := func(from, to time.Time) float64 {
		if d := to.Sub(from).Seconds(); d > 0.5 {
			return float64(f.nbytes(from, to)) * 8e-6 / d
		}
		return 0
	}
	o.OldMbps = mbps(t.At(settled-window), moment)
	o.NewMbps = mbps(moment.Add(settled), t.End)
	for i, v := range f.profile(t.Start, t.End.Sub(t.Start).Truncate(time.Second), time.Second, "") {
		if i > 0 && v == 0 {
			o.EmptySeconds++
		}
	}
}

// never is the time, in milliseconds, of what did not come before the end of the flow.
const never = 1e6

// exchanges returns, from a time on, the duration of each exchange of Locator Updates, never if
// no acknowledgement came, the number of messages, without refreshes, and the start of the first.
func exchanges(mobile []packets.Packet, from time.Time) (ms []float64, messages int, first time.Time) {
	for _, e := range packets.Exchanges(mobile, scene.NID("mn"), scene.NID("cn1")) {
		if e.Refresh || e.Sent.At.Before(from) {
			continue
		}
		if first.IsZero() {
			first = e.Sent.At
		}
		messages += e.Messages
		took := never
		if len(e.Acks) > 0 {
			took = float64(e.Acks[0].At.Sub(e.Sent.At)) / 1e6
		}
		ms = append(ms, took)
	}
	return ms, messages, first
}

// series stores the data of the figures.
func (c *cell) series(o *outcome, t *pass, moment time.Time) {
	f := t.flow
	length := c.env.Params.Seconds("flow_s")
	o.Profile = map[string][]float64{}
	for _, link := range []string{"net1", "net2"} {
		y := f.profile(t.Start, length, drawn, link)
		for i, v := range y {
			y[i] = math.Round(v*100) / 100
		}
		o.Profile[link] = y
	}
	if c.repetition > 0 {
		return
	}
	o.Sequence = map[string][2][]float64{}
	from, to := moment.Add(-500*time.Millisecond), moment.Add(time.Second+2*time.Duration(o.OutageMs)*time.Millisecond)
	put := func(what string, at time.Time, seq int64) {
		if at.Before(from) || at.After(to) {
			return
		}
		xy := o.Sequence[what]
		xy[0] = append(xy[0], math.Round(t.Rel(at)*1e4)/1e4)
		xy[1] = append(xy[1], math.Round(float64(seq)/10)/1e5)
		o.Sequence[what] = xy
	}
	for _, s := range f.sent {
		what := "sent"
		if s.again > 0 {
			what = "retransmitted"
		}
		put(what, s.at, s.from)
	}
	for i, a := range f.arrived {
		if i%4 == 0 { // every fourth shows the same line
			put("came by "+a.link, a.at, a.from)
		}
	}
}

// parseState reads the output of ss: a line for each socket. The connection with the most
// bytes sent is the flow.
func parseState(text string) (rtoMs float64, algo string) {
	most := -1.0
	for line := range strings.Lines(text) {
		nbytes := 0.0
		for _, word := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(word, "bytes_sent:"); ok {
				nbytes, _ = strconv.ParseFloat(v, 64)
			}
		}
		m, a := rtoRE.FindStringSubmatch(line), algoRE.FindStringSubmatch(line)
		if m == nil || a == nil || nbytes <= most {
			continue
		}
		most = nbytes
		rtoMs, _ = strconv.ParseFloat(m[1], 64)
		algo = a[1]
	}
	return rtoMs, algo
}
