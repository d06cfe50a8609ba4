package hostnet

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"roam"
)

// message builds a netlink message from its fixed part and attributes.
func message(kind uint16, fixed []byte, list ...*nl.RtAttr) syscall.NetlinkMessage {
	for _, a := range list {
		fixed = append(fixed, a.Serialize()...)
	}
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: fixed}
}

func ip(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

// prefixMessage is what the kernel sends for 2001:db8:a:1::/64 with lifetimes of
// 600 s and 1200 s.
func prefixMessage(flags byte) []byte {
	b := []byte{unix.AF_INET6, 0, 0, 0, 0, 0, 0, 0, 3, 64, flags, 0}
	binary.NativeEndian.PutUint32(b[4:], 2)
	return message(unix.RTM_NEWPREFIX, b, nl.NewRtAttr(prefixAddress, ip("2001:db8:a:1::")),
		nl.NewRtAttr(prefixCacheInfo, cacheInfo(600, 1200)[:8])).Data
}

func TestPrefixMessage(t *testing.T) {
	l := roam.LinkLocator{Link: 2, L64: 0x2001_0db8_000a_0001}
	for _, flags := range []byte{0xc0, 0x80, 0x40, 0x03, 0x01, 0x02} {
		table := newTable()
		b := prefixMessage(flags)
		table.apply(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWPREFIX}, Data: b}, epoch)
		got, ok := table.ras[l]
		if !ok || !got.preferred.Equal(in(600*time.Second)) || !got.valid.Equal(in(1200*time.Second)) {
			t.Errorf("flags %#x: %+v, %v", flags, got, ok)
		}
		// A valid lifetime of zero ends it.
		copy(b[len(b)-4:], make([]byte, 4))
		table.apply(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWPREFIX}, Data: b}, epoch)
		if len(table.ras) != 0 {
			t.Errorf("flags %#x: not ended: %v", flags, table.ras)
		}
	}
	for at, v := range map[int]byte{9: 48, 10: 0, 0: unix.AF_INET} {
		table := newTable()
		b := prefixMessage(0xc0)
		b[at] = v
		table.apply(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWPREFIX}, Data: b}, epoch)
		if len(table.ras) != 0 {
			t.Errorf("byte %d = %d was taken: %v", at, v, table.ras)
		}
	}
}

func linkMessage(kind uint16, family byte, index int, flags uint32, name string) syscall.NetlinkMessage {
	b := make([]byte, sizeIfInfo)
	b[0] = family
	binary.NativeEndian.PutUint16(b[2:], unix.ARPHRD_ETHER)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], flags)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(unix.IFLA_INFO_KIND, []byte("veth"))
	return message(kind, b, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)),
		nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(1400)), nl.NewRtAttr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1}), info)
}

func TestLinkMessages(t *testing.T) {
	table := oneUplink()
	table.ras[localA] = ra{}
	w := table.apply(linkMessage(unix.RTM_NEWLINK, unix.AF_UNSPEC, 2, upFlags, "lan"), epoch)
	l := table.links[2]
	if l.name != "lan" || l.kind != "veth" || l.mtu != 1400 || len(l.mac) != 6 || !l.up() || w.link != 2 || w.routes {
		t.Errorf("link %+v, hint %+v", l, w)
	}
	// The IPv6 side of a link going away is not the link going away.
	table.apply(linkMessage(unix.RTM_DELLINK, unix.AF_INET6, 2, upFlags, "lan"), epoch)
	if len(table.links) != 1 {
		t.Error("an IPv6 notification removed the link")
	}
	// Down: what routers said is void, and routes may have gone unannounced.
	if w := table.apply(linkMessage(unix.RTM_NEWLINK, unix.AF_UNSPEC, 2, 0, "lan"), epoch); !w.routes || len(table.ras) != 0 {
		t.Errorf("link down: hint %+v, prefixes %v", w, table.ras)
	}
	table.locals[key(2, "::1")], table.neighs[key(2, "::1")] = true, neigh{}
	table.apply(linkMessage(unix.RTM_DELLINK, unix.AF_UNSPEC, 2, 0, "lan"), epoch)
	if len(table.links)+len(table.addrs)+len(table.locals)+len(table.neighs) != 0 {
		t.Errorf("something is left of a link that is gone: %+v", table)
	}
}

func TestAddressMessages(t *testing.T) {
	table := newTable()
	fixed := func() []byte {
		b := []byte{unix.AF_INET6, 64, 0x80, unix.RT_SCOPE_UNIVERSE, 0, 0, 0, 0}
		binary.NativeEndian.PutUint32(b[4:], 2)
		return b
	}
	k := key(2, "2001:db8::5")
	table.apply(message(unix.RTM_NEWADDR, fixed(), nl.NewRtAttr(unix.IFA_ADDRESS, ip("2001:db8::5")),
		nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(unix.IFA_F_NOPREFIXROUTE)),
		nl.NewRtAttr(unix.IFA_CACHEINFO, cacheInfo(10, 0xffff_ffff))), epoch)
	a, ok := table.addrs[k]
	if !ok || a.flags != unix.IFA_F_NOPREFIXROUTE || !a.preferred.Equal(in(10*time.Second)) || !a.valid.IsZero() || a.heard != 1 {
		t.Errorf("address %+v, %v", a, ok)
	}
	// On a point-to-point link IFA_LOCAL is ours, IFA_ADDRESS the peer's.
	table.apply(message(unix.RTM_NEWADDR, fixed(), nl.NewRtAttr(unix.IFA_ADDRESS, ip("2001:db8::9")),
		nl.NewRtAttr(unix.IFA_LOCAL, ip("2001:db8::8"))), epoch)
	if _, ok := table.addrs[key(2, "2001:db8::8")]; !ok || len(table.addrs) != 2 {
		t.Errorf("addresses %v", table.addrs)
	}
	table.apply(message(unix.RTM_DELADDR, fixed(), nl.NewRtAttr(unix.IFA_ADDRESS, ip("2001:db8::5"))), epoch)
	if _, ok := table.addrs[k]; ok {
		t.Error("address still there")
	}
}

func routeMessage(dstLen, kind byte, list ...*nl.RtAttr) syscall.NetlinkMessage {
	b := []byte{unix.AF_INET6, dstLen, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_RA, 0, kind, 0, 0, 0, 0}
	return message(unix.RTM_NEWROUTE, b, list...)
}

func TestRouteMessages(t *testing.T) {
	table := newTable()
	for _, c := range []struct {
		m    syscall.NetlinkMessage
		want bool
	}{
		{routeMessage(0, unix.RTN_UNICAST), true},
		{routeMessage(0, unix.RTN_UNREACHABLE), false},
		{routeMessage(64, unix.RTN_UNICAST), false},
	} {
		if got := table.apply(c.m, epoch); got.routes != c.want {
			t.Errorf("%x: dump wanted %v", c.m.Data, got.routes)
		}
	}
	local := routeMessage(128, unix.RTN_LOCAL, nl.NewRtAttr(unix.RTA_DST, ip("2001:db8::5")), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(2)))
	table.apply(local, epoch)
	if !table.locals[key(2, "2001:db8::5")] {
		t.Error("local route not seen")
	}
	local.Header.Type = unix.RTM_DELROUTE
	table.apply(local, epoch)
	if len(table.locals) != 0 {
		t.Error("local route still there")
	}
}

func TestDefaults(t *testing.T) {
	cache := make([]byte, 32)
	binary.NativeEndian.PutUint32(cache[8:], 250)
	oif := nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(2))
	gw := nl.NewRtAttr(unix.RTA_GATEWAY, ip("fe80::1"))
	one := defaults(routeMessage(0, unix.RTN_UNICAST, oif, gw, nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(7)),
		nl.NewRtAttr(unix.RTA_CACHEINFO, cache), nl.NewRtAttr(rtaPref, []byte{3})).Data, epoch)
	want := route{link: 2, gateway: netip.MustParseAddr("fe80::1"), metric: 7, main: true, pref: 3, expires: in(2500 * time.Millisecond)}
	if len(one) != 1 || one[0] != want {
		t.Errorf("got %+v, want %+v", one, want)
	}
	// Equal-cost: one message, two next hops.
	var hops []byte
	for i, s := range []string{"fe80::1", "fe80::2"} {
		via := nl.NewRtAttr(unix.RTA_GATEWAY, ip(s)).Serialize()
		h := make([]byte, unix.SizeofRtNexthop)
		binary.NativeEndian.PutUint16(h, uint16(len(h)+len(via)))
		binary.NativeEndian.PutUint32(h[4:], uint32(2+i))
		hops = append(append(hops, h...), via...)
	}
	two := defaults(routeMessage(0, unix.RTN_UNICAST, nl.NewRtAttr(unix.RTA_MULTIPATH, hops)).Data, epoch)
	if len(two) != 2 || two[0].link != 2 || two[1].link != 3 || two[1].gateway != netip.MustParseAddr("fe80::2") {
		t.Errorf("got %+v", two)
	}
	if list := defaults(routeMessage(0, unix.RTN_UNICAST, nl.NewRtAttr(unix.RTA_MULTIPATH, hops[:9])).Data, epoch); len(list) != 0 {
		t.Errorf("a truncated next hop gave %+v", list)
	}
}

// A default route that a process takes away counts on for a moment, unless the
// link has another one or is lost; one that the kernel takes away does not.
func TestHeldRoute(t *testing.T) {
	const process, forwards, forwardsLater = 4711, 1, 2
	gone := func(pid uint32) *table {
		table := oneUplink()
		if pid == forwards || pid == forwardsLater { // the kernel, after a link began to forward
			ago := map[uint32]time.Duration{forwards: 0, forwardsLater: -2 * routeHold}[pid]
			table.apply(message(unix.RTM_NEWNETCONF, []byte{unix.AF_INET6, 0, 0, 0},
				nl.NewRtAttr(netconfLink, nl.Uint32Attr(2)), nl.NewRtAttr(netconfForwarding, nl.Uint32Attr(1))), in(ago))
			pid = 0
		}
		m := routeMessage(0, unix.RTN_UNICAST, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(2)), nl.NewRtAttr(unix.RTA_GATEWAY, ip("fe80::1")))
		m.Header.Type, m.Header.Pid = unix.RTM_DELROUTE, pid
		table.apply(m, epoch)
		table.routes = nil
		return table
	}
	for _, c := range []struct {
		name  string
		pid   uint32
		do    func(*table)
		after time.Duration
		want  int // routes
	}{
		{"by a process", process, func(*table) {}, 0, 1},
		{"for good", process, func(*table) {}, routeHold, 0},
		{"by the kernel", 0, func(*table) {}, 0, 0},
		{"as forwarding begins", forwards, func(*table) {}, 0, 1},
		{"long after", forwardsLater, func(*table) {}, 0, 0},
		{"carrier lost as well", process, func(t *table) { t.links[2] = link{name: "eth0", flags: unix.IFF_UP} }, 0, 0},
		{"another one there", process, func(t *table) { t.routes = []route{{link: 2}} }, 0, 1},
		{"another link's", process, func(t *table) { t.routes = []route{{link: 3}} }, 0, 2},
	} {
		table := gone(c.pid)
		c.do(table)
		table.addHeld(in(c.after))
		if len(table.routes) != c.want {
			t.Errorf("%s: routes %+v", c.name, table.routes)
		}
	}
	table := gone(process)
	table.addHeld(epoch)
	if at := table.wake(epoch); !at.Equal(in(routeHold)) {
		t.Errorf("wake at %v", at)
	}
	// The same route for ever, put back in the last moment, is not taken for it.
	if r := (route{link: 2, gateway: table.routes[0].gateway, main: true}).settleExpiry(table.routes, in(routeHold)); !r.expires.IsZero() {
		t.Errorf("a route without end expires at %v", r.expires)
	}
}

// Nothing that arrives makes the parser fail, and no message shorter than its
// fixed part changes anything.
func FuzzApply(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWPREFIX), prefixMessage(0xc0))
	f.Add(uint16(unix.RTM_NEWLINK), linkMessage(unix.RTM_NEWLINK, 0, 2, upFlags, "lan").Data)
	f.Add(uint16(unix.RTM_NEWROUTE), routeMessage(0, unix.RTN_UNICAST).Data)
	f.Fuzz(func(t *testing.T, kind uint16, b []byte) {
		table := newTable()
		table.apply(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: b}, epoch)
		defaults(b, epoch)
		table.draw(testRules, nil, map[int]Uplink{int(roam.LinkID(2)): {}}, epoch)
		if n := len(table.links) + len(table.addrs) + len(table.neighs) + len(table.ras); len(b) < sizeIfAddr && n != 0 {
			t.Errorf("%d bytes changed the table: %+v", len(b), table)
		}
	})
}
