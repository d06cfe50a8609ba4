package ilnp

import "time"

// A correspondent whose rule of checksums is not known may drop our first packets without
// a word, as it sums otherwise than we guess. So the first one goes under the other rule
// as well when no answer comes: whoever drops the one takes the other. A first segment
// goes soon, for two of them do no harm. A datagram goes only where nothing answers our
// echo requests either, for two round trips where their length is known: Roam answers
// them, and so does not get it twice; if they are all lost, it knows the rule from the
// first one that came (bpf/ilnp/pendinginput.h), and drops what is right by the other only.
// Plain IPv6 is tried behind both.
const (
	copySegment  = 150 * time.Millisecond
	copyDatagram = 200 * time.Millisecond
)

// awaitRule lets the first packets of a session be copied if its rule is sought. Of Roam
// the guess is as good as its own.
func (c *steering) awaitRule(now time.Time, s *session) {
	if s.copied = false; s.sought && !s.asks {
		c.arm(&s.schedule, timerCopy, now, copySegment)
	}
}

// datagramAt is when the first datagram is copied.
func (s *session) datagramAt() time.Duration { return max(copyDatagram, 2*s.rtt) }

// patience is how long first packets may stay unanswered: longer than setupPatience where
// the round trip is long and the rule is sought, so that the copies are answered in time.
func (s *session) patience() time.Duration {
	const margin, most = 100 * time.Millisecond, 5 * time.Second
	if !s.sought || s.asks {
		return setupPatience
	}
	return min(max(setupPatience, s.datagramAt()+s.rtt+margin), most)
}

// copyTimeout copies what has stayed without an answer: whether a segment has, the data
// plane knows.
func (c *steering) copyTimeout(now time.Time, s *session) {
	switch {
	case !s.sought || s.asks || s.state == Plain || len(s.entry.Paths) == 0:
	case !s.copied:
		s.copied = true
		c.emit(Copy{Key: s.key})
		c.arm(&s.schedule, timerCopy, now, s.datagramAt()-now.Sub(s.started))
	case s.state == Initiated:
		c.emit(Copy{Key: s.key, Datagram: true})
	}
}
