package ilnp

import "time"

// A peer whose checksum rule is unknown may silently drop our first packets, if it uses the
// other rule than we guess. If no answer comes, a probe copy of the first packet is sent under
// the other rule, which such a peer accepts. A first segment is copied soon, as two of them do no
// harm. A datagram is copied only if our echo requests have no answer either, for two round trips
// if the RTT is known: Roam answers echo requests, so it gets no datagram twice; if all of them
// are lost, its program knows the rule from the first datagram that arrived
// (bpf/ilnp/pendinginput.h), and drops one that is valid under the other rule only. Plain IPv6 is
// tried after both.
const (
	copySegment  = 150 * time.Millisecond
	copyDatagram = 200 * time.Millisecond
)

// awaitRule arms the timer of probe copies if the session's rule is unknown. A peer that runs
// Roam gets no copies (docs/design/checksums.md).
func (c *steering) awaitRule(now time.Time, s *session) {
	if s.copied = false; s.sought && !s.asks {
		c.arm(&s.schedule, timerCopy, now, copySegment)
	}
}

// datagramAt returns the time from the start to the copy of the first datagram.
func (s *session) datagramAt() time.Duration { return max(copyDatagram, 2*s.rtt) }

// patience is how long first packets may stay unanswered: longer than setupPatience if the RTT
// is long and the rule is unknown, so that an answer to a copy arrives in time.
func (s *session) patience() time.Duration {
	const margin, most = 100 * time.Millisecond, 5 * time.Second
	if !s.sought || s.asks {
		return setupPatience
	}
	return min(max(setupPatience, s.datagramAt()+s.rtt+margin), most)
}

// copyTimeout requests copies of unanswered packets; the data plane knows whether a segment was
// answered.
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
