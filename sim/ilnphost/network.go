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
	Jitter    time.Duration // up to so much more, drawn for each packet: reorders
	Loss      float64       // probability that a packet is lost
	Duplicate float64       // probability that a packet comes twice
	Filter    Filter        // what the network drops
}

// params returns what the link itself does.
func (a Access) params() sim.Params {
	return sim.Params{Delay: a.Delay, Jitter: a.Jitter, Loss: a.Loss, Duplicate: a.Duplicate}
}

// Network is a network of hosts whose access links end at one router, the Internet, unless
// Behind says otherwise. It is not safe for concurrent use.
type Network struct {
	*sim.Network
	internet *sim.Router
	ports    roam.LinkID // of routers, ever used by access links
	sites    []site
	outside  *outside
	nodes    []*Node
	byNID    map[roam.NID][]*Node
	// Tap sees every packet that is put on the wire, before loss; it may change
	// or drop it (nil). Tests use it to lose, hold back and replay.
	Tap func(p Packet) *Packet
	// Seen is the capture of every host: packets that leave by a link, before loss,
	// and those that arrive (nil).
	Seen func(h *Node, link roam.LinkID, leaves bool, p Packet)
	// Told sees every event of every core as it happens (nil).
	Told func(h *Node, e ilnp.Event)
	// Delivered sees every datagram that an application gets, and the alias that its
	// sender has there (nil).
	Delivered func(h *Node, key ilnp.SessionKey, d Datagram)
	// Acquainted has data planes tell by which probes a correspondent is known to run
	// Roam, as those of Roam do. Without it every node is another stack's to others.
	Acquainted bool
	// Counting is how often a core is shown what its data plane counted.
	Counting time.Duration
}

// site is a part of the network whose access links end elsewhere than at the Internet.
type site struct {
	prefix netip.Prefix
	router sim.Node
	routes *sim.Routes
}

// outside is a node that sends packets for tests, and takes none.
type outside struct{ sim.Outbox }

// Receive does nothing.
func (*outside) Receive(time.Time, roam.LinkID, sim.Packet) {}

// HandleTimeout does nothing.
func (*outside) HandleTimeout(time.Time) {}

// PollTimeout returns no time.
func (*outside) PollTimeout() (time.Time, bool) { return time.Time{}, false }

// outsideLink is what the router calls the link of the outside, and that its own one.
const outsideLink roam.LinkID = 0

// New makes an empty network. The same seed and the same calls give the same
// course.
func New(seed uint64) *Network {
	n := &Network{Network: sim.New(seed), outside: &outside{}, byNID: make(map[roam.NID][]*Node), Counting: time.Second}
	n.internet = n.AddRouter(netip.MustParseAddr("2001:db8::1"))
	// Nobody is told that a host has gone, as the router before it waits for an answer to
	// its Neighbour Solicitations.
	n.internet.Add(sim.Route{Prefix: netip.MustParsePrefix("::/0"), Blackhole: true})
	n.Connect(sim.End{Node: n.outside, Link: outsideLink}, sim.End{Node: n.internet, Link: outsideLink}, sim.Params{})
	return n
}

// Internet returns the router at which access links end. Nodes of other kinds may be
// connected to it, by links from OtherLinks on.
func (n *Network) Internet() *sim.Router { return n.internet }

// OtherLinks is the first link of a router that is never one to a host's access network.
const OtherLinks roam.LinkID = 1 << 30

// Behind has hosts with a locator of this prefix, from their next move on, be connected to
// a router of the caller, which has these routes. How that is connected with the Internet
// is the caller's business.
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
	Control      []byte // nil: data
	Encapsulated bool   // a control packet in UDP
	Data         Datagram
	typ          uint8 // of a control packet on its way, so that it is read once
	typed        bool
	wire         []byte // its headers as they came; nil: it has not been on a link
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
	k := p.asSeen(0)
	return sim.Packet{Bytes: k.Bytes, Length: k.Len, Body: p}
}

// fromWire returns a packet as hosts of this package see it, and whether it is one that
// they may get: what they sent each other, or an ICMPv6 message of some other node.
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

// Inject puts a packet on the wire as if it came from nowhere in particular:
// forgeries and replays.
func (n *Network) Inject(p Packet) {
	n.outside.Put(outsideLink, p.onWire())
	n.Settle(n.outside)
}

// add takes a node into the network.
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
		p, ok := fromWire(w)
		return ok && at.access.Filter.drops(p)
	})
	at.wire.Filter(sim.Backward, func(w sim.Packet) bool {
		p, ok := fromWire(w)
		return ok && (at.access.Filter.drops(p) || at.keepsOut(p))
	})
	n.route(at, true)
}

// unplug takes the link of an attachment away.
func (n *Network) unplug(at *attachment) {
	n.route(at, false)
	n.Disconnect(sim.End{Node: at.host, Link: at.link})
}

// route has the router before an attachment find it, or not any more. Of nodes with one address,
// the one that was added first gets what is sent there, by its first link.
func (n *Network) route(at *attachment, on bool) {
	prefix := netip.PrefixFrom(roam.ILV{L64: at.l64, NID: at.host.nid}.Addr(), 128)
	if !on {
		at.site.routes.Remove(prefix, at.port)
		return
	}
	at.site.routes.Add(sim.Route{Prefix: prefix, Link: at.port, Metric: uint64(at.host.order)<<32 | uint64(at.link)})
}

// set changes how an access link behaves.
func (at *attachment) set(a Access) {
	at.access = a
	at.wire.Set(sim.Both, a.params())
	out := a.params()
	out.Rate = at.rate
	at.wire.Set(sim.Forward, out)
}
