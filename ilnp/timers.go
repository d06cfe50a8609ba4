package ilnp

import (
	"time"

	"roam"
	"roam/sched"
)

// timer names what a machine waits for. One enumeration serves every machine.
type timer uint8

const (
	timerUpdate  timer = iota // the Locator Update is retransmitted
	timerRefresh              // the correspondent's copy of our lifetimes gets old
	timerProbe                // the next round of probes, or its end
	timerRemote               // a remote locator's lifetime or grace ends
	timerSetup                // the first packets stay unanswered
	timerCopy                 // no answer shows the rule of checksums
	timerConfirm              // no answer to a probe shows whose the first nonce is
	timerIdle                 // the session has been idle for long
	timerLocal                // a local locator's lifetime ends
	timerMove                 // the next correspondents are told of a move
	timerCheck                // a path in doubt, or one in use, is probed
	timerLength               // a path that answers may have made long by being late is probed again
	timerCross                // the correspondent is asked again to withhold blocks of SACK, or windows are to shrink
	timerLoss                 // all that was under way on a path that data have left has come
	timerVouch                // the next correspondent is told of our new key
	timerProve                // a message of a proof has no answer
	timerSpare                // an ephemeral key is drawn for the next proof
	timerShared               // a secret is computed while the answer to an offer is under way
	timerShow                 // the next correspondents are sent our nonce, for a border
	timerReturn               // data have left a locator that the correspondent knows, and wait for a sign that it knows the new one
)

// machine is what has timers: a session, a pending peer or the host.
type machine any

// schedule holds the timers of one machine.
type schedule = sched.Schedule[machine, timer]

// agenda says which machine of the core is due next.
type agenda struct{ deadlines sched.Agenda[machine, timer] }

// arm sets timer t of s to now+d, replacing what it was set to.
func (a *agenda) arm(s *schedule, t timer, now time.Time, d time.Duration) {
	a.deadlines.Arm(s, t, now, d)
}

func (a *agenda) disarm(s *schedule, t timer) { a.deadlines.Disarm(s, t) }

// retire takes a machine out of the agenda for good.
func (a *agenda) retire(s *schedule) { a.deadlines.Retire(s) }

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
