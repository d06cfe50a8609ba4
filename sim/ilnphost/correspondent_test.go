package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestReceiverShowsItsNonce has a host that only receives: its first packet
// towards the sender is one that nobody asked for, with a nonce, so that the
// sender knows of ILNP and the receiver may move (RFC 6741 §13.1).
func TestReceiverShowsItsNonce(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	shown := ""
	w.Tap = func(p Packet) *Packet {
		if p.Src.NID == mobileNID && kindOf(p) == "probe" {
			return nil
		}
		if p.Src.NID == serverNID && shown == "" {
			shown = kindOf(p)
			if !p.Nonce.Present() {
				t.Error("the receiver's first packet has no nonce")
			}
		}
		return &p
	}
	f := w.mobile.Flow(w.server, time.Millisecond, false)
	w.Run(300 * time.Millisecond) // long before silence would mean plain IPv6
	if shown != "probe" {
		t.Errorf("the receiver's first packet is %q, want a probe", shown)
	}
	if got := w.mobile.peer(w.server).State; got != ilnp.Established {
		t.Fatalf("the sender's session is %v, want established", got)
	}
	w.Tap = nil
	w.server.Up(2, netT, near, roam.Infinite)
	w.Run(time.Second)
	wantPaths(t, w.mobile, w.server, netT)
	w.server.Down(1)
	w.finish(t, f)
	wantLost(t, f, 0)
}

// TestLookedUpIsNotInUse opens a session with a host that was looked up at two
// locators, of which it uses only one. The other is out of order meanwhile;
// later it answers, and still is not sent to.
func TestLookedUpIsNotInUse(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  ilnp.Mode
		opens bool // so does the host itself, at once
	}{
		{"left in hard mode", ilnp.Hard, false},
		{"left in hard mode, both open", ilnp.Hard, true},
		{"disabled", ilnp.Soft, false},
		{"disabled, both open", ilnp.Soft, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.mode, 1)
			w.server.Up(2, netT, near, roam.Infinite)
			w.server.Disable(1, c.mode != ilnp.Hard)
			w.server.Cut(1)
			w.mobile.Know(w.server, netT, netS)
			w.server.Know(w.mobile, netA)
			f := w.mobile.Flow(w.server, 10*time.Millisecond, true)
			if c.opens {
				w.server.Flow(w.mobile, 10*time.Millisecond, true)
			}
			w.Run(5 * time.Second)
			w.server.Mend(1)
			w.mobile.Know(w.server, netT, netS) // it looks once more
			w.Run(30 * time.Second)
			wantPaths(t, w.mobile, w.server, netT)
			w.finish(t, f)
		})
	}
}

// TestEveryCorrespondentIsTold moves a host that has many correspondents: each
// one gets the new set, and acknowledges it (RFC 6743 §2).
func TestEveryCorrespondentIsTold(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	const many = 20
	for i := range many {
		at := netC + roam.L64(i+1)<<32
		h := w.AddNode(fmt.Sprintf("s%d", i), ilnp.Config{NIDs: []roam.NID{serverNID + roam.NID(i+1)<<8}, Accept: ilnp.Any})
		h.Up(1, at, near, roam.Infinite)
		w.mobile.Know(h, at)
		w.mobile.Flow(h, 10*time.Millisecond, true)
	}
	w.Run(time.Second)
	told := make(map[roam.NID]int)
	w.Tap = func(p Packet) *Packet {
		if kindOf(p) == "LU" {
			told[p.Dst.NID]++
		}
		return &p
	}
	sent := w.mobile.Count(ilnp.UpdateAcked)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	for nid, n := range told {
		if n != 1 {
			t.Errorf("%v was sent %d updates, want 1", nid, n)
		}
	}
	if got := w.mobile.Count(ilnp.UpdateAcked) - sent; len(told) != many || got != many {
		t.Errorf("%d of %d correspondents were told, %d acknowledged", len(told), many, got)
	}
	for _, h := range w.Nodes() {
		if p := h.peer(w.mobile); !p.Since.IsZero() {
			wantPaths(t, h, w.mobile, netB)
		}
	}
}
