package multipath

import (
	"slices"
	"time"
)

// A single connection can use a long path beside short ones if its acknowledgements are crossed: those of data that
// came by a short path return by the long one, and the others by a short one. Each round trip then takes half of each
// path, so acknowledgements come in the order in which the data left, although the data do not arrive in it. The price
// is that round trip. So a connection is crossed only once the queue that it has before the short paths makes these so
// much longer that its window is large enough, also after a loss: then it has nothing to lose. Both ways are expected
// to be equally long; where they are not, or anything else has it send less than before, it is crossed no more for a
// while.
const (
	crossLasts = time.Second           // what was sent is compared over spans of this length, at least
	crossFresh = 2 * time.Second       // an older answer does not say how long a path is now
	crossLeast = 0.9                   // of what connections sent before: with less they are crossed no more,
	crossFar   = 60 * time.Millisecond // a way back may be longer by so much: TCP takes what is later for lost
	crossCut   = 0.7                   // what a loss leaves of a window (RFC 9438 §4.6)
	crossPause = 10 * time.Second      // for so long at first, twice as long with each time in a row,
	crossFails = 6                     // at most so often
)

// crossing is which long path takes turns with the short ones, and what has come of it.
type crossing[P comparable] struct {
	on      bool
	path    P
	buckets uint64
	before  float64   // bytes a second that connections had without it
	span    float64   // seconds of the present span,
	sent    float64   // and bytes in it
	first   bool      // it is the first one: the connections get used to it
	until   time.Time // not to be tried before
	fails   int       // in a row
}

// lately is what the last answer of a path has shown.
type lately struct {
	rtt time.Duration
	at  time.Time
}

// crossed returns the long path that takes turns with the short ones, and for the connections of which buckets.
func (m *Machine[P]) crossed(u Use[P]) (p P, buckets uint64) {
	x := m.places.cross
	isThere := slices.Contains(u.Paths, x.path) && slices.Contains(u.Long, x.path)
	if x.on && isThere && !u.PerFlow && !m.isLeft(x.path) {
		return x.path, x.buckets
	}
	return p, 0
}

// cross decides about that anew, given what the heavy buckets that keep to the short paths have sent a second, for so
// many seconds. long are the long paths that take no whole connection.
func (m *Machine[P]) cross(now time.Time, u Use[P], loads map[uint8]float64, seconds, short float64,
	long []P) (changed bool) {
	x, was := &m.places.cross, m.places.cross
	sum, buckets := 0.0, uint64(0)
	for b, n := range loads {
		sum, buckets = sum+n, buckets|1<<b
	}
	switch {
	case x.on && (!u.Crosses || !slices.Contains(long, x.path)):
		x.on = false
	case x.on:
		x.buckets |= buckets
		x.judge(now, sum, seconds, short, buckets)
	case u.Crosses && sum > short/placeFull && !now.Before(x.until):
		if p, ok := m.worthCrossing(now, u, long); ok {
			*x = crossing[P]{on: true, path: p, buckets: buckets, before: min(sum, short), first: true, fails: x.fails}
		}
	}
	return x.on != was.on || x.on && (x.path != was.path || x.buckets != was.buckets)
}

// judge takes what connections have sent, and ends their crossing if it does not pay.
func (x *crossing[P]) judge(now time.Time, sum, seconds, short float64, buckets uint64) {
	x.span += seconds
	x.sent += sum * seconds
	if x.span < crossLasts.Seconds() {
		return
	}
	rate, first := x.sent/x.span, x.first
	x.span, x.sent, x.first, x.buckets = 0, 0, false, buckets
	switch {
	case first:
	case rate < crossLeast*x.before:
		x.on = false
		x.until = now.Add(crossPause << x.fails)
		x.fails = min(x.fails+1, crossFails)
	case rate > short:
		x.fails = 0
	}
}

// worthCrossing returns the fastest long path by which a round trip, with crossed acknowledgements, takes no longer
// than a loss would leave of what the queues of the short paths have it take now.
func (m *Machine[P]) worthCrossing(now time.Time, u Use[P], long []P) (best P, ok bool) {
	var queued, least, rates float64
	for _, p := range u.Paths {
		if !u.taken(p) {
			continue
		}
		last, rate := m.lately[p], m.rates[p].Bytes
		if now.Sub(last.at) > crossFresh {
			return best, false
		}
		rates += rate
		queued += rate * last.rtt.Seconds()
		least += rate * m.lengths.by[p].rtt().Seconds()
	}
	for _, p := range long {
		rtt := m.lengths.by[p].rtt().Seconds()
		crossed, gap := (least+rates*rtt)/2, (rtt-least/rates)/2
		isWorth := crossCut*queued >= crossed && gap <= crossFar.Seconds() && !m.isLeft(p)
		if isWorth && (!ok || m.rates[p].Bytes > m.rates[best].Bytes) {
			best, ok = p, true
		}
	}
	return best, ok
}

// crossInTable writes into a table which acknowledgements this host crosses, and which paths connections take whose
// acknowledgements the other end crosses. It returns the buckets of these.
func (m *Machine[P]) crossInTable(t *Table[P], u Use[P], short uint16) uint64 {
	rtt := func(i int) time.Duration { return m.lengths.by[t.Paths[i]].rtt() }
	least := m.lengths.leastOf(slices.DeleteFunc(slices.Clone(t.Paths), func(p P) bool { return !u.taken(p) }))
	mate := slices.IndexFunc(t.Paths, func(p P) bool { return u.taken(p) && m.lengths.by[p].rtt() <= least+least/4 })
	if mate < 0 {
		return 0
	}
	for i, p := range t.Paths {
		if gap := (rtt(i) - rtt(mate)) / 2; short>>i&1 == 0 && gap > 0 && !m.isLeft(p) {
			t.Longs |= 1 << i
			t.Gaps[i] = m.gapOf(p, gap)
		}
	}
	if t.Longs != 0 { // else it would change with each measurement
		t.Mate = uint8(mate)
	}
	p, crossed := m.crossed(u)
	if crossed != 0 {
		t.Across = short | 1<<slices.Index(t.Paths, p)
	}
	return crossed
}

// gapOf returns a gap as it was before, unless it has changed by a quarter: a table is not written anew with each
// measurement.
func (m *Machine[P]) gapOf(p P, gap time.Duration) time.Duration {
	gap = max(gap.Round(time.Millisecond), time.Millisecond)
	if was := m.gaps[p]; (gap - was).Abs() <= was/4 {
		return was
	}
	if m.gaps == nil {
		m.gaps = make(map[P]time.Duration)
	}
	m.gaps[p] = gap
	return gap
}
