package sim

import (
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/wire/ip6"
)

// Forwarding counts the packets that a router received, by their fate.
type Forwarding struct {
	Forwarded    uint64
	Mine         uint64 // sent to the router itself
	NoRoute      uint64 // no prefix matches the destination, or its link does not exist
	Blackholed   uint64
	TimeExceeded uint64
	TooBig       uint64
	Malformed    uint64 // no IPv6 header, or addresses that are not forwarded
}

// Router forwards packets by longest prefix match. It sends an ICMPv6 error about a packet
// that it cannot forward (RFC 4443 §3), and answers echo requests; it omits redirects and the
// rate limit of errors.
type Router struct {
	Routes
	Outbox
	net    *Network
	self   Node // whose links it uses
	addr   netip.Addr
	counts Forwarding
	// Silent routers send no errors.
	Silent bool
}

// AddRouter adds a router with an address, which its errors have as their source.
func (n *Network) AddRouter(addr netip.Addr) *Router {
	r := &Router{net: n, addr: addr}
	r.self = r
	return r
}

// AddRouterIn adds a router that is part of another node, such as a home agent or a site
// border. It uses the links of that node. The node embeds it, or passes it the packets that
// are not for the node itself, and sends the packets for which it polls the router.
func (n *Network) AddRouterIn(node Node, addr netip.Addr) *Router {
	return &Router{net: n, self: node, addr: addr}
}

// Counts returns the router's counts.
func (r *Router) Counts() Forwarding { return r.counts }

// HandleTimeout does nothing: a router has no deadlines.
func (r *Router) HandleTimeout(time.Time) {}

// PollTimeout returns no time.
func (r *Router) PollTimeout() (time.Time, bool) { return time.Time{}, false }

// Receive forwards a packet.
func (r *Router) Receive(_ time.Time, _ roam.LinkID, p Packet) {
	dst := p.Destination()
	switch {
	case !dst.IsValid() || !forwarded(dst) || !forwarded(p.Source()):
		r.counts.Malformed++
		return
	case dst == r.addr:
		r.counts.Mine++
		r.echo(p)
		return
	}
	route, ok := r.Lookup(dst)
	if ok && route.Blackhole {
		r.counts.Blackholed++
		return
	}
	mtu, linked := r.net.MTU(End{r.self, route.Link})
	switch hops := p.Bytes[7]; {
	case !ok || !linked:
		r.counts.NoRoute++
		r.report(p, Unreachable, 0)
	case hops <= 1:
		r.counts.TimeExceeded++
		r.report(p, TimeExceeded, 0)
	case mtu > 0 && p.Size() > mtu:
		r.counts.TooBig++
		r.report(p, PacketTooBig, uint32(mtu))
	default:
		r.counts.Forwarded++
		p.Bytes = slices.Clone(p.Bytes)
		p.Bytes[7] = hops - 1
		r.Put(route.Link, p)
	}
}

// forwarded reports whether packets with this address may be forwarded to another link.
func forwarded(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast()
}

// report sends an error about a packet, with code 0, unless RFC 4443 forbids it.
func (r *Router) report(about Packet, typ uint8, word uint32) {
	if r.Silent {
		return
	}
	if p, ok := icmpError(r.addr, about, typ, 0, word); ok {
		r.originate(p)
	}
}

// originate sends a packet that the router itself has built.
func (r *Router) originate(p Packet) {
	if route, ok := r.Lookup(p.Destination()); ok && !route.Blackhole {
		r.Put(route.Link, p)
	}
}

// echo answers an echo request.
func (r *Router) echo(p Packet) {
	if q, ok := echoReply(p); ok {
		r.originate(q)
	}
}

// echoReply builds the reply to an echo request; false: the packet is not an echo request.
func echoReply(p Packet) (Packet, bool) {
	c, err := ip6.Walk(p.Bytes)
	if err != nil || c.Upper != ip6.ICMPv6 || !c.Whole() || c.End-c.UpperOffset < icmpHead {
		return Packet{}, false
	}
	m := p.Bytes[c.UpperOffset:c.End]
	if m[0] != EchoRequest {
		return Packet{}, false
	}
	word := uint32(m[4])<<24 | uint32(m[5])<<16 | uint32(m[6])<<8 | uint32(m[7])
	return ICMP(p.Destination(), p.Source(), EchoReply, 0, word, m[icmpHead:]), true
}
