package hostnet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"roam"
)

// Flow is what a session sends from one Locator of this host to one of a
// correspondent, with its addresses as on the wire.
type Flow struct {
	Link     roam.LinkID // of the uplink that it leaves by
	Src, Dst netip.Addr
}

// policy is what of this host may take packets elsewhere than the routes do by
// themselves: rules of routing, IPsec policies, tunnels. It is never changed.
type policy struct {
	survey
	links map[int]policyLink
}

// survey is the part of a policy that dumps give.
type survey struct {
	rules  []rule       // those that are not the kernel's own
	barred bool         // one of them says unreachable
	xfrm   []xfrmPolicy // of output, the one that the kernel asks first first
	closed bool         // what no IPsec policy matches is blocked
}

// rule is a rule of policy routing.
type rule struct{ priority, table uint32 }

// xfrmPolicy is an IPsec policy of output.
type xfrmPolicy struct {
	src, dst   netip.Prefix
	partial    bool // it matches some protocols or ports only
	link       int  // it matches what leaves by that link only; 0: any
	priority   uint32
	block      bool
	transforms bool // packets are to be protected
}

// policyLink is what a policy needs to know of a link.
type policyLink struct {
	name           string
	uplink, tunnel bool
}

// routed reports whether routes have to be asked for.
func (p *policy) routed() bool {
	if len(p.rules) > 0 {
		return true
	}
	for _, l := range p.links {
		if l.tunnel && !l.uplink {
			return true
		}
	}
	return false
}

// armed reports whether anything may be obstructed.
func (p *policy) armed() bool { return len(p.xfrm) > 0 || p.closed || p.routed() }

// obstructs reports whether packets of a flow do not leave as a route says.
func (x xfrmPolicy) obstructs() bool { return x.block || x.transforms }

func (x xfrmPolicy) matches(f Flow) bool {
	return (x.link == 0 || x.link == int(f.Link)) && x.src.Contains(f.Src) && x.dst.Contains(f.Dst)
}

// String returns the policy as ip(8) selects it.
func (x xfrmPolicy) String() string {
	what := "allow"
	switch {
	case x.block:
		what = "block"
	case x.transforms:
		what = "protect"
	}
	return fmt.Sprintf("IPsec policy src %s dst %s dir out priority %d (%s)", x.src, x.dst, x.priority, what)
}

// sortPolicies brings IPsec policies in the order in which the kernel asks them. Of
// those with one priority it asks the older one first, which a dump does not tell:
// here that one comes first which obstructs.
func sortPolicies(list []xfrmPolicy) {
	slices.SortStableFunc(list, func(a, b xfrmPolicy) int {
		if c := cmp.Compare(a.priority, b.priority); c != 0 || a.obstructs() == b.obstructs() {
			return c
		}
		if a.obstructs() {
			return -1
		}
		return 1
	})
}

// ipsec names the IPsec policy that obstructs a flow; "": none does. A session has
// packets of every protocol and port, so a policy for some of them is enough to
// obstruct it, and not enough to let it pass.
func (p *policy) ipsec(f Flow) string {
	for _, x := range p.xfrm {
		switch {
		case !x.matches(f):
		case x.obstructs():
			return x.String()
		case !x.partial:
			return ""
		}
	}
	if p.closed {
		return "IPsec default policy of output (block)"
	}
	return ""
}

// wayOut is the kernel's answer to how a packet of no particular socket leaves.
type wayOut struct {
	errno  syscall.Errno // 0: it leaves
	bound  syscall.Errno // errno is not 0: the same for a socket that is bound to the uplink
	local  bool          // it does not leave this host
	link   int
	table  uint32
	length int // of the prefix of the route, where that matters
}

// byRoute says why a way out obstructs a flow; "": it does not. A host without
// routes by source sends everything by one of its uplinks: that is no policy. Nor is
// a default route of the main table, even one through a tunnel: metrics rank links,
// and Roam has its own order of them.
func (p *policy) byRoute(f Flow, w wayOut) string {
	switch w.errno {
	case 0:
	case unix.EACCES:
		return p.named(w, "policy routing prohibits it")
	case unix.EINVAL:
		return p.named(w, "policy routing drops it (blackhole)")
	default:
		// ENETUNREACH is also the answer while a manager of links replaces a route. And
		// if a bound socket may send, the uplink's routes stand where only such find
		// them, as in a VRF.
		said := p.barred || len(p.rules) > 0 && w.errno == unix.EHOSTUNREACH
		if said && w.bound != 0 {
			return p.named(w, "policy routing makes it unreachable")
		}
		return ""
	}
	l := p.links[w.link]
	switch {
	case w.local, w.link == int(f.Link), l.uplink:
		return ""
	case len(p.rules) > 0 && w.table != unix.RT_TABLE_MAIN && w.table != unix.RT_TABLE_LOCAL && w.table != unix.RT_TABLE_DEFAULT:
		return p.named(w, "policy routing sends it by "+l.name)
	case l.tunnel && w.length > 0:
		return "a route sends it into the tunnel " + l.name
	}
	return ""
}

// named adds the rule that led to an answer.
func (p *policy) named(w wayOut, what string) string {
	for _, r := range p.rules {
		if r.table == w.table && w.table != 0 {
			return fmt.Sprintf("%s (ip -6 rule %d, table %d)", what, r.priority, r.table)
		}
	}
	return what
}

// anywhere is a destination that only a policy for everything matches: nobody has
// been given 2000::/16.
var anywhere = netip.MustParseAddr("2000:0:0:1::1")
