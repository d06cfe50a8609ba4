package multipath

import (
	"maps"
	"slices"
	"time"
)

// Regularly is how often the owner of a Machine probes several paths in use without
// being asked to.
const Regularly = 5 * time.Second

// Use is how the owner sends now. Nothing of it is kept.
type Use[P comparable] struct {
	Paths   []P  // all that are in use
	Long    []P  // of those, which TCP does not take
	PerFlow bool // each connection keeps to one path
	Crosses bool // the other end withholds blocks of SACK (cross.go)
}

// Machine is what is known of the paths towards one correspondent. Its zero value
// knows nothing. It is not safe for concurrent use.
type Machine[P comparable] struct {
	lengths lengths[P]
	queues  queues[P]
	rates   map[P]Measured
	places  placement[P]
	dealing dealing
	stall   stall
	wish    wish
	shown   Spread
	late    map[P]late // paths that TCP has left until their rate is measured anew
	lately  map[P]lately
	later   map[P]time.Duration // how late this host tells of what is missing where data come by a long path

	bound int // of slow starts, in bytes
}

// HandleAnswer takes the answer to a probe that was sent along a path.
func (m *Machine[P]) HandleAnswer(now time.Time, p P, sent time.Time) {
	m.lengths.note(now, p, now.Sub(sent))
	m.queues.note(now, p, sent)
}

// HandleRTT takes the answer to any probe along a path: what it takes now, with its queues.
func (m *Machine[P]) HandleRTT(now time.Time, p P, sent time.Time) {
	if m.lately == nil {
		m.lately = make(map[P]lately)
	}
	l, rtt := m.lately[p], now.Sub(sent)
	if most := l.mostOf(now); rtt >= most {
		l.most, l.mostAt = rtt, now
	}
	l.rtt, l.at = rtt, now
	m.lately[p] = l
}

// HandleLoss takes that packets were lost on a path, as far as is known.
func (m *Machine[P]) HandleLoss(now time.Time, p P, lost bool) {
	if l, is := m.lately[p]; lost && is {
		l.lostAt = now
		m.lately[p] = l
	}
}

// HandleOverflow takes that a queue on a path has overflowed.
func (m *Machine[P]) HandleOverflow(now time.Time, p P) {
	if l, is := m.lately[p]; is {
		l.overAt = now
		m.lately[p] = l
	}
}

// HandleNoAnswer takes paths that were probed and have not answered: TCP waits no
// longer for their length, as the other end may answer no probe at all.
func (m *Machine[P]) HandleNoAnswer(u Use[P], paths []P) {
	for _, p := range paths {
		m.lengths.askedInVain(p, u)
	}
}

// long returns those of paths that TCP is not to take, in place of what it takes by
// u: the long ones, and those that it has not taken yet and whose length or rate is not
// known, but for one if that is all. One that it has taken it leaves if that turns out to be slow before its rate
// is known: a session may have begun there, and an equal share beside a fast path ends slow start within a round trip.
func (m *Machine[P]) long(u Use[P], paths []P) []P {
	if len(paths) < 2 || u.PerFlow {
		return nil
	}
	least := m.lengths.leastOf(paths)
	unasked := func(p P) bool {
		_, asked := m.lengths.by[p]
		return (!asked || m.mayBeSlow(p)) && (!u.taken(p) || m.isLeft(p))
	}
	if !slices.ContainsFunc(paths, func(p P) bool { return !unasked(p) }) {
		return m.allButFastest(paths)
	}
	wasLong := func(p P) bool { return m.shown == ByLength && slices.Contains(u.Long, p) }
	return slices.DeleteFunc(slices.Clone(paths), func(p P) bool {
		return !unasked(p) && !m.lengths.isLong(p, least, wasLong(p))
	})
}

// shorts returns how many paths TCP takes.
func (u Use[P]) shorts() (n int) {
	for _, p := range u.Paths {
		if u.taken(p) {
			n++
		}
	}
	return n
}

// taken reports whether TCP takes a path.
func (u Use[P]) taken(p P) bool { return slices.Contains(u.Paths, p) && !slices.Contains(u.Long, p) }

// Doubtful reports whether all paths in use are to be probed at once, as one was never
// probed, or was found to be long by one answer, which may have been late.
func (m *Machine[P]) Doubtful(u Use[P]) bool {
	return len(u.Paths) > 1 && slices.ContainsFunc(u.Paths, func(p P) bool { return m.lengths.doubts(p, u) })
}

// AskAgain returns after which pause all paths in use are to be probed again, as one was found to
// be long by answers that a busy host may have delayed; 0: they are not.
func (m *Machine[P]) AskAgain(u Use[P]) (soonest time.Duration) {
	if len(u.Paths) < 2 {
		return 0
	}
	for _, p := range u.Paths {
		if d := m.lengths.askAgain(p, u); d > 0 && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	return soonest
}

// Unasked returns the paths in use that nobody has probed.
func (m *Machine[P]) Unasked(u Use[P]) []P {
	if len(u.Paths) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(u.Paths), func(p P) bool { _, asked := m.lengths.by[p]; return asked })
}

// RTT returns the round-trip time of a path, the least of the last one to two minutes;
// false: it is not known.
func (m *Machine[P]) RTT(p P) (time.Duration, bool) {
	l := m.lengths.by[p]
	return l.rtt(), l.n > 0
}

// Spread returns how TCP is spread over the paths in use.
func (m *Machine[P]) Spread(u Use[P]) Spread {
	switch {
	case u.PerFlow:
		return ByFlow
	case slices.ContainsFunc(u.Long, func(p P) bool {
		n := m.lengths.by[p].n
		return !m.isLeft(p) && !m.mayBeSlow(p) && n >= lengthTwice || n > 0 && m.shown == ByLength
	}):
		return ByLength
	}
	return ByPacket
}

// Show returns Spread, and whether it differs from what Show returned the last time.
func (m *Machine[P]) Show(u Use[P]) (s Spread, changed bool) {
	s = m.Spread(u)
	changed = s != m.shown
	m.shown = s
	return s, changed
}

// HandlePaths takes that other paths are in use than before: what TCP has shown is
// forgotten, and so is what a question about queues has brought so far.
func (m *Machine[P]) HandlePaths() {
	m.stall = stall{}
	m.queues = queues[P]{base: m.queues.base, costs: m.queues.costs, last: m.queues.last}
}

// Forget drops what is known of paths that are gone.
func (m *Machine[P]) Forget(gone func(P) bool) {
	m.lengths.forget(gone)
	m.queues.forget(gone)
	maps.DeleteFunc(m.lately, func(p P, _ lately) bool { return gone(p) })
	maps.DeleteFunc(m.later, func(p P, _ time.Duration) bool { return gone(p) })
}

// Spread is how TCP is spread over several paths; all else is spread by packet.
type Spread uint8

// The values of Spread.
const (
	ByPacket Spread = iota
	ByFlow          // each connection keeps to one path: something on one of them tracks connections
	ByLength        // over the short paths; others take more than twice as long, and serve whole connections
)

// String returns the value in lower case.
func (s Spread) String() string {
	if names := [...]string{"packet", "flow", "length"}; int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}
