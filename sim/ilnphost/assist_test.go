package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// tcpWorld is a world whose two hosts know of each other that they run Roam, with a
// connection that has delivered what was written so far, either way.
func tcpWorld(t *testing.T, mode ilnp.Mode) (*world, *TCP) {
	t.Helper()
	w := newWorld(t, mode, 1)
	w.Acquainted = true
	c := w.mobile.Dial(w.server, 30000)
	w.Run(3 * time.Second)
	c.Write(w.server, 30000)
	w.Run(3 * time.Second)
	if c.Delivered(w.server) != 30000 || c.Delivered(w.mobile) != 30000 || !c.Acked(w.mobile) || !c.Acked(w.server) {
		t.Fatalf("delivered %d and %d bytes", c.Delivered(w.server), c.Delivered(w.mobile))
	}
	return w, c
}

// delivers waits until all that both ends have written is there.
func (w *world) delivers(t *testing.T, c *TCP, within time.Duration) {
	t.Helper()
	from := w.Elapsed()
	if !w.RunUntil(within, func() bool { return c.Acked(w.mobile) && c.Acked(w.server) }) {
		t.Errorf("not all delivered within %v: %d and %d bytes, time-outs doubled %d and %d times", within,
			c.Delivered(w.server), c.Delivered(w.mobile), c.Backoff(w.mobile), c.Backoff(w.server))
		return
	}
	t.Logf("delivered after %v", w.Elapsed()-from)
}

// TestConnectionsWake: what both ends wrote during an outage, and what was under way
// when it began, is there soon after its end, though their time-outs have doubled until
// the next one would be long after. It ends in the same network and in another one.
func TestConnectionsWake(t *testing.T) {
	for name, back := range map[string]roam.L64{"same network": netA, "another network": netB} {
		t.Run(name, func(t *testing.T) {
			w, c := tcpWorld(t, ilnp.Soft)
			c.Write(w.mobile, 50000)
			c.Write(w.server, 50000)
			w.mobile.Down(1)
			w.Run(30 * time.Second)
			if c.Backoff(w.mobile) < 6 || c.Backoff(w.server) < 6 {
				t.Fatalf("time-outs doubled %d and %d times", c.Backoff(w.mobile), c.Backoff(w.server))
			}
			w.mobile.Up(1, back, near, roam.Infinite)
			w.delivers(t, c, 20*pathRTT)
		})
	}
}

// TestConnectionsSleep: without a list of connections they try again by themselves, and
// nothing else comes of that.
func TestConnectionsSleep(t *testing.T) {
	w, c := tcpWorld(t, ilnp.Soft)
	w.mobile.noLists, w.server.noLists = true, true
	w.mobile.Down(1)
	c.Write(w.mobile, 1000)
	w.Run(30 * time.Second)
	w.mobile.Up(1, netA, near, roam.Infinite)
	if w.Run(time.Second); c.Acked(w.mobile) {
		t.Error("delivered at once: the test tries nothing")
	}
	w.delivers(t, c, time.Minute)
}

// TestFirewallsAreShownConnections: networks that a host moves to have firewalls that
// track connections. They are shown those that the host has, by whichever end has
// something to say.
func TestFirewallsAreShownConnections(t *testing.T) {
	tracking := near
	tracking.Filter = TrackConnections
	for name, write := range map[string]func(w *world, c *TCP){
		"mobile writes": func(w *world, c *TCP) { c.Write(w.mobile, 20000) },
		"server writes": func(w *world, c *TCP) { c.Write(w.server, 20000) },
		"both write":    func(w *world, c *TCP) { c.Write(w.mobile, 20000); c.Write(w.server, 20000) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := tcpWorld(t, ilnp.Soft)
			w.mobile.Up(2, netB, tracking, roam.Infinite)
			write(w, c)
			w.delivers(t, c, 2*time.Second)
			if w.mobile.Resynced(w.server)+w.server.Resynced(w.mobile) == 0 {
				t.Error("no connection was shown")
			}
		})
	}
}

// TestOthersAreNotShown: a stack that is another one than Roam gets no resync, and the
// connection stands still.
func TestOthersAreNotShown(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.Acquainted = true
	w.server.SetStack(Stack{})
	w.withoutUDP()
	c := w.mobile.Dial(w.server, 30000)
	w.Run(3 * time.Second)
	tracking := near
	tracking.Filter = TrackConnections
	w.mobile.Up(2, netB, tracking, roam.Infinite)
	w.mobile.Down(1)
	c.Write(w.mobile, 1000)
	w.Run(30 * time.Second)
	if c.Acked(w.mobile) || w.mobile.Resynced(w.server) != 0 {
		t.Errorf("%d connections shown, delivered=%t", w.mobile.Resynced(w.server), c.Acked(w.mobile))
	}
}

// TestManyConnectionsMove: each one of a session is shown, and those that have nothing
// to say are left alone.
func TestManyConnectionsMove(t *testing.T) {
	const many = 20
	w := newWorld(t, ilnp.Soft, 1)
	w.Acquainted = true
	var all []*TCP
	for range many {
		all = append(all, w.mobile.Dial(w.server, 1000))
	}
	w.Run(5 * time.Second)
	tracking := near
	tracking.Filter = TrackConnections
	w.mobile.Up(2, netB, tracking, roam.Infinite)
	for _, c := range all[:many/2] {
		c.Write(w.mobile, 5000)
	}
	for _, c := range all {
		w.delivers(t, c, 3*time.Second)
	}
	w.Run(time.Minute)
	if got := w.mobile.Resynced(w.server); got != many/2 {
		t.Errorf("%d connections shown with success, want %d", got, many/2)
	}
}

// TestAssistanceEndsWithTheSession: a session that ends for want of use takes with it
// what is remembered of its connections, and a host that boots knows of none.
func TestAssistanceEndsWithTheSession(t *testing.T) {
	tracking := near
	tracking.Filter = TrackConnections
	shown := func(t *testing.T) *world {
		w, c := tcpWorld(t, ilnp.Soft)
		w.mobile.Up(2, netB, tracking, roam.Infinite)
		c.Write(w.mobile, 20000)
		w.delivers(t, c, 2*time.Second)
		if w.mobile.Resynced(w.server) != 1 {
			t.Fatal("not shown")
		}
		return w
	}
	w := shown(t)
	if w.RunUntil(time.Hour, func() bool { return w.mobile.Count(ilnp.SessionEnded) > 0 }); w.mobile.Resynced(w.server) != 0 {
		t.Error("remembered behind the session's end")
	}
	w = shown(t)
	if w.mobile.Reboot(); w.mobile.Resynced(w.server) != 0 {
		t.Error("remembered behind a reboot")
	}
	w = shown(t)
	if err := w.mobile.Restart(); err != nil {
		t.Fatal(err)
	}
	w.Run(10 * time.Second)
	for _, c := range w.mobile.connections {
		c.conn.Write(w.mobile, 1000)
		w.delivers(t, c.conn, time.Second)
	}
}

// TestGatheredConnectionsAreShown: in duality a firewall on one of the paths has not
// seen all connections begin. When they are gathered on one path each, those that are
// on that path are shown soon.
func TestGatheredConnectionsAreShown(t *testing.T) {
	w, c := tcpWorld(t, ilnp.Duality)
	tracking := near
	tracking.Filter = TrackConnections
	w.mobile.Up(2, netB, tracking, roam.Infinite)
	w.Run(20 * time.Second)
	w.mobile.attachments[1].tracked = nil // it is restarted
	c.Write(w.mobile, 20000)
	w.Run(50 * time.Millisecond)
	from := w.Elapsed()
	w.mobile.observe(ilnp.Observation{Trigger: ilnp.SeenPerFlow, Key: ilnp.SessionKey{Local: mobileNID, Remote: serverNID}})
	w.RunUntil(time.Second, func() bool { return w.mobile.attachments[1].tracked[c] })
	if took := w.Elapsed() - from; took > 300*time.Millisecond {
		t.Errorf("shown after %v", took)
	}
	w.delivers(t, c, 10*time.Second)
}
