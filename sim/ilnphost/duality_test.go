package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestFirstContactOnTwoPaths opens sessions with first packets that leave by
// two links at once and overtake each other: both ends must come to hold the
// same nonces, or the session could not move later. They do so at once: no packet
// meets an end that knows another nonce. The server has no record of the mobile host,
// one that lists its locators, one that lists others, or one with anywhere.
func TestFirstContactOnTwoPaths(t *testing.T) {
	jittery := Access{Delay: 5 * time.Millisecond, Jitter: 20 * time.Millisecond}
	records := map[string][]roam.L64{"none": nil, "listed": {netA, netB}, "elsewhere": {netS + 5}, "anywhere": {}}
	for name, record := range records {
		for seed := range uint64(50) {
			n := New(seed)
			mobile := n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, Mode: ilnp.Duality})
			server := n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Accept: ilnp.Any})
			mobile.Up(1, netA, jittery, roam.Infinite)
			mobile.Up(2, netB, jittery, roam.Infinite)
			server.Up(1, netS, near, roam.Infinite)
			mobile.Know(server, netS)
			if record != nil {
				server.Know(mobile, record...)
			}
			f := mobile.Flow(server, time.Millisecond, true)
			n.Run(2 * time.Second)
			f.Stop()
			n.Run(time.Second)
			for _, fault := range n.Check() {
				t.Errorf("record %s, seed %d: %s", name, seed, fault)
			}
			if lost := f.Sent - f.Answered; lost > 2 {
				t.Errorf("record %s, seed %d: %d datagrams were not answered", name, seed, lost)
			}
			if d := mobile.plane.drops["drop_wrong_nonce"] + server.plane.drops["drop_wrong_nonce"]; d > 0 {
				t.Errorf("record %s, seed %d: %d packets had a wrong nonce", name, seed, d)
			}
		}
	}
}
