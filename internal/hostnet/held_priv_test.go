package hostnet

import (
	"testing"
	"time"
)

// A default route that is taken away and put back within a moment is no handoff.
func TestRouteTakenAndPutBack(t *testing.T) {
	host, router := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	u := next(t, h, func(e UplinkChanged) bool { return e.Uplink.Routed }).Uplink
	next(t, h, present(netA))
	del := []string{"-6", "route", "del", "default", "via", u.NextHop.String(), "dev", "upA"}
	host.Run("ip", del...)
	host.Run("ip", "-6", "route", "add", "default", "via", u.NextHop.String(), "dev", "upA", "metric", "7")
	a := advert(netA)
	a.Preferred, a.Router = 300, 0 // what is told of it comes after what the routes told
	router.Advertise("lan", a)
	next(t, h, func(e LocatorChanged) bool {
		if !e.Present {
			t.Errorf("%+v", e)
		}
		return !e.Present || e.Preferred <= 300*time.Second
	})
	begin := time.Now()
	host.Run("ip", del...)
	next(t, h, absent(netA))
	if d := time.Since(begin); d < routeHold-100*time.Millisecond {
		t.Errorf("locator went after %v, want %v", d, routeHold)
	}
}
