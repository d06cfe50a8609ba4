package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// stretchCase is a connection over short paths and a long one, the last.
type stretchCase struct {
	wires []wire
	queue time.Duration // of each path, at its rate
	last  float64       // least of the last part, of the short paths alone
	least float64       // and of every 4 s
	paced bool          // as the queue is too short for bursts
}

// sum is what all paths carry, in bytes a second.
func (c stretchCase) sum() (sum float64) {
	for _, w := range c.wires {
		sum += float64(w.mbps) * 125000
	}
	return sum
}

func (c stretchCase) worlds(t *testing.T) (alone, both *world) {
	t.Helper()
	alone, both = bulkWorld(t, true, c.wires[:len(c.wires)-1]...), bulkWorld(t, true, c.wires...)
	for i, x := range c.wires {
		for _, w := range []*world{alone, both} {
			w.mobile.SetQueue(roam.LinkID(i+1), int(c.queue.Seconds()*float64(x.mbps)*125000))
		}
	}
	return alone, both
}

// TestWindowsFollowCrossing: a single connection takes a long path beside short ones within its first seconds, without
// a queue that would make these as long, as its window grows with its round trip. It is never worse off for it.
func TestWindowsFollowCrossing(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []stretchCase{
		{[]wire{{50, 20 * ms}, {10, 20 * ms}, {10, 200 * ms}}, 121 * ms, 1.1, 0.95, false},
		{[]wire{{50, 20 * ms}, {10, 20 * ms}, {10, 200 * ms}}, 60 * ms, 1.1, 0.95, false},
		{[]wire{{50, 10 * ms}, {10, 100 * ms}}, 12 * ms, 1.12, 0.95, true},
		{[]wire{{50, 10 * ms}, {10, 100 * ms}}, 24 * ms, 1.12, 0.95, true},
		{[]wire{{100, 10 * ms}, {20, 100 * ms}}, 12 * ms, 1.12, 0.95, true}, // 100 packets
		{[]wire{{50, 10 * ms}, {10, 100 * ms}}, 121 * ms, 1.12, 0.95, true},
		{[]wire{{30, 10 * ms}, {30, 40 * ms}}, 60 * ms, 1.9, 0.95, true},
	} {
		alone, both := c.worlds(t)
		a, b := alone.mobile.Bulk(alone.server), both.mobile.Bulk(both.server)
		var parts []float64
		for range 8 {
			parts = append(parts, both.goodput(b, 4*time.Second)/alone.goodput(a, 4*time.Second))
		}
		t.Logf("%v, a queue of %v: %.2f of the short paths alone", c.wires, c.queue, parts)
		if parts[1] < c.last || parts[len(parts)-1] < c.last || slices.Min(parts) < c.least {
			t.Errorf("%v, a queue of %v: %.2f of the short paths alone in each 4 s", c.wires, c.queue, parts)
		}
		if part := float64(b.pace) / c.sum(); (part < 0.85 || part > 1) == c.paced {
			t.Errorf("%v, a queue of %v: paced at %.2f of the sum", c.wires, c.queue, part)
		}
	}
}

// TestWindowsGoBack: where crossing cannot begin, or ends, the window is as before and nothing is paced: the long path
// goes down before the peer has answered, or later, or connections cannot be listed.
func TestWindowsGoBack(t *testing.T) {
	const ms = time.Millisecond
	c := stretchCase{wires: []wire{{50, 10 * ms}, {10, 100 * ms}}, queue: 24 * ms}
	for name, fail := range map[string]func(w *world, b *Bulk){
		"the path goes down": func(w *world, b *Bulk) {
			w.RunUntil(5*time.Second, func() bool { return b.pace != 0 })
			w.mobile.Down(2)
		},
		"it goes down later": func(w *world, _ *Bulk) {
			w.Run(4 * time.Second)
			w.mobile.Down(2)
		},
		"no list": func(w *world, _ *Bulk) { w.mobile.noLists = true },
	} {
		alone, both := c.worlds(t)
		a, b := alone.mobile.Bulk(alone.server), both.mobile.Bulk(both.server)
		fail(both, b)
		alone.Run(both.Elapsed() - alone.Elapsed())
		was := both.goodput(b, 4*time.Second) / alone.goodput(a, 4*time.Second)
		now := both.goodput(b, 8*time.Second) / alone.goodput(a, 8*time.Second)
		t.Logf("%s: %.2f, then %.2f of the short path alone", name, was, now)
		if was < 0.8 || now < 0.95 || b.pace != 0 {
			t.Errorf("%s: %.2f, then %.2f of the short path alone, paced at %d", name, was, now, b.pace)
		}
	}
}
