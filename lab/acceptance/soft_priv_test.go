package acceptance

import (
	"slices"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
)

// TestSoftHandoff is the least that must work on every kernel: two daemons, a
// session in both directions, a move to another link and back, nothing lost.
// It needs few tools and little of the machine, so that build/kernels can run
// it in a guest without hardware.
func TestSoftHandoff(t *testing.T) {
	w := newWorld(t, "soft", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1")
	t.Logf("attached through %s", mn.status().Plane.Attach)
	began := time.Now()
	c := w.tcp(t, "mn", "cn", "cn", 7101, true)
	u := w.udp(t, "mn", "cn", "cn", 7100, 100)
	mn.reaches("cn", "established")
	for _, next := range []string{"net2", "net1"} {
		was := mn.active()[0]
		w.cable("mn", next, true)
		mn.becomes(next)
		mn.sendsFrom("cn", next)
		quiet(t, w, "mn", was)
		w.cable("mn", was, false)
		mn.loses(was)
		flows(t, u, 50)
		flows(t, c, 50)
	}
	w.lossless(t, u, began)
	if _, err := c.Stop(w.within(patience)); err != nil {
		t.Error(err)
	}
	noLeak(t, mn, cn)
}

// loses waits until a host has no locator on a link whose cable was pulled. The kernel tells of
// a lost carrier up to a second later. Plugged in before that, the link would never have been
// away.
func (h *host) loses(link string) {
	h.w.t.Helper()
	testutil.Eventually(h.w.t, patience, func() bool {
		return !slices.ContainsFunc(h.locators(), func(l node.Locator) bool { return l.Link == link })
	}, "locator of "+link+" gone")
}
