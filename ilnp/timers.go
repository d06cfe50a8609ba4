package ilnp

import (
	"time"

	"roam"
)

// timer names what a machine waits for. One enumeration serves every machine,
// so that there is one array of deadlines and one place that sorts them.
type timer uint8

const (
	timerUpdate  timer = iota // the Locator Update is sent again
	timerRefresh              // the correspondent's copy of our lifetimes gets old
	timerProbe                // the next round of probes, or its end
	timerRemote               // a remote locator's lifetime or grace ends
	timerSetup                // the first packets stay unanswered
	timerCopy                 // no answer shows the rule of checksums
	timerConfirm              // no answer to a probe shows whose the first nonce is
	timerIdle                 // the session has been idle for long
	timerLocal                // a local locator's lifetime ends
	timerMove                 // the next correspondents are told of a move
	timerReturn               // data have left a locator that the correspondent knows, and wait for a sign that it knows the new one
	numTimers
)

// tick is the least time a timer is set ahead: a timer that were due at once
// would never let HandleTimeout return.
const tick = time.Millisecond

// machine is what has timers.
type machine interface {
	fire(c *Core, now time.Time, t timer)
}

// schedule holds the timers of one machine and its place in the agenda.
type schedule struct {
	at    [numTimers]time.Time // zero: not armed
	next  time.Time            // the earliest of them
	place int                  // in the agenda, from 1; 0: not there
	id    uint64               // the order of first arming, which decides between equal deadlines
	owner machine
}

func (s *schedule) earliest() timer {
	best := numTimers
	for t := range numTimers {
		if !s.at[t].IsZero() && (best == numTimers || s.at[t].Before(s.at[best])) {
			best = t
		}
	}
	return best
}

func (s *schedule) armed(t timer) bool { return !s.at[t].IsZero() }

// arm sets timer t of s to now+d, replacing what it was set to.
func (c *Core) arm(s *schedule, t timer, now time.Time, d time.Duration) {
	s.at[t] = now.Add(max(d, tick))
	if s.id == 0 {
		c.schedules++
		s.id = c.schedules
	}
	c.agenda.update(s)
}

func (c *Core) disarm(s *schedule, t timer) {
	if s.armed(t) {
		s.at[t] = time.Time{}
		c.agenda.update(s)
	}
}

// retire takes a machine out of the agenda for good.
func (c *Core) retire(s *schedule) {
	s.at = [numTimers]time.Time{}
	c.agenda.update(s)
}

// agenda is a binary heap of schedules by their earliest deadline: a host with
// ten thousand sessions finds its next one without a search.
type agenda []*schedule

func (a agenda) before(i, j int) bool {
	if a[i].next.Equal(a[j].next) {
		return a[i].id < a[j].id
	}
	return a[i].next.Before(a[j].next)
}

// update puts s where its deadlines want it, or takes it out if it has none.
func (a *agenda) update(s *schedule) {
	t := s.earliest()
	if t == numTimers {
		a.remove(s)
		return
	}
	s.next = s.at[t]
	if s.place == 0 {
		*a = append(*a, s)
		s.place = len(*a)
	}
	a.down(a.up(s.place - 1))
}

func (a *agenda) remove(s *schedule) {
	if s.place == 0 {
		return
	}
	i, last := s.place-1, len(*a)-1
	a.swap(i, last)
	*a = (*a)[:last]
	s.place = 0
	if i < last {
		a.down(a.up(i))
	}
}

func (a agenda) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i+1, j+1
}

func (a agenda) up(i int) int {
	for i > 0 && a.before(i, (i-1)/2) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (a agenda) down(i int) {
	for {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(a) && a.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		a.swap(i, least)
		i = least
	}
}

// deadline returns now+d, or the zero time, "never", for Infinite.
func deadline(now time.Time, d time.Duration) time.Time {
	if d == roam.Infinite {
		return time.Time{}
	}
	return now.Add(d)
}

// remaining is the reverse of deadline; 0 once t has passed.
func remaining(now, t time.Time) time.Duration {
	if t.IsZero() {
		return roam.Infinite
	}
	return max(t.Sub(now), 0)
}

// sooner returns the earlier of two deadlines, the zero time being "never".
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two points in time, the zero time being "never
// yet".
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
