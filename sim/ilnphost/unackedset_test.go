package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// TestSetStaysUnacknowledged: a host in the hard mode that only answers renews the lifetime of the locator that it
// announces, and nothing arrives there any more. The acknowledgements of its set go there as well, wherever
// it is sent from, and it sends no data whose answers it could miss. The transmissions of its set arrive, and keep its
// peer from missing it where they come just before the peer would: at some moments of the cut nothing came for minutes.
func TestSetStaysUnacknowledged(t *testing.T) {
	for _, length := range []uint8{4, 12} {
		for step := range 30 {
			t.Run(fmt.Sprintf("%d bytes, %d s", length, step), func(t *testing.T) {
				w := newUnequal(t, ilnp.Hard, true, [2]uint8{length, length})
				w.server.SetMode(ilnp.Duality)
				w.mobile.Up(2, netB, near, time.Minute)
				w.Run(time.Second + time.Duration(step)*time.Second)
				f := w.server.Flow(w.mobile, 10*time.Second, true)
				w.Run(75 * time.Second)
				w.mobile.CutOneWay(2, sim.Backward)
				from := w.Now()
				w.RunUntil(5*time.Minute, func() bool { return f.Back.After(from) })
				if took := w.Now().Sub(from); took > 80*time.Second {
					t.Errorf("the first answer came after %v, want 80 s", took)
				}
				w.Run(time.Minute)
				if silent := w.Now().Sub(f.Back); silent > 11*time.Second {
					t.Errorf("then no answer for %v", silent)
				}
			})
		}
	}
}

// TestPeerReturnsBesideADeadDirection: a host in the hard mode moves to a link by which nothing leaves, while its peer
// is away. The peer returns at a new place, which gets few packets until it is validated. Those by the dead direction
// must not use all of that up: an answer comes within five datagrams, without a look-up. Of one every 10 s none came.
func TestPeerReturnsBesideADeadDirection(t *testing.T) {
	for _, every := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second} {
		for step := range 20 {
			w := newUnequal(t, ilnp.Hard, true, [2]uint8{4, 4})
			w.server.SetMode(ilnp.Duality)
			f := w.server.Flow(w.mobile, every, true)
			w.Run(30 * time.Second)
			w.server.Down(1)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.mobile.CutOneWay(2, sim.Forward)
			w.Run(time.Duration(step) * time.Second)
			w.server.Up(1, netT, near, roam.Infinite)
			from := w.Now()
			w.RunUntil(5*time.Minute, func() bool { return f.Back.After(from) })
			if took := w.Now().Sub(from); took > 45*time.Second {
				t.Errorf("every %v, away for %d s: the first answer came after %v, want 45 s", every, step, took)
			}
		}
	}
}
