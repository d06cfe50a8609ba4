package multipath

import (
	"slices"
	"time"
)

// A single connection can use a long path beside short ones if the other end withholds the blocks of SACK that tell
// what overtook it there. Each round trip then takes the long path there and a short one back. The price is that round trip.
// So either windows follow it (stretch.go), or the connection begins once the queue that it has before the short paths
// makes these so much longer that its window is large enough, also after a loss: then it has nothing to lose. Where it
// sends less than before all the same, it keeps off the long path for a while.
const (
	crossLasts = time.Second           // what was sent is compared over spans of this length, at least
	crossFresh = 2 * time.Second       // an older answer does not say how long a path is now
	crossFar   = 60 * time.Millisecond // a way back may be longer by so much: TCP takes what is later for lost
	crossSlack = 30 * time.Millisecond // and by so much more may a queue make the ways there differ at first
	// Data that are later than the long path alone has them are lost: what is sent at once may wait for so long.
	crossJitter = 40 * time.Millisecond
	crossCut    = 0.7              // what a loss leaves of a window (RFC 9438 §4.6)
	crossLeast  = 0.9              // of what connections sent before: with less they are crossed no more,
	crossIdle   = 0.05             // but with less than this they have just ended
	crossAfter  = 2 * time.Second  // after that, or
	crossPause  = 10 * time.Second // for so long at first, twice as long with each time in a row,
	crossFails  = 6                // at most so often
	crossStalls = stallAgain       // afterwards a connection may still stand still by that
	crossOld    = time.Minute      // after which those times count no more
	crossHeavy  = 8                // the part of what the heaviest connection sends that makes another one its like
)

// crossing is which long path takes turns with the short ones, and what has come of it.
type crossing[P comparable] struct {
	on      bool
	path    P
	buckets uint64
	before  float64   // bytes a second that connections had without it, at best of late
	span    float64   // seconds of the present span,
	sent    float64   // bytes in it,
	seen    uint64    // and buckets that sent them
	first   bool      // it is the first one: the connections get used to it
	stalled bool      // a connection stood still meanwhile
	ended   time.Time // when it was last ended
	until   time.Time // not to be tried before
	fails   int       // in a row
	stretch stretching
}

// lately is what the last answer of a path has shown, the latest one of late, and when packets were last lost.
type lately struct {
	rtt    time.Duration
	at     time.Time
	most   time.Duration
	mostAt time.Time
	lostAt time.Time
	overAt time.Time // when a queue last overflowed
}

// mostOf returns the longest round trip of late.
func (l lately) mostOf(now time.Time) time.Duration {
	if now.Sub(l.mostAt) > stretchDeepIn {
		return 0
	}
	return l.most
}

// end ends it for a time.
func (x *crossing[P]) end(now time.Time, pause time.Duration) {
	x.stretch.end(now)
	*x = crossing[P]{until: now.Add(pause), ended: now, fails: x.fails, stretch: x.stretch}
}

// fail ends it for a longer time with each time in a row.
func (x *crossing[P]) fail(now time.Time) {
	x.end(now, crossPause<<x.fails)
	x.fails = min(x.fails+1, crossFails)
}

// takesStall takes that a connection stands still. It reports whether that may be as it takes a long path, or just has:
// then it is left, and nothing is to be thought of firewalls.
func (x *crossing[P]) takesStall(now time.Time) bool {
	x.stalled = x.on
	return x.on || !x.ended.IsZero() && now.Sub(x.ended) < crossStalls
}

// stop ends it where its owner knows nothing of connections any more.
func (x *crossing[P]) stop(now time.Time) crossing[P] {
	x.stretch.end(now)
	return crossing[P]{until: x.until, ended: x.ended, fails: x.fails, stretch: x.stretch}
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
		if sum += n; alike(loads, b) {
			buckets |= 1 << b
		}
	}
	switch {
	case x.on && (!u.Crosses || !slices.Contains(long, x.path)):
		x.end(now, crossPause)
	case x.on && x.stalled:
		x.fail(now)
	case x.on && sum < crossIdle*min(x.before, short):
		x.end(now, crossAfter)
	case x.on:
		if x.stretch.gap == 0 {
			x.buckets |= buckets
		}
		queued, least, rates := m.shortTrips(now, u)
		queue := time.Duration((queued - least) / max(rates, 1) * float64(time.Second))
		all := m.carried(short, x.path)
		x.stretch.follow(now, all*x.part(loads, all), queue)
		x.seen |= buckets
		x.judge(now, sum, seconds, short)
	case x.stretch.isAsking():
		if !u.Crosses || !slices.Contains(long, x.path) || sum < crossIdle*min(x.before, short) {
			x.end(now, crossPause)
		}
	default:
		full := short / placeFull
		isFull := sum > full && x.before > full // twice in a row: a look may have begun before they did
		begins := sum > full && !isFull
		x.before = max(sum, crossLeast*x.before)
		if len(long) == 0 || !u.Crosses || now.Before(x.until) || !x.stretch.at.IsZero() {
			break
		}
		if begins {
			m.places.next = now.Add(placeEvery)
		}
		if !isFull {
			break
		}
		if p, ok := m.worthCrossing(now, u, long, true); ok && !now.Before(x.stretch.not) {
			m.askWindows(now, u, p, buckets, short)
		} else if p, ok := m.worthCrossing(now, u, long, false); ok {
			x.begin(now, p, buckets)
		}
	}
	return x.on != was.on || x.on && (x.path != was.path || x.buckets != was.buckets)
}

// part returns the part of what all paths carry that is for the connections that are crossed: what the others leave,
// but not less than by their number. Their windows are as large as that, so it is for them to make room.
func (x *crossing[P]) part(loads map[uint8]float64, all float64) float64 {
	own, others, sent := 0, 0, 0.0
	for b, n := range loads {
		if x.buckets>>b&1 != 0 {
			own++
		} else {
			others, sent = others+1, sent+n
		}
	}
	if others == 0 {
		return 1
	}
	return max(1-sent/max(all, 1), float64(own)/float64(own+others))
}

// begin begins it.
func (x *crossing[P]) begin(now time.Time, p P, buckets uint64) {
	if now.Sub(x.until) > crossOld {
		x.fails = 0
	}
	*x = crossing[P]{
		on: true, path: p, buckets: buckets, before: x.before, first: true, fails: x.fails, stretch: x.stretch,
	}
}

// alike reports whether a bucket sends about as much as the heaviest one does.
func alike(loads map[uint8]float64, b uint8) bool {
	most := 0.0
	for _, n := range loads {
		most = max(most, n)
	}
	return loads[b] > 0 && loads[b] >= most/crossHeavy
}

// judge takes what connections have sent, and ends their crossing if it does not pay.
func (x *crossing[P]) judge(now time.Time, sum, seconds, short float64) {
	x.span += seconds
	x.sent += sum * seconds
	if x.span < crossLasts.Seconds() {
		return
	}
	rate, first := x.sent/x.span, x.first
	if x.stretch.gap == 0 { // else windows are as a long path has them
		x.buckets &= x.seen
	}
	x.span, x.sent, x.seen, x.first = 0, 0, 0, false
	switch {
	case first:
	case rate < crossLeast*min(x.before, short):
		x.fail(now)
	case rate > short:
		x.fails = 0
	}
}

// worthCrossing returns the fastest long path by which a round trip there, and back by a short one, takes no longer
// than a loss would leave of what the queues of the short paths have it take now; or, where windows follow the round
// trip, one that is not too long for that.
func (m *Machine[P]) worthCrossing(now time.Time, u Use[P], long []P, windows bool) (best P, ok bool) {
	queued, least, rates := m.shortTrips(now, u)
	if rates == 0 {
		return best, false
	}
	for _, p := range long {
		rtt := m.lengths.by[p].rtt().Seconds()
		crossed, gap := (least+rates*rtt)/2, (rtt-least/rates)/2 // a round trip, times all rates; one way
		isWorth := crossCut*queued >= crossed && gap <= crossFar.Seconds() &&
			(queued-least)/rates <= 2*gap+crossSlack.Seconds()
		if windows {
			isFit := gap >= stretchNear.Seconds() && gap <= stretchFar.Seconds()
			isWorth = isFit && m.rates[p].Bytes > rates/stretchPays && (!m.isShallow(now, u) || m.isPaced(now, u))
		}
		if isWorth && !m.isLeft(p) && (!ok || m.rates[p].Bytes > m.rates[best].Bytes) {
			best, ok = p, true
		}
	}
	return best, ok
}

// shortTrips returns the round trips of the short paths, now and without queues, each times its rate, and the sum of
// these rates; 0: not all are known.
func (m *Machine[P]) shortTrips(now time.Time, u Use[P]) (queued, least, rates float64) {
	for _, p := range u.Paths {
		if !u.taken(p) {
			continue
		}
		last, rate := m.lately[p], m.rates[p].Bytes
		if now.Sub(last.at) > crossFresh {
			return 0, 0, 0
		}
		rates += rate
		queued += rate * last.rtt.Seconds()
		least += rate * m.lengths.by[p].rtt().Seconds()
	}
	return queued, least, rates
}

// isPaced reports whether connections are to be paced that take a long path beside a single short one: they fill that
// one, as its queue shows, which has not been long of late.
func (m *Machine[P]) isPaced(now time.Time, u Use[P]) bool {
	queued, least, rates := m.shortTrips(now, u)
	isDeep := func(p P) bool { return u.taken(p) && m.isDeep(now, p) }
	return u.shorts() == 1 && queued-least > stretchFull.Seconds()*rates && !slices.ContainsFunc(u.Paths, isDeep)
}

// isShallow reports whether packets were lost of late on a short path, although its queue has not been long: bursts
// overflow such a queue.
func (m *Machine[P]) isShallow(now time.Time, u Use[P]) bool {
	return slices.ContainsFunc(u.Paths, func(p P) bool {
		_, short := m.ShortQueue(now, p)
		return u.taken(p) && short
	})
}

// isDeep reports whether the queue of a path has been long of late.
func (m *Machine[P]) isDeep(now time.Time, p P) bool {
	return m.lately[p].mostOf(now)-m.lengths.by[p].rtt() >= stretchDeep
}

// ShortQueue returns the longest round trip of late of a path that has lost packets although its queue has not been
// long; false: it has not, or has been.
func (m *Machine[P]) ShortQueue(now time.Time, p P) (most time.Duration, ok bool) {
	l := m.lately[p]
	return l.mostOf(now), now.Sub(l.lostAt) < stretchDeepIn && !m.isDeep(now, p)
}

// crossInTable writes into a table how late this host tells of what is missing, and which paths connections take that
// have a long one beside short ones. It returns the buckets of these.
func (m *Machine[P]) crossInTable(t *Table[P], u Use[P], short uint16) uint64 {
	least := m.lengths.leastOf(slices.DeleteFunc(slices.Clone(t.Paths), func(p P) bool { return !u.taken(p) }))
	for i, p := range t.Paths {
		// A path that TCP does not take yet as its rate is to be measured is no long one: blocks that are withheld for
		// it would hide which of the short ones is late, and show it of hundreds of segments at once a second later.
		isLong := least > 0 && short>>i&1 == 0 && m.lengths.isLong(p, least, true) && !m.isLeft(p)
		if more := m.lengths.by[p].rtt() - least; isLong {
			t.Longs |= 1 << i
			t.Waits[i] = m.waitOf(p, more/2+crossJitter)
		}
	}
	p, crossed := m.crossed(u)
	if crossed != 0 {
		t.Across = short | 1<<slices.Index(t.Paths, p)
	}
	return crossed
}

// waitOf returns a time as it was before, unless it has changed by a quarter: a table is not written anew with each
// measurement.
func (m *Machine[P]) waitOf(p P, wait time.Duration) time.Duration {
	wait = wait.Round(time.Millisecond)
	if was := m.later[p]; (wait - was).Abs() <= was/4 {
		return was
	}
	if m.later == nil {
		m.later = make(map[P]time.Duration)
	}
	m.later[p] = wait
	return wait
}
