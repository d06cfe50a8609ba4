package hostnet

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"roam"
)

// Sizes of the fixed parts of netlink messages, and what x/sys/unix lacks of
// linux/if_addr.h and linux/rtnetlink.h.
const (
	sizeIfInfo = 16
	sizeIfAddr = 8
	sizeRtMsg  = 12
	sizeNdMsg  = 12
	sizePrefix = 12
	// A family, padded, and an interface index (linux/netconf.h).
	sizeNetconf       = 4
	netconfLink       = 1
	netconfForwarding = 2

	rtaPref         = 20
	prefixAddress   = 1
	prefixCacheInfo = 2
	// prefixUse are on-link and autonomous in both forms of prefix_flags: bits
	// of the kernel's own before Linux 6.7, those of the option since.
	prefixUse = 0x01 | 0x02 | 0x80 | 0x40

	nlaTypeMask = 0x3fff

	userHZ = 100 // unit of rta_expires in every Linux ABI
)

// hint tells what a message asks for besides what it says.
type hint struct {
	routes bool // default routes changed: only a dump tells the truth (a replaced route is not announced)
	link   int  // facts of that link may have changed
}

// apply takes one message of the kernel into the table. Messages that are too
// short or of no concern change nothing.
func (t *table) apply(m syscall.NetlinkMessage, now time.Time) hint {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return t.applyLink(m, now)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		t.applyAddr(m, now)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return t.applyRoute(m, now)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		t.applyNeigh(m)
	case unix.RTM_NEWPREFIX:
		t.applyPrefix(m, now)
	case unix.RTM_NEWNETCONF:
		return t.applyNetconf(m, now)
	}
	return hint{}
}

// applyNetconf reads which link has begun or ceased to forward.
func (t *table) applyNetconf(m syscall.NetlinkMessage, now time.Time) hint {
	if len(m.Data) < sizeNetconf || m.Data[0] != unix.AF_INET6 {
		return hint{}
	}
	a := attrs(m.Data, sizeNetconf)
	if u32(a[netconfForwarding]) != 0 {
		t.forwarded = now
	}
	// Of "all" and "default" the index is negative.
	return hint{link: max(0, int(int32(u32(a[netconfLink]))))}
}

// attrs returns the attributes behind a fixed part, later ones winning, as far
// as they are well formed.
func attrs(b []byte, fixed int) map[uint16][]byte {
	m := map[uint16][]byte{}
	for b = b[fixed:]; len(b) >= unix.SizeofRtAttr; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			break
		}
		m[binary.NativeEndian.Uint16(b[2:])&nlaTypeMask] = b[unix.SizeofRtAttr:n:n]
		b = b[min(len(b), align(n)):]
	}
	return m
}

// align rounds up to where the next attribute or next hop begins.
func align(n int) int { return (n + unix.RTA_ALIGNTO - 1) &^ (unix.RTA_ALIGNTO - 1) }

func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func addr6(b []byte) netip.Addr {
	if len(b) != 16 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(b))
}

// lifetime turns seconds into a deadline; all ones are forever.
func lifetime(seconds uint32, now time.Time) time.Time {
	if seconds == 0xffff_ffff {
		return time.Time{}
	}
	return now.Add(time.Duration(seconds) * time.Second)
}

func (t *table) applyLink(m syscall.NetlinkMessage, _ time.Time) hint {
	b := m.Data
	if len(b) < sizeIfInfo {
		return hint{}
	}
	index := int(u32(b[4:]))
	if b[0] != unix.AF_UNSPEC {
		// The IPv6 side of a link (its MTU from the router), or a bridge port.
		return hint{link: index}
	}
	if m.Header.Type == unix.RTM_DELLINK {
		t.dropLink(index)
		return hint{routes: true}
	}
	a := attrs(b, sizeIfInfo)
	old := t.links[index]
	l := link{
		name: unix.ByteSliceToString(a[unix.IFLA_IFNAME]), flags: u32(b[8:]),
		arphrd: binary.NativeEndian.Uint16(b[2:]), mtu: int(u32(a[unix.IFLA_MTU])), master: int(u32(a[unix.IFLA_MASTER])),
		mac: net.HardwareAddr(a[unix.IFLA_ADDRESS]), facts: old.facts,
		kind: unix.ByteSliceToString(attrs(a[unix.IFLA_LINKINFO], 0)[unix.IFLA_INFO_KIND]),
	}
	t.links[index] = l
	if l.flags&unix.IFF_UP == 0 {
		t.dropPrefixes(index)
	}
	// The kernel removes the routes of a link without announcing each of them.
	return hint{link: index, routes: old.flags != l.flags}
}

func (t *table) applyAddr(m syscall.NetlinkMessage, now time.Time) {
	b := m.Data
	if len(b) < sizeIfAddr || b[0] != unix.AF_INET6 {
		return
	}
	a := attrs(b, sizeIfAddr)
	ip := addr6(a[unix.IFA_LOCAL]) // on point-to-point links IFA_ADDRESS is the peer
	if !ip.IsValid() {
		ip = addr6(a[unix.IFA_ADDRESS])
	}
	k := addrKey{int(u32(b[4:])), ip}
	if m.Header.Type == unix.RTM_DELADDR {
		delete(t.addrs, k)
		return
	}
	t.heard++
	x := address{flags: uint32(b[2]), scope: b[3], heard: t.heard}
	if f, ok := a[unix.IFA_FLAGS]; ok {
		x.flags = u32(f)
	}
	if c := a[unix.IFA_CACHEINFO]; len(c) >= 8 {
		x.preferred, x.valid = lifetime(u32(c), now), lifetime(u32(c[4:]), now)
	}
	t.addrs[k] = x
}

// applyRoute keeps local routes, and asks for a dump when a default route came
// or went.
func (t *table) applyRoute(m syscall.NetlinkMessage, now time.Time) hint {
	b := m.Data
	if len(b) < sizeRtMsg || b[0] != unix.AF_INET6 || u32(b[8:])&unix.RTM_F_CLONED != 0 {
		return hint{}
	}
	if b[1] == 128 && b[7] == unix.RTN_LOCAL {
		a := attrs(b, sizeRtMsg)
		k := addrKey{int(u32(a[unix.RTA_OIF])), addr6(a[unix.RTA_DST])}
		if m.Header.Type == unix.RTM_NEWROUTE {
			t.locals[k] = true
		} else {
			delete(t.locals, k)
		}
		return hint{}
	}
	if b[1] == 64 {
		t.applyOnLink(m, now)
	}
	// What the kernel itself takes away, by a router's word or a lost link, has
	// no sender. Nor has what it takes away when forwarding begins, although the
	// router is still one.
	if m.Header.Type == unix.RTM_DELROUTE && (m.Header.Pid != 0 || !t.forwarded.IsZero() && now.Sub(t.forwarded) < routeHold) {
		for _, rt := range defaults(b, now) {
			t.hold(rt, now)
		}
	}
	_, session := t.sessionRouteOf(b)
	return hint{routes: session || b[1] == 0 && b[7] == unix.RTN_UNICAST}
}

// defaults returns the default routes that one message of a dump holds, one
// for each next hop.
func defaults(b []byte, now time.Time) []route {
	if len(b) < sizeRtMsg || b[0] != unix.AF_INET6 || b[1] != 0 || b[2] != 0 ||
		b[7] != unix.RTN_UNICAST || u32(b[8:])&unix.RTM_F_CLONED != 0 {
		return nil
	}
	a := attrs(b, sizeRtMsg)
	table := uint32(b[4])
	if x, ok := a[unix.RTA_TABLE]; ok {
		table = u32(x)
	}
	base := route{metric: u32(a[unix.RTA_PRIORITY]), main: table == unix.RT_TABLE_MAIN}
	if p := a[rtaPref]; len(p) > 0 {
		base.pref = p[0]
	}
	base.expires = expiry(a, now)
	hops := a[unix.RTA_MULTIPATH]
	if len(hops) == 0 {
		base.link, base.gateway = int(u32(a[unix.RTA_OIF])), addr6(a[unix.RTA_GATEWAY])
		return []route{base}
	}
	var list []route
	for len(hops) >= unix.SizeofRtNexthop {
		n := int(binary.NativeEndian.Uint16(hops))
		if n < unix.SizeofRtNexthop || n > len(hops) {
			break
		}
		rt := base
		rt.link = int(u32(hops[4:]))
		rt.gateway = addr6(attrs(hops[:n], unix.SizeofRtNexthop)[unix.RTA_GATEWAY])
		list = append(list, rt)
		hops = hops[min(len(hops), align(n)):]
	}
	return list
}

// expiry returns the deadline of a route; zero: none.
func expiry(a map[uint16][]byte, now time.Time) (at time.Time) {
	if c := a[unix.RTA_CACHEINFO]; len(c) >= 12 {
		if ticks := int32(u32(c[8:])); ticks != 0 {
			at = now.Add(time.Duration(ticks) * time.Second / userHZ)
		}
	}
	return at
}

// applyOnLink takes a route to a /64, if the kernel has made it for a prefix of a link.
func (t *table) applyOnLink(m syscall.NetlinkMessage, now time.Time) {
	b := m.Data
	if b[5] != unix.RTPROT_KERNEL || b[7] != unix.RTN_UNICAST {
		return
	}
	a := attrs(b, sizeRtMsg)
	ip := addr6(a[unix.RTA_DST])
	if !ip.IsValid() {
		return
	}
	l := roam.LinkLocator{Link: roam.LinkID(u32(a[unix.RTA_OIF])), L64: roam.ILVFromAddr(ip).L64}
	if m.Header.Type == unix.RTM_DELROUTE {
		delete(t.onLink, l)
		return
	}
	t.onLink[l] = expiry(a, now)
}

func (t *table) applyNeigh(m syscall.NetlinkMessage) {
	b := m.Data
	if len(b) < sizeNdMsg || b[0] != unix.AF_INET6 {
		return
	}
	a := attrs(b, sizeNdMsg)
	k := addrKey{int(u32(b[4:])), addr6(a[unix.NDA_DST])}
	if m.Header.Type == unix.RTM_DELNEIGH {
		delete(t.neighs, k)
		return
	}
	t.neighs[k] = neigh{state: binary.NativeEndian.Uint16(b[8:]), mac: net.HardwareAddr(a[unix.NDA_LLADDR])}
}

// applyPrefix takes the prefix information option of a Router Advertisement
// (RFC 4861 §4.6.2). A valid lifetime of zero ends the prefix, though the
// kernel may keep addresses for two hours more (RFC 4862 §5.5.3).
func (t *table) applyPrefix(m syscall.NetlinkMessage, now time.Time) {
	b := m.Data
	if len(b) < sizePrefix || b[0] != unix.AF_INET6 || b[9] != 64 || b[10]&prefixUse == 0 {
		return
	}
	a := attrs(b, sizePrefix)
	ip, c := addr6(a[prefixAddress]), a[prefixCacheInfo]
	if !ip.IsValid() || len(c) < 8 {
		return
	}
	l := roam.LinkLocator{Link: roam.LinkID(u32(b[4:])), L64: roam.ILVFromAddr(ip).L64}
	t.heard++
	if u32(c[4:]) == 0 {
		delete(t.ras, l)
		return
	}
	t.advertised(l, ra{preferred: lifetime(u32(c), now), valid: lifetime(u32(c[4:]), now), heard: t.heard}, now)
}
