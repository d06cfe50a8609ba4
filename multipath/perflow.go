package multipath

import (
	"maps"
	"slices"
	"time"
)

// In duality each packet takes its own path. A firewall on one of several paths
// that tracks connections sees a part of each, and may drop what does not fit what
// it saw: TCP stands still though probes come through, as they are connections of
// their own. So when TCP has had two time-outs, or had to send much again, and all
// paths in use answer at both, its connections keep to one path each, in both
// directions; UDP is spread as ever. Nobody can ask a firewall whether it still does
// that, so packets are spread again now and then, ever more rarely.
const (
	stallAgain = 4 * time.Second // within which, and four round trips, another sign is not by chance; time-outs double
	stallFresh = 2 * time.Second // for how long a stall is a question to the paths
	stallMoves = 256             // segments that a connection which stands still does not deliver within that time
	stallMany  = 8               // connections that stand still at once
	stallOver  = time.Second     // for how long a queue that has overflowed explains time-outs
)

// How long connections keep to one path each: the first time, and the longest, as
// it is doubled each time; and for how long a wish of the other end holds at least.
const (
	PerFlowFirst = 10 * time.Minute
	PerFlowMax   = 4 * time.Hour
	WishLasts    = 2 * Regularly
)

// Spell says whether TCP keeps to one path for each connection. It is comparable, and
// its zero value is that it does not and never did.
type Spell struct {
	On    bool
	Until time.Time     // On: when packets are spread again; else: when they were
	Every time.Duration // how long the last spell was; 0: there was none
}

// Again returns the spell that begins now.
func (s Spell) Again(now time.Time) Spell {
	every := PerFlowFirst
	if s.Every > 0 && now.Sub(s.Until) < s.Every {
		every = min(2*s.Every, PerFlowMax)
	}
	return Spell{On: true, Until: now.Add(every), Every: every}
}

// End returns what follows a spell that is over, also one whose end has moved away, as
// the clock was set back; false: it is not over.
func (s Spell) End(now time.Time) (Spell, bool) {
	if !s.On || now.Before(s.Until) && s.Until.Sub(now) <= s.Every {
		return s, false
	}
	return Spell{Until: now, Every: s.Every}, true
}

// stall is what TCP has shown on the paths that are in use now.
type stall struct {
	sign  time.Time             // when it last showed a sign of standing still,
	of    map[uint32]standingAt // and which connections did of late
	sound time.Time             // when paths were last asked that all answered at once
	asked time.Time             // when they were last asked why, at a second sign
}

// Standing is a connection that had a time-out.
type Standing struct {
	Connection uint32 // its ports; 0: unknown, or it has sent much again
	Delivered  uint32 // segments so far
}

type standingAt struct {
	delivered uint32
	at        time.Time
}

// stands takes a sign of a connection, and reports whether it is the second one within that time: of a connection that
// has hardly delivered anything in between, as losses in a short queue cost a time-out now and then, or of many.
func (f *stall) stands(now time.Time, s Standing, within time.Duration) bool {
	maps.DeleteFunc(f.of, func(_ uint32, o standingAt) bool { return now.Sub(o.at) > within })
	before, again := f.of[s.Connection]
	if f.of == nil {
		f.of = make(map[uint32]standingAt)
	}
	f.of[s.Connection] = standingAt{s.Delivered, now}
	return again && s.Delivered-before.delivered < stallMoves || len(f.of) >= stallMany
}

// HandleStall takes a sign that TCP stands still on the paths in use, rtt being their round-trip time as far as it is
// known. The owner probes all of them at each sign. One sign may be due to a loss, and two to an outage of all paths,
// or to a machine that stood still: only if each path answered at once between them, and does now (HandleSound),
// something on one of them drops what it has not seen begin. Both are to be of one connection that does not move. Where
// connections take a long path beside short ones, that is left first.
func (m *Machine[P]) HandleStall(now time.Time, rtt time.Duration, s Standing) {
	overflowed := func(l lately) bool { return now.Sub(l.overAt) < stallOver }
	if m.places.cross.takesStall(now) || slices.ContainsFunc(slices.Collect(maps.Values(m.lately)), overflowed) {
		return
	}
	f := &m.stall
	if f.stands(now, s, stallAgain+4*rtt) && !f.sound.Before(f.sign) {
		f.asked = now
	}
	f.sign = now
}

// HandleSound takes that all paths in use have answered in a round of probes which began
// at asked, and how often the slowest one had to be asked. It reports whether connections
// are to keep to one path each from now on.
func (m *Machine[P]) HandleSound(now time.Time, u Use[P], asked time.Time, times int) bool {
	if times == 1 {
		m.stall.sound = asked
	}
	return now.Sub(m.stall.asked) <= stallFresh && !u.PerFlow && len(u.Paths) >= 2
}

// HandleSpell takes that a spell has begun or ended: what TCP has shown is forgotten.
func (m *Machine[P]) HandleSpell() { m.stall = stall{} }

// wish is what the other end wants.
type wish struct {
	at    time.Time // when it last wanted connections to keep to one path each
	holds bool
}

// HandleWish takes whether the other end wants connections to keep to one path each. Its
// wish holds until it has been silent about it for a while: one that changes its mind
// with every probe does not keep us busy, nor does an echo request of an application that
// looks like one. It reports whether Wished has changed.
func (m *Machine[P]) HandleWish(now time.Time, perFlow bool) (changed bool) {
	if perFlow {
		m.wish.at = now
	}
	holds := now.Sub(m.wish.at) < WishLasts
	changed = holds != m.wish.holds
	m.wish.holds = holds
	return changed
}

// Wished reports whether the other end wants connections to keep to one path each.
func (m *Machine[P]) Wished() bool { return m.wish.holds }

// GoesOn reports whether time alone changes what the Machine chooses (HandleWish, Expire).
func (m *Machine[P]) GoesOn() bool { return m.wish.holds || !m.queues.last.IsZero() }

// ForgetWish drops it until the other end repeats it.
func (m *Machine[P]) ForgetWish() { m.wish.holds = false }
