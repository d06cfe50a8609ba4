package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestCoreThroughRouters drives a core of its own through two routers: what is cut for its
// pair of addresses in one direction makes it move, and leaves others alone; what is cut
// again makes it come back.
func TestCoreThroughRouters(t *testing.T) {
	w := newWorld(1, path)
	heard := listen(w.bystander)
	w.client.start(w.Now())
	w.Settle(w.client)
	w.Run(time.Second)
	if len(w.client.moved) != 0 || len(w.client.answered) != 10 {
		t.Fatalf("answered %v, moved at %v", w.client.answered, w.client.moved)
	}
	w.core.CutPair(Backward, Pair{Src: prefix(serving, 64), Dst: prefix(onA, 128)})
	w.bystander.Send(ICMP(standing, serving, EchoRequest, 0, 1, nil))
	w.Run(time.Second)
	heard.only(t)
	if want := []time.Duration{1300 * time.Millisecond}; !slices.Equal(w.client.moved, want) {
		t.Fatalf("moved at %v, want %v", w.client.moved, want)
	}
	if c := w.r1.Counts(); c.Forwarded != 10+10+3+1+1 {
		t.Errorf("r1 forwarded %d: %+v", c.Forwarded, c)
	}
	w.core.MendPair(Backward, Pair{Src: prefix(serving, 64), Dst: prefix(onA, 128)})
	w.b.Cut(Forward)
	w.Run(time.Second)
	if len(w.client.moved) != 2 || w.client.link != 1 {
		t.Errorf("moved at %v, uses link %d", w.client.moved, w.client.link)
	}
	w.r2.Remove(prefix(serving, 64), 3)
	w.Run(100 * time.Millisecond)
	if !slices.Equal(w.client.errors, []uint8{Unreachable}) {
		t.Errorf("errors %v, want one about the route", w.client.errors)
	}
}

// TestSeeds: one seed gives one course, on links that lose and reorder; others give others.
func TestSeeds(t *testing.T) {
	course := func(seed uint64) string {
		w := newWorld(seed, Params{Delay: 5 * time.Millisecond, Jitter: 40 * time.Millisecond, Loss: 0.2, Duplicate: 0.1})
		w.core.Set(Backward, Params{Delay: time.Millisecond, Loss: 0.3})
		w.core.SetPair(Backward, Pair{Dst: prefix(onA, 128)}, Params{Loss: 0.4})
		w.client.start(w.Now())
		w.Settle(w.client)
		for range 20 {
			w.core.Cut(Direction(1 + w.Rand().IntN(2)))
			w.Run(time.Duration(w.Rand().Int64N(int64(time.Second))))
			w.core.Mend(Both)
			w.Run(time.Second)
		}
		w.Note("client", "%d", w.Rand().Uint64())
		counts := []Counts{w.core.Counts(Forward), w.core.Counts(Backward), w.a.Counts(Backward)}
		return fmt.Sprint(w.client.answered, w.client.moved, counts, w.r1.Counts(), w.Trace())
	}
	seen := map[string]uint64{}
	for seed := range uint64(20) {
		c := course(seed)
		if c != course(seed) {
			t.Errorf("two courses of seed %d differ", seed)
		}
		if old, ok := seen[c]; ok {
			t.Errorf("seeds %d and %d have one course", old, seed)
		}
		seen[c] = seed
	}
}

// alarm is a node whose deadline tests move.
type alarm struct {
	observer
	at   time.Time
	rang []time.Duration
}

func (a *alarm) HandleTimeout(now time.Time) {
	a.rang = append(a.rang, now.Sub(Start))
	a.at = time.Time{}
}

func (a *alarm) PollTimeout() (time.Time, bool) { return a.at, !a.at.IsZero() }

// TestDeadlines moves a deadline forwards, backwards and away.
func TestDeadlines(t *testing.T) {
	n, a := New(1), &alarm{}
	set := func(d time.Duration) {
		if a.at = Start.Add(d); d == 0 {
			a.at = time.Time{}
		}
		n.Settle(a)
	}
	const s = time.Second
	set(10 * s)
	set(5 * s)
	n.Run(6 * s) // rings at 5
	set(9 * s)
	set(20 * s)
	n.Run(10 * s) // at 16: not yet
	if !slices.Equal(a.rang, []time.Duration{5 * s}) {
		t.Errorf("rang at %v, want 5s", a.rang)
	}
	n.Run(5 * s) // at 21: rang at 20
	set(30 * s)
	set(0)
	n.Run(20 * s)
	set(1 * s) // the past: at once
	n.Run(0)
	if want := []time.Duration{5 * s, 20 * s, 41 * s}; !slices.Equal(a.rang, want) {
		t.Errorf("rang at %v, want %v", a.rang, want)
	}
}

// TestTimersDoNotPileUp has a node move its deadline forwards, again and again: one event
// waits for it in the end.
func TestTimersDoNotPileUp(t *testing.T) {
	n, o := New(1), &observer{}
	for range 10 {
		for _, d := range []time.Duration{10 * time.Second, time.Second} {
			o.due = n.Now().Add(d)
			n.Settle(o)
		}
		n.Run(30 * time.Second)
	}
	if len(n.events) != 1 {
		t.Errorf("%d events wait, want one", len(n.events))
	}
}
