package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// newBesideDead is a server in duality one of whose two links is dead without notice, and a mobile host in soft with
// two links. It has come to prefer the first one again, so the server's data take that.
func newBesideDead(t *testing.T, every time.Duration, seed uint64) (w *world, down *Flow) {
	t.Helper()
	w = newMany([2]int{2, 2}, ilnp.Duality, seed)
	w.mobile.SetMode(ilnp.Soft)
	w.startEvery(t, 5*time.Millisecond, false).Stop()
	w.mobile.Flow(w.server, every, every >= time.Second)
	down = w.server.Flow(w.mobile, every, false)
	w.Tap = func(p Packet) *Packet {
		if p.Src.L64 == serverLink(1) || p.Dst.L64 == serverLink(1) {
			return nil
		}
		return &p
	}
	w.Run(20*time.Second + time.Duration(w.Rand().IntN(1000))*time.Millisecond)
	w.mobile.Disable(1, true)
	w.mobile.Disable(1, false)
	w.Run(20*time.Second + time.Duration(w.Rand().IntN(1000))*time.Millisecond)
	return w, down
}

// sendsTo returns after how long a node sends to a locator of another one, and to no other.
func (w *world) sendsTo(from, to *Node, l roam.L64) time.Duration {
	at := w.Elapsed()
	w.RunUntil(time.Minute, func() bool {
		paths := from.peer(to).Paths
		return len(paths) > 0 && !slices.ContainsFunc(paths, func(p ilnp.Path) bool { return p.Remote != l })
	})
	return w.Elapsed() - at
}

// TestLocatorWithdrawnBesideADeadLink: the mobile host loses the link that it prefers. The correspondent has found all
// paths from its own dead link dead, and has heard nothing of late on the one that is left. Its data leave the
// withdrawn locator with the Locator Update, however many there are.
func TestLocatorWithdrawnBesideADeadLink(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Millisecond, time.Second, 4 * time.Second} {
		for seed := range uint64(6) {
			w, down := newBesideDead(t, every, seed)
			from := w.Elapsed()
			w.mobile.Down(1)
			if took := w.sendsTo(w.server, w.mobile, mobileLink(1)); took > pathRTT {
				t.Errorf("every %v, seed %d: data left the withdrawn locator after %v, want a round trip", every, seed, took)
			}
			w.Run(20 * time.Second)
			if lost := down.Lost(from+pathRTT, w.Elapsed()-time.Second); lost > 0 {
				t.Errorf("every %v, seed %d: %d datagrams lost", every, seed, lost)
			}
		}
	}
}

// TestPreferenceChangesBesideADeadLink: the mobile host withdraws the link that it does not use, and prefers it when it
// is back. The correspondent probes dead paths, ever more rarely, and asks the one to the preferred locator at once.
func TestPreferenceChangesBesideADeadLink(t *testing.T) {
	for _, away := range []time.Duration{0, 3 * time.Second, 8 * time.Second} {
		for seed := range uint64(6) {
			w, down := newBesideDead(t, 5*time.Millisecond, seed)
			from := w.Elapsed()
			w.mobile.Disable(2, true)
			w.Run(away)
			w.mobile.Disable(2, false)
			if took := w.sendsTo(w.server, w.mobile, mobileLink(1)); took > 3*pathRTT {
				t.Errorf("away for %v, seed %d: data followed after %v, want three round trips", away, seed, took)
			}
			w.Run(5 * time.Second)
			if lost := down.Lost(from, w.Elapsed()-time.Second); lost > 0 {
				t.Errorf("away for %v, seed %d: %d datagrams lost", away, seed, lost)
			}
		}
	}
}
