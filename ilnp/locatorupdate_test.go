package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestRetransmissionTimes: 3/2 RTT or 100 ms, doubled each time to 8 s, eight
// times; then every 15 s. The first time from a link whose RTT nobody knows, it
// is 300 ms, as a far network must not make two exchanges of one.
func TestRetransmissionTimes(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	start := b.now
	b.prefix(2, netB, roam.Infinite)
	b.pass(80 * time.Second)
	var at []time.Duration
	for _, e := range b.events {
		if e.Kind == UpdateSent {
			at = append(at, e.Time.Sub(start))
		}
	}
	const ms = time.Millisecond
	want := []time.Duration{0, 300 * ms, 500 * ms, 900 * ms, 1700 * ms, 3300 * ms, 6500 * ms, 12900 * ms, 20900 * ms, 35900 * ms, 50900 * ms, 65900 * ms}
	if !slices.Equal(at, want) {
		t.Errorf("transmissions at %v, want %v", at, want)
	}
	if b.count(UpdateFailed) != 1 || b.count(HandoffDone) != 1 {
		t.Errorf("%d exchanges failed and %d handoffs done, want 1 and 1", b.count(UpdateFailed), b.count(HandoffDone))
	}
}

func TestTransmissionsCoverAllPaths(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP, netQ)
	b.prefix(2, netB, roam.Infinite)
	b.pass(5 * time.Second)
	seen := make(map[Path]bool)
	for _, e := range b.events {
		if e.Kind == UpdateSent {
			seen[e.Path] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("transmissions over %d paths in 5 s, want all 4 of 2 sources and 2 destinations: %v", len(seen), seen)
	}
	if first := b.events[slices.IndexFunc(b.events, func(e Event) bool { return e.Kind == UpdateSent })].Path; first.Local != (roam.LinkLocator{Link: 2, L64: netB}) {
		t.Errorf("first transmission over %v, want from the new locator", first)
	}
}

// TestOrderOfUpdateAndEntry: the update before the entry when a locator is
// gained, after it when one is lost, before it when all had been lost.
func TestOrderOfUpdateAndEntry(t *testing.T) {
	order := func(b *bench) string {
		s := ""
		for {
			o, ok := b.Poll()
			if !ok {
				return s
			}
			switch o := o.(type) {
			case Transmit:
				if b.parse(o).Type == ilnpwire.TypeLocatorUpdate {
					s += "LU "
				}
			case Upsert:
				s += "entry "
			}
		}
	}
	for _, mode := range []Mode{Soft, Hard, Duality} {
		b := newBench(t, inMode(mode))
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 2, L64: netB}, Present: true, Preferred: roam.Infinite})
		if got := order(b); got != "LU entry " {
			t.Errorf("%v, gained: %q, want the update first", mode, got)
		}
		b.Detach(b.now, 2)
		want := "entry LU "
		if mode == Hard {
			want = "LU entry " // the correspondent does not know what is left
		}
		if got := order(b); got != want {
			t.Errorf("%v, lost: %q, want %q", mode, got, want)
		}
		b.Detach(b.now, 1)
		if got := order(b); got != "entry " {
			t.Errorf("%v, lost all: %q, want only the entry", mode, got)
		}
		b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 2, L64: netB}, Present: true, Preferred: roam.Infinite})
		if got := order(b); got != "LU entry " {
			t.Errorf("%v, returned: %q, want the update first", mode, got)
		}
	}
}

func TestNonceAfterAChangeOfLocators(t *testing.T) {
	for rtt, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond: time.Second, 700 * time.Millisecond: 2100 * time.Millisecond, 0: 3 * time.Second,
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.sessions[theKey].rtt = rtt
		b.pass(time.Minute)
		b.withdraw(1, netA)
		if n := len(b.entries[theKey].Paths); n != 0 {
			t.Fatalf("%d paths without a locator", n)
		}
		b.prefix(1, netB, roam.Infinite)
		if got := b.entries[theKey].NonceUntil.Sub(b.now); got != want {
			t.Errorf("RTT %v: nonce for %v after losing all locators, want %v", rtt, got, want)
		}
	}
}

func TestAckIsMatchedByLocators(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, 20*time.Second)
	b.open(netP)
	b.prefix(2, netB, 20*time.Second)
	lu := b.updates()[0]
	if want := []ilnpwire.LocatorEntry{entry(netB, 10, 20), entry(netA, 20, 20)}; !slices.Equal(lu.Locators, want) {
		t.Fatalf("update lists %v, want %v", lu.Locators, want)
	}
	ack := lu.Ack()
	ack.Locators = []ilnpwire.LocatorEntry{entry(netB, 10, 3), entry(netA, 20, 2)} // another transmission's lifetimes
	b.now = b.now.Add(30 * time.Millisecond)
	b.receive(2, b.update(netP, peerNonce, ack))
	if b.count(UpdateAcked) != 1 {
		t.Fatal("not acknowledged")
	}
	for _, e := range b.events {
		if e.Kind == UpdateAcked && (e.RTT != 30*time.Millisecond || e.Path != (Path{roam.LinkLocator{Link: 2, L64: netB}, netP})) {
			t.Errorf("acknowledged after %v over %v, want 30ms over the new path", e.RTT, e.Path)
		}
	}
	b.receive(2, b.update(netP, peerNonce, ack)) // a duplicate
	if b.count(UpdateAcked) != 1 || len(b.updates()) != 1 {
		t.Error("a duplicate acknowledgement changed something")
	}
}

// TestAckOfTheMostLocators: where the host has more locators than an update lists, the acknowledgement completes the
// exchange.
func TestAckOfTheMostLocators(t *testing.T) {
	for _, mode := range []Mode{Soft, Hard, Duality} {
		b := newBench(t, inMode(mode))
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		for i := range roam.L64(ilnpwire.MaxLocators + 10) {
			b.prefix(2, netB+i, roam.Infinite)
		}
		if lu := b.updates(); mode != Hard && len(lu[len(lu)-1].Locators) != ilnpwire.MaxLocators {
			t.Fatalf("%v: the update lists %d locators", mode, len(lu[len(lu)-1].Locators))
		}
		b.acknowledgeLast()
		b.acknowledgeLast() // the first set replaced others in flight, and is confirmed once more
		if u := &b.sessions[theKey].update; u.state != acknowledged || b.count(UpdateAcked) == 0 {
			t.Errorf("%v: %d locators listed, state %d, %d complete", mode, len(u.listing), u.state, b.count(UpdateAcked))
		}
	}
}

func TestAckOfAnOlderSetIsAnswered(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	old := b.updates()[0].Ack()
	b.acknowledgeLast()
	b.prefix(3, netC, roam.Infinite)
	b.acknowledgeLast()
	b.forget()
	b.receive(2, b.update(netP, peerNonce, old))
	if list := b.updates(); len(list) != 1 || list[0].Locators[0].L64 != netC {
		t.Errorf("answered with %v, want the newest set", list)
	}
	if b.RejectedInput()[reasonOlderAck] != 1 {
		t.Error("not counted")
	}
}

// TestSupersededUpdateIsConfirmed: the replaced set may arrive late and its
// acknowledgement be lost, so the newest one is told once more.
func TestSupersededUpdateIsConfirmed(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.prefix(3, netC, roam.Infinite)
	b.acknowledgeLast()
	if n := len(b.updates()); n != 3 {
		t.Fatalf("%d updates, want two sets and a confirmation", n)
	}
	b.acknowledgeLast()
	b.pass(time.Minute)
	if n := len(b.updates()); n != 3 {
		t.Errorf("%d updates after that was acknowledged too", n)
	}
}

func TestRefreshOfLifetimes(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, 100*time.Second)
	b.now = b.now.Add(30 * time.Millisecond)
	b.acknowledgeLast()
	move := b.Peers(b.now)[0].LastMoveRTT
	b.forget()
	b.pass(50 * time.Second)
	b.prefix(2, netB, 100*time.Second)
	if len(b.updates()) != 0 {
		t.Fatal("refreshed before half of the lifetime")
	}
	for range 25 {
		b.pass(time.Second)
		if len(b.updates()) > 0 {
			break
		}
	}
	if list := b.updates(); len(list) == 0 || list[0].Locators[0].Lifetime < 74 {
		t.Fatalf("%v by three quarters of the lifetime, want an update with what is left", list)
	}
	b.now = b.now.Add(70 * time.Millisecond)
	b.acknowledgeLast()
	if got := b.Peers(b.now)[0].LastMoveRTT; got != move || got < 30*time.Millisecond || got >= 70*time.Millisecond {
		t.Errorf("the last move took %v, and %v after a refresh", move, got)
	}
	// Without a Router Advertisement there is nothing new to tell.
	b.forget()
	b.pass(70 * time.Second)
	if n := len(b.updates()); n != 0 {
		t.Errorf("%d updates without news", n)
	}
}

// TestRefreshOfAShorterLifetime: a prefix comes to live 9 s instead of 30 s,
// renewed all the time. The correspondent's copy must not run out.
func TestRefreshOfAShorterLifetime(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, 30*time.Second)
	b.acknowledgeLast()
	end := b.now.Add(30 * time.Second)
	b.forget()
	for range 30 {
		b.pass(3 * time.Second)
		b.prefix(2, netB, 9*time.Second)
		for _, lu := range b.updates() {
			end = b.now.Add(time.Duration(lu.Locators[0].Lifetime-3) * time.Second)
		}
		if len(b.updates()) > 0 {
			b.acknowledgeLast()
			b.forget()
		}
		if end.Before(b.now) {
			t.Fatalf("the correspondent's copy ran out %v ago", b.now.Sub(end))
		}
	}
}

func TestInfiniteLifetimesOnTheWire(t *testing.T) {
	for _, c := range []struct {
		draft bool
		want  uint32
	}{{false, 0xffff}, {true, 0xffff_ffff}} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.AddPeer(b.now, Peer{NID: peerNID, DraftLU: c.draft})
		b.see(Observation{
			Trigger: SeenPending, Key: theKey, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA},
			Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce, OwnNonce: Nonce{Len: 4},
		})
		b.answerProbes()
		b.prefix(2, netB, roam.Infinite)
		if got := b.updates()[0]; (got.Form == ilnpwire.FormDraft) != c.draft || got.Locators[0].Lifetime != c.want {
			t.Errorf("draft form %t: %v, want lifetimes of %d", c.draft, got, c.want)
		}
	}
}

func TestPlainSessionsAreNotUpdated(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
	if b.entries[theKey].State != Plain {
		t.Fatal("not plain")
	}
	was := b.entries[theKey].Paths
	b.prefix(2, netB, roam.Infinite)
	b.pass(time.Minute)
	if len(b.updates()) != 0 {
		t.Error("update to a correspondent without ILNP")
	}
	if !slices.Equal(was, b.entries[theKey].Paths) {
		t.Error("plain session left its addresses although they are still there")
	}
	b.withdraw(1, netA)
	if got := b.sources(); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("plain session sends from %v, want what is left", got)
	}
}

func TestHandoffEndsWithItsLastCorrespondent(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	other := SessionKey{ownNID, peerNID + 1}
	b.AddPeer(b.now, Peer{NID: other.Remote, Locators: []RemoteLocator{{L64: netQ, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: other})
	b.see(Observation{Trigger: SeenNonce, Key: other, Remote: roam.ILV{NID: other.Remote, L64: netQ}, Nonce: Nonce{Len: 4}})
	b.forget()
	b.prefix(2, netB, roam.Infinite)
	b.now = b.now.Add(20 * time.Millisecond)
	b.receive(2, b.update(netP, peerNonce, b.updates()[0].Ack()))
	if b.count(HandoffDone) != 0 {
		t.Fatal("done before the second correspondent has answered")
	}
	b.now = b.now.Add(20 * time.Millisecond)
	b.RemovePeer(b.now, other.Remote)
	b.drain()
	if b.count(HandoffDone) != 1 || b.count(SessionEnded) != 1 {
		t.Fatal("not done although nobody is waited for")
	}
	for _, e := range b.events {
		if e.Kind == HandoffDone && e.Duration != 40*time.Millisecond {
			t.Errorf("took %v, want 40ms", e.Duration)
		}
	}
}
