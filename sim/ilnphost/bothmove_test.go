package ilnphost

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// resolves has a host look up once a second, as the daemon does, where those are that it seeks: at
// their present locators, once the names have been changed.
func (h *Node) resolves(changed *bool, peers ...*Node) {
	h.net.After(time.Second, func() {
		for _, o := range peers {
			if *changed && slices.Contains(h.core.Sought(), o.nid) {
				h.Know(o, o.newest().L64)
			}
		}
		h.Settle()
		h.resolves(changed, peers...)
	})
}

// TestBothMoveWithNothingInCommon: both ends lose their only networks at once and find others,
// where neither has been before. No Locator Update arrives. The names are changed when they
// have moved, or a while later. Data flow both ways within 2 s of that, where only one end
// sends, too.
func TestBothMoveWithNothingInCommon(t *testing.T) {
	var worst time.Duration
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
		for _, acquainted := range []bool{true, false} {
			for _, echo := range []bool{true, false} {
				for _, later := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second} {
					what := fmt.Sprintf("%v, acquainted %v, echo %v, names changed %v later", mode, acquainted, echo, later)
					w := newWorld(t, mode, 1)
					w.Acquainted = acquainted
					f := w.startEvery(t, 10*time.Millisecond, echo)
					changed := false
					w.mobile.resolves(&changed, w.server)
					w.server.resolves(&changed, w.mobile)
					w.Run(2*time.Second + 137*time.Millisecond)
					w.mobile.Down(1)
					w.server.Down(1)
					w.mobile.Up(2, netB, near, roam.Infinite)
					w.server.Up(2, netT, near, roam.Infinite)
					w.Run(later)
					changed = true
					from := w.Elapsed()
					w.Run(3 * time.Second)
					at, ok := f.FirstAfter(from)
					worst = max(worst, at-from)
					if !ok || at-from > 2*time.Second {
						t.Errorf("%s: first datagram after %v", what, at-from)
					}
					if lost := f.Lost(from+2*time.Second, w.Elapsed()-pathRTT); lost > 0 {
						t.Errorf("%s: %d datagrams lost later than 2 s after", what, lost)
					}
				}
			}
		}
	}
	t.Logf("first datagram after %v at worst", worst)
}

// TestBothMoveAgainAndAgain: as before, five times in a row, each time to networks where neither
// has been, at moments that differ by some ms. Each end sends by itself. So a Locator Update
// that waits must find the one locator that works among all that the peer had before.
func TestBothMoveAgainAndAgain(t *testing.T) {
	var worst time.Duration
	for seed := range uint64(20) {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
			w := newWorld(t, mode, seed)
			w.Acquainted = true
			up := w.startEvery(t, 5*time.Millisecond, false)
			down := w.server.Flow(w.mobile, 5*time.Millisecond, false)
			changed := false
			w.mobile.resolves(&changed, w.server)
			w.server.resolves(&changed, w.mobile)
			upTo := func(d time.Duration) time.Duration { return time.Duration(w.Rand().Int64N(int64(d))) }
			for n := range roam.LinkID(5) {
				w.Run(2 * time.Second)
				changed = false
				w.mobile.Down(1 + n)
				w.server.Down(1 + n)
				w.Run(upTo(60 * time.Millisecond))
				w.mobile.Up(2+n, netB+roam.L64(n+1)<<8, near, roam.Infinite)
				w.Run(upTo(60 * time.Millisecond))
				w.server.Up(2+n, netT+roam.L64(n+1)<<8, near, roam.Infinite)
				w.Run(1400*time.Millisecond + upTo(200*time.Millisecond))
				changed = true
				from := w.Elapsed()
				w.Run(2500 * time.Millisecond)
				for name, f := range map[string]*Flow{"up": up, "down": down} {
					at, ok := f.FirstAfter(from)
					if worst = max(worst, at-from); !ok || at-from > 2*time.Second {
						t.Errorf("seed %d, %v, move %d, %s: first datagram after %v (%v)", seed, mode, n+1, name, at-from, ok)
					}
				}
			}
		}
	}
	t.Logf("first datagram after %v at worst", worst)
}
