package ilnp

import (
	"time"

	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// crossAgain is the time after which it is asked again. Until it answers, connections are paced.
const crossAgain = 50 * time.Millisecond

// crossings does what multipath wants for connections that share a long path with short ones: their windows
// follow their round trip, and the correspondent is asked to withhold their blocks of SACK.
type crossings struct{ *steering }

// follow says what windows are to follow, and waits for what is next.
func (c crossings) follow(now time.Time, s *session) {
	for w, ok := s.multipath.PollStretch(); ok; w, ok = s.multipath.PollStretch() {
		c.emit(Stretch{Key: s.key, Stretch: w})
	}
	var due time.Time
	if at, ok := s.multipath.StretchTimeout(); ok {
		due = at
	}
	if at, ok := s.multipath.NextLook(); ok && c.cfg.Flows != nil {
		due = sooner(due, at)
	}
	if _, asks := s.multipath.Asks(); asks {
		due = sooner(due, now.Add(crossAgain))
	}
	if due.IsZero() {
		c.disarm(&s.schedule, timerCross)
		return
	}
	c.arm(&s.schedule, timerCross, now, max(due.Sub(now), time.Millisecond))
}

func (c crossings) timeout(now time.Time, s *session) {
	if at, ok := s.multipath.NextLook(); ok && !now.Before(at) && c.cfg.Flows != nil {
		c.placeFlows(now, s, c.cfg.Flows(s.key))
	}
	s.multipath.HandleStretchTimeout(now)
	c.askPeer(now, s)
	c.follow(now, s)
}

// stretched takes which connections have larger windows.
func (c crossings) stretched(now time.Time, s *session, all [][2]uint16) {
	buckets := uint64(0)
	s.crosses = ilnpwire.Connections{}
	copy(s.crosses[:], all)
	for _, ports := range s.crosses {
		if ports != [2]uint16{} {
			buckets |= 1 << multipath.Bucket(uint64(s.localNID), uint64(s.remoteNID), ports[0], ports[1])
		}
	}
	if s.multipath.HandleStretched(now, buckets) {
		c.askPeer(now, s)
	}
	c.follow(now, s)
}

// askPeer asks the correspondent to withhold blocks, by a probe along the long path, as long as that is due.
func (c crossings) askPeer(now time.Time, s *session) {
	if p, asks := s.multipath.Asks(); asks {
		c.sendProbe(now, c.ask(now, s), probe{path: p, moot: true, lone: true, cross: s.crosses})
	}
}

// begin takes that it does.
func (c crossings) begin(now time.Time, s *session) {
	if s.multipath.HandleCrosses(now) {
		c.upsert(now, s, s.entry.Paths)
	}
	c.follow(now, s)
}
