package observer

import (
	"slices"
	"testing"
	"time"

	"roam"
)

var begin = time.Unix(1_900_000_000, 0)

// after returns the time that many seconds after the beginning.
func after(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

func drain(c *Core) (all []Output) {
	for {
		o, ok := c.Poll()
		if !ok {
			return all
		}
		all = append(all, o)
	}
}

func want(t *testing.T, what string, c *Core, outputs ...Output) {
	t.Helper()
	if got := drain(c); !slices.Equal(got, outputs) {
		t.Errorf("%s: %+v, want %+v", what, got, outputs)
	}
}

func update(link roam.LinkID, egress bool) Class {
	return Class{Link: link, Egress: egress, Next: 58, Nonce: true, LocatorUpdate: true}
}

// begun is a core that has read once, on links 2 and 3.
func begun(t *testing.T, first map[Class]Traffic) *Core {
	t.Helper()
	c := New(begin)
	want(t, "at first", c, Read{})
	c.HandleReading(begin, first)
	c.HandleLink(2, true)
	c.HandleLink(3, true)
	return c
}

// A core reads at once, and then every second.
func TestReadings(t *testing.T) {
	c := begun(t, nil)
	if due, ok := c.PollTimeout(); !ok || !due.Equal(after(1)) {
		t.Fatalf("due at %v, %t", due, ok)
	}
	c.HandleTimeout(after(0.9))
	want(t, "too early", c)
	c.HandleTimeout(after(1.2))
	want(t, "on time", c, Read{})
	if due, _ := c.PollTimeout(); !due.Equal(after(2.2)) {
		t.Errorf("due at %v", due)
	}
}

// Rates are of the last two readings; counts of an earlier process have none at first.
func TestRates(t *testing.T) {
	udp := Class{Link: 2, Next: 17}
	c := begun(t, map[Class]Traffic{udp: {Packets: 100, Bytes: 10_000}})
	if got := c.Counts(); len(got) != 1 || got[0] != (Count{Class: udp, Traffic: Traffic{100, 10_000}}) {
		t.Fatalf("at first %+v", got)
	}
	c.HandleReading(after(2), map[Class]Traffic{udp: {150, 20_000}, update(3, true): {4, 400}})
	got := c.Counts()
	if len(got) != 2 {
		t.Fatalf("%d counts", len(got))
	}
	if n := got[0]; n.Traffic != (Traffic{150, 20_000}) || n.PacketsPerSecond != 25 || n.BytesPerSecond != 5000 {
		t.Errorf("known class: %+v", n)
	}
	if n := got[1]; n.Class != update(3, true) || n.PacketsPerSecond != 2 || n.BytesPerSecond != 200 {
		t.Errorf("new class: %+v", n)
	}
	c.HandleReading(after(3), map[Class]Traffic{udp: {1, 60}})
	if n := c.Counts()[0]; n.PacketsPerSecond != 0 || n.Packets != 1 {
		t.Errorf("counters that began anew: %+v", n)
	}
	c.HandleReading(after(3), map[Class]Traffic{udp: {2, 120}})
	if n := c.Counts()[0]; n.PacketsPerSecond != 0 {
		t.Errorf("two readings at one time: %+v", n)
	}
}

// The first Locator Update of each link and direction is news, unless an earlier process
// counted it.
func TestSeen(t *testing.T) {
	c := begun(t, map[Class]Traffic{update(2, false): {Packets: 1}})
	counts := map[Class]Traffic{
		update(2, false): {Packets: 2}, update(2, true): {Packets: 1}, {Link: 3, Next: 58}: {Packets: 9},
	}
	c.HandleReading(after(1), counts)
	want(t, "one more, and a first one", c, Seen{At: after(1), Link: 2, Egress: true})
	counts[update(3, false)] = Traffic{}
	c.HandleReading(after(2), counts)
	want(t, "an entry without packets", c)
	counts[update(3, false)], counts[update(3, true)] = Traffic{Packets: 1}, Traffic{Packets: 1}
	c.HandleReading(after(3), counts)
	want(t, "another link", c, Seen{At: after(3), Link: 3}, Seen{At: after(3), Link: 3, Egress: true})
}

// What is counted of a link that is gone is forgotten, that of an earlier process too; a
// link of that number is new.
func TestGone(t *testing.T) {
	c := begun(t, map[Class]Traffic{update(2, false): {Packets: 1}, {Link: 9, Next: 6}: {Packets: 1}})
	counts := map[Class]Traffic{
		update(2, false): {Packets: 1}, {Link: 9, Next: 6}: {Packets: 1}, {Link: 9, Next: 17}: {Packets: 1},
	}
	c.HandleReading(after(1), counts)
	want(t, "of a link that was gone before", c, Forget{Link: 9})
	c.HandleLink(2, false)
	want(t, "gone", c, Forget{Link: 2})
	if got := c.Counts(); len(got) != 0 {
		t.Errorf("counts %+v", got)
	}
	c.HandleLink(2, true)
	c.HandleReading(after(2), map[Class]Traffic{update(2, false): {Packets: 1}})
	want(t, "back", c, Seen{At: after(2), Link: 2})
}

// Links come in order, the busiest class of each first, and equal ones in the same order
// each time.
func TestOrder(t *testing.T) {
	a, b := Class{Link: 2, Next: 6}, Class{Link: 2, Next: 17}
	d, e := Class{Link: 3, Next: 6, Checksum: Partial}, Class{Link: 3, Next: 6, Egress: true}
	order := []Class{b, a, d, e}
	c := begun(t, nil)
	for range 20 {
		c.HandleReading(after(1), map[Class]Traffic{e: {Packets: 5}, a: {Packets: 1}, d: {Packets: 5}, b: {Packets: 9}})
		var got []Class
		for _, n := range c.Counts() {
			got = append(got, n.Class)
		}
		if !slices.Equal(got, order) {
			t.Fatalf("order %+v", got)
		}
	}
}
