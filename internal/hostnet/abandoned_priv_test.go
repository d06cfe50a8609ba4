package hostnet

import (
	"fmt"
	"strings"
	"testing"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// TestPrefixesOfAFormerNetwork: what routers advertised ends where a link loses IPv6 or a process takes away what the
// kernel made of it, although the link stays up.
func TestPrefixesOfAFormerNetwork(t *testing.T) {
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	leave := map[string]func(*nettest.NS){
		"IPv6 disabled": func(host *nettest.NS) {
			host.Sysctl("net/ipv6/conf/upA/disable_ipv6", "1")
			host.Sysctl("net/ipv6/conf/upA/disable_ipv6", "0")
		},
		"flushed": func(host *nettest.NS) {
			host.Run("ip", "-6", "addr", "flush", "dev", "upA", "scope", "global")
			host.Run("ip", "-6", "route", "flush", "dev", "upA")
		},
	}
	for name, leaves := range leave {
		for _, isAutonomous := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, autonomous %v", name, isAutonomous), func(t *testing.T) {
				host, router := hostAndRouter(t)
				h := startIn(t, host, testConfig(t))
				a := advert(netA)
				a.NoAutoconf = !isAutonomous
				router.Advertise("lan", a)
				next(t, h, present(netA))
				leaves(host)
				next(t, h, absent(netA))
				addrs := func() string { return host.Run("ip", "-6", "addr", "show", "dev", "upA") }
				testutil.Eventually(t, soon, func() bool {
					return strings.Contains(addrs(), "fe80::") && !strings.Contains(addrs(), own)
				}, "IPv6 without the prefix of the former network")
				router.Advertise("lan", advert(netB))
				next(t, h, present(netB))
				if got := h.Snapshot().Locators; len(got) != 1 || got[0].L64 != netB {
					t.Errorf("locators %v", got)
				}
				if strings.Contains(addrs(), own) {
					t.Errorf("%s is there", own)
				}
			})
		}
	}
}
