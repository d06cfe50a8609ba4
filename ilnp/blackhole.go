package ilnp

import (
	"slices"
	"time"

	"roam/multipath"
)

// A path may answer each probe and drop data, as where a firewall admits ICMPv6 alone. The
// receiver's reports show it (multipath.Dead): data leave the path while another one delivers
// some, and return when its hold is over, which is twice as long each time. Nobody is told:
// the other direction may work.

// blackHoleLeast is how many packets must have been sent since anything arrived.
const blackHoleLeast = 10

// leaveBlackHole avoids a path in use on which nothing arrives of what is sent, by its
// reports e.
func (c *liveness) leaveBlackHole(now time.Time, s *session, p Path, e *estimate) {
	isCarrying := func(o Path) bool {
		other := s.reports.estimates[o]
		return o != p && other != nil && other.State(now).Out.Life == multipath.Lives
	}
	out := e.State(now).Out
	if out.Life != multipath.Dead || out.Missing < blackHoleLeast || s.avoids(p) ||
		!slices.Contains(s.entry.Paths, p) || !slices.ContainsFunc(s.entry.Paths, isCarrying) {
		return
	}
	h := s.check.of(p)
	h.swallows = true
	c.avoid(now, s, h)
}

// useAgain ends that data keep off a path.
func (c *liveness) useAgain(now time.Time, s *session, h *checkedPath) {
	h.avoided, h.since, h.swallows = time.Time{}, time.Time{}, false
	if e := s.reports.estimates[h.Path]; e != nil {
		e.Rest() // nothing was sent meanwhile that could have arrived
	}
	c.notify(Event{Time: now, Kind: PathAnswers, Key: s.key, Path: h.Path})
	c.refresh(now, s)
}
