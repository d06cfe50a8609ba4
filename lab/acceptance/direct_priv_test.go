package acceptance

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
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

// TestDirectRouteKeepsSessionAddresses captures what leaves the host beside the direct route:
// never a packet with session addresses, not even one that the program drops silently.
func TestDirectRouteKeepsSessionAddresses(t *testing.T) {
	needs(t, "dig", "ping")
	w := newWorld(t, "direct", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	mn := w.newHost("mn", settings{}).start()
	w.newHost("cn", settings{}).start()
	tap := w.tap(t, w.hosts["mn"], "net1", "ip6")
	u := w.udp(t, "mn", "cn", "cn", 7410, 200)
	leaves := func() bool {
		return strings.Contains(w.must("mn", "ip", "-6", "route", "get", w.session("cn").String()), " dev net1")
	}
	if status, err := mn.Status(w.within(patience)); err != nil {
		t.Fatal(err)
	} else {
		testutil.NeedKernel(t, "tcx", status.Plane.Attach == "tcx")
	}
	testutil.Eventually(t, patience, leaves, "packets leave by the uplink at once")
	nobody := roam.ILV{L64: roam.DefaultSessionPrefix, NID: w.nid("cn") + 1}
	_, _ = w.run("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "1", nobody.Addr().String())
	_, _ = w.run("cn", "dig", "+tries=1", "+time=1", "-p", "7499", "@"+w.session("mn").String(), "port.unreachable")
	for _, name := range []string{"miss_handed_over", "error_handed_over"} {
		if mn.counters()[name] == 0 {
			t.Errorf("%s = 0", name)
		}
	}
	w.must("r1", "ip", "link", "set", "cn1", "down")
	testutil.Eventually(t, patience, func() bool { return mn.with("cn").Dead }, "mn finds the path dead")
	noPath := func() uint64 { return mn.counters()["drop_no_path"] }
	before := noPath()
	testutil.Eventually(t, patience, func() bool { return noPath() > before+50 }, "packets without a path")
	if !leaves() {
		t.Error("packets without a path pass the session device")
	}
	u.Kill()
	const size = 777 // bytes, of no other ping
	w.must("mn", "ping", "-6", "-c", "1", "-W", "3", "-s", strconv.Itoa(size), w.prefix("mn", 1).Addr().Next().String())
	tap.last("the ping that ends it", func(p ilnpwire.Packet) bool { return p.Type == 128 && len(p.Payload) >= size })
	leaked := tap.count(func(p ilnpwire.Packet) bool {
		return p.Src.L64 == roam.DefaultSessionPrefix || p.Dst.L64 == roam.DefaultSessionPrefix
	})
	if leaked > 0 {
		t.Errorf("%d packets with session addresses left the host", leaked)
	}
}
