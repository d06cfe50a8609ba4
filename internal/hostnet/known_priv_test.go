package hostnet

import (
	"strings"
	"testing"

	"roam"
	"roam/internal/testutil"
)

// What a predecessor took for uplinks is told of: to be there, though it has no
// router now, or to be gone, though this process never saw it, so that the data
// plane lets go of it.
func TestLinksOfAPredecessor(t *testing.T) {
	host, _ := hostAndRouter(t)
	if _, err := host.Try("ip", "link", "add", "hub", "type", "bridge"); err != nil {
		testutil.NeedKernel(t, "bridges", false)
	}
	host.Run("ip", "link", "add", "upB", "type", "veth", "peer", "name", "far")
	host.Run("ip", "link", "set", "upB", "master", "hub")
	index := func(name string) roam.LinkID { return roam.LinkID(host.Index(name)) }
	const vanished = roam.LinkID(9999)
	h := openIn(t, host, testConfig(t))
	if err := h.Start(index("upA"), index("upB"), vanished); err != nil {
		t.Fatal(err)
	}
	if u := next(t, h, func(UplinkChanged) bool { return true }).Uplink; u.Name != "upA" || u.Routed {
		t.Errorf("uplink %+v, want upA without a route", u)
	}
	for _, want := range []roam.LinkID{index("upB"), vanished} {
		if e := next(t, h, func(LinkGone) bool { return true }); e.Link != want {
			t.Errorf("link %d is gone, want %d", e.Link, want)
		}
	}
}

// prefix:NID is not on a link before who reads of the link has attached to it.
func TestAddressWaitsForThePrograms(t *testing.T) {
	host, router := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	next(t, h, func(e UplinkChanged) bool { return e.Uplink.Name == "upA" })
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	added := func() bool { return strings.Contains(host.Run("ip", "-6", "addr", "show", "dev", "upA"), own) }
	if added() {
		t.Error("the address is there before the link has its programs")
	}
	next(t, h, present(netA))
	if !added() {
		t.Error("a locator without its address")
	}
}
