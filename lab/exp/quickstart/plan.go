package quickstart

import (
	"time"

	"roam/lab/exp"
	"roam/lab/scene"
)

// span is a part of the schedule in which something is measured.
type span struct{ from, to time.Duration }

// schedule holds the steps and the measuring windows.
type schedule struct {
	scene.Schedule
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

// soft is how many soft handoffs go around the ring of links.
const soft = 4

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
	s.Add(0, scene.Mark, "", "", "static path over net1")
	if control {
		// Two seconds after the network returned are enough to see the recovery.
		s.Soft(at, len(access), dwell, overlap, access...)
		s.Length = at + 2*dwell + overlap + 2*time.Second
		return s
	}
	old := s.Soft(at, soft, dwell, overlap, access...)
	at += soft * dwell
	s.hard = at
	s.Add(at-300*time.Millisecond, scene.Mode, "hard", "", "")
	s.Add(at, scene.Swap, "net3", old, "hard: net3")
	s.Steps[len(s.Steps)-1].Settled = p.Text("hard_cut") == "locator"
	at += dwell
	all := []string{"net1", "net2", "net3"}
	s.Add(at, scene.Mode, "duality", "", "duality: 3 links")
	s.Add(at, scene.Attach, "net1", "", "")
	s.Add(at, scene.Attach, "net2", "", "")
	s.share("three-way duality", all, at, at+long)
	at += long
	s.Add(at, scene.Disable, "net2", "", "withdraw to net1")
	s.Add(at, scene.Disable, "net3", "", "")
	s.share("withdrawn to net1", all[:1], at, at+long)
	at += long
	s.Add(at, scene.Enable, "net2", "", "return: net2, net3")
	s.Add(at, scene.Enable, "net3", "", "")
	s.share("return to three", all, at, at+long)
	s.Length = at + long
	return s
}

func (s *schedule) share(name string, links []string, from, to time.Duration) {
	s.shares = append(s.shares, sharePhase{name: name, links: links, span: span{from, to}})
}
