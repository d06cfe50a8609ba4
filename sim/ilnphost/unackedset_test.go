package ilnphost

import (
	"fmt"
	"testing"
	"time"

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
