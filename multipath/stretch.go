package multipath

import (
	"time"
)

// A connection without a queue that makes the short paths long can take a long path beside them if its window follows
// the round trip (package tcpassist), so that it sends as much a second as before. First its window grows, and it is
// paced by what it sends; then the other end is asked to withhold blocks of SACK, before the first data take the long
// path; and with the answer they do. Where any of that fails, and once the long path is left, the window shrinks as
// soon as nothing that took it is under way.
const (
	// A way back may be longer by so much: no acknowledgement comes for as long, and TCP waits for 200 ms.
	stretchFar  = 100 * time.Millisecond
	stretchNear = 2 * time.Millisecond // and at least
	// Queues of the short paths that lose packets have been so long of late: shorter ones overflow by bursts, and a loss
	// costs more then. Before a single one, connections are paced. Of several ones, each of which has its part by rates
	// that trains show to a tenth, one would overflow.
	stretchDeep   = 25 * time.Millisecond
	stretchDeepIn = time.Minute
	stretchPays   = 20                     // the part of the rate of the short paths that a long one has at least
	stretchMost   = 1 + rateAlike          // of what connections send, with a long path: a faster one takes them whole
	stretchSure   = 0.95                   // of what connections have sent: a part of that made a queue
	stretchFull   = 2 * time.Millisecond   // a queue by which they send what the short path carries
	stretchNews   = 0.1                    // the part of what all paths carry by which that is to change,
	stretchStep   = 1.25                   // and by so much it rises at once
	stretchTunes  = 900 * time.Millisecond // between two looks at that, and at queues,
	stretchQueue  = 10 * time.Millisecond  // that are this long where windows are too large: these get
	stretchLess   = 0.96                   // so much of what they had, or
	stretchMore   = 1.02                   // so much without a queue,
	stretchLeast  = 0.9                    // of what rates permit at least,
	stretchWide   = 1.08                   // and at most,
	stretchPaced  = 1                      // or where they are paced
	stretchWaits  = 2 * time.Second        // for windows to be set,
	stretchFails  = 8                      // tries in a row in which no window could be set, that count at most
	stretchCalms  = 30 * time.Millisecond  // connections are paced for a round trip and so much after the answer
	stretchAsks   = 250 * time.Millisecond // and for the answer of the other end, beyond the round trip
	// The last data by the long path are there after its way, and the next acknowledgement is of all. It takes a moment
	// until windows are set.
	stretchEarly = 30 * time.Millisecond
)

// Stretch says that the round trip of connections changes, and that their windows are to follow.
type Stretch struct {
	Phase   StretchPhase
	Buckets uint64        // of connections
	RTT     time.Duration // of the short paths, without queues
	Gap     time.Duration // by how much the round trip is longer
	Gain    float64       // what connections may send a second then, over what they send
	Rate    float64       // bytes a second that all paths carry then
	Paced   bool          // they are to send no burst faster than that
}

// StretchPhase is how far that is.
type StretchPhase uint8

// The phases.
const (
	StretchBegins StretchPhase = iota // the round trip is about to get longer; connections send no more than before
	StretchLasts                      // it is longer; they may grow up to Rate, now or from now on
	StretchEnds                       // it gets shorter again
)

// stretching is how far that is.
type stretching struct {
	set   bool          // windows are to be set,
	asked bool          // or the other end is asked
	since time.Time     // one of these
	rtt   time.Duration // of the short paths,
	way   time.Duration // of the long path, one way
	gap   time.Duration // by how much the round trip is longer for connections; 0: not by this
	gain  float64       // what they may send more,
	rate  float64       // and what all paths carry,
	paced bool          // of which the short one what connections sent before,
	rises bool          // or less than that by the last look,
	scale float64       // as queues show, times this
	tuned time.Time     // when that was last looked at
	calm  time.Time     // when acknowledgements have come by way of the long path; zero: they have, or are not waited for
	at    time.Time     // when it is as before again; zero: not ended
	not   time.Time     // not to be tried before, as no window could be set,
	fails int           // so often in a row
	which uint64        // buckets whose windows are larger
	tell  []Stretch     // what the owner has not been told
}

// isAsking reports whether it has begun, and no connection is crossed yet.
func (s *stretching) isAsking() bool { return s.set || s.asked }

// end has windows shrink before the last data that took the long path are acknowledged.
func (s *stretching) end(now time.Time) {
	if s.gap == 0 || !s.at.IsZero() {
		return // it does not go on, or ends already
	}
	if s.at = now.Add(max(s.way-stretchEarly, 0)); s.isAsking() {
		s.gain, s.at = 1, now
	}
	s.set, s.asked, s.calm = false, false, time.Time{}
}

// askWindows has the windows of connections grow.
func (m *Machine[P]) askWindows(now time.Time, u Use[P], p P, buckets uint64, short float64) {
	_, least, rates := m.shortTrips(now, u)
	rtt, long := time.Duration(least/rates*float64(time.Second)), m.lengths.by[p].rtt()
	x := &m.places.cross
	x.path, x.buckets = p, buckets
	x.stretch = stretching{
		set: true, since: now, fails: x.stretch.fails, rtt: rtt, way: long / 2, gap: (long - rtt) / 2, which: buckets,
		gain: min(1+m.rates[p].Bytes/short, stretchMost), paced: m.isPaced(now, u), scale: 1,
	}
	x.stretch.rate = m.carried(short, p)
	x.stretch.say(StretchBegins)
}

func (s *stretching) say(p StretchPhase) {
	rate := s.rate * s.scale
	s.tell = append(s.tell, Stretch{
		Phase: p, Buckets: s.which, RTT: s.rtt, Gap: s.gap, Gain: s.gain, Rate: rate, Paced: s.paced,
	})
}

// follow has windows be no larger than what all paths carry now, given their rates, and how long the queues of the
// short paths are: while the long path is what is waited for, a queue before these lengthens no round trip, so no
// window ends it.
func (s *stretching) follow(now time.Time, rate float64, queue time.Duration) {
	if s.gap == 0 || !s.at.IsZero() || !s.calm.IsZero() || s.isAsking() || now.Sub(s.tuned) < stretchTunes {
		return
	}
	s.tuned = now
	// A rise counts if it is there twice in a row, and step by step: trains among much data may show too much.
	was, before, scale := s.rises, s.rate, s.scale
	if s.rises = rate > s.rate*(1+stretchNews); rate < s.rate*(1-stretchNews) || s.rises && was {
		s.rate, s.rises, s.scale = min(rate, s.rate*stretchStep), false, 1
	}
	widest := stretchWide
	if s.paced {
		widest = stretchPaced
	}
	switch {
	case queue > stretchQueue:
		s.scale = max(s.scale*stretchLess, stretchLeast)
	case queue < stretchQueue/5:
		s.scale = min(s.scale*stretchMore, widest)
	}
	if s.rate != before || s.scale != scale {
		s.say(StretchLasts)
	}
}

// carried returns what all paths carry with a long one: by their rates, or what connections have sent by the short
// ones, if that is more. A train among the data of a connection may show too little, and by a tenth too much. So where
// a short queue has shown that they sent what a short path carries, that counts, until trains show far more.
func (m *Machine[P]) carried(short float64, long P) float64 {
	x := &m.places.cross
	if x.stretch.paced && short <= stretchStep*x.before {
		return x.before + m.rates[long].Bytes
	}
	return max(short, stretchSure*x.before) + m.rates[long].Bytes
}

// PollStretch returns what windows are to follow next; false: nothing.
func (m *Machine[P]) PollStretch() (s Stretch, ok bool) {
	tell := &m.places.cross.stretch.tell
	if len(*tell) == 0 {
		return s, false
	}
	s = (*tell)[0]
	*tell = (*tell)[1:]
	return s, true
}

// HandleStretched takes the buckets of which connections have the windows that a Stretch that begins wants. It reports
// whether the other end is to be asked now to withhold their blocks.
func (m *Machine[P]) HandleStretched(now time.Time, buckets uint64) (ask bool) {
	x := &m.places.cross
	if !x.stretch.set {
		return false
	}
	x.buckets &= buckets
	if x.buckets == 0 { // nothing has been changed
		fails := x.stretch.fails
		x.stretch = stretching{not: now.Add(crossAfter << fails), fails: min(fails+1, stretchFails)}
		return false
	}
	x.stretch.set, x.stretch.asked, x.stretch.since, x.stretch.fails = false, true, now, 0
	x.stretch.which = x.buckets
	return true
}

// Asks returns the path along which the other end is asked to withhold blocks; false: it is not.
func (m *Machine[P]) Asks() (p P, ok bool) { return m.places.cross.path, m.places.cross.stretch.asked }

// HandleCrosses takes that the other end withholds the blocks that it was asked to. It reports whether connections are
// to take other paths than before.
func (m *Machine[P]) HandleCrosses(now time.Time) (changed bool) {
	x := &m.places.cross
	if !x.stretch.asked {
		return false
	}
	x.stretch.asked, x.stretch.calm = false, now.Add(x.stretch.rtt+x.stretch.gap+stretchCalms)
	x.begin(now, x.path, x.buckets)
	return true
}

// StretchTimeout returns when HandleStretchTimeout is to be called; false: never, as it stands.
func (m *Machine[P]) StretchTimeout() (at time.Time, ok bool) {
	switch s := m.places.cross.stretch; {
	case s.set:
		return s.since.Add(stretchWaits), true
	case s.asked:
		return s.since.Add(2*s.way + stretchAsks), true
	case !s.calm.IsZero():
		return s.calm, true
	default:
		return s.at, !s.at.IsZero()
	}
}

// HandleStretchTimeout is called at the time that StretchTimeout names, or later.
func (m *Machine[P]) HandleStretchTimeout(now time.Time) {
	at, ok := m.StretchTimeout()
	if !ok || now.Before(at) {
		return
	}
	x := &m.places.cross
	if s := &x.stretch; !s.at.IsZero() {
		s.say(StretchEnds)
		*s = stretching{tell: s.tell}
		return
	}
	if s := &x.stretch; !s.calm.IsZero() {
		s.calm = time.Time{}
		s.say(StretchLasts)
		return
	}
	x.fail(now)
}
