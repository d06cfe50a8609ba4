package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestBothMove has both ends move at the same time. One known locator still
// works: the server's old network stays up for a while.
func TestBothMove(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, mode, 1)
			f := w.start(t, true)
			w.mobile.Cut(1)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.server.Up(2, netT, near, roam.Infinite)
			w.Run(500 * time.Millisecond)
			w.mobile.Down(1)
			w.Run(2 * time.Second)
			w.server.Down(1)
			w.Run(2 * time.Second)
			from := w.Elapsed()
			w.Run(time.Second)
			w.finish(t, f)
			if lost := f.Lost(from, from+time.Second); lost != 0 {
				t.Errorf("%d datagrams lost after both had moved", lost)
			}
		})
	}
}

// TestOutage takes all networks away for 30 s, in turn from either end.
func TestOutage(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	down := w.server.Flow(w.mobile, 10*time.Millisecond, false)
	w.mobile.Down(1)
	w.Run(30 * time.Second)
	if !w.server.peer(w.mobile).Dead {
		t.Error("server does not hold the mobile for dead after 30 s")
	}
	back := w.Elapsed()
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(2 * time.Second)
	if first, ok := f.FirstAfter(back); !ok || first > back+pathRTT {
		t.Errorf("first datagram of the mobile came at %v, want within one RTT of %v", first, back)
	}
	if first, ok := down.FirstAfter(back); !ok || first > back+2*pathRTT {
		t.Errorf("first datagram to the mobile came at %v, want within two RTT of %v", first, back)
	}
	down.Stop()
	w.finish(t, f)
}

// TestSameNetworkAgain loses the one network and gets the same one back.
func TestSameNetworkAgain(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	down := w.server.Flow(w.mobile, 10*time.Millisecond, false)
	w.mobile.Down(1)
	w.Run(30 * time.Second)
	back := w.Elapsed()
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.Run(2 * time.Second)
	if first, ok := down.FirstAfter(back); !ok || first > back+2*pathRTT {
		t.Errorf("first datagram to the mobile came at %v, want within two RTT of %v", first, back)
	}
	down.Stop()
	w.finish(t, f)
}

// TestSilentPath cuts the network in use without anybody seeing it, while
// another one is held in reserve: liveness finds the path that works.
func TestSilentPath(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, mode, 1)
			f := w.start(t, true)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.Run(time.Second)
			cut := w.Elapsed()
			w.mobile.Cut(2)
			w.Run(10 * time.Second)
			if lost := f.Lost(cut+8*time.Second, w.Elapsed()-time.Second); lost != 0 {
				t.Errorf("%d datagrams lost later than 8 s after the cut", lost)
			}
			w.mobile.Mend(2)
			w.Run(30 * time.Second)
			w.finish(t, f)
		})
	}
}

// TestDeadAndAlive cuts the only network and mends it: no session is lost, and
// it is in use again soon after.
func TestDeadAndAlive(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	w.mobile.Cut(1)
	if !w.RunUntil(6*time.Second, func() bool { return w.mobile.peer(w.server).Dead }) {
		t.Fatal("not held for dead within 6 s")
	}
	w.Run(4 * time.Second)
	w.mobile.Mend(1)
	mended := w.Elapsed()
	w.RunUntil(16*time.Second, func() bool { return !w.mobile.peer(w.server).Dead })
	if took := w.Elapsed() - mended; took > 3*time.Second {
		t.Errorf("alive again after %v, want 3 s at most after 10 s of outage", took)
	}
	if w.mobile.Count(ilnp.PeerDead) != 1 || w.mobile.Count(ilnp.PeerAlive) != 1 {
		t.Error("want one dead and one alive event")
	}
	w.Run(5 * time.Second)
	w.finish(t, f)
}

// TestReboot loses one end's memory. New datagrams pass again soon.
func TestReboot(t *testing.T) {
	for _, who := range []string{"mobile", "server"} {
		t.Run(who, func(t *testing.T) {
			w := newWorld(t, ilnp.Soft, 1)
			f := w.start(t, true)
			w.Run(5 * time.Second)
			from := w.Elapsed()
			if who == "mobile" {
				w.mobile.Reboot()
				w.mobile.Know(w.server, netS)
			} else {
				w.server.Reboot()
				w.server.Know(w.mobile)
			}
			w.Run(6 * time.Second)
			first, ok := f.FirstAfter(from)
			limit := from + 2*time.Second
			if who == "server" {
				limit += 2 * time.Second // a flow without SYN: silence has to tell
			}
			if !ok || first > limit {
				t.Errorf("first datagram after the reboot came at %v, want %v at the latest", first, limit)
			}
			w.finish(t, f)
		})
	}
}

// TestNewConnectionAfterReboot: a connection that is opened after either end
// has lost its memory stands within two seconds.
func TestNewConnectionAfterReboot(t *testing.T) {
	for _, who := range []string{"mobile", "server"} {
		t.Run(who, func(t *testing.T) {
			w := newWorld(t, ilnp.Soft, 1)
			f := w.start(t, true)
			f.Stop()
			w.Run(5 * time.Second)
			if who == "mobile" {
				w.mobile.Reboot()
				w.mobile.Know(w.server, netS)
			} else {
				w.server.Reboot()
				w.server.Know(w.mobile)
			}
			g := w.mobile.Connect(w.server)
			if !w.RunUntil(2*time.Second, func() bool { return g.Answered > 0 }) {
				t.Error("connection does not stand after 2 s")
			}
			w.Run(10 * time.Second)
			w.finish(t, g)
		})
	}
}

// TestRestart replaces the core and keeps the data plane: nothing is lost and
// nothing is told.
func TestRestart(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		w := newWorld(t, mode, 1)
		f := w.start(t, true)
		w.mobile.Up(2, netB, near, 9*time.Second)
		w.Run(time.Second)
		before, sent := w.mobile.Core().Snapshot(), w.mobile.Count(ilnp.UpdateSent)
		if err := w.mobile.Restart(); err != nil {
			t.Fatal(err)
		}
		after := w.mobile.Core().Snapshot()
		if len(after) != 1 || after[0].LocalNonce != before[0].LocalNonce || after[0].RemoteNonce != before[0].RemoteNonce {
			t.Error("session is not the same after the restart")
		}
		w.Run(4 * time.Second)
		if n := w.mobile.Count(ilnp.UpdateSent) - sent; n != 0 {
			t.Errorf("%d updates because of a restart", n)
		}
		w.mobile.Up(3, netC, near, roam.Infinite)
		w.Run(30 * time.Second)
		w.finish(t, f)
		wantLost(t, f, 0)
	}
}

// TestRestartElsewhere finds another network than the one that was there
// before.
func TestRestartElsewhere(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	w.mobile.attachments[0].told = false // gone while nobody looked
	w.mobile.attachments[0].carrier = false
	if err := w.mobile.Restart(); err != nil {
		t.Fatal(err)
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(5 * time.Second)
	if n := len(w.mobile.Core().Locals(w.Now())); n != 1 {
		t.Errorf("%d locators, want the one that is there", n)
	}
	w.finish(t, f)
}

// TestOnePathThatDiesOneWay has the server lose the way out over the network
// that it prefers, while what it is sent comes in over the other one: it hears
// all the time, and is not heard. Found by the soak.
func TestOnePathThatDiesOneWay(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.server.Up(2, netT, near, roam.Infinite)
	f := w.startEvery(t, 100*time.Millisecond, true)
	w.Run(time.Second)
	w.Tap = func(p Packet) *Packet {
		if p.Src == (roam.ILV{NID: serverNID, L64: w.server.newest().L64}) {
			return nil
		}
		if p.Dst == (roam.ILV{NID: serverNID, L64: w.server.newest().L64}) {
			return nil
		}
		return &p
	}
	w.Run(30 * time.Second)
	answered := f.Answered
	w.Run(10 * time.Second)
	if got := f.Answered - answered; got < 90 {
		t.Errorf("%d answers in 10 s, half a minute after the path died, want 100", got)
	}
}
