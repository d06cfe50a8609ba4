package ilnp

import (
	"maps"
	"slices"
	"time"
)

// What takes the longer of two paths arrives behind what was sent later on the
// other, and TCP takes it for lost: one connection over paths of 10 and 100 ms gets a
// thirtieth of what the first alone would give it. While round trips differ by
// less than the shorter one, it gets more from both. So TCP keeps to the short paths, each
// connection to one of them; UDP is spread over all.
const (
	longFactor  = 2 // of the least round trip, beyond which a path is a long one,
	shortFactor = 1.5
	lengthNoise = 2 * time.Millisecond // and as much more: what hosts add
	lengthLasts = time.Minute          // at least, a measurement counts
	lengthTwice = 2                    // measurements without which no path is a long one for good
)

// length is the round-trip time of a path: the least of one to two minutes, as
// queues, and a host that has other work, only add to it.
type length struct {
	now, before time.Duration // least of the present window, and of the one before
	since       time.Time     // when the present one began
	n           int           // how often it was measured; 0: it was asked in vain
}

// measured returns the length with one more measurement.
func (l length) measured(now time.Time, rtt time.Duration) length {
	switch age := now.Sub(l.since); {
	case l.n == 0 || age >= 2*lengthLasts || age < 0:
		return length{now: rtt, before: rtt, since: now, n: 1}
	case age >= lengthLasts:
		l.before, l.now, l.since = l.now, rtt, now
	}
	l.now, l.n = min(l.now, rtt), min(l.n+1, lengthTwice)
	return l
}

// rtt is 0 if it is not known.
func (l length) rtt() time.Duration { return min(l.now, l.before) }

// noteLength takes the answer to a probe.
func (c *Core) noteLength(now time.Time, s *session, pr probe) {
	p := pr.path
	s.lengths[p] = s.lengths[p].measured(now, now.Sub(pr.sent))
	s.queues.note(now, pr)
	if len(s.entry.Paths) > 1 && slices.Contains(s.entry.Paths, p) {
		c.upsert(now, s, s.entry.Paths)
		c.tellSpread(now, s)
	}
}

// longOf returns those of paths that TCP does not take: the long ones, and those that
// it has not taken yet and whose length is not known, but for one if that is all.
func (s *session) longOf(paths []Path) []Path {
	if s.state != Established || len(paths) < 2 || s.tracked() {
		return nil
	}
	least := s.leastOf(paths)
	unasked := func(p Path) bool {
		_, asked := s.lengths[p]
		taken := s.entry.State == Established && slices.Contains(s.entry.Paths, p) && !slices.Contains(s.entry.Long, p)
		return !asked && !taken
	}
	if !slices.ContainsFunc(paths, func(p Path) bool { return !unasked(p) }) {
		return slices.Clone(paths[1:])
	}
	return slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return !unasked(p) && !s.isLong(p, least) })
}

// leastOf returns the shortest round trip that is known of paths; 0: none is.
func (s *session) leastOf(paths []Path) (least time.Duration) {
	for _, p := range paths {
		if rtt := s.lengths[p].rtt(); rtt > 0 && (least == 0 || rtt < least) {
			least = rtt
		}
	}
	return least
}

// isLong says whether a path is a long one beside another; one that was is so for
// somewhat longer, that TCP does not go to and fro.
func (s *session) isLong(p Path, least time.Duration) bool {
	limit := longFactor*least + lengthNoise
	if s.spreadTold == ByLength && slices.Contains(s.entry.Long, p) {
		limit = time.Duration(shortFactor*float64(least)) + lengthNoise
	}
	return s.lengths[p].rtt() > limit
}

// measure asks all paths at once if one is in use that was not asked before, or was
// found to be long by one answer, which may have been late.
func (c *Core) measure(now time.Time, s *session) {
	if len(s.entry.Paths) > 1 && s.state == Established && slices.ContainsFunc(s.entry.Paths, s.doubts) {
		s.monitored = time.Time{}
		c.monitor(now, s)
	}
}

// unasked returns the paths in use whose length nobody has asked for.
func (s *session) unasked() []Path {
	if len(s.entry.Paths) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.entry.Paths), func(p Path) bool { _, asked := s.lengths[p]; return asked })
}

func (s *session) doubts(p Path) bool {
	l, asked := s.lengths[p]
	return !asked || l.n == 1 && slices.Contains(s.entry.Long, p)
}

// askedInVain has TCP wait no longer for the length of a path that has not answered:
// another stack may answer no probe at all.
func (s *session) askedInVain() {
	for _, p := range s.unansweredPaths() {
		if s.doubts(p) {
			s.lengths[p] = length{}
		}
	}
}

// forgetLengths drops those of paths that are not in use any more. One that is left
// as its queue swallowed probes may be back soon, no longer and no faster.
func (s *session) forgetLengths() {
	gone := func(p Path) bool { return !slices.Contains(s.entry.Paths, p) && !s.bad[p] }
	maps.DeleteFunc(s.lengths, func(p Path, _ length) bool { return gone(p) })
	maps.DeleteFunc(s.queues.costs, func(p Path, _ uint8) bool { return gone(p) })
}
