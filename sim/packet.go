package sim

import (
	"net/netip"

	"roam"
	"roam/wire/ip6"
)

// Packet is an IPv6 packet on a link. Its bytes are shared: neither sender nor receiver may
// change them.
type Packet struct {
	Bytes  []byte // its headers at least
	Length int    // from its IPv6 header, where Bytes lacks the end of the payload; else 0
	Body   any    // attached by the sender for receivers of the same kind; or nil
}

// Size returns the packet's size on a link in bytes, from its IPv6 header on.
func (p Packet) Size() int { return max(p.Length, len(p.Bytes)) }

// Source returns the source address; invalid: the packet has none.
func (p Packet) Source() netip.Addr { return p.address(8) }

// Destination returns the destination address; invalid: the packet has none.
func (p Packet) Destination() netip.Addr { return p.address(24) }

func (p Packet) address(at int) netip.Addr {
	if len(p.Bytes) < ip6.HeaderLen {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(p.Bytes[at:]))
}

// Outbox queues the packets of a node until the network polls it.
type Outbox struct {
	list []Output
	head int // of list: the oldest packet; those before it have been polled
}

// Put appends a packet.
func (o *Outbox) Put(link roam.LinkID, p Packet) {
	o.list = append(o.list, Output{Link: link, Packet: p})
}

// Poll removes and returns the oldest packet.
func (o *Outbox) Poll() (Output, bool) {
	if o.head == len(o.list) {
		o.list, o.head = o.list[:0], 0
		return Output{}, false
	}
	first := o.list[o.head]
	o.list[o.head] = Output{}
	o.head++
	return first, true
}
