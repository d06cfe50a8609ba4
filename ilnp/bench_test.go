package ilnp

import (
	"math/rand/v2"
	"testing"

	"roam"
)

// BenchmarkHandoff moves a host with 1,000 correspondents between two
// networks: the time per move, updates and entries made.
func BenchmarkHandoff(b *testing.B) {
	const peers = 1000
	c, err := New(Config{NIDs: []roam.NID{ownNID}, Rand: seeded{rand.New(rand.NewPCG(1, 2))}})
	if err != nil {
		b.Fatal(err)
	}
	now := epoch
	drain := func() (updates int) {
		for {
			o, ok := c.Poll()
			if !ok {
				return updates
			}
			if _, ok := o.(Transmit); ok {
				updates++
			}
		}
	}
	up := func(l roam.L64) {
		c.HandleLocator(now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 1, L64: l}, Present: true, Preferred: roam.Infinite})
	}
	up(netA)
	for i := range roam.NID(peers) {
		key := SessionKey{ownNID, peerNID + i}
		c.AddPeer(now, Peer{NID: key.Remote, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
		c.HandleObservation(now, Observation{Trigger: SeenMiss, Key: key})
		c.HandleObservation(now, Observation{Trigger: SeenNonce, Key: key, Remote: roam.ILV{NID: key.Remote, L64: netP}, Nonce: peerNonce})
	}
	drain()
	at := netA
	for b.Loop() {
		c.Detach(now, 1)
		at ^= netA ^ netB
		up(at)
		if n := drain(); n < peers {
			b.Fatalf("%d packets for %d correspondents", n, peers)
		}
	}
}
