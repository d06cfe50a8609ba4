package hostnet

import (
	"net/netip"
	"strings"
	"testing"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// sharedNetwork joins a host by two links to one network with a router.
func sharedNetwork(t *testing.T) (host, router *nettest.NS) {
	t.Helper()
	hub := nettest.New(t)
	if _, err := hub.Try("ip", "link", "add", "hub", "type", "bridge", "forward_delay", "0"); err != nil {
		testutil.NeedKernel(t, "bridges", false)
	}
	router = nettest.Router(t, "lan", hub, "p0")
	host = nettest.New(t)
	nettest.Cable(host, "upA", hub, "p1")
	nettest.Cable(host, "upB", hub, "p2")
	for _, port := range []string{"p0", "p1", "p2"} {
		hub.Run("ip", "link", "set", port, "master", "hub")
	}
	hub.Run("ip", "link", "set", "hub", "up")
	return host, router
}

// Duplicate detection on the second link would find the first.
func TestTwoLinksOfOneNetwork(t *testing.T) {
	host, router := sharedNetwork(t)
	h := startIn(t, host, testConfig(t))
	troubles := make(chan string, 16)
	go func() {
		for e := range h.Events() {
			if x, ok := e.(Trouble); ok && len(troubles) < cap(troubles) {
				troubles <- x.Reason
			}
		}
	}()
	testutil.Eventually(t, soon, func() bool {
		router.Advertise("lan", advert(netA))
		return len(h.Snapshot().Locators) == 2
	}, "the locator on both links")
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	testutil.Eventually(t, soon, func() bool {
		out := host.Run("ip", "-6", "-o", "addr", "show", "tentative")
		return !strings.Contains(out, own)
	}, "end of duplicate detection")
	if n := len(h.Snapshot().Locators); n != 2 {
		t.Errorf("%d locators after duplicate detection", n)
	}
	if len(troubles) > 0 {
		t.Errorf("trouble: %s", <-troubles)
	}
}

// An address that was found a duplicate is not used while it is asked for again:
// it is not optimistic then.
func TestDuplicateIsAskedForWithCare(t *testing.T) {
	host, router := hostAndRouter(t)
	own := roam.ILV{NID: testNID, L64: netA}.Addr()
	router.Run("ip", "addr", "add", netip.PrefixFrom(own, 128).String(), "dev", "lan", "nodad")
	h := startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	next(t, h, func(e Trouble) bool { return strings.Contains(e.Reason, "duplicate") })
	// Nobody objects the second time, so that it lasts and can be seen.
	router.Run("ip", "addr", "del", netip.PrefixFrom(own, 128).String(), "dev", "lan")
	testutil.Eventually(t, soon, func() bool {
		for line := range strings.Lines(host.Run("ip", "-6", "-o", "addr", "show", "tentative")) {
			if strings.Contains(line, own.String()+"/") && !strings.Contains(line, "dadfailed") {
				return !strings.Contains(line, "optimistic")
			}
		}
		return false
	}, "the second attempt")
}
