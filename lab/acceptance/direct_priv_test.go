package acceptance

import (
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

// TestDirectRoute asks whether session packets pass roam0: not while nobody filters what
// leaves the host. What changes that loses nothing.
func TestDirectRoute(t *testing.T) {
	testutil.Need(t, "nft")
	w := newWorld(t, "direct", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	mn := w.newHost("mn", settings{}).start()
	w.newHost("cn", settings{}).start()
	w.must("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "3", "cn")
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", 7410, 200)
	leads := func(device, what string) {
		t.Helper()
		testutil.Eventually(t, patience, func() bool {
			return strings.Contains(w.must("mn", "ip", "-6", "route", "get", w.session("cn").String()), " dev "+device)
		}, what)
		flows(t, u, 50)
	}
	status, err := mn.Status(w.within(patience))
	if err != nil {
		t.Fatal(err)
	}
	testutil.NeedKernel(t, "tcx", status.Plane.Attach == "tcx")
	leads("net", "packets leave by an uplink at once")
	w.must("mn", "nft", "add table inet t")
	w.must("mn", "nft", "add chain inet t out { type filter hook output priority 0; }")
	leads("roam0", "with a chain for output they pass roam0")
	w.must("mn", "nft", "delete table inet t")
	leads("net", "without it no more")
	w.must("mn", "ip", "-6", "rule", "add", "from", "2001:db8:77::/64", "table", "77")
	leads("roam0", "with a rule of routing they pass roam0")
	w.must("mn", "ip", "-6", "rule", "del", "from", "2001:db8:77::/64", "table", "77")
	leads("net", "without it no more, again")
	w.lossless(t, u, began)
}
