package sim

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/wire/ip6"
)

// world is two networks of a client, which can use either, a server, and a bystander in
// the client's first network:
//
//	client 1 --- A --- lan 1 +----+           +----+
//	                         | r1 | 3 --- 1   | r2 | 3 --- 1 server
//	bystander 1 ------ lan 2 +----+   core    +----+
//	client 2 --- B -------------------------- 2
type world struct {
	*Network
	r1, r2                     *Router
	client                     *prober
	bystander, server          *Host
	a, b, lan, core, serverLan *Link
}

var (
	onA, onB     = netip.MustParseAddr("2001:db8:a::1"), netip.MustParseAddr("2001:db8:b::1")
	standing     = netip.MustParseAddr("2001:db8:a::2")
	serving      = netip.MustParseAddr("2001:db8:5:1::1")
	first, other = netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::1")
	all          = netip.MustParsePrefix("::/0")
)

func prefix(a netip.Addr, bits int) netip.Prefix { return netip.PrefixFrom(a, bits) }

func newWorld(seed uint64, p Params) *world {
	n := New(seed)
	w := &world{Network: n, r1: n.AddRouter(first), r2: n.AddRouter(other), client: newProber(onA, onB, serving)}
	w.bystander, w.server = n.AddHost(standing), n.AddHost(serving)
	w.a = n.Connect(End{w.client, 1}, End{w.r1, 1}, p)
	w.b = n.Connect(End{w.client, 2}, End{w.r2, 2}, p)
	w.lan = n.Connect(End{w.bystander, 1}, End{w.r1, 2}, p)
	w.core = n.Connect(End{w.r1, 3}, End{w.r2, 1}, p)
	w.serverLan = n.Connect(End{w.server, 1}, End{w.r2, 3}, p)
	w.r1.Add(Route{Prefix: prefix(onA, 64), Link: 2}) // of which the client has one address
	w.r1.Add(Route{Prefix: prefix(onA, 128), Link: 1})
	w.r1.Add(Route{Prefix: all, Link: 3})
	w.r2.Add(Route{Prefix: prefix(onB, 64), Link: 2})
	w.r2.Add(Route{Prefix: prefix(serving, 64), Link: 3})
	w.r2.Add(Route{Prefix: prefix(onA, 48), Link: 1})
	w.r2.Add(Route{Prefix: prefix(first, 64), Link: 1})
	w.bystander.Add(Route{Prefix: all, Link: 1})
	w.server.Add(Route{Prefix: all, Link: 1})
	return w
}

// path is a link of 5 ms.
var path = Params{Delay: 5 * time.Millisecond}

// prober is a core of a protocol that nobody knows: it asks a server for an echo every
// 100 ms, and goes to its other address when three of its questions stay without answer.
type prober struct {
	Outbox
	addrs     map[roam.LinkID]netip.Addr
	to        netip.Addr
	link      roam.LinkID // in use; 0: it is not at work
	due       time.Time
	seq, back uint32   // asked, and answered last
	answered  []uint32 // the questions that were, in order
	moved     []time.Duration
	errors    []uint8 // types of the ICMPv6 errors that came
}

const every = 100 * time.Millisecond

func newProber(a, b, to netip.Addr) *prober {
	return &prober{addrs: map[roam.LinkID]netip.Addr{1: a, 2: b}, to: to}
}

// start has it go to work; its caller settles it.
func (c *prober) start(now time.Time) { c.link, c.due = 1, now }

func (c *prober) Receive(_ time.Time, link roam.LinkID, p Packet) {
	typ, ok := icmpType(p)
	switch {
	case !ok || p.Destination() != c.addrs[link]:
	case typ == EchoReply:
		c.back = binary.BigEndian.Uint32(p.Bytes[ip6.HeaderLen+4:])
		c.answered = append(c.answered, c.back)
	case isError(p):
		c.errors = append(c.errors, typ)
	}
}

func (c *prober) HandleTimeout(now time.Time) {
	if c.seq >= c.back+3 {
		c.link, c.back = 3-c.link, c.seq
		c.moved = append(c.moved, now.Sub(Start))
	}
	c.seq++
	c.Put(c.link, ICMP(c.addrs[c.link], c.to, EchoRequest, 0, c.seq, nil))
	c.due = now.Add(every)
}

func (c *prober) PollTimeout() (time.Time, bool) { return c.due, c.link != 0 }

// udp makes a datagram of so many bytes in all.
func udp(src, dst netip.Addr, size int) Packet {
	h := ip6.Header{PayloadLen: uint16(size - ip6.HeaderLen), NextHeader: ip6.UDP, HopLimit: 64, Src: src, Dst: dst}
	b, _ := h.AppendTo(nil)
	return Packet{Bytes: append(b, make([]byte, 8)...), Length: size}
}

// inbox notes what a host receives.
type inbox struct {
	packets []Packet
	at      []time.Duration
}

func listen(h *Host) *inbox {
	in := &inbox{}
	h.Received = func(now time.Time, _ roam.LinkID, p Packet) {
		in.packets, in.at = append(in.packets, p), append(in.at, now.Sub(Start))
	}
	return in
}

// only returns the one packet that came, and forgets it.
func (in *inbox) only(t *testing.T) Packet {
	t.Helper()
	if len(in.packets) != 1 {
		t.Fatalf("%d packets, want one", len(in.packets))
	}
	p := in.packets[0]
	*in = inbox{}
	return p
}
