package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestFirstContactOnTwoPaths opens sessions with first packets that leave by
// two links at once and overtake each other: both ends must come to hold the
// same nonces, or the session could not move later.
func TestFirstContactOnTwoPaths(t *testing.T) {
	jittery := Access{Delay: 5 * time.Millisecond, Jitter: 20 * time.Millisecond}
	for seed := range uint64(100) {
		n := New(seed)
		mobile := n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, Mode: ilnp.Duality})
		server := n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}})
		mobile.Up(1, netA, jittery, roam.Infinite)
		mobile.Up(2, netB, jittery, roam.Infinite)
		server.Up(1, netS, near, roam.Infinite)
		mobile.Know(server, netS)
		server.Know(mobile)
		f := mobile.Flow(server, time.Millisecond, true)
		n.Run(2 * time.Second)
		f.Stop()
		n.Run(time.Second)
		for _, fault := range n.Check() {
			t.Errorf("seed %d: %s", seed, fault)
		}
	}
}
