package quickstart

import (
	"fmt"
	"math"
	"strings"
)

// summary says in a few sentences what survived and what it cost; without is nil if there
// was no control.
func (t *trace) summary(without *trace) string {
	alive := 0
	var died []string
	for _, s := range t.traffic.sessions {
		if t.traffic.outcome[s.Name()] == nil {
			alive++
		} else {
			died = append(died, s.Name())
		}
	}
	list := t.handoffs()
	said := fmt.Sprintf("%d of %d sessions lived through %d handoffs, the use of all links at once and the return to one",
		alive, len(t.traffic.sessions), len(list))
	if len(died) > 0 {
		said += " (not: " + strings.Join(died, ", ") + ")"
	}
	soft := t.softLoss()
	said += fmt.Sprintf(". Of %d datagrams outside the hard handoff %d were lost", soft.Sent, soft.Roam())
	if others := soft.Lost - soft.Roam(); others > 0 {
		said += fmt.Sprintf(", and %d by full buffers of the lab itself", others)
	}
	gap, hardLost := math.NaN(), -1
	for _, h := range list {
		switch {
		case h.hard:
			hardLost = h.lost
		case math.IsNaN(gap) || h.tcpGapMs > gap:
			gap = h.tcpGapMs
		}
	}
	if !math.IsNaN(gap) {
		said += fmt.Sprintf("; a soft handoff held up TCP for %.0f ms at most", math.Max(0, gap))
	}
	if hardLost >= 0 {
		said += fmt.Sprintf("; the hard handoff, whose link failed with datagrams on it, lost %d", hardLost)
	}
	return said + "." + t.control(without)
}

// control says what arrived on the same schedule without Roam.
func (t *trace) control(without *trace) string {
	if without == nil {
		return ""
	}
	from, to, ok := without.away()
	if !ok {
		return ""
	}
	sum := 0
	for _, n := range without.delivered(from, to) {
		sum += n
	}
	if sum == 0 {
		return fmt.Sprintf(" On plain IPv6 nothing arrived for the %.1f s in which the first network was away.",
			to.Sub(from).Seconds())
	}
	return fmt.Sprintf(" On plain IPv6 data arrived, too, in the %.1f s in which the first network was away.",
		to.Sub(from).Seconds())
}
