package multipath

import "time"

// Bounds of the wait for the queue of a path that TCP has left.
const (
	drainMost  = time.Second           // it is not waited for any longer: others may fill it
	drainEvery = 25 * time.Millisecond // between two questions whether it is gone, at least
)

// late is a path that TCP has left until its rate is measured anew.
type late struct {
	since time.Time
	asked time.Time // whether its queue is gone
}

// HandleLate takes that a path has become slower, as it is late with what another one has delivered, or its queue
// empties more slowly. TCP leaves it until its rate, which the owner has measured anew, is known.
func (m *Machine[P]) HandleLate(now time.Time, p P) {
	if m.late == nil {
		m.late = make(map[P]late)
	}
	m.late[p] = late{since: now}
}

// isLeft reports whether TCP leaves a path that it has taken, until its rate is known.
func (m *Machine[P]) isLeft(p P) bool { return m.IsLate(p) || m.isOutpaced(p) }

// IsLate reports whether TCP has left a path as it has become slower.
func (m *Machine[P]) IsLate(p P) bool {
	_, is := m.late[p]
	return is
}

// IsDrained reports whether trains may measure a path: a queue that has overflowed drops some of a train's packets, and
// the path seems faster by these. If not, ask says whether a probe is to show it.
func (m *Machine[P]) IsDrained(now time.Time, p P) (is, ask bool) {
	l, isLate := m.late[p]
	last := m.lately[p]
	isEmpty := last.at.After(l.since) && !m.IsQueue(p, last.rtt)
	if !isLate || isEmpty || now.Sub(l.since) >= drainMost {
		return true, false
	}
	if ask = now.Sub(l.asked) >= drainEvery; ask {
		m.late[p] = late{l.since, now}
	}
	return false, ask
}

// IsQueue reports whether a packet with this round trip has met a queue on a path.
func (m *Machine[P]) IsQueue(p P, rtt time.Duration) bool {
	length := m.lengths.by[p].rtt()
	return rtt-length > max(queueNoise, length/4)
}
