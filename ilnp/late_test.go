package ilnp

import (
	"testing"
	"time"

	"roam"
)

// TestLostFirstProbeIsRepeated: a session begins with the nonce of an answer, and the
// first probe is lost. The nonce is asked for again, so that the correspondent can move.
func TestLostFirstProbeIsRepeated(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
	b.forget()
	b.pass(2 * probeMin)
	probes := b.probesSent()
	if len(probes) == 0 || len(probes) > 3 {
		t.Fatalf("%d probes", len(probes))
	}
	b.forget()
	b.reply(probes[len(probes)-1], peerNonce)
	if list := b.updates(); len(list) != 1 || list[0].Locators[0].Lifetime != largestRFC {
		t.Fatalf("told %+v behind the answer, want the whole lifetimes: an update had asked, too", list)
	}
	b.acknowledgeLast()
	b.forget()
	b.pass(time.Minute)
	if n := len(b.probesSent()); n > 0 {
		t.Errorf("%d probes after the answer", n)
	}
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 300))))
	if b.count(UpdateReceived) != 1 {
		t.Error("the correspondent has moved, and is not followed")
	}
}

// TestLatePacketDoesNotKeepASessionAway: a late packet with the nonce leads to a locator
// that its correspondent has left before any update told of it. Packets go on coming
// from the other one, so nothing is silent; the paths that do not answer are left all
// the same.
func TestLatePacketDoesNotKeepASessionAway(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Nonce: peerNonce, Local: roam.LinkLocator{Link: 1, L64: netA}})
	b.answerProbesTo(netQ, peerNonce) // it was there until now
	b.wantTargets(netQ)
	b.forget()
	for range 30 {
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
		b.drain()
		for range 10 {
			b.answerProbesTo(netP, peerNonce)
			b.pass(100 * time.Millisecond)
		}
	}
	b.wantTargets(netP)
}

// TestLateAnswersBuyLittleTime: where the other path has become uneven too, a path in doubt gets four times its
// longest round trip of late, but never more than two seconds. One that is waited for as long anyway gets nothing.
func TestLateAnswersBuyLittleTime(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ late, wait, want time.Duration }{
		{20 * ms, 10 * ms, 0}, {300 * ms, 60 * ms, 1200 * ms}, {300 * ms, 299 * ms, 1200 * ms}, {300 * ms, 300 * ms, 0},
		{3000 * ms, 60 * ms, checkAll},
	} {
		b := newBench(t, inMode(Duality))
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		s := b.sessions[theKey]
		at := func(link roam.LinkID, l roam.L64) *checkedPath {
			return s.check.of(Path{Local: roam.LinkLocator{Link: link, L64: l}, Remote: netP})
		}
		doubted, other := at(1, netA), at(2, netB)
		for range 3 {
			other.Answer(b.now, b.now.Add(-20*time.Millisecond))
		}
		b.now = b.now.Add(10 * time.Millisecond)
		doubted.since = b.now
		if fit := b.answersBeside(b.now, s, doubted, c.wait); !fit.IsZero() {
			t.Errorf("decides at %v, before the other path has answered", fit)
		}
		for range 2 {
			other.Answer(b.now, b.now.Add(-c.late))
		}
		if fit := b.answersBeside(b.now, s, doubted, c.wait).Sub(doubted.since); fit != c.want {
			t.Errorf("an answer after %v, waited for %v: decides after %v, want %v", c.late, c.wait, fit, c.want)
		}
	}
}
