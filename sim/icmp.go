package sim

import (
	"encoding/binary"
	"net/netip"

	"roam/wire/ip6"
)

// Types of ICMPv6 messages (RFC 4443). Those below 128 are errors.
const (
	Unreachable      uint8 = 1
	PacketTooBig     uint8 = 2
	TimeExceeded     uint8 = 3
	ParameterProblem uint8 = 4
	EchoRequest      uint8 = 128
	EchoReply        uint8 = 129
)

// unknownOption is the code of a Parameter Problem about an option (RFC 4443 §3.4).
const unknownOption = 2

const (
	minMTU    = 1280 // of any link (RFC 8200 §5), hence the largest error
	icmpHead  = 8    // bytes: type, code, checksum, and four more
	ownHops   = 64   // the hop limit of packets that nodes of this package originate
	optionAct = 6    // right shift of an option's type that leaves the action for unknown options
)

// ICMP builds an ICMPv6 message; word is the 4 bytes behind the checksum, whose meaning
// depends on the type.
func ICMP(src, dst netip.Addr, typ, code uint8, word uint32, data []byte) Packet {
	size := icmpHead + len(data)
	h := ip6.Header{PayloadLen: uint16(size), NextHeader: ip6.ICMPv6, HopLimit: ownHops, Src: src, Dst: dst}
	b, err := h.AppendTo(make([]byte, 0, ip6.HeaderLen+size))
	if err != nil {
		return Packet{} // without addresses, every node drops it
	}
	b = append(b, typ, code, 0, 0)
	b = binary.BigEndian.AppendUint32(b, word)
	b = append(b, data...)
	binary.BigEndian.PutUint16(b[ip6.HeaderLen+2:], ip6.Checksum(src, dst, ip6.ICMPv6, b[ip6.HeaderLen:]))
	return Packet{Bytes: b}
}

// icmpError builds an error about a packet. It reports false where RFC 4443 §2.4 (e) forbids
// one: about another error, a multicast packet, or one from the unspecified address.
func icmpError(src netip.Addr, about Packet, typ, code uint8, word uint32) (Packet, bool) {
	answersMany := typ == PacketTooBig || typ == ParameterProblem && code == unknownOption
	toMany := about.Destination().IsMulticast() && !answersMany
	from := about.Source()
	if !from.IsValid() || from.IsUnspecified() || from.IsMulticast() || toMany || isError(about) {
		return Packet{}, false
	}
	quoted := about.Bytes[:min(len(about.Bytes), minMTU-ip6.HeaderLen-icmpHead)]
	return ICMP(src, from, typ, code, word, quoted), true
}

// isError reports whether a packet is an ICMPv6 error.
func isError(p Packet) bool {
	typ, ok := icmpType(p)
	return ok && typ < EchoRequest
}

// icmpType returns the type of an ICMPv6 message; false: the packet is none.
func icmpType(p Packet) (uint8, bool) {
	c, err := ip6.WalkQuoted(p.Bytes) // the end of the payload may be truncated
	if err != nil || c.Upper != ip6.ICMPv6 || c.Later() || c.UpperOffset >= len(p.Bytes) {
		return 0, false
	}
	return p.Bytes[c.UpperOffset], true
}
