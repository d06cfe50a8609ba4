package hostnet

import (
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// The kernel itself asks for a router only a second after a link came up. Here it
// never does, so that the question counted is ours.
func TestRouterIsAskedForAtOnce(t *testing.T) {
	host, router := hostAndRouter(t)
	host.Sysctl("net/ipv6/conf/upA/router_solicitations", "0")
	router.Sysctl("net/ipv6/conf/lan/forwarding", "1")
	asked := func() string { return solicited(t, router) }
	h := startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	before := asked()
	host.Run("ip", "link", "set", "upA", "down")
	next(t, h, absent(netA))
	host.Run("ip", "link", "set", "upA", "up")
	testutil.Eventually(t, soon, func() bool { return asked() != before }, "a Router Solicitation")
	// A link whose advertisements the kernel does not take is somebody else's.
	host.Sysctl("net/ipv6/conf/upA/accept_ra", "0")
	before = asked()
	host.Run("ip", "link", "set", "upA", "down")
	host.Run("ip", "link", "set", "upA", "up")
	host.Run("ip", "addr", "add", "2001:db8:b:2::9/64", "dev", "upA", "nodad")
	host.Run("ip", "route", "add", "default", "via", "2001:db8:b:2::1", "dev", "upA")
	next(t, h, present(netB)) // the link has been looked at
	if now := asked(); now != before {
		t.Errorf("asked %s times before, %s after", before, now)
	}
}

// TestRestartKeepsAnAdvertisedPrefix: a prefix of which only Router Advertisements speak, with no address in it but
// Roam's own, outlasts the daemon as long as the kernel has its route, and the next daemon asks for its lifetimes.
func TestRestartKeepsAnAdvertisedPrefix(t *testing.T) {
	for name, lasts := range map[string]bool{"advertised": true, "gone meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			host, router := hostAndRouter(t)
			host.Sysctl("net/ipv6/conf/upA/router_solicitations", "0")
			router.Sysctl("net/ipv6/conf/lan/forwarding", "1")
			cfg := testConfig(t)
			h := startIn(t, host, cfg)
			a := advert(netA)
			a.NoAutoconf = true
			router.Advertise("lan", a)
			next(t, h, present(netA))
			own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
			stands := func() bool {
				return strings.Contains(host.Run("ip", "-6", "addr", "show", "dev", "upA"), own)
			}
			h.Close()
			if !lasts {
				host.Run("ip", "-6", "route", "del", netA.Prefix().String(), "dev", "upA")
			}
			before := solicited(t, router)
			h = startIn(t, host, cfg)
			if !lasts {
				testutil.Eventually(t, soon, func() bool { return !stands() }, "prefix:NID removed")
				return
			}
			e := next(t, h, func(e LocatorChanged) bool { return e.L64 == netA })
			if !e.Present || e.Preferred > 1200*time.Second {
				t.Errorf("after the restart: %+v", e)
			}
			testutil.Eventually(t, soon, func() bool { return solicited(t, router) != before },
				"a Router Solicitation")
			router.Advertise("lan", a)
			next(t, h, func(e LocatorChanged) bool { return e.Present && e.Preferred <= 600*time.Second })
			if !stands() {
				t.Error("prefix:NID is gone")
			}
			a.Valid, a.Preferred = 0, 0
			router.Advertise("lan", a)
			next(t, h, absent(netA))
		})
	}
}
