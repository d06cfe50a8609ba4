package ilnp

import (
	"testing"
	"time"

	"roam"
)

// TestLatePacketWithOneLinkOfOurs: a late packet has led to a locator that its
// correspondent has left, and goes on coming from another one, so that nothing is
// silent. With one link the path in use is asked all the same.
func TestLatePacketWithOneLinkOfOurs(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
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

// TestWhoSpokeLastSpeaksAgain: a host that has moved and falls silent asks three times from
// there: if the answer to its correspondent's probe was lost, only a packet from
// there lets that one ask again.
func TestWhoSpokeLastSpeaksAgain(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.answerProbes()
	b.pass(time.Minute)
	b.prefix(1, netB, roam.Infinite)
	b.withdraw(1, netA)
	b.acknowledgeLast()
	b.acknowledgeLast() // of the repetition, as one set replaced another
	b.pass(100 * time.Millisecond)
	spoke := b.now
	b.forget()
	for range 20 {
		b.pass(time.Second)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: spoke, LastTx: spoke}})
		b.drain()
		b.now = b.now.Add(20 * time.Millisecond)
		b.answerProbesTo(netP, peerNonce)
	}
	if n := len(b.probesSent()); n != 3 {
		t.Errorf("%d probes from where it has moved to, want three", n)
	}
}

// TestWhoOnlyAnswersSpeaksAgain: so does a host that has sent nothing since, but has
// exchanged packets shortly before it moved. One that was idle does not.
func TestWhoOnlyAnswersSpeaksAgain(t *testing.T) {
	for _, c := range []struct {
		idle time.Duration
		want int
	}{{2 * time.Second, 3}, {time.Minute, 0}} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.answerProbes()
		b.pass(time.Minute)
		last := []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}}
		b.HandleActivity(b.now, last)
		b.pass(c.idle)
		b.prefix(1, netB, roam.Infinite)
		b.withdraw(1, netA)
		b.acknowledgeLast()
		b.acknowledgeLast()
		b.pass(100 * time.Millisecond)
		b.forget()
		for range 20 {
			b.pass(time.Second)
			b.HandleActivity(b.now, last)
			b.drain()
			b.now = b.now.Add(20 * time.Millisecond)
			b.answerProbesTo(netP, peerNonce)
		}
		if n := len(b.probesSent()); n != c.want {
			t.Errorf("idle for %v: %d probes from where it has moved to, want %d", c.idle, n, c.want)
		}
	}
}
