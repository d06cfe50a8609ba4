package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// fake is a core that wants done what it is fed, and has one deadline.
type fake struct {
	name string
	out  []string
	at   time.Time
	// asleep: it ignores the time, which late machines are given often.
	asleep bool
}

func (f *fake) Handle(what string) { f.out = append(f.out, f.name+" "+what) }

func (f *fake) Poll() (o string, ok bool) {
	if len(f.out) == 0 {
		return "", false
	}
	o, f.out = f.out[0], f.out[1:]
	return o, true
}

func (f *fake) PollTimeout() (time.Time, bool) { return f.at, !f.at.IsZero() }

func (f *fake) HandleTimeout(time.Time) {
	if f.asleep {
		return
	}
	f.at = time.Time{}
	f.Handle("timeout")
}

// diary is what happened in a loop, in order.
type diary []string

func (d *diary) note(what string) { *d = append(*d, what) }

func (d *diary) of(f *fake) Machine {
	return Drive(f, func(_ time.Time, o string) { d.note(o) })
}

// full returns a channel that holds values.
func full[T any](values ...T) chan T {
	c := make(chan T, max(len(values), 1))
	for _, v := range values {
		c <- v
	}
	return c
}

// run runs a loop with parts until stop was called, and returns what Run returned.
func run(t *testing.T, make func(l *Loop, stop func())) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l := New(time.Now)
	stopped := false
	make(l, func() { stopped = true; cancel() })
	err := l.Run(ctx)
	if !stopped && err == nil {
		t.Error("it ran until the deadline")
	}
	return err
}

// What the cores want done because of an event is carried out, in the order of the cores,
// before the next event; at one time; and late machines come last.
func TestOrder(t *testing.T) {
	var d diary
	first, second, late := &fake{name: "first"}, &fake{name: "second"}, &fake{name: "late", asleep: true}
	var times []time.Time
	_ = run(t, func(l *Loop, stop func()) {
		at := func(now time.Time) { times = append(times, now) }
		l.Add(&Part{
			Urgent: []Source{On(full(1, 2), nil, func(now time.Time, n int) {
				at(now)
				d.note(fmt.Sprint("event ", n))
				second.Handle(fmt.Sprint(n))
				first.Handle(fmt.Sprint(n, "a"))
				first.Handle(fmt.Sprint(n, "b"))
				late.Handle(fmt.Sprint(n))
			})},
			Machines: []Machine{Drive(first, func(now time.Time, o string) { at(now); d.note(o) }), d.of(second)},
			Late:     []Machine{d.of(late)},
			Sources:  []Source{On(full("last"), nil, func(_ time.Time, s string) { d.note(s); stop() })},
		})
	})
	want := []string{
		"event 1", "first 1a", "first 1b", "second 1",
		"event 2", "first 2a", "first 2b", "second 2",
		"late 1", "late 2", "last",
	}
	if !slices.Equal(d, want) {
		t.Errorf("%q, want %q", d, want)
	}
	if len(times) != 6 || !times[0].Equal(times[1]) || !times[1].Equal(times[2]) || times[2].Equal(times[3]) {
		t.Errorf("times %v", times)
	}
}

// Deadlines of all machines are kept by one timer, the earliest first, each as an event
// of its own, and none is early.
func TestTimer(t *testing.T) {
	var d diary
	began := time.Now()
	cores := []*fake{
		{name: "third", at: began.Add(30 * time.Millisecond)},
		{name: "first", at: began.Add(10 * time.Millisecond)},
		{name: "second", at: began.Add(20 * time.Millisecond)},
	}
	_ = run(t, func(l *Loop, stop func()) {
		p := &Part{}
		for _, f := range cores {
			due := f.at
			p.Machines = append(p.Machines, Drive(f, func(now time.Time, o string) {
				if now.Before(due) {
					t.Errorf("%s %v early", o, due.Sub(now))
				}
				if d.note(o); len(d) == len(cores) {
					stop()
				}
			}))
		}
		l.Add(p)
	})
	if want := []string{"first timeout", "second timeout", "third timeout"}; !slices.Equal(d, want) {
		t.Errorf("%q, want %q", d, want)
	}
}

// always is a machine whose deadline has always come.
type always struct{ calls int }

func (a *always) PollTimeout() (time.Time, bool) { return time.Unix(1, 0), true }
func (a *always) HandleTimeout(time.Time)        { a.calls++ }
func (a *always) Drain(time.Time)                {}

// Nobody starves: a machine whose deadline has always come, a source that is always full
// and an urgent one that is leave the others their turns; an urgent one at most so many
// events after another.
func TestStarvation(t *testing.T) {
	urgent, plenty, rare := full(0), full(0), full(0, 0, 0, 0, 0, 0, 0, 0)
	row, longest, others := 0, 0, 0
	a, b := &always{}, &always{}
	_ = run(t, func(l *Loop, stop func()) {
		other := func() {
			longest, row = max(longest, row), 0
			others++
		}
		l.Add(&Part{
			Urgent:   []Source{On(urgent, nil, func(time.Time, int) { row++; urgent <- 0 })},
			Machines: []Machine{a, b},
			Sources: []Source{
				On(plenty, nil, func(time.Time, int) { other(); plenty <- 0 }),
				On(rare, nil, func(time.Time, int) {
					if other(); len(rare) == 0 {
						stop()
					}
				}),
			},
		})
	})
	// An event in three passes at least is of a source that is none of the two: the timer,
	// or the urgent source once more, whose turn comes too.
	if longest == 0 || longest > 6*(UrgentInARow+1) {
		t.Errorf("%d urgent events in a row", longest)
	}
	if a.calls == 0 || b.calls == 0 || max(a.calls, b.calls)-min(a.calls, b.calls) > 1 {
		t.Errorf("deadlines had %d and %d turns", a.calls, b.calls)
	}
	if others > 100 {
		t.Errorf("%d events of a full source before %d of another", others, 8)
	}
}

// backlog is one that fills itself once.
type backlog struct {
	left  []string
	again string
	d     *diary
}

func (b *backlog) Len() int { return len(b.left) }

func (b *backlog) HandleNext(time.Time) {
	b.d.note(b.left[0])
	b.left = b.left[1:]
	if b.again != "" {
		b.left, b.again = append(b.left, b.again), ""
	}
}

// A backlog goes before the other sources; what it adds to itself waits for one event of
// them, and not for the next one to come.
func TestBacklog(t *testing.T) {
	var d diary
	b := &backlog{left: []string{"one", "two"}, again: "added", d: &d}
	_ = run(t, func(l *Loop, stop func()) {
		l.Add(&Part{Backlog: []Backlog{b}, Machines: []Machine{Drive(&fake{}, nil)}, Late: []Machine{ender{func() {
			if len(d) == 3 {
				stop()
			}
		}}}})
	})
	if want := []string{"one", "two", "added"}; !slices.Equal(d, want) {
		t.Errorf("%q, want %q", d, want)
	}
}

// ender is a machine that is given the time.
type ender struct{ look func() }

func (e ender) PollTimeout() (time.Time, bool) { return time.Time{}, false }
func (e ender) HandleTimeout(time.Time)        { e.look() }
func (e ender) Drain(time.Time)                {}

// Do returns when all is done that the cores wanted because of it.
func TestDo(t *testing.T) {
	var d diary
	f := &fake{name: "core"}
	l := New(time.Now)
	l.Add(&Part{Machines: []Machine{d.of(f)}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	err := l.Do(t.Context(), func(time.Time) { f.Handle("asked") })
	if err != nil || !slices.Equal(d, []string{"core asked"}) {
		t.Errorf("%v, %q", err, d)
	}
	given, up := context.WithCancel(t.Context())
	busy, free := make(chan struct{}), make(chan struct{})
	go func() { _ = l.Do(t.Context(), func(time.Time) { close(busy); <-free }) }()
	<-busy
	up()
	err = l.Do(given, func(time.Time) { t.Error("it was called though nobody waits") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that of its context", err)
	}
	close(free)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	err = l.Do(t.Context(), func(time.Time) { t.Error("it was called after the end") })
	if !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want %v", err, ErrStopped)
	}
	never := New(time.Now)
	never.Close()
	if err := never.Do(t.Context(), nil); !errors.Is(err, ErrStopped) {
		t.Errorf("of a loop that never ran: %v", err)
	}
}

// A closed channel ends Run with the error that was named for it, whether the loop waits
// for it or not.
func TestSourceEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, want := range map[string]error{"named": broken, "not named": nil} {
		closed := make(chan int)
		close(closed)
		err := run(t, func(l *Loop, _ func()) {
			l.Add(&Part{Sources: []Source{On(closed, want, func(time.Time, int) { t.Error("handled") })}})
		})
		if want == nil {
			want = ErrEnded
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		later := make(chan error)
		err = run(t, func(l *Loop, _ func()) {
			l.Add(&Part{Sources: []Source{On(later, want, func(time.Time, error) { t.Error("handled") })}})
			go func() { _ = l.Do(t.Context(), func(time.Time) {}); close(later) }()
		})
		if !errors.Is(err, want) {
			t.Errorf("%s, closed while waited for: %v", name, err)
		}
	}
}

// A panic of a handler reaches whoever called Run, and those who wait in Do hear of the end.
func TestPanic(t *testing.T) {
	l := New(time.Now)
	answer := make(chan error)
	go func() { answer <- l.Do(t.Context(), func(time.Time) { panic("loud") }) }()
	func() {
		defer func() {
			if r := recover(); r != "loud" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = l.Run(t.Context())
	}()
	if err := <-answer; !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want %v", err, ErrStopped)
	}
}

// A part that was removed is left alone; one that was added meanwhile is not.
func TestPartsComeAndGo(t *testing.T) {
	var d diary
	old, fresh := &fake{name: "old"}, &fake{name: "fresh"}
	_ = run(t, func(l *Loop, stop func()) {
		gone := &Part{Machines: []Machine{d.of(old)}}
		added := &Part{
			Machines: []Machine{d.of(fresh)},
			Sources:  []Source{On(full(1), nil, func(time.Time, int) { fresh.Handle("event"); stop() })},
		}
		gone.Urgent = []Source{On(full(1, 2), nil, func(time.Time, int) {
			l.Remove(gone)
			l.Add(added)
			old.at = time.Now()
			old.Handle("event")
		})}
		l.Add(gone)
	})
	if want := []string{"fresh event"}; !slices.Equal(d, want) {
		t.Errorf("%q, want %q", d, want)
	}
}

// What is done each period keeps its phase, and is not made up for.
func TestEvery(t *testing.T) {
	start := time.Unix(100, 0)
	calls := 0
	m := Every(start, time.Second, func(time.Time) { calls++ })
	for _, c := range []struct{ at, next time.Duration }{
		{1000, 2000}, {2300, 3000}, {7000, 8000}, {7999, 8000},
	} {
		now := start.Add(c.at * time.Millisecond)
		if at, _ := m.PollTimeout(); !now.Before(at) {
			m.HandleTimeout(now)
		}
		if at, armed := m.PollTimeout(); !armed || !at.Equal(start.Add(c.next*time.Millisecond)) {
			t.Errorf("after %v due at %v, want %v", c.at, at.Sub(start), c.next)
		}
	}
	if calls != 3 {
		t.Errorf("called %d times, want 3", calls)
	}
}
