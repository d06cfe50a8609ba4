package links

import (
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// TestPrefixes plays what routers and administrators do with the prefixes of
// Ethernet links.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "prefixes").start()
	w.sub("two prefixes on one link", func(t *testing.T) { twoPrefixes(w) })
	w.sub("renumbering", func(t *testing.T) { renumbering(w) })
	w.sub("one prefix on two links", func(t *testing.T) { onePrefixTwice(w) })
	w.sub("one prefix on two links, the newer one dies", func(t *testing.T) { onePrefixDies(w) })
	w.sub("an address without a prefix", func(t *testing.T) { addressOnly(w) })
	w.sub("privacy addresses", func(t *testing.T) { privacy(w) })
}

// at is the entry of a locator in what has expects.
func at(link string, l roam.L64) string { return link + " " + l.String() }

// twoPrefixes adds a second prefix to the only link and removes the first. Roam announces
// the second one, and uses it when the first ends.
func twoPrefixes(w *world) {
	one, two := numbered(1), numbered(2)
	p := w.trip()
	w.uses("net1", one)
	w.route("tonet1", two)
	p.phase("the second appears", 0, func() {
		w.radios["tonet1"].set(lasting(one, two))
		w.has(map[string]string{at("net1", one): "active", at("net1", two): "valid"})
	})
	p.phase("both are used", 0, func() {
		w.mn.roam("mode", "duality")
		w.has(map[string]string{at("net1", one): "active", at("net1", two): "active"})
		testutil.Eventually(w.t, patience, func() bool { return len(w.cn.paths()) == 2 }, "cn sends to both")
	})
	p.phase("one is used", 0, func() { w.mn.roam("mode", "soft"); w.uses("net1", one) })
	p.phase("the second ends", 0, func() {
		w.radios["tonet1"].set(advert{router: 1800, prefixes: []prefix{{one, 1800, 3600}, {two, 0, 0}}})
		w.has(map[string]string{at("net1", one): "active"})
	})
	p.end()
	w.radios["tonet1"].set(lasting(one))
}

// dropAddresses removes the SLAAC addresses of a prefix: hosts keep them for two hours
// after a router has withdrawn it (RFC 4862 §5.5.3).
func (w *world) dropAddresses(ifname string, l roam.L64) {
	w.t.Helper()
	// Those that duplicate detection still checks are not listed.
	testutil.Eventually(w.t, patience, func() bool { return w.countAddrs(ifname, l) >= 2 },
		"ours and another address in "+l.String())
	list, err := w.mn.Addrs(ifname)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range list {
		if v := roam.ILVFromAddr(a.Addr()); v.L64 == l && v.NID != mnNID {
			if err := w.mn.DelAddr(ifname, a); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// renumbering deprecates the prefix in use while a new one is advertised on the
// same link (RFC 4192), and takes the old one away.
func renumbering(w *world) {
	one, three := numbered(1), numbered(3)
	p := w.trip()
	w.uses("net1", one)
	w.route("tonet1", three)
	p.phase("old deprecated, new announced", 0, func() {
		w.radios["tonet1"].set(advert{router: 1800, prefixes: []prefix{{one, 0, 3600}, {three, 1800, 3600}}})
		w.uses("net1", three)
	})
	p.phase("old removed", 0, func() {
		w.radios["tonet1"].set(lasting(three))
		w.dropAddresses("net1", one)
	})
	p.phase("back again", 0, func() {
		w.radios["tonet1"].set(advert{router: 1800, prefixes: []prefix{{one, 1800, 3600}, {three, 0, 3600}}})
		w.uses("net1", one)
	})
	p.end()
	w.radios["tonet1"].set(advert{router: 1800, prefixes: []prefix{{one, 1800, 3600}, {three, 0, 0}}})
	w.has(map[string]string{at("net1", one): "active"})
	w.radios["tonet1"].set(lasting(one))
}

// shared makes two links of the mobile host one network: the router's ends are
// ports of one bridge.
func (w *world) shared(l roam.L64) {
	w.ip(w.r, "link add shared type bridge forward_delay 0")
	w.ip(w.r, "link set shared up")
	for _, name := range []string{"wired", "radio"} {
		w.veth(w.mn, name, "to"+name)
		w.ip(w.r, "link set to"+name+" master shared")
	}
	w.route("shared", l)
	w.advertise("shared", lasting(l))
	w.mn.roam("locator", "disable", "net1")
}

func (w *world) unshared() {
	w.mn.roam("locator", "enable", "net1")
	w.uses("net1", numbered(1))
	for _, name := range []string{"wired", "radio"} {
		_, _ = w.tryIP(w.mn.Host, "link del "+name) // it may not exist any more
	}
	w.ip(w.r, "link del shared")
	w.has(map[string]string{at("net1", numbered(1)): "active"})
}

// onePrefixTwice moves between two links of one network, as between the cable
// and the radio of one home: the locator stays, the link changes.
func onePrefixTwice(w *world) {
	w.needKind("bridge")
	l := numbered(4)
	w.shared(l)
	defer w.unshared()
	p := w.trip()
	testutil.Eventually(w.t, patience, func() bool { return len(w.states()) == 3 }, "a locator on two links")
	for _, c := range []struct{ off, on string }{{"wired", "radio"}, {"radio", "wired"}} {
		p.phase(c.off+" is disabled", 0, func() { w.mn.roam("locator", "disable", c.off); w.uses(c.on, l) })
		p.phase(c.off+" is enabled", 0, func() { w.mn.roam("locator", "enable", c.off); w.uses(c.off, l) })
	}
	p.phase("both are used", 0, func() {
		w.mn.roam("mode", "duality")
		testutil.Eventually(w.t, patience, func() bool { return len(w.mn.paths()) == 2 }, "two links in use")
	})
	p.phase("one is used", 0, func() { w.mn.roam("mode", "soft") })
	p.end()
}

// onePrefixDies takes the carrier of the link that the router sends to: no
// Locator Update can tell of it, as the locator stays.
func onePrefixDies(w *world) {
	w.needKind("bridge")
	l := numbered(5)
	w.shared(l)
	defer w.unshared()
	p := w.trip()
	for _, c := range []struct{ off, on string }{{"wired", "radio"}, {"radio", "wired"}} {
		testutil.Eventually(w.t, patience, func() bool { return len(w.states()) == 3 }, "a locator on two links")
		w.mn.roam("locator", "disable", c.off)
		w.mn.roam("locator", "enable", c.off)
		w.uses(c.off, l)
		p.phase(c.off+" loses its carrier", vanished/2, func() { w.ip(w.r, "link set to"+c.off+" down"); w.uses(c.on, l) })
		p.phase(c.off+" has it again", 0, func() { w.ip(w.r, "link set to"+c.off+" up"); w.uses(c.off, l) })
	}
	p.end()
}

// addressOnly gives a link what DHCPv6 gives: an address of 128 bits, and a
// router that advertises itself without a prefix.
func addressOnly(w *world) {
	l := numbered(6)
	p := w.trip()
	w.uses("net1", numbered(1))
	w.veth(w.mn, "net2", "tonet2")
	w.route("tonet2", l)
	w.advertise("tonet2", advert{router: 1800})
	lease := netip.PrefixFrom(roam.ILV{L64: l, NID: 0x42}.Addr(), 128)
	p.phase("the lease begins", 0, func() {
		if err := w.mn.AddAddr("net2", lease); err != nil {
			w.t.Fatal(err)
		}
		w.uses("net2", l)
	})
	p.phase("the lease ends", vanished, func() {
		if err := w.mn.DelAddr("net2", lease); err != nil {
			w.t.Fatal(err)
		}
		w.uses("net1", numbered(1))
	})
	p.end()
	w.unplug("net2")
}

// privacy enables temporary addresses (RFC 8981): they are no locators of their own, and
// sessions do not depend on their end.
func privacy(w *world) {
	l := numbered(7)
	for key, value := range map[string]string{"use_tempaddr": "2", "temp_prefered_lft": "4", "temp_valid_lft": "6",
		"max_desync_factor": "0", "regen_max_retry": "1"} {
		if err := w.mn.Sysctl("net.ipv6.conf.default."+key, value); err != nil {
			w.t.Fatal(err)
		}
	}
	p := w.trip()
	p.phase("a link with temporary addresses", 0, func() { w.plug("net2", 7); w.uses("net2", l) })
	testutil.Eventually(w.t, patience, func() bool { return w.countAddrs("net2", l) >= 3 },
		"a temporary address beside the lasting one and ours")
	p.phase("temporary addresses come and go", 0, func() {
		most := w.countAddrs("net2", l)
		began := time.Now()
		testutil.Eventually(w.t, patience, func() bool {
			now := w.countAddrs("net2", l)
			most = max(most, now)
			return now < most || time.Since(began) > 10*time.Second
		}, "the end of a temporary address")
		w.has(map[string]string{at("net1", numbered(1)): "valid", at("net2", l): "active"})
	})
	p.end()
	w.unplug("net2")
	w.uses("net1", numbered(1))
}

// countAddrs counts the addresses of an interface in a prefix.
func (w *world) countAddrs(ifname string, l roam.L64) (n int) {
	list, _ := w.mn.Addrs(ifname)
	for _, a := range list {
		if roam.ILVFromAddr(a.Addr()).L64 == l {
			n++
		}
	}
	return n
}
