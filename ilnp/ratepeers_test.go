package ilnp

import (
	"testing"
	"time"

	"roam"
)

// TestRatesOfAPeerAreItsOwn: two peers are at one locator, as all hosts of a link are. One of them lies about the rate
// of a path. The session with the other one measures by itself.
func TestRatesOfAPeerAreItsOwn(t *testing.T) {
	b := newBench(t, inMode(Duality), func(c *Config) { c.Trains = true })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.answerTrains(map[roam.L64]int{netA: 125_000, netB: 12_500_000}, 2*time.Second, true)
	if len(b.entries[theKey].Costs) == 0 {
		t.Fatal("the first peer's paths have no costs")
	}
	const otherNID = peerNID + 1
	key := SessionKey{Local: theKey.Local, Remote: otherNID}
	b.AddPeer(b.now, Peer{NID: otherNID, Names: []string{"other"}, Locators: []RemoteLocator{
		{L64: netP, Preference: 10, Lifetime: roam.Infinite},
	}})
	b.forget()
	b.see(Observation{Trigger: SeenMiss, Key: key, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: key, Remote: roam.ILV{NID: otherNID, L64: netP}, Nonce: peerNonce})
	rates := map[roam.L64]int{netA: 12_500_000, netB: 2_500_000}
	if trains := b.answerTrains(rates, time.Second, false); trains[netA] == 0 || trains[netB] == 0 {
		t.Errorf("the second session has sent %v trains", trains)
	}
	for p, cost := range b.entries[key].Costs {
		if p.Local.L64 != netB || cost != 5 {
			t.Errorf("%v costs %d", p, cost)
		}
	}
	if len(b.entries[key].Costs) != 1 {
		t.Errorf("the second session's costs are %v", b.entries[key].Costs)
	}
}
