package hostnet

import (
	"strings"
	"testing"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// told reports trouble that says so.
func told(words string) func(Trouble) bool {
	return func(e Trouble) bool { return strings.Contains(e.Reason, words) }
}

// Neither a Router Advertisement with the session prefix, nor a route that is more
// specific, nor a VPN that takes everything, leads sessions elsewhere; the first two
// are told.
func TestSessionRouteGoesFirst(t *testing.T) {
	host, router := hostAndRouter(t)
	h := openIn(t, host, testConfig(t))
	setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	peer := session(0x0a0b_0c0d_0000_0001)
	leads := func(what string) {
		t.Helper()
		if out := host.Run("ip", "-6", "route", "get", peer.String()); !strings.Contains(out, " dev roam0 ") || !strings.Contains(out, session(testNID).String()) {
			t.Errorf("%s: session addresses lead elsewhere: %s", what, out)
		}
	}
	leads("at first")
	router.Advertise("lan", advert(roam.DefaultSessionPrefix))
	next(t, h, told(roam.DefaultSessionPrefix.Prefix().String()+` to "upA"`))
	next(t, h, told(`"upA" has the address`))
	leads("advertised")
	host.Run("ip", "-6", "route", "add", peer.String()+"/128", "dev", "upA", "metric", "1")
	next(t, h, told(peer.String()+`/128 to "upA"`))
	leads("more specific")
	host.Run("ip", "-6", "route", "add", "default", "dev", "upA", "table", "51820")
	host.Run("ip", "-6", "rule", "add", "not", "fwmark", "51820", "table", "51820")
	host.Run("ip", "-6", "rule", "add", "table", "main", "suppress_prefixlength", "0")
	leads("with rules as of wg-quick")
}

// A session route, and a session device, that somebody deletes are made again.
func TestSessionDeviceComesBack(t *testing.T) {
	host := nettest.New(t)
	h := openIn(t, host, testConfig(t))
	d := setupIn(t, h)
	before := host.State()
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	host.Run("ip", "-6", "route", "del", roam.DefaultSessionPrefix.Prefix().String(), "dev", "roam0", "table", "local")
	next(t, h, told("it was added again"))
	if after := host.State(); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
	for _, device := range []string{"roam0", "roam0d"} {
		host.Run("ip", "link", "del", device)
		again := next(t, h, func(DeviceRemade) bool { return true }).Device
		if now := h.Device(); again.Index == d.Index && again.Segmentation == d.Segmentation || now.Index != again.Index || now.Segmentation != again.Segmentation {
			t.Errorf("without %s: device %+v, announced %+v", device, now, again)
		}
		d = again
	}
	testutil.Eventually(t, soon, func() bool {
		return strings.Contains(host.Run("ip", "-6", "route", "get", session(7).String()), " dev roam0 ")
	}, "session addresses lead to the new device")
}

// Where each link is guarded by itself, each is told, uplinks too, and Roam's own
// never.
func TestLinksAreTold(t *testing.T) {
	host, router := hostAndRouter(t)
	h := openIn(t, host, testConfig(t))
	setupIn(t, h)
	h.TellLinks()
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	seen := func(name string) func(LinkSeen) bool { return func(e LinkSeen) bool { return e.Name == name } }
	if e := next(t, h, func(LinkSeen) bool { return true }); e.Name != "upA" || !e.HasMAC {
		t.Errorf("told of %+v first", e)
	}
	host.Run("ip", "link", "add", "box0", "type", "veth", "peer", "name", "box1")
	next(t, h, seen("box1")) // by index, and the kernel makes this one first
	next(t, h, seen("box0"))
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	host.Run("ip", "link", "add", "br0", "type", "bridge")
	next(t, h, seen("br0"))
	host.Run("ip", "link", "set", "upA", "master", "br0")
	next(t, h, func(e LinkGone) bool { return e.Name == "upA" })
	next(t, h, seen("upA"))
}
