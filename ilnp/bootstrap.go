package ilnp

import (
	"slices"
	"time"
)

// The first contact of two nodes may begin on a path that passes nothing, while another one
// works (RFC 5534 §4.3 explores for the same reason). Nothing has been measured then, so the
// first packets and probes take the preferred path alone for widenAfter. After that, everything that is
// known is probed beside it, and the session begins where an answer comes from first. TCP
// retransmits its SYN after a second, which by then takes the path that answered.
const widenAfter = 200 * time.Millisecond

// widenIn returns how long the preferred paths are probed alone from now on.
func (s *session) widenIn(now time.Time) time.Duration {
	return s.started.Add(max(widenAfter, s.rtt*3/2)).Sub(now)
}

// widened returns the paths that are probed besides those given, if nothing has answered at
// the preferred ones in time, and in how long they are; 0: there are none. All of them
// lead to locators that people or the DNS named.
func (c *pathChoice) widened(now time.Time, s *session, besides []Path) (paths []Path, in time.Duration) {
	if s.state != Initiated {
		return nil, 0
	}
	more := slices.DeleteFunc(cross(placesOf(c.host.usable(now)), s.remotes.all()), func(p Path) bool {
		r := s.remotes.find(p.Remote)
		return slices.Contains(besides, p) || r == nil || !r.given
	})
	more = more[:min(len(more), max(MaxPaths-len(besides), 0))]
	if in = s.widenIn(now); in > 0 && len(more) > 0 {
		return nil, in
	}
	return more, 0
}

// beginAt has a session begin on the path by which its first answer came, if the preferred
// ones have had time to answer: these are probed on, and used once they answer.
func (c *pathChoice) beginAt(now time.Time, s *session, by Path) {
	if s.state != Initiated || s.widenIn(now) > 0 || slices.Contains(s.entry.Paths, by) {
		return
	}
	for _, p := range cross(c.host.active, s.remotes.all()) {
		s.bad[p] = true
	}
	delete(s.bad, by)
}
