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

func update(link roam.LinkID, direction Flags) Class {
	return Class{Link: link, Next: 58, Flags: direction | Nonce | LocatorUpdate}
}

// begun is a core that has read once.
func begun(t *testing.T, first map[Class]Traffic) *Core {
	t.Helper()
	c := New(begin)
	want(t, "at first", c, Read{})
	c.HandleReading(begin, first)
	want(t, "what an earlier process counted", c)
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
	c.HandleTimeout(after(1))
	want(t, "on time", c, Read{})
	c.HandleTimeout(after(2.2))
	if due, _ := c.PollTimeout(); !due.Equal(after(3.2)) {
		t.Errorf("due at %v", due)
	}
}

// Rates are of the last two readings; counts of an earlier process have none at first.
func TestRates(t *testing.T) {
	udp := Class{Link: 2, Next: 17}
	c := begun(t, map[Class]Traffic{udp: {Packets: 100, Bytes: 10_000}})
	check := func(what string, want ...Count) {
		t.Helper()
		if got := c.Counts(); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("at first", Count{udp, Traffic{100, 10_000}, 0})
	c.HandleReading(after(2), map[Class]Traffic{udp: {150, 20_000}, update(3, Egress): {4, 400}})
	check("later", Count{udp, Traffic{150, 20_000}, 25}, Count{update(3, Egress), Traffic{4, 400}, 2})
	c.HandleReading(after(3), map[Class]Traffic{udp: {1, 60}})
	check("counters that began anew, and a link that is gone", Count{udp, Traffic{1, 60}, 0})
	c.HandleReading(after(3), map[Class]Traffic{udp: {2, 120}})
	check("two readings at one time", Count{udp, Traffic{2, 120}, 0})
}

// The first Locator Update of each link and direction is news, unless an earlier process
// counted it.
func TestSeen(t *testing.T) {
	c := begun(t, map[Class]Traffic{update(2, 0): {Packets: 1}})
	counts := map[Class]Traffic{
		update(2, 0): {Packets: 2}, update(2, Egress): {Packets: 1}, {Link: 3, Next: 58}: {Packets: 9},
	}
	c.HandleReading(after(1), counts)
	want(t, "one more, and a first one", c, Seen{after(1), update(2, Egress)})
	counts[update(3, 0)] = Traffic{}
	c.HandleReading(after(2), counts)
	want(t, "an entry without packets", c)
	counts[update(3, 0)], counts[update(3, Egress)] = Traffic{Packets: 1}, Traffic{Packets: 1}
	c.HandleReading(after(3), counts)
	want(t, "another link", c, Seen{after(3), update(3, 0)}, Seen{after(3), update(3, Egress)})
	c.HandleReading(after(4), nil)
	c.HandleReading(after(5), map[Class]Traffic{update(2, 0): {Packets: 1}})
	want(t, "a link that was gone", c, Seen{after(5), update(2, 0)})
}

// The same counts give the same order each time.
func TestOrder(t *testing.T) {
	order := []Class{
		{Link: 2, Next: 6}, {Link: 2, Next: 17}, {Link: 2, Next: 6, Flags: Egress},
		{Link: 3, Next: 6}, {Link: 3, Next: 6, Checksum: 3},
	}
	counts := make(map[Class]Traffic)
	for _, k := range order {
		counts[k] = Traffic{Packets: 1}
	}
	c := begun(t, nil)
	for range 20 {
		c.HandleReading(after(1), counts)
		var got []Class
		for _, n := range c.Counts() {
			got = append(got, n.Class)
		}
		if !slices.Equal(got, order) {
			t.Fatalf("order %+v", got)
		}
	}
}
