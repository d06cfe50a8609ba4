package ilnp

import (
	"testing"
	"time"

	"roam"
)

// TestSilenceWhileMonitored: the paths are being asked whenever silence is told,
// as both go by the clock; it must not be lost each time. Found by the soak.
func TestSilenceWhileMonitored(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	b.answerProbes()
	for range 4 {
		b.pass(monitorEvery)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now}})
		b.drain()
		b.see(Observation{Trigger: SeenSilence, Key: theKey})
	}
	b.pass(5 * time.Second)
	if !b.entries[theKey].Dead {
		t.Error("not held for dead after 20 s of silence")
	}
}

// TestNoAnswerOverTheLocatorInUse: a session that nobody answers is asked for
// from the locators in reserve as well. Found by the soak.
func TestNoAnswerOverTheLocatorInUse(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.AddPeer(b.now, told(netP))
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.pass(10 * time.Second)
	from := make(map[roam.L64]int)
	for _, p := range b.probesSent() {
		from[p.Src.L64]++
	}
	if from[netA] == 0 || from[netB] == 0 {
		t.Errorf("probes from %v, want some from both locators", from)
	}
}

// TestLinkThatDiesWithAllItsPaths: the correspondent has two locators and is
// heard on the link in reserve, so that silence does not tell that nothing
// which leaves the link in use arrives. Found by the soak.
func TestLinkThatDiesWithAllItsPaths(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 600), entry(netQ, 10, 600))))
	b.answerProbes()
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.answerProbes()
	if n := len(b.entries[theKey].Paths); n != 2 {
		t.Fatalf("%d paths, want two from the new link", n)
	}
	for range 20 {
		b.forget()
		b.pass(time.Second)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now}})
		b.drain()
		for _, p := range b.probesSent() {
			if p.Src.L64 == netA {
				b.reply(p, peerNonce)
			}
		}
	}
	for _, p := range b.entries[theKey].Paths {
		if p.Local.L64 != netA {
			t.Errorf("after 20 s data still leaves from %v", p.Local)
		}
	}
}
