package hostnet

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// policied is a host with one Locator, and the flow that the tests ask about.
func policied(t *testing.T, change func(*Config)) (h *Host, host *nettest.NS, f Flow) {
	t.Helper()
	host, router := hostAndRouter(t)
	cfg := testConfig(t)
	cfg.Exclude = []string{"wg*"}
	change(&cfg)
	h = startIn(t, host, cfg)
	router.Advertise("lan", advert(netA))
	l := next(t, h, present(netA)).LinkLocator
	own := roam.ILV{NID: testNID, L64: netA}.Addr()
	return h, host, Flow{Link: l.Link, Src: own, Dst: netip.MustParseAddr("2001:db8:5:1::9")}
}

// becomes waits for the word that policies changed, until a flow is obstructed by
// what contains a word; "": by nothing.
func (f Flow) becomes(t *testing.T, h *Host, by string) {
	t.Helper()
	next(t, h, func(PolicyChanged) bool {
		why := h.Obstruction(f)
		return (why != "") == (by != "") && strings.Contains(why, by)
	})
}

func TestIPsecPolicyOfTheKernel(t *testing.T) {
	h, host, f := policied(t, func(*Config) {})
	if why := h.Obstruction(f); why != "" {
		t.Fatalf("obstructed by %q without any policy", why)
	}
	_, err := host.Try("ip", "xfrm", "policy", "list")
	testutil.NeedKernel(t, "IPsec", err == nil)
	xfrm := func(verb string, more ...string) {
		t.Helper()
		host.Run("ip", append([]string{"xfrm", "policy", verb, "src", f.Src.String(), "dst", f.Dst.String() + "/64", "dir", "out"}, more...)...)
	}
	xfrm("add", "tmpl", "proto", "esp", "mode", "transport", "level", "required")
	f.becomes(t, h, "protect")
	other := f
	other.Dst = netip.MustParseAddr("2001:db8:6:1::9")
	if why := h.Obstruction(other); why != "" {
		t.Errorf("another destination is obstructed by %q", why)
	}
	if why := h.Everything(f); why != "" {
		t.Errorf("all is obstructed by %q", why)
	}
	xfrm("delete")
	f.becomes(t, h, "")
	host.Run("ip", "xfrm", "policy", "add", "src", "::/0", "dst", "::/0", "dir", "out", "action", "block")
	f.becomes(t, h, "block")
	if h.Everything(f) == "" {
		t.Error("not all is obstructed by a policy for everything")
	}
	host.Run("ip", "xfrm", "policy", "flush")
	f.becomes(t, h, "")
	if out, err := host.Try("ip", "xfrm", "policy", "setdefault", "out", "block"); err == nil {
		f.becomes(t, h, "default")
	} else {
		t.Logf("no default policy here: %v %s", err, out)
	}
}

// wireguard adds a device and the rules of wg-quick for ::/0.
func wireguard(host *nettest.NS) {
	host.Run("ip", "link", "add", "wg0", "type", "veth", "peer", "name", "far")
	for _, l := range []string{"wg0", "far"} {
		host.Run("ip", "link", "set", l, "up")
	}
	host.Run("ip", "-6", "address", "add", "fd00:77::2/128", "dev", "wg0")
	host.Run("ip", "-6", "route", "add", "default", "dev", "wg0", "table", "51820")
	host.Run("ip", "-6", "rule", "add", "not", "fwmark", "51820", "table", "51820")
	host.Run("ip", "-6", "rule", "add", "table", "main", "suppress_prefixlength", "0")
}

func TestPolicyRoutingOfTheKernel(t *testing.T) {
	h, host, f := policied(t, func(*Config) {})
	wireguard(host)
	f.becomes(t, h, "wg0")
	if h.Everything(f) == "" {
		t.Error("not all is obstructed by a full tunnel")
	}
	host.Run("ip", "-6", "rule", "add", "to", f.Dst.String(), "lookup", "main", "priority", "100")
	f.becomes(t, h, "")
	host.Run("ip", "-6", "rule", "delete", "priority", "100")
	f.becomes(t, h, "wg0")
	host.Run("ip", "-6", "rule", "delete", "table", "51820")
	f.becomes(t, h, "")
	for kind, word := range map[string]string{"prohibit": "prohibits", "blackhole": "blackhole", "unreachable": "unreachable"} {
		host.Run("ip", "-6", "rule", "add", "from", f.Src.String(), kind, "priority", "50")
		f.becomes(t, h, word)
		host.Run("ip", "-6", "rule", "delete", "priority", "50")
		f.becomes(t, h, "")
	}
}

// TestRoutesOfSeveralUplinks: neither a host that sends all by one of its uplinks,
// nor one with routes by source, has a policy that obstructs.
func TestRoutesOfSeveralUplinks(t *testing.T) {
	h, host, f := policied(t, func(*Config) {})
	second := nettest.Router(t, "lan2", host, "upB")
	second.Advertise("lan2", advert(netB))
	l := next(t, h, present(netB)).LinkLocator
	g := Flow{Link: l.Link, Src: roam.ILV{NID: testNID, L64: netB}.Addr(), Dst: f.Dst}
	host.Run("ip", "-6", "route", "add", "default", "dev", "upA", "metric", "1")
	host.Run("ip", "-6", "rule", "add", "from", "2001:db8:77::/64", "table", "77") // has the kernel asked
	next(t, h, func(e PolicyChanged) bool { return e.Armed })
	for _, x := range []Flow{f, g} {
		if why := h.Obstruction(x); why != "" {
			t.Errorf("all by upA: obstructed by %q", why)
		}
	}
	host.Run("ip", "-6", "route", "add", "default", "dev", "upB", "table", "78")
	host.Run("ip", "-6", "rule", "add", "from", netB.Prefix().String(), "table", "78")
	next(t, h, func(PolicyChanged) bool { return true })
	for _, x := range []Flow{f, g} {
		if why := h.Obstruction(x); why != "" {
			t.Errorf("by source: obstructed by %q", why)
		}
	}
}

// TestSplitTunnel: a tunnel's own routes are obeyed, its default route is not.
func TestSplitTunnel(t *testing.T) {
	testutil.Need(t, "/dev/net/tun")
	h, host, f := policied(t, func(*Config) {})
	newTunTap(t, host, "tun0", unix.IFF_TUN)
	host.Run("ip", "link", "set", "tun0", "up")
	next(t, h, func(e PolicyChanged) bool { return e.Armed })
	host.Run("ip", "-6", "route", "add", "default", "dev", "tun0", "metric", "1")
	next(t, h, func(PolicyChanged) bool { return true })
	if why := h.Obstruction(f); why != "" {
		t.Errorf("obstructed by a default route: %q", why)
	}
	host.Run("ip", "-6", "route", "add", "2001:db8:5::/48", "dev", "tun0")
	f.becomes(t, h, "tunnel tun0")
	host.Run("ip", "-6", "route", "delete", "2001:db8:5::/48", "dev", "tun0")
	f.becomes(t, h, "")
}

func TestIgnoredPolicy(t *testing.T) {
	h, host, f := policied(t, func(c *Config) { c.IgnorePolicy = true })
	wireguard(host)
	host.Run("ip", "link", "set", "upA", "mtu", "1400")
	next(t, h, func(e UplinkChanged) bool { return e.Uplink.MTU == 1400 }) // all before it is known
	if why := h.Obstruction(f); why != "" {
		t.Errorf("obstructed by %q", why)
	}
}
