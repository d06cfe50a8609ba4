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
	b.prefix(1, netA, Infinite)
	b.prefix(2, netB, Infinite)
	b.open(netP)
	b.answerProbes()
	for range 4 {
		b.pass(monitorEvery)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now}})
		b.drain()
		b.see(Observation{Trigger: SeenSilence, Key: theKey})
	}
	b.pass(5 * time.Second)
	if !b.pairs[theKey].Dead {
		t.Error("not held for dead after 20 s of silence")
	}
}

// TestNoAnswerOverTheLocatorInUse: a session that nobody answers is asked for
// from the locators in reserve as well. Found by the soak.
func TestNoAnswerOverTheLocatorInUse(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, Infinite)
	b.prefix(2, netB, Infinite)
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
