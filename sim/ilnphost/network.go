package ilnphost

import (
	"net/netip"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
)

// Access is the behaviour of one access link, the same in both directions.
type Access struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // at most, added to the delay, drawn for each packet; may reorder
	Loss      float64       // probability that a packet is lost
	Duplicate float64       // probability that a packet is duplicated
	Filter    Filter        // what the network drops
}

// params returns the properties of the link itself.
func (a Access) params() sim.Params {
	return sim.Params{Delay: a.Delay, Jitter: a.Jitter, Loss: a.Loss, Duplicate: a.Duplicate}
}

// Network is a network of hosts whose access links end at one router, the Internet, unless
// Behind says otherwise. It is not safe for concurrent use.
type Network struct {
	*sim.Network
	internet *sim.Router
	ports    roam.LinkID // the highest router link that an access link has used
	sites    []site
	outside  *outside
	nodes    []*Node
	byNID    map[roam.NID][]*Node
	// Tap is called with every packet on the wire, before loss, and may change or drop it; it
	// may be nil. Tests use it to lose, delay and replay packets.
	Tap func(p Packet) *Packet
	// Seen captures the packets of every host: those that it sends on a link, before loss,
	// and those that arrive. It may be nil.
	Seen func(h *Node, link roam.LinkID, leaves bool, p Packet)
	// Told is called with every event of every core; it may be nil.
	Told func(h *Node, e ilnp.Event)
	// Delivered is called with every datagram that an application receives, and the sender's
	// alias at the receiver; it may be nil.
	Delivered func(h *Node, key ilnp.SessionKey, d Datagram)
	// Acquainted makes data planes report probes, from which the core learns that the peer
	// runs Roam. Without it every node treats its peers as other stacks.
	Acquainted bool
	// Counting is the interval at which a core receives the counts of its data plane.
	Counting time.Duration
	// AllCounts has it receive those of all sessions each time, and not only of those that have
	// changed or that it watches.
	AllCounts bool
}

// site is a part of the network whose access links end at another router than the Internet.
type site struct {
	prefix netip.Prefix
	router sim.Node
	routes *sim.Routes
}

// outside is a node that injects packets for tests, and ignores packets that arrive.
type outside struct{ sim.Outbox }

// Receive does nothing.
func (*outside) Receive(time.Time, roam.LinkID, sim.Packet) {}

// HandleTimeout does nothing.
func (*outside) HandleTimeout(time.Time) {}

// PollTimeout returns no time.
func (*outside) PollTimeout() (time.Time, bool) { return time.Time{}, false }

// outsideLink is the identifier of the link between the router and outside, at both ends.
const outsideLink roam.LinkID = 0

// New returns an empty network. Runs with the same seed and the same calls are identical.
func New(seed uint64) *Network {
	n := &Network{Network: sim.New(seed), outside: &outside{}, byNID: make(map[roam.NID][]*Node), Counting: time.Second}
	n.internet = n.AddRouter(netip.MustParseAddr("2001:db8::1"))
	// No ICMPv6 error reports that a host has gone: its router still waits for an answer to
	// its Neighbor Solicitations.
	n.internet.Add(sim.Route{Prefix: netip.MustParsePrefix("::/0"), Blackhole: true})
	n.Connect(sim.End{Node: n.outside, Link: outsideLink}, sim.End{Node: n.internet, Link: outsideLink}, sim.Params{})
	return n
}

// Internet returns the router at which access links end. Nodes of other kinds may be
// connected to it, by links with identifiers from OtherLinks on.
func (n *Network) Internet() *sim.Router { return n.internet }

// OtherLinks is the lowest router link that access links never use.
const OtherLinks roam.LinkID = 1 << 30

// Behind connects hosts with a locator of this prefix, from their next move on, to a router of
// the caller, which has these routes. The caller connects that router to the Internet.
func (n *Network) Behind(prefix netip.Prefix, router sim.Node, routes *sim.Routes) {
	n.sites = append(n.sites, site{prefix, router, routes})
}

// siteOf returns where the access links of a locator end.
func (n *Network) siteOf(l roam.L64) site {
	for _, s := range n.sites {
		if s.prefix.Contains(roam.ILV{L64: l}.Addr()) {
			return s
		}
	}
	return site{router: n.internet, routes: &n.internet.Routes}
}

// Nodes returns the nodes in the order in which they were added.
func (n *Network) Nodes() []*Node { return n.nodes }

// Packet is a packet on the wire: a data datagram, or a whole control packet.
type Packet struct {
	Src, Dst     roam.ILV
	Nonce        Nonce
	Control      []byte // a whole control packet; nil: a datagram
	Encapsulated bool   // a control packet in UDP
	Data         Datagram
	typ          uint8 // ICMPv6 type of a control packet in flight, parsed once
	typed        bool
	label        uint32 // flow label of a datagram
	wire         []byte // the received headers; nil: it has not been on a link
}

// size returns the bytes of the packet on the wire, from its IPv6 header.
func (p Packet) size() int {
	const header, option, udp = 40, 8, 8
	if p.Control != nil {
		return len(p.Control)
	}
	n := header + udp + p.Data.Size
	if p.Nonce.Present() {
		n += option + int(p.Nonce.Len) - 4
	}
	return n
}

// onWire returns the packet as links carry it.
func (p Packet) onWire() sim.Packet {
	p.typ, p.typed, p.wire = messageType(p), true, nil
	if p.Control != nil {
		return sim.Packet{Bytes: p.Control, Body: p}
	}
	k := p.asSeen(0)
	return sim.Packet{Bytes: k.Bytes, Length: k.Len, Body: p}
}

// fromWire returns a packet as hosts of this package represent it, and whether they accept it:
// packets of each other, and ICMPv6 messages of other nodes.
func fromWire(w sim.Packet) (Packet, bool) {
	if p, ok := w.Body.(Packet); ok {
		p.wire = w.Bytes
		if p.Control != nil {
			p.Control = w.Bytes
		}
		return p, true
	}
	q, err := ilnpwire.ParseControl(w.Bytes, udpPort)
	if err != nil {
		return Packet{}, false
	}
	return Packet{
		Src: q.Src, Dst: q.Dst, Nonce: q.Nonce, Control: w.Bytes, Encapsulated: q.Encapsulated,
		typ: q.Type, typed: true, wire: w.Bytes,
	}, true
}

// Inject sends a packet from the outside node: forgeries and replays.
func (n *Network) Inject(p Packet) {
	n.outside.Put(outsideLink, p.onWire())
	n.Settle(n.outside)
}

// add adds a node to the network.
func (n *Network) add(h *Node) {
	h.order = len(n.nodes)
	n.nodes = append(n.nodes, h)
	n.byNID[h.nid] = append(n.byNID[h.nid], h)
}

// plug connects an attachment with its router.
func (n *Network) plug(at *attachment) {
	n.ports++
	at.port, at.site = n.ports, n.siteOf(at.l64)
	host, router := sim.End{Node: at.host, Link: at.link}, sim.End{Node: at.site.router, Link: at.port}
	at.wire = n.Connect(host, router, at.access.params())
	at.wire.Filter(sim.Forward, func(w sim.Packet) bool {
		if at.access.Filter == 0 {
			return false
		}
		p, ok := fromWire(w)
		return ok && at.access.Filter.drops(p)
	})
	at.wire.Filter(sim.Backward, func(w sim.Packet) bool {
		if at.access.Filter == 0 {
			return false
		}
		p, ok := fromWire(w)
		return ok && (at.access.Filter.drops(p) || at.keepsOut(p))
	})
	n.route(at, true)
}

// unplug removes the link of an attachment.
func (n *Network) unplug(at *attachment) {
	n.route(at, false)
	n.Disconnect(sim.End{Node: at.host, Link: at.link})
}

// route adds the route to an attachment to its router, or removes it. If several nodes have one
// address, packets to it go to the node that was added first, by its first link.
func (n *Network) route(at *attachment, on bool) {
	for _, nid := range at.host.nids() {
		prefix := netip.PrefixFrom(roam.ILV{L64: at.l64, NID: nid}.Addr(), 128)
		at.site.routes.Remove(prefix, at.port)
		if on {
			metric := uint64(at.host.order)<<32 | uint64(at.link)
			at.site.routes.Add(sim.Route{Prefix: prefix, Link: at.port, Metric: metric})
		}
	}
}

// set replaces the properties of an access link.
func (at *attachment) set(a Access) {
	at.access = a
	out, in := a.params(), a.params()
	out.Rate, out.Queue, in.Rate, in.Queue = at.rate, at.queue, at.rateIn, at.queue
	at.wire.Set(sim.Forward, out)
	at.wire.Set(sim.Backward, in)
}
