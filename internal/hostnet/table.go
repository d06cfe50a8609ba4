package hostnet

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"roam"
)

// table is what the kernel said, and nothing else. Only watch.go changes it;
// picture.go draws conclusions from it.
//
// An instant in it is a deadline; the zero instant means forever.
type table struct {
	links  map[int]link
	addrs  map[addrKey]address
	routes []route                 // default routes, as last dumped, and held ones
	held   []route                 // default routes that a process took away a moment ago
	locals map[addrKey]bool        // local routes: the kernel answers for that address
	neighs map[addrKey]neigh       //
	ras    map[roam.LinkLocator]ra // prefix information of Router Advertisements
	// onLink holds the prefixes that the kernel has a route for, and until when. It makes these of Router
	// Advertisements and of addresses.
	onLink map[roam.LinkLocator]time.Time
	// forwarded is when a link began to forward: the kernel then drops the default
	// routes of all links whose accept_ra is not 2.
	forwarded time.Time
	// sessionRoutes are those into the session prefix, as last dumped.
	session       roam.L64
	sessionRoutes []sessionRoute
	heard         uint64 // counts what was heard of prefixes, to tell a refresh
	// excess holds, for each link, the last prefix that was advertised beyond maxAdvertised.
	excess map[int]roam.L64
}

// maxAdvertised is how many prefixes of Router Advertisements count on a link, as many as the kernel makes addresses
// for by default (max_addresses). A node on the link can advertise any number, each for ever. Prefixes with an address
// of this host count besides.
const maxAdvertised = 16

type addrKey struct {
	link int
	addr netip.Addr
}

type link struct {
	name   string
	flags  uint32 // IFF_*
	arphrd uint16
	mtu    int // of the device
	mac    net.HardwareAddr
	kind   string // of virtual devices: veth, bridge, ...
	master int    // the link that this one belongs to, 0 if none
	facts  facts
}

// facts are what other doors than netlink say of a link.
type facts struct {
	mtu6     int // MTU that the router advertised, 0 if unknown
	physical bool
	forwards bool
	acceptRA string // "0", "1" or "2"; "": unknown
}

type address struct {
	flags            uint32 // IFA_F_*
	scope            uint8
	preferred, valid time.Time
	heard            uint64
}

type route struct {
	link    int
	gateway netip.Addr
	metric  uint32
	main    bool  // in the main table
	pref    uint8 // router preference as the kernel ranks it: 1 high, 0 medium, 3 low
	expires time.Time
	held    bool // not in the kernel any more
}

// routeHold is how long a default route counts on after a process took it away.
// Managers take one away to put another in its place: systemd-networkd at its
// restart, until a router has answered, which may take it half a second (RFC
// 4861 §6.2.6). A router that says that it is none is believed at once, where
// the kernel listens to it.
const routeHold = time.Second

// hold keeps a default route for a moment that a process took away.
func (t *table) hold(rt route, now time.Time) {
	if end := now.Add(routeHold); rt.expires.IsZero() || rt.expires.After(end) {
		rt.expires = end
	}
	rt.held = true
	t.held = append(t.held, rt)
}

// addHeld adds the held routes to those that were dumped, and forgets those
// that ended, whose link was lost, or whose link has another route now.
func (t *table) addHeld(now time.Time) {
	dumped := len(t.routes)
	t.held = slices.DeleteFunc(t.held, func(rt route) bool {
		return ended(rt.expires, now) || !t.links[rt.link].up() ||
			slices.ContainsFunc(t.routes[:dumped], func(x route) bool { return x.link == rt.link })
	})
	t.routes = append(t.routes, t.held...)
}

// clockTick is the grain in which the kernel tells a route's expiry.
const clockTick = time.Second / userHZ

// settleExpiry repairs what a dump cannot say: in the last tick before its end,
// a route that expires looks like one that never does.
func (r route) settleExpiry(old []route, now time.Time) route {
	for _, o := range old {
		if !o.held && r.expires.IsZero() && !o.expires.IsZero() && o.expires.Before(now.Add(clockTick)) &&
			o.link == r.link && o.gateway == r.gateway && o.metric == r.metric && o.main == r.main {
			r.expires = now.Add(clockTick)
		}
	}
	return r
}

type neigh struct {
	state uint16 // NUD_*
	mac   net.HardwareAddr
}

type ra struct {
	preferred, valid time.Time
	heard            uint64
}

func newTable() *table {
	return &table{
		links: map[int]link{}, addrs: map[addrKey]address{}, locals: map[addrKey]bool{},
		neighs: map[addrKey]neigh{}, ras: map[roam.LinkLocator]ra{}, onLink: map[roam.LinkLocator]time.Time{},
		excess: map[int]roam.L64{},
	}
}

// usableStates are the neighbour states in which the kernel sends at once.
const usableStates = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE |
	unix.NUD_PROBE | unix.NUD_STALE | unix.NUD_DELAY

func (n neigh) usable() bool { return n.state&usableStates != 0 }

// up reports whether frames can leave: administratively up, with carrier, and
// not waiting for authentication (dormant links are not running).
func (l link) up() bool {
	const want = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	return l.flags&want == want
}

// port reports whether a link belongs to a bridge, a bond or their like, which
// takes what arrives on it: the master is the link then. Only a VRF leaves its
// members their own IPv6.
func (t *table) port(l link) bool { return l.master != 0 && t.links[l.master].kind != "vrf" }

// tunnels are the kinds of links that carry packets inside of others.
var tunnels = map[string]bool{
	"tun": true, "wireguard": true, "ip6tnl": true, "sit": true, "ipip": true, "gre": true, "ip6gre": true,
	"vti": true, "vti6": true, "xfrm": true,
}

// tunnel reports whether a link is the end of a tunnel between two points. A TAP
// device is of kind tun as well, and stands for an Ethernet.
func (l link) tunnel() bool { return tunnels[l.kind] && l.arphrd != unix.ARPHRD_ETHER }

// isULA reports whether a prefix is in fc00::/7 (RFC 4193).
func isULA(l roam.L64) bool { return l>>57 == 0xfc>>1 }

func (l link) mtuIPv6() int {
	if l.facts.mtu6 > 0 && l.facts.mtu6 < l.mtu {
		return l.facts.mtu6
	}
	return l.mtu
}

// answers reports whether the kernel answers Neighbour Solicitations for an
// address: duplicate detection has ended, or it is optimistic and its local
// route stands (the kernel joins the solicited-node group before that).
func (t *table) answers(k addrKey) bool {
	a, ok := t.addrs[k]
	switch {
	case !ok, a.flags&unix.IFA_F_DADFAILED != 0:
		return false
	case a.flags&unix.IFA_F_TENTATIVE == 0:
		return true
	}
	return a.flags&unix.IFA_F_OPTIMISTIC != 0 && t.locals[k]
}

// elsewhere tells how the address of k stands on this host's other links: it
// has passed duplicate detection there, or is about to. Two links of one
// network share their prefix, and detection on the second would find the first.
func (t *table) elsewhere(k addrKey) (sure, pending bool) {
	for other, a := range t.addrs {
		if other.addr != k.addr || other.link == k.link || a.flags&unix.IFA_F_DADFAILED != 0 || !t.links[other.link].up() {
			continue
		}
		if a.flags&unix.IFA_F_TENTATIVE == 0 {
			sure = true
		} else {
			pending = true
		}
	}
	return sure, pending && !sure
}

// dropLink forgets all about an interface that is gone.
func (t *table) dropLink(index int) {
	delete(t.links, index)
	t.dropPrefixes(index)
	for k := range t.addrs {
		if k.link == index {
			delete(t.addrs, k)
		}
	}
	for k := range t.locals {
		if k.link == index {
			delete(t.locals, k)
		}
	}
	for k := range t.neighs {
		if k.link == index {
			delete(t.neighs, k)
		}
	}
}

// advertised takes a prefix of a Router Advertisement, unless its link has enough that came before and have not ended.
func (t *table) advertised(l roam.LinkLocator, a ra, now time.Time) {
	if _, known := t.ras[l]; !known {
		var n int
		for k, x := range t.ras {
			if k.Link == l.Link && ended(x.valid, now) {
				delete(t.ras, k)
			} else if k.Link == l.Link {
				n++
			}
		}
		if n >= maxAdvertised {
			t.excess[int(l.Link)] = l.L64
			return
		}
	}
	t.ras[l] = a
}

// dropPrefixes forgets what routers advertised on a link that was taken down.
func (t *table) dropPrefixes(index int) {
	for k := range t.ras {
		if int(k.Link) == index {
			delete(t.ras, k)
		}
	}
	delete(t.excess, index)
}

// dropAbandoned forgets the advertised prefixes of a link without a default route of which the kernel has neither a
// route nor an address left, but for ours: IPv6 was disabled there, or a process took them away, and the next router
// of that link may be of another network.
func (t *table) dropAbandoned(ours map[addrKey]bool, now time.Time) {
	if len(t.ras) == 0 {
		return
	}
	held := maps.Clone(t.onLink)
	for k := range t.addrs {
		if !ours[k] {
			held[k.local()] = time.Time{}
		}
	}
	routed := map[int]bool{}
	for _, rt := range t.routes {
		routed[rt.link] = routed[rt.link] || !rt.held && !ended(rt.expires, now)
	}
	for l := range t.ras {
		if _, is := held[l]; !is && !routed[int(l.Link)] {
			delete(t.ras, l)
		}
	}
}

// local names the prefix of an address on its link.
func (k addrKey) local() roam.LinkLocator {
	return roam.LinkLocator{Link: roam.LinkID(k.link), L64: roam.ILVFromAddr(k.addr).L64}
}

// left returns what is left until a deadline, never negative.
func left(deadline, now time.Time) time.Duration {
	if deadline.IsZero() {
		return roam.Infinite
	}
	return max(0, deadline.Sub(now))
}

// ended reports whether a deadline has passed.
func ended(deadline, now time.Time) bool {
	return !deadline.IsZero() && !deadline.After(now)
}

// later returns the later of two deadlines.
func later(a, b time.Time) time.Time {
	switch {
	case a.IsZero() || b.IsZero():
		return time.Time{}
	case a.After(b):
		return a
	}
	return b
}

// sooner returns the earlier of two deadlines.
func sooner(a, b time.Time) time.Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero() || a.Before(b):
		return a
	}
	return b
}
