package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// twoPaths is a world whose mobile host uses two networks at once, with a connection. No
// host can list its connections.
func twoPaths(t *testing.T, a Access) (*world, *TCP) {
	t.Helper()
	w := newWorld(t, ilnp.Duality, 1)
	w.Acquainted, w.mobile.noLists, w.server.noLists = true, true, true
	w.mobile.Up(1, netA, a, roam.Infinite)
	w.mobile.Up(2, netB, a, roam.Infinite)
	w.mobile.Dial(w.server, 0) // begins the session, by one path
	w.Run(time.Second)
	c := w.mobile.Dial(w.server, 0)
	w.Run(time.Second)
	return w, c
}

// keepBusy has the mobile host write for so long as the connection takes it, and returns
// how much arrived.
func (w *world) keepBusy(c *TCP, d time.Duration) int {
	before := c.Delivered(w.server)
	for end := w.Elapsed() + d; w.Elapsed() < end; {
		if c.Acked(w.mobile) || c.Unsent(w.mobile) == 0 {
			c.Write(w.mobile, 100*tcpSegmentSize)
		}
		w.Run(10 * time.Millisecond)
	}
	return c.Delivered(w.server) - before
}

// costs returns what paths from a network cost the mobile host.
func (w *world) costs(from roam.L64) (most uint8) {
	e := w.mobile.plane.named(ilnp.SessionKey{Local: mobileNID, Remote: serverNID})
	for p, cost := range e.Costs {
		if p.Local.L64 == from {
			most = max(most, cost)
		}
	}
	return most
}

// TestSlowPathGetsLess: two paths are equally long, and one takes a tenth of the other's
// rate. By equal shares all would wait for that one; it gets less, until it is as fast as
// the other one, or nothing waits any more.
func TestSlowPathGetsLess(t *testing.T) {
	w, c := twoPaths(t, near)
	w.mobile.SetRate(1, 1_000_000)
	w.mobile.SetRate(2, 1_000_000)
	w.keepBusy(c, 5*time.Second)
	equal := w.keepBusy(c, 5*time.Second)
	w.mobile.SetRate(2, 100_000)
	w.keepBusy(c, 10*time.Second)
	unequal := w.keepBusy(c, 5*time.Second)
	t.Logf("%d bytes in 5 s by equal paths, %d by unequal ones; the slow one costs %d", equal, unequal, w.costs(netB))
	if w.costs(netB) == 0 || w.costs(netA) > 0 {
		t.Errorf("paths cost %d and %d", w.costs(netA), w.costs(netB))
	}
	w.mobile.SetRate(1, 100_000)
	w.mobile.SetRate(2, 1_000_000)
	w.keepBusy(c, 20*time.Second)
	if w.costs(netA) == 0 || w.costs(netB) > 0 {
		t.Errorf("paths cost %d and %d, when the other one is slow", w.costs(netA), w.costs(netB))
	}
	w.mobile.SetRate(1, 0)
	w.mobile.SetRate(2, 0)
	if w.Run(2 * time.Minute); w.costs(netA)+w.costs(netB) > 0 {
		t.Errorf("paths cost %d and %d when nothing waits", w.costs(netA), w.costs(netB))
	}
}

// TestConnectionsKeepToAPath: firewalls on both paths drop segments of connections that
// they have not seen begin, which each sees of some. Nobody can list connections, so they are not shown to it:
// each keeps to one path from then on, and what stood still goes on; later it is tried
// whether the firewall is still there, ever more rarely.
func TestConnectionsKeepToAPath(t *testing.T) {
	tracking := near
	tracking.Filter = TrackConnections
	w, c := twoPaths(t, tracking)
	perFlow := func() bool { return w.mobile.plane.named(c.ends[0].key).PerFlow }
	tried := 0
	for range 12 {
		c.Write(w.mobile, 100*tcpSegmentSize)
		if !w.RunUntil(30*time.Second, func() bool { return c.Acked(w.mobile) }) {
			t.Fatalf("%d bytes are not acknowledged, per flow: %t", c.at(w.mobile).written-c.at(w.mobile).unacked, perFlow())
		}
		if !perFlow() {
			t.Error("the connection takes both paths")
		}
		w.RunUntil(6*time.Minute, func() bool { return !perFlow() })
		if !perFlow() {
			tried++
		}
	}
	if tried < 2 || tried > 6 {
		t.Errorf("packets were spread again %d times in an hour", tried)
	}
}
