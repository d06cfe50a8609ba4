package ilnp

import (
	"slices"
	"time"
)

// While many paths seem dead or have been found dead, so many probes leave along one in alongIn, at most, whatever
// they are about, and as many answers to those of the correspondent: 20 in all. What is more waits. Not limited is what
// leaves seldom: a round of all that is known, what measures a path (its loss, its rate, the size of its packets), what
// looks for other ways, and what the user asks for. Locator Updates are not among them. A level that probes
// more often than Normal has more.
const (
	alongMost  = 10
	alongOwn   = 3 // of them are kept for what is asked about the path itself
	alongIn    = time.Second
	alongEvery = 20 // thirds of Timing.Every
	formsMost  = 2  // in which a probe may leave at once
)

// departures is when the last probes left along a path.
type departures struct {
	at   [alongMost]time.Time
	next int
}

// note takes that a probe leaves.
func (d *departures) note(now time.Time) {
	d.at[d.next] = now
	d.next = (d.next + 1) % alongMost
}

// newest returns when a probe last left; zero: none has.
func (d *departures) newest() time.Time { return d.at[(d.next+alongMost-1)%alongMost] }

// room returns how many more probes may leave along a path.
func (c *node) room(now time.Time, s *session, h *checkedPath) (n int) {
	if c.cfg.Liveness == nil || !s.check.isCrowded(now, s.bad) {
		return alongMost
	}
	in := min(alongIn, c.timingOf(h.Path).Every*alongEvery/3)
	for _, at := range h.left.at {
		if now.Sub(at) >= in {
			n++
		}
	}
	return n
}

// withRoom returns those of several paths along which a probe of a round is to leave. The others have left as many
// without an answer as they may have in alongIn.
func (c *node) withRoom(now time.Time, s *session, paths []Path) []Path {
	return slices.DeleteFunc(paths, func(p Path) bool {
		h := s.check.find(p)
		return h != nil && h.unanswered > othersQuick && c.room(now, s, h) < formsMost
	})
}
