package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// dropFirst makes the wire lose the first n packets of a kind.
func dropFirst(w *world, kind string, n int) {
	w.Tap = func(p Packet) *Packet {
		if n > 0 && kindOf(p) == kind {
			n--
			return nil
		}
		return &p
	}
}

func TestUpdateIsRetransmitted(t *testing.T) {
	for _, kind := range []string{"LU", "LU-Ack"} {
		for _, n := range []int{1, 3, 7} {
			w := newWorld(t, ilnp.Soft, 1)
			w.withoutUDP()
			f := w.start(t, false)
			dropFirst(w, kind, n)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.Run(30 * time.Second)
			if got := w.mobile.Count(ilnp.UpdateSent); got != n+1 {
				t.Errorf("%d %s lost: %d transmissions, want %d", n, kind, got, n+1)
			}
			if w.mobile.Count(ilnp.UpdateAcked) != 1 || w.mobile.Count(ilnp.HandoffDone) != 2 {
				t.Errorf("%d %s lost: not acknowledged once", n, kind)
			}
			w.finish(t, f)
			wantLost(t, f, 0)
		}
	}
}

// TestRetransmissionsAlternate looks at the sources: the new link, then the
// old one.
func TestRetransmissionsAlternate(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.withoutUDP()
	w.start(t, false)
	var sources []roam.L64
	w.Tap = func(p Packet) *Packet {
		if kindOf(p) == "LU" {
			sources = append(sources, p.Src.L64)
			return nil
		}
		return &p
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(2 * time.Second)
	if len(sources) < 4 || sources[0] != netB || sources[1] != netA || sources[2] != netB || sources[3] != netA {
		t.Errorf("sources of the transmissions: %v, want the two networks in turn, the new one first", sources)
	}
}

func TestUpdateGivenUpAndTakenUpAgain(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.withoutUDP()
	f := w.start(t, true)
	dropFirst(w, "LU", 9)
	w.mobile.Up(2, netB, near, roam.Infinite)
	if !w.RunUntil(time.Minute, func() bool { return w.mobile.Count(ilnp.UpdateFailed) == 1 }) {
		t.Fatal("exchange not given up within a minute")
	}
	if w.mobile.Count(ilnp.HandoffDone) != 2 {
		t.Error("handoff not over although its exchange was given up")
	}
	w.Run(time.Minute)
	if w.mobile.Count(ilnp.UpdateAcked) != 1 {
		t.Error("exchange not completed by the slow retries")
	}
	w.finish(t, f)
}

// TestNewestSetWins moves again while the first update is still on its way.
func TestNewestSetWins(t *testing.T) {
	w := newWorld(t, ilnp.Hard, 1)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(5 * time.Millisecond)
	w.mobile.Up(3, netC, near, roam.Infinite)
	w.Run(2 * time.Second)
	wantPaths(t, w.server, w.mobile, netC)
	w.finish(t, f)
}

// TestOvertakenUpdate holds the first update back until the second one has
// been acknowledged: the server then has the older set, until the mobile sees
// the acknowledgement of it.
func TestOvertakenUpdate(t *testing.T) {
	w := newWorld(t, ilnp.Hard, 1)
	f := w.start(t, false)
	var held *Packet
	w.Tap = func(p Packet) *Packet {
		if held == nil && kindOf(p) == "LU" {
			held = &p
			return nil
		}
		return &p
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(5 * time.Millisecond)
	w.mobile.Up(3, netC, near, roam.Infinite)
	w.Run(time.Second)
	wantPaths(t, w.server, w.mobile, netC)
	w.Inject(*held)
	w.Run(time.Millisecond)
	w.Run(pathRTT + 5*time.Millisecond)
	wantPaths(t, w.server, w.mobile, netC)
	if w.mobile.Core().RejectedInput()["acknowledgement of an older update"] == 0 {
		t.Error("the repair is not counted")
	}
	w.finish(t, f)
}

// TestReplayedUpdate is the same with malice, long after.
func TestReplayedUpdate(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	var recorded []Packet
	w.Tap = func(p Packet) *Packet {
		if kindOf(p) == "LU" {
			recorded = append(recorded, p)
		}
		return &p
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	w.mobile.Up(3, netC, near, roam.Infinite)
	w.Run(time.Second)
	w.Inject(recorded[0])
	w.Run(pathRTT + 20*time.Millisecond)
	wantPaths(t, w.server, w.mobile, netC)
	w.finish(t, f)
	wantLost(t, f, 0)
}

// TestDuplicatesAreAcknowledged sends everything twice.
func TestDuplicatesAreAcknowledged(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.start(t, true)
	acks := 0
	w.Tap = func(p Packet) *Packet {
		switch kindOf(p) {
		case "LU":
			w.Inject(p)
		case "LU-Ack":
			acks++
		}
		return &p
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	if acks != 2 || w.mobile.Count(ilnp.UpdateAcked) != 1 {
		t.Errorf("%d acknowledgements sent, %d counted, want 2 and 1", acks, w.mobile.Count(ilnp.UpdateAcked))
	}
}

// TestLifetimesAreKeptFresh runs for two minutes on prefixes of 9 s: nothing
// runs out at the correspondent, and the updates for that stay few.
func TestLifetimesAreKeptFresh(t *testing.T) {
	w := newWorld(t, ilnp.Duality, 1)
	w.mobile.Up(1, netA, near, 9*time.Second)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, 9*time.Second)
	w.Run(time.Second)
	sent := w.mobile.Count(ilnp.UpdateSent)
	for range 120 {
		w.Run(time.Second)
		for _, l := range w.server.peer(w.mobile).Locators {
			if l.State != ilnp.Active {
				t.Fatalf("at %v the server holds %v as %v", w.Elapsed(), l.L64, l.State)
			}
		}
	}
	if n := w.mobile.Count(ilnp.UpdateSent) - sent; n < 12 || n > 36 {
		t.Errorf("%d updates in 120 s of 9 s lifetimes, want one each half to whole lifetime of the shorter one", n)
	}
	w.finish(t, f)
	wantLost(t, f, 0)
}

// TestSilentNetworkExpires cuts a network without the host seeing it: its
// prefix expires, and the other one takes over.
func TestSilentNetworkExpires(t *testing.T) {
	w := newWorld(t, ilnp.Duality, 1)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, 9*time.Second)
	w.Run(2 * time.Second)
	w.mobile.Cut(2)
	w.Run(12 * time.Second)
	wantPaths(t, w.server, w.mobile, netA)
	w.finish(t, f)
}

// TestLastLocatorSurvivesItsLifetime: routers fall silent, and the path goes
// on working (RFC 6741 §5.2).
func TestLastLocatorSurvivesItsLifetime(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	w.mobile.Up(2, netB, near, 9*time.Second)
	w.Run(time.Second)
	w.mobile.Down(1)
	w.mobile.at(2).epoch++ // no Router Advertisement any more
	w.Run(2 * time.Minute)
	if s := w.mobile.Core().Locals(w.Now()); len(s) != 1 || s[0].State != ilnp.Expired {
		t.Errorf("locals %v, want one EXPIRED", s)
	}
	if l := w.server.peer(w.mobile).Locators; len(l) != 1 || l[0].State != ilnp.Expired {
		t.Errorf("server holds %v, want one EXPIRED", l)
	}
	f.Stop()
	w.Run(time.Second)
	wantLost(t, f, 0)
}

// TestDraftForm answers in the form received.
func TestDraftForm(t *testing.T) {
	n := New(1)
	showTrace(t, n)
	w := &world{
		Network: n,
		mobile:  n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, DraftLU: true}),
		server:  n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Accept: ilnp.Any}),
	}
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Core().AddPeer(n.Now(), ilnp.Peer{
		NID: serverNID, DraftLU: true, Locators: []ilnp.RemoteLocator{{L64: netS, Lifetime: roam.Infinite}},
	})
	f := w.start(t, true)
	codes := make(map[string]uint8)
	w.Tap = func(p Packet) *Packet {
		if q, err := ilnpwire.ParsePacket(p.Control); err == nil && q.Type == ilnpwire.TypeLocatorUpdate {
			codes[kindOf(p)] = q.Code
		}
		return &p
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Second)
	w.server.Up(2, netT, near, roam.Infinite)
	w.Run(time.Second)
	if codes["LU"] != ilnpwire.CodeReplaceSoft || codes["LU-Ack"] != ilnpwire.CodeReplaceSoft {
		t.Errorf("codes %v, want %d in both", codes, ilnpwire.CodeReplaceSoft)
	}
	w.finish(t, f)
	wantLost(t, f, 0)
}
