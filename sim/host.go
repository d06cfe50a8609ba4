package sim

import (
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/wire/ip6"
)

// Host is an end host with plain IPv6. It answers echo requests, answers unknown options with
// Parameter Problem (RFC 8200 §4.2), and caches path MTUs. It knows no option but padding. Its
// routing table selects the link of an outgoing packet.
type Host struct {
	Routes
	Outbox
	net   *Network
	addrs []netip.Addr
	mtus  map[netip.Addr]int
	// Received is called with each packet to the host's addresses that the host does not
	// answer itself; it may be nil.
	Received func(now time.Time, link roam.LinkID, p Packet)
}

// AddHost adds a host with these addresses; it accepts each on any link.
func (n *Network) AddHost(addrs ...netip.Addr) *Host {
	return &Host{net: n, addrs: addrs, mtus: make(map[netip.Addr]int)}
}

// SetAddrs replaces the host's addresses.
func (h *Host) SetAddrs(addrs ...netip.Addr) { h.addrs = addrs }

// Send sends a packet by the route to its destination, and reports whether a route exists.
func (h *Host) Send(p Packet) bool {
	route, ok := h.Lookup(p.Destination())
	if !ok || route.Blackhole {
		return false
	}
	h.Put(route.Link, p)
	h.net.Settle(h)
	return true
}

// PathMTU returns the smallest MTU that a router has reported for an address; false: no
// router has.
func (h *Host) PathMTU(to netip.Addr) (int, bool) {
	mtu, ok := h.mtus[to]
	return mtu, ok
}

// HandleTimeout does nothing: a host has no deadlines.
func (h *Host) HandleTimeout(time.Time) {}

// PollTimeout returns no time.
func (h *Host) PollTimeout() (time.Time, bool) { return time.Time{}, false }

// Receive handles a packet that arrived on a link.
func (h *Host) Receive(now time.Time, link roam.LinkID, p Packet) {
	if !slices.Contains(h.addrs, p.Destination()) {
		return
	}
	c, err := ip6.WalkQuoted(p.Bytes)
	if err != nil {
		return
	}
	if drop, at := unknown(p.Bytes, c); drop {
		if q, ok := icmpError(p.Destination(), p, ParameterProblem, unknownOption, uint32(at)); ok && at > 0 {
			h.answer(q)
		}
		return
	}
	if q, ok := echoReply(p); ok {
		h.answer(q)
		return
	}
	h.learn(p, c)
	if h.Received != nil {
		h.Received(now, link, p)
	}
}

func (h *Host) answer(p Packet) {
	if route, ok := h.Lookup(p.Destination()); ok && !route.Blackhole {
		h.Put(route.Link, p)
	}
}

// learn stores the MTU of a Packet Too Big that quotes a packet of this host.
func (h *Host) learn(p Packet, c ip6.Chain) {
	typ, ok := icmpType(p)
	m := p.Bytes[c.UpperOffset:c.End]
	if !ok || typ != PacketTooBig || len(m) < icmpHead+ip6.HeaderLen {
		return
	}
	about := Packet{Bytes: m[icmpHead:]}
	mtu := max(int(m[4])<<24|int(m[5])<<16|int(m[6])<<8|int(m[7]), minMTU) // RFC 8201 §4: never less
	to := about.Destination()
	if old, known := h.mtus[to]; slices.Contains(h.addrs, about.Source()) && (!known || mtu < old) {
		h.mtus[to] = mtu
	}
}

// unknown reports whether a packet has an unknown option whose type requires the node to drop
// the packet, and the option's offset if the node must also send a Parameter Problem.
func unknown(b []byte, c ip6.Chain) (drop bool, at int) {
	for _, e := range c.Exts {
		if e.Proto != ip6.HopByHop && e.Proto != ip6.DestOpts {
			continue
		}
		options, err := ip6.Options(b[e.Offset:e.Offset+e.Len], e.Offset)
		if err != nil {
			return true, 0
		}
		for _, o := range options {
			switch o.Type >> optionAct {
			case 1:
				return true, 0
			case 2, 3: // 3 excludes multicast destinations; a host's addresses are unicast
				return true, o.Offset
			}
		}
	}
	return false, 0
}
