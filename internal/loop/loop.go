package loop

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"
)

// UrgentInARow bounds the urgent events that are handled before everything else has a
// turn.
const UrgentInARow = 64

// idle is how long the timer is set when no machine has a deadline.
const idle = time.Hour

// ErrStopped is returned by Do when the loop does not run any more.
var ErrStopped = errors.New("loop has stopped")

// errDone ends Run without an error.
var errDone = errors.New("the loop is to end")

// Clock tells the time.
type Clock func() time.Time

// Loop runs parts. Its methods other than Do, Now and Close belong to the goroutine of
// Run, or to the time before it.
type Loop struct {
	clock    Clock
	commands chan func(now time.Time)
	done     chan struct{}
	ended    sync.Once
	timer    *time.Timer

	parts    []*Part
	own      []Source // of the loop itself: end, timer, Do
	urgent   []Source
	backlog  []Backlog
	machines []Machine
	late     []Machine
	sources  []Source // all that can be waited for
	cases    []reflect.SelectCase
	turn     int // of sources: the next to be looked at
	due      int // of machines: the next to be looked at
}

// New makes a loop without parts. Everything that it hands a time gets it from clock.
func New(clock Clock) *Loop {
	return &Loop{clock: clock, commands: make(chan func(time.Time)), done: make(chan struct{})}
}

// Now tells the time of the loop's clock.
func (l *Loop) Now() time.Time { return l.clock() }

// Add has the loop run one more part, behind those that it runs.
func (l *Loop) Add(p *Part) {
	l.parts = append(slices.Clone(l.parts), p)
	l.arrange()
}

// Remove has the loop leave a part alone from now on: nothing of it is handled or carried
// out any more.
func (l *Loop) Remove(p *Part) {
	l.parts = slices.DeleteFunc(slices.Clone(l.parts), func(q *Part) bool { return q == p })
	l.arrange()
}

// arrange lists what the parts have. The lists are made anew, for somebody may go through
// the old ones.
func (l *Loop) arrange() {
	l.urgent, l.backlog, l.machines, l.late, l.cases = nil, nil, nil, nil, nil
	l.sources = slices.Clone(l.own)
	for _, p := range l.parts {
		l.urgent = append(l.urgent, p.Urgent...)
		l.backlog = append(l.backlog, p.Backlog...)
		l.machines = append(l.machines, p.Machines...)
		l.late = append(l.late, p.Late...)
		l.sources = append(append(l.sources, p.Urgent...), p.Sources...)
	}
	for _, s := range l.sources {
		l.cases = append(l.cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: s.channel})
	}
}

// Do calls f in the loop's goroutine and returns when it has been carried out, with all
// that the cores wanted done because of it. ctx bounds how long it waits for its turn. It
// must not be called from the loop's goroutine.
func (l *Loop) Do(ctx context.Context, f func(now time.Time)) error {
	finished := make(chan struct{})
	select {
	case l.commands <- func(now time.Time) { f(now); l.drain(now); close(finished) }:
	case <-l.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-finished:
		return nil
	case <-l.done: // by f itself, or by its panic
	}
	select {
	case <-finished:
		return nil
	default:
		return ErrStopped
	}
}

// Close has Do return ErrStopped from now on. Run does it when it ends; who never comes
// to call Run calls it.
func (l *Loop) Close() { l.ended.Do(func() { close(l.done) }) }

// Run handles events until ctx is done, and returns nil then, or until a source has
// ended. It is called once.
func (l *Loop) Run(ctx context.Context) error {
	defer l.Close()
	l.timer = time.NewTimer(0)
	defer l.timer.Stop()
	l.own = []Source{
		On(ctx.Done(), errDone, func(time.Time, struct{}) {}),
		On(l.timer.C, nil, func(now, _ time.Time) { l.handleDue(now) }),
		On(l.commands, nil, func(now time.Time, f func(time.Time)) { f(now) }),
	}
	l.arrange()
	for {
		if err := l.pass(); errors.Is(err, errDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// pass handles what goes before everything else, and then one event.
func (l *Loop) pass() error {
	for n := 0; n < UrgentInARow; n++ {
		if took, err := l.takeUrgent(); err != nil {
			return err
		} else if !took {
			break
		}
	}
	l.clearBacklog()
	now := l.clock()
	for _, m := range l.late {
		m.HandleTimeout(now)
		m.Drain(now)
	}
	l.arm()
	if took, err := l.takeNext(); took || err != nil {
		return err
	}
	sources := l.sources
	i, v, open := reflect.Select(l.cases)
	l.turn = i + 1
	return sources[i].give(l, v, open)
}

// takeUrgent handles one event of the first urgent source that has one.
func (l *Loop) takeUrgent() (took bool, err error) {
	for _, s := range l.urgent {
		if took, err = s.take(l); took {
			return took, err
		}
	}
	return false, nil
}

// takeNext handles one event of the next source that has one.
func (l *Loop) takeNext() (took bool, err error) {
	sources := l.sources
	for n := range sources {
		i := (l.turn + n) % len(sources)
		if took, err = sources[i].take(l); took {
			l.turn = i + 1
			return took, err
		}
	}
	return false, nil
}

// clearBacklog handles what backlogs hold now; what is added meanwhile is for the next
// pass.
func (l *Loop) clearBacklog() {
	for _, b := range l.backlog {
		for range b.Len() {
			now := l.clock()
			b.HandleNext(now)
			l.drain(now)
		}
	}
}

// drain carries out what all machines want done.
func (l *Loop) drain(now time.Time) {
	for _, m := range l.machines {
		m.Drain(now)
	}
}

// handleDue gives the time to one machine whose deadline has come. Others whose deadline
// has come, too, are events of their own.
func (l *Loop) handleDue(now time.Time) {
	for n := range l.machines {
		i := (l.due + n) % len(l.machines)
		if at, armed := l.machines[i].PollTimeout(); armed && !now.Before(at) {
			l.due = i + 1
			l.machines[i].HandleTimeout(now)
			return
		}
	}
}

// Next returns the earliest deadline, the zero time where a backlog waits; false: there
// is none.
func (l *Loop) Next() (at time.Time, armed bool) {
	for _, b := range l.backlog {
		if b.Len() > 0 {
			return time.Time{}, true
		}
	}
	for _, list := range [][]Machine{l.machines, l.late} {
		for _, m := range list {
			if due, wants := m.PollTimeout(); wants && (!armed || due.Before(at)) {
				at, armed = due, true
			}
		}
	}
	return at, armed
}

// arm sets the one timer.
func (l *Loop) arm() {
	at, armed := l.Next()
	if !armed {
		l.timer.Reset(idle)
		return
	}
	l.timer.Reset(max(at.Sub(l.clock()), 0))
}
