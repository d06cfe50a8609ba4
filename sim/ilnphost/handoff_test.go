package ilnphost

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

func TestSoftHandoffLosesNothing(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	w.mobile.Down(1)
	w.Run(time.Second)
	w.finish(t, f)
	wantLost(t, f, 0)
	if got := w.mobile.peer(w.server).LastMoveRTT; got != pathRTT {
		t.Errorf("last update took %v, want one RTT", got)
	}
}

// TestSoftHandoffLadder is the course of a soft handoff, message by message.
//
//	mobile (A, then B)                             server (S)
//	  |  LU B/10 A/20 from B ------------------------>|
//	  |  data from B -------------------------------->|
//	  |<--------------------------- LU-Ack, to B      |
//	  |<--------------------------- probe, to B       |
//	  |  reply -------------------------------------->|
//	  A goes
//	  |  LU B/10 from B ----------------------------->|
//	  |<--------------------------- LU-Ack, to B      |
func TestSoftHandoffLadder(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.start(t, true)
	from := w.Elapsed()
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	w.mobile.Down(1)
	w.Run(time.Second)
	want := []string{
		"0 mobile LU 2001:0db8:000b:0000/10 2001:0db8:000a:0000/20 from link 2 2001:0db8:000b:0000 to 2001:0db8:0005:0000",
		"10 server LU-Ack 2001:0db8:000b:0000/10 2001:0db8:000a:0000/20 from link 1 2001:0db8:0005:0000 to 2001:0db8:000b:0000",
		"1000 mobile LU 2001:0db8:000b:0000/10 from link 2 2001:0db8:000b:0000 to 2001:0db8:0005:0000",
		"1010 server LU-Ack 2001:0db8:000b:0000/10 from link 1 2001:0db8:0005:0000 to 2001:0db8:000b:0000",
	}
	var got []string
	for _, l := range w.Trace() {
		if text, ok := strings.CutPrefix(l.Text, "sends LU"); ok && l.At >= from {
			got = append(got, fmt.Sprintf("%d %s LU%s", (l.At-from)/time.Millisecond, l.Node, text))
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("updates:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestUpdateLeavesBeforeData(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.start(t, true)
	var order []string
	w.Tap = func(p Packet) *Packet {
		if p.Src == (roam.ILV{NID: mobileNID, L64: netB}) {
			order = append(order, kindOf(p))
		}
		return &p
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(100 * time.Millisecond)
	if len(order) < 2 || order[0] != "LU" || order[1] != "data with nonce" {
		t.Fatalf("first packets from the new locator: %q, want the update, then data with nonce", order[:min(3, len(order))])
	}
}

func TestHardHandoff(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Hard, ilnp.Soft} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, mode, 1)
			f := w.start(t, false)
			down := w.server.Flow(w.mobile, time.Millisecond, false)
			at := w.Elapsed()
			w.mobile.Cut(1) // the old network dies the moment the new one is there
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.Run(2 * time.Second)
			first, ok := down.FirstAfter(at)
			if limit := at + pathRTT + 2*time.Millisecond; !ok || first > limit {
				t.Errorf("first datagram to the new locator came at %v, want %v at the latest", first, limit)
			}
			down.Stop()
			w.finish(t, f)
			wantLost(t, f, 0)
			if lost := down.Lost(0, time.Hour); lost > int(pathRTT/time.Millisecond)+2 {
				t.Errorf("%d datagrams lost towards the mobile, want what one RTT holds at most", lost)
			}
		})
	}
}

func TestHardHandoffListsOnlyTheNewLocator(t *testing.T) {
	w := newWorld(t, ilnp.Hard, 1)
	w.start(t, true)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	for _, l := range w.server.peer(w.mobile).Locators {
		if l.L64 == netA && l.State != ilnp.Aged {
			t.Errorf("server holds the old locator as %v, want AGED", l.State)
		}
	}
	wantPaths(t, w.server, w.mobile, netB)
}

func TestDualityShares(t *testing.T) {
	w := newWorld(t, ilnp.Duality, 1)
	up := w.start(t, true)
	down := w.server.Flow(w.mobile, time.Millisecond, false)
	for i, l := range []roam.L64{netA, netB, netC} {
		w.mobile.Up(roam.LinkID(i+1), l, near, roam.Infinite)
		w.Run(time.Second)
		from := w.Elapsed()
		w.Run(3 * time.Second)
		shares := down.By(from, w.Elapsed()-time.Second)
		total := 0
		for _, n := range shares {
			total += n
		}
		if len(shares) != i+1 {
			t.Fatalf("with %d networks: datagrams came over %d", i+1, len(shares))
		}
		for at, n := range shares {
			if d := n*(i+1) - total; d < -total/50 || d > total/50 {
				t.Errorf("with %d networks: %d of %d datagrams came over %v", i+1, n, total, at)
			}
		}
	}
	down.Stop()
	w.finish(t, up)
	wantLost(t, up, 0)
	wantLost(t, down, 0)
	if s, d := len(w.mobile.peer(w.server).Paths), len(w.server.peer(w.mobile).Paths); s != 3 || d != 3 {
		t.Errorf("%d and %d paths, want 3 and 3", s, d)
	}
}

func TestGracefulWithdrawalLosesNothing(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, mode, 1)
			f := w.start(t, true)
			down := w.server.Flow(w.mobile, time.Millisecond, false)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.mobile.Up(3, netC, near, roam.Infinite)
			w.Run(time.Second)
			w.mobile.Disable(3, true)
			w.Run(time.Second)
			w.mobile.Disable(2, true)
			w.Run(time.Second)
			wantPaths(t, w.server, w.mobile, netA)
			w.mobile.Down(2)
			w.mobile.Down(3)
			w.Run(time.Second)
			w.mobile.Disable(3, false)
			down.Stop()
			w.finish(t, f)
			wantLost(t, f, 0)
			wantLost(t, down, 0)
		})
	}
}

// TestRing visits three networks in turn, twice: coming back to a network
// whose prefix has expired is a handoff like any other.
func TestRing(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	nets := []roam.L64{netA, netB, netC}
	for i := 1; i <= 6; i++ {
		next, last := i%3, (i-1)%3
		w.mobile.Up(roam.LinkID(next+1), nets[next], near, 9*time.Second)
		w.Run(10 * time.Second)
		w.mobile.Down(roam.LinkID(last + 1))
		w.Run(5 * time.Second)
		wantPaths(t, w.server, w.mobile, nets[next])
	}
	w.finish(t, f)
	wantLost(t, f, 0)
}

func TestRefreshIsNoReasonToMove(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.mobile.Up(1, netA, near, 9*time.Second)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, 9*time.Second)
	w.Run(time.Minute)
	if n := w.mobile.Count(ilnp.HandoffStarted); n != 2 {
		t.Errorf("%d changes of the active set in a minute with two networks, want 2: the first one and the handoff", n)
	}
	wantPaths(t, w.server, w.mobile, netB)
	w.finish(t, f)
	wantLost(t, f, 0)
}

func TestModesAtRunTime(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	wantPaths(t, w.server, w.mobile, netB)
	w.mobile.SetMode(ilnp.Duality)
	w.Run(time.Second)
	wantPaths(t, w.server, w.mobile, netA, netB)
	w.mobile.SetMode(ilnp.Hard)
	w.Run(time.Second)
	wantPaths(t, w.server, w.mobile, netB)
	w.finish(t, f)
	wantLost(t, f, 0)
}

func TestOnePrefixOnTwoLinks(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	sent := w.mobile.Count(ilnp.UpdateSent)
	w.mobile.Up(2, netA, near, roam.Infinite)
	w.Run(time.Second)
	if got := w.mobile.peer(w.server).Paths; len(got) != 1 || got[0].Local.Link != 2 {
		t.Errorf("paths %v, want one over link 2", got)
	}
	if n := w.mobile.Count(ilnp.UpdateSent) - sent; n != 0 {
		t.Errorf("%d updates for a set of locators that did not change", n)
	}
	w.finish(t, f)
	wantLost(t, f, 0)
}
