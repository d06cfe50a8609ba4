package ilnp

import (
	"slices"
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestPreferencesHold: a correspondent that sends from a less preferred locator of its
// set gets what it is sent where it prefers.
func TestPreferencesHold(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	lu := ilnpwire.LocatorUpdate{}
	for i := range 22 {
		lu.Locators = append(lu.Locators, entry(netR+roam.L64(i)<<16, uint16(i), 100))
	}
	b.receive(1, b.update(netP, peerNonce, lu))
	far := netR + 21<<16
	if !slices.Contains(b.entries[theKey].Accept, far) {
		t.Error("the last one of 22 is not accepted")
	}
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: far}}) // from before the entry was there
	b.wantTargets(netR)
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}})
	b.wantTargets(netQ) // one that it never announced: it has moved
}

// TestReplacedLocatorDoesNotReturn: a late packet with the nonce from a locator that
// was replaced does not lead back there; an update does.
func TestReplacedLocatorDoesNotReturn(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 100))))
	for range 30 {
		b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}})
	}
	b.wantTargets(netQ)
	if !slices.Contains(b.entries[theKey].Accept, netP) || b.count(PeerMoved) > 0 {
		t.Error("late packets are not accepted, or taken for a move")
	}
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 100))))
	b.wantTargets(netP)
}

// TestUpdateThatMoves: an update tells of a move if data go to other locators by it: not if it renews lifetimes, lists
// a locator in reserve, or comes behind a packet that has told of the move.
func TestUpdateThatMoves(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	moves := func() (n int) {
		for _, e := range b.events {
			if e.Kind == PeerMoved || e.Kind == UpdateReceived && e.Moved {
				n++
			}
		}
		return n
	}
	for i, step := range []struct {
		list []ilnpwire.LocatorEntry
		want int
	}{
		{[]ilnpwire.LocatorEntry{entry(netP, 10, 100)}, 0},
		{[]ilnpwire.LocatorEntry{entry(netP, 10, 100)}, 0},
		{[]ilnpwire.LocatorEntry{entry(netP, 10, 100), entry(netQ, 20, 100)}, 0},
		{[]ilnpwire.LocatorEntry{entry(netP, 10, 0), entry(netQ, 20, 100)}, 1},
		{[]ilnpwire.LocatorEntry{entry(netQ, 20, 100)}, 0},
		{[]ilnpwire.LocatorEntry{entry(netR, 20, 100)}, 1},
	} {
		b.forget()
		b.receive(1, b.update(netP, peerNonce, updateOf(step.list...)))
		if b.count(UpdateReceived) != 1 || moves() != step.want {
			t.Errorf("update %d: %d received, %d moves, want %d", i, b.count(UpdateReceived), moves(), step.want)
		}
	}
	b.forget()
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netS}})
	b.receive(1, b.update(netS, peerNonce, updateOf(entry(netS, 10, 100))))
	if b.count(PeerMoved) != 1 || b.count(UpdateReceived) != 1 || moves() != 1 {
		t.Errorf("a packet from elsewhere, and the update behind it: events %v", b.events)
	}
}

// TestUnlistedListLess: nodes without a name of a record are not given as much of what
// the data plane has, and a hint to what it was not given is called back.
func TestUnlistedListLess(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.sessions[theKey].unnamed = true
	lu := ilnpwire.LocatorUpdate{}
	for i := range 255 {
		lu.Locators = append(lu.Locators, entry(netR+roam.L64(i)<<16, uint16(i), 100))
	}
	b.receive(1, b.update(netP, peerNonce, lu))
	before := b.entries[theKey]
	if len(before.Accept) != unnamedAccept {
		t.Errorf("%d locators accepted, want %d", len(before.Accept), unnamedAccept)
	}
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netR + 200<<16}})
	b.wantTargets(netR)
	if b.entries[theKey].Seq == before.Seq {
		t.Error("the data plane goes on sending to the hint")
	}
}

// TestDeadSessionLooksAtTheRecord: a correspondent that falls silent after it has left
// the locators of its record is asked there again, once they are forgotten.
func TestDeadSessionLooksAtTheRecord(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 100))))
	b.see(Observation{Trigger: SeenSilence, Key: theKey})
	b.pass(2 * graceMin)
	if b.count(PeerDead) != 1 {
		t.Fatal("not held for dead, so nothing is tested")
	}
	b.forget()
	b.pass(2 * probeMax)
	if !slices.ContainsFunc(b.probesSent(), func(p ilnpwire.Packet) bool { return p.Dst.L64 == netP }) {
		t.Error("never asked where its record has it")
	}
}
