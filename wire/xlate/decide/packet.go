package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Offsets, bits and bounds of bpf/lib/parse.h.
const (
	ethLen      = 14
	maxHeaders  = 6
	maxOptions  = 16
	tcpFlagsAt  = ip6.TCPFlagsAt
	udpLen      = ip6.UDPHeaderLen
	flagFIN     = 0x01
	flagSYN     = 0x02
	flagRST     = 0x04
	flagACK     = 0x10
	errorLast   = 127
	knownErrors = 4
	mldFirst    = 130
	ndLast      = 137
	mldReport   = 143
)

// Packet is the input of a program.
type Packet struct {
	Bytes []byte // from the IPv6 header; it may end before Len, behind the headers
	Len   int    // from the IPv6 header
	Other bool   // not IPv6
	Raw   bool   // the link has no MAC header
	Link  uint32 // the incoming or outgoing link
	// Arrived is the link on which the packet arrived before; 0: this host sent it.
	Arrived uint32
	GSO     uint32 // segment size of a GSO packet; 0: it is none
	Mark    uint32
	Astray  bool // to another hardware address, or on a VLAN of its link
	// State of the sending TCP socket: it has data in flight; it retransmits after a
	// time-out, or most of its data; its segments wait in queues.
	InFlight, Stalled, Queued bool
	Delivered                 uint32 // segments, where it is Stalled by a time-out
}

// NewPacket returns a complete packet.
func NewPacket(b []byte, link uint32) *Packet { return &Packet{Bytes: b, Len: len(b), Link: link} }

// load returns n bytes at an offset from the IPv6 header.
func (k *Packet) load(at, n int) ([]byte, bool) {
	if at < 0 || at+n > len(k.Bytes) || at+n > k.Len {
		return nil, false
	}
	return k.Bytes[at : at+n], true
}

// byteAt returns one byte; false behind the end.
func (k *Packet) byteAt(at int) (uint8, bool) {
	b, ok := k.load(at, 1)
	if !ok {
		return 0, false
	}
	return b[0], true
}

// ports returns the two ports of a segment or a datagram.
func (k *Packet) ports(at int) (from, to uint16, ok bool) {
	b, ok := k.load(at, 4)
	if !ok {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(b[ip6.SrcPortAt:]), binary.BigEndian.Uint16(b[ip6.DstPortAt:]), true
}

func (k *Packet) frame() uint32 {
	if k.Raw {
		return uint32(k.Len)
	}
	return uint32(k.Len) + ethLen
}

func ilvAt(b []byte) roam.ILV {
	return roam.ILV{L64: roam.L64(binary.BigEndian.Uint64(b)), NID: roam.NID(binary.BigEndian.Uint64(b[ip6.NIDAt:]))}
}

// isSegmented reports whether the packet is at the far end of the segmentation device.
func (k *Packet) isSegmented() bool { return k.Arrived != 0 && k.Arrived == k.Link }

type fragment uint8

const (
	whole fragment = iota
	firstFragment
	laterFragment
)

// chain is struct chain: the parsed headers.
type chain struct {
	at       int // of the upper-layer header
	nonceAt  int // of the Destination Options header with the nonce; 0: none
	optionAt int
	proto    uint8
	fragment fragment
	alone    int // length of a header that holds only the nonce
	kind     uint8
	encap    bool
	plain    bool
	refused  Counter
	nonce    ilnp.Nonce
}

// parseNonce reads the option at optionAt. It returns the reason of a drop, or 0.
func (c *chain) parseNonce(k *Packet, n uint8) Counter {
	if c.nonce.Present() {
		c.refused = DropTwoNonces
		return 0
	}
	c.nonce.Len = n
	if n != 4 && n != 12 {
		return DropNonceLength
	}
	b, ok := k.load(c.optionAt+ip6.OptionDataAt, int(n))
	if !ok {
		return DropMalformed
	}
	copy(c.nonce.Bytes[:], b)
	return 0
}

// parseOptions searches the nonce among the options of the header [at, at+n).
func (c *chain) parseOptions(k *Packet, at, n int) Counter {
	o, end := at+ip6.OptionsAt, at+n
	for range maxOptions {
		if o >= end {
			return 0
		}
		kind, ok := k.byteAt(o)
		if !ok {
			return DropMalformed
		}
		if kind == 0 { // Pad1
			o++
			continue
		}
		size, ok := k.byteAt(o + ip6.OptionLenAt)
		if !ok || o+ip6.OptionDataAt+int(size) > end {
			return DropMalformed
		}
		if kind == ilnp.OptionNonce {
			c.optionAt = o
			if why := c.parseNonce(k, size); why != 0 {
				return why
			}
			c.nonceAt, c.alone = at, 0
			if int(size)+4 == n {
				c.alone = n
			}
		}
		o += ip6.OptionDataAt + int(size)
	}
	if o >= end {
		return 0
	}
	return DropMalformed
}

// parse walks the headers from at; next is the type of the first.
func (c *chain) parse(k *Packet, at int, next uint8) Counter {
	for i := range maxHeaders {
		n := 8
		switch next {
		case ip6.Fragment, ip6.HopByHop, ip6.Routing, ip6.DestOpts:
		default:
			c.proto, c.at = next, at
			if next != ip6.ICMPv6 {
				return 0
			}
			kind, ok := k.byteAt(at)
			if c.kind = kind; !ok {
				return DropMalformed
			}
			return 0
		}
		h, ok := k.load(at, 8)
		if !ok {
			return DropMalformed
		}
		if next == ip6.Fragment {
			if c.fragment = firstFragment; h[ip6.FragmentOffsetAt] != 0 || h[ip6.FragmentOffsetAt+1]&0xf8 != 0 {
				c.fragment, c.proto, c.at = laterFragment, h[ip6.ExtNextAt], at+ip6.FragmentHeaderLen
				return 0
			}
		} else {
			if next == ip6.HopByHop && i > 0 || next == ip6.Routing && h[ip6.SegmentsLeftAt] != 0 {
				return DropMalformed
			}
			n = 8 + 8*int(h[ip6.ExtLenAt])
		}
		if next == ip6.DestOpts {
			if why := c.parseOptions(k, at, n); why != 0 {
				return why
			}
		}
		next, at = h[ip6.ExtNextAt], at+n
	}
	return DropMalformed
}

// openEncap parses a UDP datagram to the encapsulation port.
func (c *chain) openEncap(k *Packet, port uint16, count func(Counter)) Counter {
	if port == 0 || c.proto != ip6.UDP || c.fragment != whole || c.nonce.Present() {
		return 0
	}
	h, ok := k.load(c.at, udpLen+4)
	if !ok || binary.BigEndian.Uint16(h[ip6.DstPortAt:]) != port || h[udpLen] != ip6.ICMPv6 ||
		h[udpLen+ip6.OptionsAt] != ilnp.OptionNonce {
		return 0
	}
	if why := c.parse(k, c.at+udpLen, ip6.DestOpts); why != 0 {
		return why
	}
	c.encap = true
	count(RxEncap)
	if c.alone == 0 {
		return DropMalformed
	}
	return 0
}

// leastHeader returns the least length of an upper-layer header.
func leastHeader(proto uint8) int {
	_, n, ok := ip6.ChecksumOffset(proto)
	if !ok {
		return 0
	}
	return n
}

// lengthHolds reports whether the packet is as long as its header says.
func (c *chain) lengthHolds(k *Packet) bool {
	n := int(binary.BigEndian.Uint16(k.Bytes[ip6.PayloadLenAt:]))
	upper := 0
	if c.fragment != laterFragment {
		upper = leastHeader(c.proto)
	}
	if n == 0 && k.GSO != 0 {
		return true
	}
	end := ip6.HeaderLen + n
	return end <= k.Len && c.at+upper <= end
}

// flags returns the flags of a segment.
func (c *chain) flags(k *Packet) (uint8, bool) { return k.byteAt(c.at + tcpFlagsAt) }

// isWhole reports whether the packet is no fragment.
func (c *chain) isWhole() bool { return c.fragment == whole }

func hasRule(proto uint8) bool { return proto == ip6.TCP || proto == ip6.UDP }
