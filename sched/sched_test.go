package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

type timer uint8

const timers = 10

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// model is what an agenda is to do, by search: the deadlines of each machine.
type model [50]map[timer]time.Time

// next returns the earliest deadline, of equal ones that of the machine that was
// armed first, and of that the one of the lowest timer.
func (m *model) next(order []int) (at time.Time, machine int, t timer) {
	machine = -1
	for _, i := range order {
		for k := timer(0); k < timers; k++ {
			if v, ok := m[i][k]; ok && (machine < 0 || v.Before(at)) {
				at, machine, t = v, i, k
			}
		}
	}
	return at, machine, t
}

func (m *model) armed() (n int) {
	for _, of := range m {
		if len(of) > 0 {
			n++
		}
	}
	return n
}

func TestAgainstSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var a Agenda[int, timer]
	var all [50]Schedule[int, timer]
	var want model
	for i := range all {
		all[i].Machine, want[i] = i, make(map[timer]time.Time)
	}
	var order []int // of first arming
	now, fired := epoch, 0
	for range 20_000 {
		i, k := r.IntN(len(all)), timer(r.IntN(timers))
		s := &all[i]
		switch r.IntN(8) {
		case 0, 1:
			a.Disarm(s, k)
			delete(want[i], k)
		case 2:
			a.Retire(s)
			clear(want[i])
		case 3:
			now = now.Add(time.Duration(r.IntN(3)) * time.Second)
			_, machine, timer := want.next(order)
			ripe := machine >= 0 && !want[machine][timer].After(now)
			m, which, due := a.Due(now)
			if due != ripe || due && (m != machine || which != timer) {
				t.Fatalf("due: %d of %d, %v; want %d of %d, %v", which, m, due, timer, machine, ripe)
			}
			if due {
				fired++
				delete(want[m], which)
			}
		default:
			if s.id == 0 {
				order = append(order, i)
			}
			d := time.Duration(r.IntN(100)) * time.Second
			a.Arm(s, k, now, d)
			want[i][k] = now.Add(max(d, Tick))
		}
		if at, armed := s.Deadline(k); armed != s.Armed(k) || !at.Equal(want[i][k]) {
			t.Fatalf("timer %d of %d at %v, %v; want %v", k, i, at, armed, want[i][k])
		}
		if n := want.armed(); n != a.Len() {
			t.Fatalf("%d machines in the agenda, want %d", a.Len(), n)
		}
		at, machine, _ := want.next(order)
		if next, ok := a.Next(); ok != (machine >= 0) || !next.Equal(at) {
			t.Fatalf("next at %v, %v; want %v", next, ok, at)
		}
	}
	if fired < 1000 {
		t.Errorf("only %d deadlines came", fired)
	}
}

// Of deadlines at one time the machine that was armed first comes first, whatever the
// timer, and of one machine the lowest timer.
func TestOrderOfEqualDeadlines(t *testing.T) {
	var a Agenda[string, timer]
	first, second := &Schedule[string, timer]{Machine: "first"}, &Schedule[string, timer]{Machine: "second"}
	a.Arm(first, 7, epoch, time.Second)
	a.Arm(second, 1, epoch, time.Second)
	a.Arm(first, 3, epoch, time.Second)
	now := epoch.Add(time.Second)
	for _, want := range []struct {
		machine string
		timer   timer
	}{{"first", 3}, {"first", 7}, {"second", 1}} {
		if m, k, due := a.Due(now); !due || m != want.machine || k != want.timer {
			t.Errorf("timer %d of %q, %v; want %d of %q", k, m, due, want.timer, want.machine)
		}
	}
	if _, _, due := a.Due(now); due || a.Len() != 0 {
		t.Error("something is left")
	}
}

// A machine that arms its timer for the past is due once in a tick, not for ever.
func TestTimersNeverSpin(t *testing.T) {
	var a Agenda[int, timer]
	var s Schedule[int, timer]
	a.Arm(&s, 0, epoch, 0)
	fired := 0
	for now := epoch; now.Sub(epoch) <= 10*Tick; now = now.Add(Tick) {
		for _, k, due := a.Due(now); due && fired < 100; _, k, due = a.Due(now) {
			fired++
			a.Arm(&s, k, now, -time.Hour)
		}
	}
	if fired != 10 {
		t.Errorf("due %d times in 10 ticks", fired)
	}
}

// Next and Due of nothing are nothing.
func TestEmptyAgenda(t *testing.T) {
	var a Agenda[int, timer]
	var s Schedule[int, timer]
	a.Disarm(&s, 1)
	a.Retire(&s)
	if _, ok := a.Next(); ok || a.Len() != 0 {
		t.Error("an empty agenda has a deadline")
	}
	if _, _, due := a.Due(epoch); due {
		t.Error("an empty agenda has something due")
	}
}

func ExampleAgenda() {
	const retransmit, idle timer = 0, 1
	var a Agenda[string, timer]
	s := &Schedule[string, timer]{Machine: "session"}
	a.Arm(s, retransmit, epoch, time.Second)
	a.Arm(s, idle, epoch, time.Minute)
	for now, ok := a.Next(); ok; now, ok = a.Next() {
		m, t, _ := a.Due(now)
		fmt.Println(m, t, now.Sub(epoch))
	}
	// Output:
	// session 0 1s
	// session 1 1m0s
}

func BenchmarkArm(b *testing.B) {
	var a Agenda[int, timer]
	all := make([]Schedule[int, timer], 10_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range all {
		a.Arm(&all[i], 3, epoch, time.Duration(r.IntN(1000))*time.Second)
	}
	b.ReportAllocs()
	for i := range b.N {
		a.Arm(&all[i%len(all)], timer(i%4), epoch, time.Duration(r.IntN(1000))*time.Second)
	}
}
