package hostnet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// directly is a host with one Locator, whose session packets shall leave by its link.
func directly(t *testing.T) (h *Host, host, router *nettest.NS, link roam.LinkID) {
	t.Helper()
	host, router = hostAndRouter(t)
	h = openIn(t, host, testConfig(t))
	setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netA))
	link = next(t, h, present(netA)).Link
	h.Direct(link)
	go func() { // the stream of events flows on
		for range h.Events() {
		}
	}()
	return h, host, router, link
}

// leads waits until session addresses lead to a device.
func leads(t *testing.T, host *nettest.NS, what, device string) {
	t.Helper()
	peer := session(0x0a0b_0c0d_0000_0001).String()
	var out string
	if !testutil.Wait(5*time.Second, func() bool {
		out = host.Run("ip", "-6", "route", "get", peer)
		return strings.Contains(out, " dev "+device+" ") && strings.Contains(out, session(testNID).String())
	}) {
		t.Errorf("%s: session addresses lead elsewhere than to %s: %s", what, device, out)
	}
}

// The direct route goes before that of the session device, with its MTU, while its uplink
// can send and is asked for. The session device's stays behind it.
func TestDirectRoute(t *testing.T) {
	h, host, router, link := directly(t)
	leads(t, host, "asked for", "upA")
	all := host.Run("ip", "-6", "route", "show", "table", "local", "root", roam.DefaultSessionPrefix.Prefix().String())
	if strings.Count(all, fmt.Sprintf("mtu %d", h.Device().MTU)) != 2 || strings.Count(all, "via") != 3 {
		t.Errorf("the routes are\n%s", all)
	}
	got := host.Run("ip", "-6", "neigh", "show", DirectGateway.String(), "dev", "upA")
	if !strings.Contains(got, "PERMANENT") {
		t.Errorf("its gateway is %q", got)
	}
	host.Run("ip", "link", "set", "upA", "down")
	leads(t, host, "the link is down", "roam0")
	host.Run("ip", "link", "set", "upA", "up")
	testutil.Eventually(t, 5*time.Second, func() bool {
		router.Advertise("lan", advert(netA))
		out := host.Run("ip", "-6", "route", "get", session(0x0a0b_0c0d_0000_0001).String())
		return strings.Contains(out, " dev upA ")
	}, "the link is back")
	h.Direct(0)
	leads(t, host, "not asked for", "roam0")
	h.Direct(link)
	leads(t, host, "asked for again", "upA")
	host.Run("ip", "link", "add", "br9", "type", "bridge")
	host.Run("ip", "link", "set", "upA", "master", "br9")
	leads(t, host, "a port of a bridge", "roam0")
	host.Run("ip", "link", "set", "upA", "nomaster")
	if h.direct.Load() != 0 {
		t.Error("a link that was a port is still asked for")
	}
}

// The direct route goes with its process; a killed one leaves it, and its successor takes it
// away until it asks for it itself.
func TestDirectRouteOfAProcess(t *testing.T) {
	h, host, _, _ := directly(t)
	leads(t, host, "asked for", "upA")
	items := h.state.left(ownerDirect)
	if len(items) != 3 {
		t.Errorf("the journal has %v", items)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	leads(t, host, "ended", "roam0")
	if got := host.Run("ip", "-6", "neigh", "show", "dev", "upA"); strings.Contains(got, DirectGateway.String()) {
		t.Errorf("the gateway is left behind: %s", got)
	}
}
