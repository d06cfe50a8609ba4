package quickstart

import (
	"math"
	"time"

	"roam/lab/node"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// trace holds the records of one pass through the schedule.
type trace struct {
	*scene.Trace
	arm         string
	plan        schedule
	counters    map[string][]node.Counter // of the data planes, by host
	traffic     *traffic
	events      []node.Event             // of the mobile host's daemon, to the end of the applications
	updates     map[string]scene.Updates // by correspondent
	established int                      // sessions, as the daemon says
	keyed       int                      // of those
	routeDiff   []string                 // differences of the routing table, in words
	monitor     *recorder                // of the pass with Roam
}

// handoff is one change of the network, with its cost.
type handoff struct {
	number   int
	hard     bool
	from, to string
	up       time.Time // carrier of the new link
	advert   time.Time // first advertisement there: the network can be used; zero: none received
	carried  time.Time // the new link carries the mobile host's data, as the emulator says; zero if never
	cut      time.Time // carrier of the old link lost
	end      time.Time // next step
	opinion  opinion
	lost     int     // datagrams of the probe, both ways
	udpGapMs float64 // longest of both ways, above the static control
	tcpGapMs float64 // likewise; of the hard handoff, up to the next step
}

// opinion is what the mobile host's daemon says of a handoff. No claim judges it.
type opinion struct {
	usable time.Time // it has a locator on the new link; zero if never
	ackMs  float64   // handoff begun to acknowledged by all; NaN if unknown
	luMs   []float64 // Locator Update to acknowledgement, each correspondent
}

// handoffs lists the changes of the ring and the hard one.
func (t *trace) handoffs() []handoff {
	var out []handoff
	for i, s := range t.Steps {
		if s.From == "" || s.Op != scene.Attach && s.Op != scene.Swap {
			continue
		}
		h := handoff{
			number: len(out) + 1,
			hard:   s.Op == scene.Swap,
			from:   s.From,
			to:     s.Link,
			up:     s.At,
			cut:    s.At,
			end:    t.End,
		}
		if s.Settled { // the old link goes when the new one has a locator
			h.cut = s.Over
		}
		for _, later := range t.Steps[i+1:] {
			if later.Op == scene.Detach && later.Link == s.From {
				h.cut = later.At
			}
			if later.Name != "" {
				h.end = later.At
				break
			}
		}
		h.advert, _ = t.Advertised(h.to, h.up)
		h.carried, _ = t.Carried(h.to, h.up)
		h.opinion = t.told(h)
		t.costs(&h)
		out = append(out, h)
	}
	return out
}

// told returns the daemon's opinion of a handoff.
func (t *trace) told(h handoff) (o opinion) {
	o.ackMs = math.NaN()
	o.usable, _ = node.Added(t.events, h.to, h.up)
	for _, e := range t.events {
		if e.Time.Before(h.up) || !e.Time.Before(h.end) {
			continue
		}
		switch {
		case e.Kind == "update-acked" && e.RTTMs > 0 && e.Time.Before(h.cut.Add(time.Second)):
			o.luMs = append(o.luMs, e.RTTMs)
		case e.Kind == "handoff-done" && math.IsNaN(o.ackMs) && node.HasLink(e.To, h.to):
			// The loss of the old link alone is a handoff, too, to no link.
			o.ackMs = e.DurationMs
		}
	}
	return o
}

// costs sets the cost of a handoff, from the logs of the probes.
func (t *trace) costs(h *handoff) {
	tr := t.traffic
	// Packets in flight to the cut link belong to the hard handoff.
	from, to := h.up, h.end
	if h.hard {
		from = from.Add(-inFlight)
	} else if hard := t.At(t.plan.hard - inFlight); to.After(hard) {
		to = hard
	}
	h.lost = tr.flowUp.Count(from, to).Lost + tr.flowDown.Count(from, to).Lost
	begin := h.advert
	if begin.IsZero() {
		begin = h.up
	}
	// Soft: all the time, up to the next step. Hard: between the cut and the first
	// advertisement there is no network.
	from, w := h.up, to.Sub(h.up)
	if h.hard {
		from, w = begin, t.window()
	}
	h.udpGapMs = max(gapUDP(tr.flowUp, from, w), gapUDP(tr.flowDown, from, w))
	h.tcpGapMs = max(gapTCP(tr.readUp, from, w), gapTCP(tr.readDown, from, w))
	if h.hard {
		_, out := tr.readUp.LongestGap(begin, h.end)
		_, in := tr.readDown.LongestGap(begin, h.end)
		h.tcpGapMs = max(stats.Millis(out), stats.Millis(in))
	}
	udp, tcp := t.staticGaps()
	h.udpGapMs = max(0, h.udpGapMs-udp)
	h.tcpGapMs = max(0, h.tcpGapMs-tcp)
}

// window is the length of the windows in which gaps are compared.
func (t *trace) window() time.Duration {
	s := t.plan.static
	return (s.to - s.from) / time.Duration(t.plan.windows)
}

func gapUDP(f *udpflow.Flow, from time.Time, w time.Duration) float64 {
	return stats.Millis(f.LongestGap(from, from.Add(w)).Length())
}

func gapTCP(s tcpflow.Stream, from time.Time, w time.Duration) float64 {
	_, d := s.LongestGap(from, from.Add(w))
	return stats.Millis(d)
}

// staticGaps returns the median of the longest gap over the windows without events: the
// machine's own share.
func (t *trace) staticGaps() (udp, tcp float64) {
	var u, c []float64
	w := t.window()
	for i := range t.plan.windows {
		from := t.At(t.plan.static.from + time.Duration(i)*w)
		u = append(u, max(gapUDP(t.traffic.flowUp, from, w), gapUDP(t.traffic.flowDown, from, w)))
		c = append(c, max(gapTCP(t.traffic.readUp, from, w), gapTCP(t.traffic.readDown, from, w)))
	}
	return stats.Median(u), stats.Median(c)
}

// fullRate returns when the arrivals of a flow, after a time, have reached the steady rate:
// the first arrival after which the next 20 ms hold at least nine tenths of the expected
// number.
func fullRate(f *udpflow.Flow, from time.Time, rate int) (time.Time, bool) {
	const width = 20 * time.Millisecond
	need := int(0.9 * float64(rate) * width.Seconds())
	for _, g := range f.Got {
		at := time.Unix(0, g.At)
		if at.Before(from) {
			continue
		}
		if at.Sub(from) > 10*time.Second {
			break
		}
		if f.Arrived(at, at.Add(width)) >= need {
			return at, true
		}
	}
	return time.Time{}, false
}
