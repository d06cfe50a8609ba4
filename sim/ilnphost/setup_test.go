package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
)

func TestFallbackOnParameterProblem(t *testing.T) {
	n := New(1)
	showTrace(t, n)
	mobile := n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, IdleTimeout: time.Minute})
	plain := n.AddPlainNode("plain", serverNID, Problem)
	mobile.Up(1, netA, near, roam.Infinite)
	plain.Up(1, netS, near, roam.Infinite)
	mobile.Know(plain, netS)
	f := mobile.Flow(plain, 10*time.Millisecond, true)
	n.Run(time.Second)
	if got := mobile.peer(plain).State; got != ilnp.Plain {
		t.Fatalf("session is %v, want plain", got)
	}
	if f.Answered == 0 {
		t.Error("no answer over plain IPv6")
	}
	f.Stop()
	n.Run(2 * time.Minute)
	if !mobile.peer(plain).Since.IsZero() {
		t.Fatal("idle session is still there")
	}
	// Remembered: the next session is plain from its first packet on.
	nonces := 0
	n.Tap = func(p Packet) *Packet {
		if p.Nonce.Present() {
			nonces++
		}
		return &p
	}
	g := mobile.Flow(plain, 10*time.Millisecond, true)
	n.Run(time.Second)
	if nonces != 0 || g.Answered == 0 {
		t.Errorf("%d nonces sent and %d answers, want 0 and some", nonces, g.Answered)
	}
	g.Stop()
	n.Run(15 * time.Minute)
	mobile.Flow(plain, 10*time.Millisecond, true)
	n.Run(time.Second)
	if nonces == 0 {
		t.Error("ILNP is not tried again after the memory of the fallback has ended")
	}
}

func TestFallbackOnSilence(t *testing.T) {
	n := New(1)
	showTrace(t, n)
	mobile := n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}})
	plain := n.AddPlainNode("plain", serverNID, Discard)
	mobile.Up(1, netA, near, roam.Infinite)
	plain.Up(1, netS, near, roam.Infinite)
	mobile.Know(plain, netS)
	f := mobile.Flow(plain, 10*time.Millisecond, true)
	n.Run(3 * time.Second)
	if first, ok := f.FirstAfter(900 * time.Millisecond); !ok || first > 1100*time.Millisecond {
		t.Errorf("first datagram arrived at %v, want about 1 s", first)
	}
	n.Run(35 * time.Second) // some probes go on: the plain packets may be those of an older session
	probes := 0
	n.Tap = func(p Packet) *Packet {
		if kindOf(p) == "probe" {
			probes++
		}
		return &p
	}
	n.Run(5 * time.Minute)
	if probes == 0 || probes > 5 { // one a minute: those packets may be forged, while the host is away
		t.Errorf("%d probes in 5 minutes to a host that answers plain IPv6", probes)
	}
}

// TestHostThatComesLate is down while it is called: the fallback that its
// silence causes does not stick.
func TestHostThatComesLate(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.server.Down(1)
	f := w.mobile.Flow(w.server, 10*time.Millisecond, true)
	w.Run(20 * time.Second)
	w.server.Up(1, netS, near, roam.Infinite)
	if !w.RunUntil(16*time.Second, func() bool { return w.mobile.peer(w.server).State == ilnp.Established }) {
		t.Fatal("session not established after the host came")
	}
	w.finish(t, f)
}

func TestUnknownIdentifierIsRejected(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	key := ilnp.SessionKey{Local: mobileNID, Remote: 0x0200_dead_0000_0000}
	f := &Flow{From: w.mobile, key: key}
	f.send()
	if got := w.mobile.plane.drops["rejected"]; got != 1 {
		t.Errorf("%d datagrams rejected at once, want 1", got)
	}
}

func TestAcceptKnown(t *testing.T) {
	for _, accept := range []ilnp.Accept{ilnp.Known, ilnp.Any} {
		n := New(1)
		mobile := n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}})
		server := n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Accept: accept})
		mobile.Up(1, netA, near, roam.Infinite)
		server.Up(1, netS, near, roam.Infinite)
		mobile.Know(server, netS)
		mobile.Flow(server, 10*time.Millisecond, true)
		n.Run(2 * time.Second)
		if made := !server.peer(mobile).Since.IsZero(); made != (accept == ilnp.Any) {
			t.Errorf("accept=%v: session made: %t", accept, made)
		}
	}
}

// TestBothOpenAtOnce has each end send its first packet before the other's has
// come.
func TestBothOpenAtOnce(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.server.Know(w.mobile, netA)
	f := w.mobile.Flow(w.server, 10*time.Millisecond, true)
	g := w.server.Flow(w.mobile, 10*time.Millisecond, true)
	w.Run(time.Second)
	g.Stop()
	w.finish(t, f)
	wantLost(t, f, 0)
	wantLost(t, g, 0)
}

// TestLossyStart sets sessions up while every third packet is lost.
func TestLossyStart(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, ilnp.Soft, seed)
		w.mobile.Up(1, netA, Access{Delay: 5 * time.Millisecond, Loss: 0.3}, roam.Infinite)
		f := w.mobile.Flow(w.server, 100*time.Millisecond, true)
		w.Run(20 * time.Second)
		w.mobile.Up(1, netA, near, roam.Infinite)
		w.Run(20 * time.Second)
		w.finish(t, f)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestServerWithSeveralLocators has one of two told locators dead.
func TestServerWithSeveralLocators(t *testing.T) {
	w := newWorld(t, ilnp.Duality, 1)
	w.mobile.Know(w.server, netT, netS) // nobody is at netT
	f := w.mobile.Flow(w.server, 10*time.Millisecond, true)
	w.Run(2 * time.Second)
	wantPaths(t, w.mobile, w.server, netS)
	w.server.Up(2, netT, near, roam.Infinite)
	w.Run(2 * time.Second)
	wantPaths(t, w.mobile, w.server, netS, netT)
	w.finish(t, f)
}

// TestTwoNodesWithOneIdentifier has two correspondents claim one NID: both
// sessions stand, told apart by nonce and handle (RFC 6741 §5.4).
func TestTwoNodesWithOneIdentifier(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	other := w.AddNode("probe copy", ilnp.Config{NIDs: []roam.NID{mobileNID}})
	other.Up(1, netC, near, roam.Infinite)
	other.Know(w.server, netS)
	f := w.start(t, true)
	g := other.Flow(w.server, 10*time.Millisecond, true)
	w.Run(3 * time.Second)
	sessions := 0
	for _, p := range w.server.Core().Peers(w.Now()) {
		if p.NID == mobileNID && p.State == ilnp.Established {
			sessions++
		}
	}
	if sessions != 2 {
		t.Fatalf("server has %d sessions with that NID, want 2", sessions)
	}
	from := w.Elapsed()
	w.mobile.Up(2, netB, near, roam.Infinite)
	other.Up(2, netT, near, roam.Infinite)
	w.Run(2 * time.Second)
	f.Stop()
	g.Stop()
	w.Run(time.Second)
	for _, flow := range []*Flow{f, g} {
		if lost := flow.Lost(from, w.Elapsed()); lost > 0 {
			t.Errorf("%s: %d datagrams lost while both moved", flow.From.Name(), lost)
		}
	}
}

func TestIdleSessionEnds(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	f.Stop()
	w.Run(9 * time.Minute)
	if w.mobile.peer(w.server).Since.IsZero() {
		t.Error("session ended before its time")
	}
	w.Run(2 * time.Minute)
	if !w.mobile.peer(w.server).Since.IsZero() || !w.server.peer(w.mobile).Since.IsZero() {
		t.Error("idle session is still there after 11 min")
	}
	if len(w.mobile.plane.entries) != 0 {
		t.Error("data plane still has the entry")
	}
}

// TestReserveOfUnrecordedPeer: a host without a record at its peer holds a locator in reserve,
// from which its rules may have flows leave as soon as the peer has acknowledged it. What bears
// no nonce counts only from where such a host was validated, so it is asked there at once.
func TestReserveOfUnrecordedPeer(t *testing.T) {
	n := New(1)
	n.Acquainted = true
	cfg := func(nid roam.NID) ilnp.Config {
		return ilnp.Config{
			NIDs: []roam.NID{nid}, Mode: ilnp.Soft, Accept: ilnp.Any,
			Liveness: func(string) multipath.Level { return multipath.Normal },
		}
	}
	w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	w.mobile.Up(2, netB, near, roam.Infinite) // soft uses the newest, and holds the one before in reserve
	w.mobile.Flow(w.server, time.Millisecond, true)
	listed := func() (reserve ilnp.RemoteState, is bool) {
		for _, p := range w.server.Core().Peers(n.Now()) {
			i := slices.IndexFunc(p.Locators, func(r ilnp.RemoteState) bool { return r.L64 == netA })
			if len(p.Locators) == 2 && i >= 0 {
				return p.Locators[i], true
			}
		}
		return reserve, false
	}
	if !w.RunUntil(time.Second, func() bool { _, is := listed(); return is }) {
		t.Fatalf("the peer has no update with both locators: %+v", w.server.Core().Peers(n.Now()))
	}
	w.Run(2 * pathRTT)
	if r, _ := listed(); !r.Validated {
		t.Errorf("two round trips after the update that lists it: %+v", r)
	}
}
