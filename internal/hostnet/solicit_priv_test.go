package hostnet

import (
	"testing"

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
