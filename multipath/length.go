package multipath

import (
	"maps"
	"slices"
	"time"
)

// A packet on the longer of two paths arrives behind those that were sent later on the
// other, and TCP takes it for lost: one connection over paths of 10 and 100 ms gets a
// thirtieth of what the first alone would give it. While round trips differ by
// less than the shorter one, it gets more from both. So segments are spread over the short paths,
// and long ones take whole connections only (place.go); UDP is spread over all.
const (
	longFactor  = 2 // of the least round trip, beyond which a path is a long one,
	shortFactor = 1.5
	lengthNoise = 2 * time.Millisecond  // and as much more: what hosts add
	lengthTwice = 2                     // measurements without which no path is a long one for good,
	lengthSure  = 8                     // and those where a busy host may be what makes the difference:
	lengthHost  = 30 * time.Millisecond // by so much an answer may be late for its other work
	lengthPause = 50 * time.Millisecond // before the third measurement
)

// LengthLasts is for how long a measurement of a path's length counts at least.
const LengthLasts = time.Minute

// length is the round-trip time of a path: the least of one to two minutes, as
// queues, and a host that has other work, only add to it.
type length struct {
	now, before time.Duration // least of the present window, and of the one before
	since       time.Time     // when the present one began
	n           int           // how often it was measured, at most lengthSure; 0: it was asked in vain
}

// measured returns the length with one more measurement.
func (l length) measured(now time.Time, rtt time.Duration) length {
	switch age := now.Sub(l.since); {
	case l.n == 0 || age >= 2*LengthLasts || age < 0:
		return length{now: rtt, before: rtt, since: now, n: 1}
	case age >= LengthLasts:
		l.before, l.now, l.since = l.now, rtt, now
	}
	l.now, l.n = min(l.now, rtt), min(l.n+1, lengthSure)
	return l
}

// rtt is 0 if it is not known.
func (l length) rtt() time.Duration { return min(l.now, l.before) }

// lengths are those of the paths that have been asked.
type lengths[P comparable] struct{ by map[P]length }

func (ls *lengths[P]) note(now time.Time, p P, rtt time.Duration) {
	ls.set(p, ls.by[p].measured(now, rtt))
}

// askedInVain notes that a path has not answered: one that is to be asked at once is asked no
// more, and one that is to be asked again once less.
func (ls *lengths[P]) askedInVain(p P, u Use[P]) {
	switch l := ls.by[p]; {
	case ls.doubts(p, u):
		ls.set(p, length{})
	case ls.askAgain(p, u) > 0:
		l.n++
		ls.set(p, l)
	}
}

func (ls *lengths[P]) set(p P, l length) {
	if ls.by == nil {
		ls.by = make(map[P]length)
	}
	ls.by[p] = l
}

// leastOf returns the shortest round trip that is known of paths; 0: none is.
func (ls *lengths[P]) leastOf(paths []P) (least time.Duration) {
	for _, p := range paths {
		if rtt := ls.by[p].rtt(); rtt > 0 && (least == 0 || rtt < least) {
			least = rtt
		}
	}
	return least
}

// isLong says whether a path is a long one beside another; one that was is so for
// somewhat longer, that TCP does not go to and fro.
func (ls *lengths[P]) isLong(p P, least time.Duration, was bool) bool {
	limit := longFactor*least + lengthNoise
	if was {
		limit = time.Duration(shortFactor*float64(least)) + lengthNoise
	}
	return ls.by[p].rtt() > limit
}

// doubts reports whether a path is to be asked at once: it never was, or is long by one answer.
func (ls *lengths[P]) doubts(p P, u Use[P]) bool {
	l, asked := ls.by[p]
	return !asked || l.n == 1 && slices.Contains(u.Long, p)
}

// askAgain returns after which pause a path is to be asked again, as it is long by few answers of
// hosts whose other work may have delayed them all; 0: it is not. The pauses double, since answers
// that come together are late together.
func (ls *lengths[P]) askAgain(p P, u Use[P]) time.Duration {
	l := ls.by[p]
	if l.n < lengthTwice || l.n >= lengthSure || !slices.Contains(u.Long, p) || l.rtt() >= ls.leastOf(u.Paths)+lengthHost {
		return 0
	}
	return lengthPause << (l.n - lengthTwice)
}

func (ls *lengths[P]) forget(gone func(P) bool) {
	maps.DeleteFunc(ls.by, func(p P, _ length) bool { return gone(p) })
}
