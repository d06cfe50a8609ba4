package hostnet

import (
	"net/netip"
	"testing"

	"roam"
	"roam/internal/hostnet/nettest"
)

// The link towards an address is that of the most specific route, which may change; an address without a route has
// none.
func TestToward(t *testing.T) {
	host := nettest.New(t)
	nettest.Router(t, "r0", host, "lan0")
	nettest.Router(t, "r1", host, "lan1")
	var routes *Routes
	var err error
	host.Do(func() { routes, err = OpenRoutes() })
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()
	host.Run("ip", "addr", "add", "fd00:0:1::1/64", "dev", "lan0", "nodad")
	host.Run("ip", "addr", "add", "fd00:0:3::1/64", "dev", "lan1", "nodad")
	want := func(dst, link string) {
		t.Helper()
		got, err := routes.Toward(netip.MustParseAddr(dst))
		if link == "" {
			if err == nil {
				t.Errorf("to %s: link %d, want none", dst, got)
			}
		} else if err != nil || got != roam.LinkID(host.Index(link)) {
			t.Errorf("to %s: link %d, %v, want %s", dst, got, err, link)
		}
	}
	want("fd00:0:1::9", "lan0")
	want("fd00:0:3::9", "lan1")
	want("2001:db8::9", "")
	host.Run("ip", "-6", "route", "add", "fd00:0:3::9", "dev", "lan0")
	want("fd00:0:3::9", "lan0")
}
