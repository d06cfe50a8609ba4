package quickstart

import (
	"fmt"
	"time"

	"roam/lab/exp"
)

// op is what a step does.
type op int

const (
	phase   op = iota // nothing: it names a part of the schedule
	up                // the link gets carrier
	down              // the link loses carrier
	swap              // the link gets carrier, and the one in use loses it
	mode              // roam mode
	disable           // roam locator disable
	enable            // roam locator enable
)

// step is one entry of the schedule.
type step struct {
	at   time.Duration // since the start of traffic
	op   op
	link string // "net1", or the mode for mode
	from string // the link that was in use, for handoffs
	name string // what people read; "" for the lesser half of a step
}

// span is a part of the schedule in which something is measured.
type span struct{ from, to time.Duration }

// schedule is what happens, when, and what is measured where.
type schedule struct {
	steps   []step
	length  time.Duration
	static  span         // no event
	windows int          // of equal length within static
	shares  []sharePhase // bytes per link
	hard    time.Duration
}

// sharePhase is a span in which the links of a set carry equal shares.
type sharePhase struct {
	name  string
	links []string
	span  span
}

// settle is how long after a change of the set its shares are not yet counted:
// both ends must have agreed on it.
const settle = 700 * time.Millisecond

// ring is the order of the soft handoffs; the host begins on its last link.
var ring = []string{"net2", "net3", "net1", "net2"}

// plan lays out the schedule. The control has the same one up to a while after
// its first network is back; it has no commands, which are Roam's.
func plan(p exp.Params, control bool) schedule {
	dwell, overlap, long := p.Seconds("dwell_s"), p.Seconds("overlap_s"), p.Seconds("phase_s")
	s := schedule{windows: p.Int("windows")}
	at := time.Duration(float64(p.Seconds("window_s")) * float64(p.Int("windows")))
	s.static = span{0, at}
	if control {
		at, s.static = dwell/2, span{0, dwell / 2}
	}
	s.add(0, phase, "", "", "static path over net1")
	old := "net1"
	for i, link := range ring {
		s.add(at, up, link, old, fmt.Sprintf("soft %d: %s", i+1, link))
		s.add(at+overlap, down, old, "", "")
		old, at = link, at+dwell
		if control && link == "net1" {
			// The network is back: two seconds more show what comes of it.
			s.length = at - dwell + overlap + 2*time.Second
			return s
		}
	}
	s.hard = at
	s.add(at-300*time.Millisecond, mode, "hard", "", "")
	s.add(at, swap, "net3", old, "hard: net3")
	at += dwell
	all := []string{"net1", "net2", "net3"}
	s.add(at, mode, "duality", "", "duality: 3 links")
	s.add(at, up, "net1", "", "")
	s.add(at, up, "net2", "", "")
	s.share("three-way duality", all, at, at+long)
	at += long
	s.add(at, disable, "net2", "", "withdraw to net1")
	s.add(at, disable, "net3", "", "")
	s.share("withdrawn to net1", all[:1], at, at+long)
	at += long
	s.add(at, enable, "net2", "", "return: net2, net3")
	s.add(at, enable, "net3", "", "")
	s.share("return to three", all, at, at+long)
	s.length = at + long
	return s
}

func (s *schedule) add(at time.Duration, o op, link, from, name string) {
	s.steps = append(s.steps, step{at: at, op: o, link: link, from: from, name: name})
}

func (s *schedule) share(name string, links []string, from, to time.Duration) {
	s.shares = append(s.shares, sharePhase{name: name, links: links, span: span{from + settle, to}})
}
