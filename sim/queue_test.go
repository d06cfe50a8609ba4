package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestQueueOrder: events leave in the order of their times, those of one time in the order in which
// they were created, however many come between.
func TestQueueOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q queue
	var last event
	for order := uint64(1); order < 20_000; {
		for range r.IntN(40) {
			q.push(event{at: last.at + time.Duration(r.IntN(100)), order: order})
			order++
		}
		for range r.IntN(min(40, len(q)+1)) {
			e := q.pop()
			if e.before(last) {
				t.Fatalf("event %d of %v comes after event %d of %v", e.order, e.at, last.order, last.at)
			}
			last = e
		}
	}
}

// TestOutboxOrder: packets leave in the order in which they were put, also those that come while
// others wait.
func TestOutboxOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var o Outbox
	put, polled := 0, 0
	for put < 1000 {
		for range r.IntN(5) {
			o.Put(1, Packet{Length: put})
			put++
		}
		for range r.IntN(6) {
			switch first, ok := o.Poll(); {
			case ok != (polled < put):
				t.Fatalf("%d of %d packets polled: %t", polled, put, ok)
			case ok && first.Length != polled:
				t.Fatalf("packet %d in place of %d", first.Length, polled)
			case ok:
				polled++
			}
		}
	}
}
