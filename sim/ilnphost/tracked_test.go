package ilnphost

import (
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
)

// homes returns where a host has whole connections with another one: the locator of the mobile host on
// their path, by bucket.
func (w *world) homes(of, with *Node) (at [multipath.Buckets]int) {
	e := of.plane.named(ilnp.SessionKey{Local: of.nid, Remote: with.nid})
	for b := range at {
		p, ok := e.Table.Home(b)
		switch {
		case !ok:
		case p.Local.L64 == netA || p.Remote == netA:
			at[b] = 1
		default:
			at[b] = 2
		}
	}
	return at
}

// TestTrackedConnectionsFollowRates: where something tracks connections each keeps to one path, and as many of
// them to each path as its rate permits. Both ends have the same path for each, also while their own
// measures differ: the way down by the second path is as fast as by the first one.
func TestTrackedConnectionsFollowRates(t *testing.T) {
	for name, c := range map[string]struct {
		up, down int // Mb/s of the second path; the first one has 50
		want     int // buckets of 64 on the second path
	}{
		"equal": {50, 50, 32}, "slow": {12, 12, 13}, "slow one way": {12, 50, 21},
	} {
		w := bulkWorld(t, true, wire{50, 20 * time.Millisecond}, wire{50, 20 * time.Millisecond})
		w.mobile.SetRates(2, c.down*125000)
		w.mobile.SetRate(2, c.up*125000)
		w.mobile.Bulk(w.server)
		w.Run(6 * time.Second)
		here, there := w.homes(w.mobile, w.server), w.homes(w.server, w.mobile)
		n := 0
		for _, at := range here {
			n += at - 1
		}
		if here != there || n < c.want-2 || n > c.want+2 {
			t.Errorf("%s: %d of 64 buckets on the second path, want %d; %v and %v", name, n, c.want, here, there)
		}
	}
}
