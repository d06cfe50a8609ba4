// Package sched keeps the deadlines of protocol machines: which of many
// machines is due next, and for what.
//
// A machine, say a session, holds a Schedule: its deadlines, one for each of
// its timers. An Agenda holds the schedules of all machines of a core and names
// the earliest deadline among them. So a core needs one timer of the effects
// above it, however many machines it has:
//
//	Agenda.Arm, Disarm, Retire   the core sets a machine's deadlines
//	Agenda.Next                  PollTimeout of the core
//	Agenda.Due                   HandleTimeout of the core, until nothing is due
//
// The order is total: the same calls give the same order of what is due, and so
// the same run of a core.
//
// It omits a clock: every call that needs the time takes it. It is driven by
// the core ilnp, and made for every other core.
package sched

import "time"

// Tick is the least time that a timer is set ahead. A timer that were due at
// once would never let a core's HandleTimeout return.
const Tick = time.Millisecond

// Schedule holds the deadlines of one machine, at most one for each timer of
// type T, and its place in an Agenda. Its zero value has none; Machine is to be
// set before the first Arm. A Schedule must not be copied after that.
type Schedule[M any, T ~uint8] struct {
	Machine M // what the deadlines are of, as Due returns it

	armed []deadline[T] // few, in no order
	next  int           // of armed: the earliest
	place int           // in the agenda, from 1; 0: not there
	id    uint64        // the order of first arming, which decides between equal deadlines
}

type deadline[T ~uint8] struct {
	at    time.Time
	timer T
}

func (d deadline[T]) before(o deadline[T]) bool {
	return d.at.Before(o.at) || d.at.Equal(o.at) && d.timer < o.timer
}

// Armed reports whether a timer has a deadline.
func (s *Schedule[M, T]) Armed(t T) bool { return s.find(t) >= 0 }

// Deadline returns when a timer is due; false: it is not armed.
func (s *Schedule[M, T]) Deadline(t T) (time.Time, bool) {
	if i := s.find(t); i >= 0 {
		return s.armed[i].at, true
	}
	return time.Time{}, false
}

func (s *Schedule[M, T]) find(t T) int {
	for i := range s.armed {
		if s.armed[i].timer == t {
			return i
		}
	}
	return -1
}

// Agenda is a binary heap of schedules by their earliest deadline: a host with
// ten thousand sessions finds its next one without a search. Its zero value is
// empty. It is not safe for concurrent use.
type Agenda[M any, T ~uint8] struct {
	heap  []*Schedule[M, T]
	count uint64 // of schedules that were ever armed
}

// Len returns how many machines have a deadline.
func (a *Agenda[M, T]) Len() int { return len(a.heap) }

// Next returns the earliest deadline; false: there is none.
func (a *Agenda[M, T]) Next() (time.Time, bool) {
	if len(a.heap) == 0 {
		return time.Time{}, false
	}
	return a.heap[0].earliest().at, true
}

// Due takes the earliest deadline that has come out of the agenda, and returns
// whose it is and which timer's; false: none has come. Of deadlines at one time
// that of the machine which was armed first comes first, and of one machine that
// of the lowest timer.
func (a *Agenda[M, T]) Due(now time.Time) (m M, t T, due bool) {
	if len(a.heap) == 0 || a.heap[0].earliest().at.After(now) {
		return m, t, false
	}
	s := a.heap[0]
	t = s.earliest().timer
	a.Disarm(s, t)
	return s.Machine, t, true
}

// Arm sets a timer of s to now+d, or to now+Tick if d is less, in place of what
// it was set to.
func (a *Agenda[M, T]) Arm(s *Schedule[M, T], t T, now time.Time, d time.Duration) {
	v := deadline[T]{now.Add(max(d, Tick)), t}
	if i := s.find(t); i >= 0 {
		s.armed[i] = v
	} else {
		s.armed = append(s.armed, v)
	}
	if s.id == 0 {
		a.count++
		s.id = a.count
	}
	a.update(s)
}

// Disarm ends a timer of s, if it is armed.
func (a *Agenda[M, T]) Disarm(s *Schedule[M, T], t T) {
	i := s.find(t)
	if i < 0 {
		return
	}
	last := len(s.armed) - 1
	s.armed[i] = s.armed[last]
	s.armed = s.armed[:last]
	a.update(s)
}

// Retire ends all timers of s.
func (a *Agenda[M, T]) Retire(s *Schedule[M, T]) {
	s.armed = s.armed[:0]
	a.update(s)
}

func (s *Schedule[M, T]) earliest() deadline[T] { return s.armed[s.next] }

func (a *Agenda[M, T]) before(i, j int) bool {
	x, y := a.heap[i], a.heap[j]
	if at := y.earliest().at; !x.earliest().at.Equal(at) {
		return x.earliest().at.Before(at)
	}
	return x.id < y.id
}

// update puts s where its deadlines want it, or takes it out if it has none.
func (a *Agenda[M, T]) update(s *Schedule[M, T]) {
	if len(s.armed) == 0 {
		a.remove(s)
		return
	}
	s.next = 0
	for i := range s.armed {
		if s.armed[i].before(s.armed[s.next]) {
			s.next = i
		}
	}
	if s.place == 0 {
		a.heap = append(a.heap, s)
		s.place = len(a.heap)
	}
	a.down(a.up(s.place - 1))
}

// remove does not look at the deadlines of s, which has none.
func (a *Agenda[M, T]) remove(s *Schedule[M, T]) {
	if s.place == 0 {
		return
	}
	i, last := s.place-1, len(a.heap)-1
	a.swap(i, last)
	a.heap[last] = nil
	a.heap = a.heap[:last]
	s.place = 0
	if i < last {
		a.down(a.up(i))
	}
}

func (a *Agenda[M, T]) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].place, a.heap[j].place = i+1, j+1
}

func (a *Agenda[M, T]) up(i int) int {
	for i > 0 && a.before(i, (i-1)/2) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (a *Agenda[M, T]) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(a.heap) && a.before(child, least) {
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
