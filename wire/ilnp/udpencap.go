package ilnp

import (
	"encoding/binary"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

const udpHeaderLen = 8

// ErrNotEncapsulated marks a packet that has no control message in UDP.
var ErrNotEncapsulated = fmt.Errorf("no control message in UDP: %w", ip6.ErrMalformed)

// Encapsulate puts a control packet into UDP, for paths that drop destination options
// or ICMPv6: its Destination Options header with the nonce and its ICMPv6 message
// stay as they are, checksum included, and get a UDP header from and to port in
// front. No RFC has this form: DEVIATION in docs/rfc/rfc6744.md.
func Encapsulate(packet []byte, port uint16) ([]byte, error) {
	c, err := ip6.Walk(packet)
	if err != nil {
		return nil, fmt.Errorf("encapsulate in udp: %w", err)
	}
	f, err := FindNonce(packet, c)
	if err != nil {
		return nil, fmt.Errorf("encapsulate in udp: %w", err)
	}
	if len(c.Exts) != 1 || !f.Alone || c.Upper != ip6.ICMPv6 || port == 0 {
		return nil, fmt.Errorf("encapsulate in udp: want one header with the nonce alone, an icmpv6 message, and a port: %w", ip6.ErrMalformed)
	}
	return encapBehind(packet[:c.End], ip6.HeaderLen, port)
}

// Pad puts a Destination Options header that holds padding only behind the IPv6
// header of an encapsulated packet: a probe that says whether the path drops the
// header as such.
func Pad(encap []byte) []byte {
	const padN, padding = 1, 4
	h := [8]byte{encap[6], 0, padN, padding}
	b := append(append(append([]byte(nil), encap[:ip6.HeaderLen]...), h[:]...), encap[ip6.HeaderLen:]...)
	b[6] = ip6.DestOpts
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ip6.HeaderLen))
	return b
}

// encapBehind puts a UDP header at offset at, in front of all that follows.
func encapBehind(packet []byte, at int, port uint16) ([]byte, error) {
	n := len(packet) - at + udpHeaderLen
	if n > 0xffff {
		return nil, fmt.Errorf("encapsulate in udp: %d bytes, at most 65535: %w", n, ip6.ErrMalformed)
	}
	b := append(make([]byte, 0, len(packet)+udpHeaderLen), packet[:at]...)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(append(b, 0, 0), packet[at:]...)
	b[6] = ip6.UDP
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ip6.HeaderLen))
	if err := ip6.FinishL4(b); err != nil {
		return nil, err
	}
	return b, nil
}

// ParseControl reads a packet as ParsePacket does, and one that stands in UDP to
// port as if it did not: Encapsulated is set then. Port 0 opens none.
func ParseControl(b []byte, port uint16) (Packet, error) {
	inner, err := Decapsulate(b, port)
	if err != nil {
		return ParsePacket(b)
	}
	p, err := ParsePacket(inner)
	if err != nil {
		return Packet{}, fmt.Errorf("control message in udp: %w", err)
	}
	p.Encapsulated = true
	return p, nil
}

// Decapsulate returns the packet without its UDP header: what Carry was given. It
// wraps ErrNotEncapsulated if it is not such a packet, or port is 0.
func Decapsulate(b []byte, port uint16) ([]byte, error) {
	c, err := ip6.Walk(b)
	if err != nil {
		return nil, err
	}
	at := c.UpperOffset
	if port == 0 || c.Upper != ip6.UDP || !c.Whole() || c.End < at+udpHeaderLen+8 || binary.BigEndian.Uint16(b[at+2:]) != port ||
		b[at+udpHeaderLen] != ip6.ICMPv6 || b[at+udpHeaderLen+2] != OptionNonce {
		return nil, ErrNotEncapsulated
	}
	if n := int(binary.BigEndian.Uint16(b[at+4:])); n != c.End-at || ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.UDP, b[at:c.End]) != 0 {
		return nil, fmt.Errorf("udp length %d or checksum at offset %d: %w", n, at+4, ErrNotEncapsulated)
	}
	inner := append(append(make([]byte, 0, c.End), b[:at]...), b[at+udpHeaderLen:c.End]...)
	inner[c.NextOff] = ip6.DestOpts
	binary.BigEndian.PutUint16(inner[4:], uint16(len(inner)-ip6.HeaderLen))
	return inner, nil
}

// BuildEncapsulatedEcho makes an echo request or reply in UDP; padded, it stands
// behind a Destination Options header of its own. Its flow label is label, of
// 20 bits, and its data is filled up with zeros until it has size bytes in all.
func BuildEncapsulatedEcho(src, dst roam.ILV, nonce Nonce, e Echo, o EncapsulatedEcho) ([]byte, error) {
	pad := 0
	if o.Padded {
		pad = 8
	}
	if n := o.Size - ip6.HeaderLen - pad - udpHeaderLen - nonce.HeaderLen() - 8; n > len(e.Data) {
		e.Data = append(e.Data[:len(e.Data):len(e.Data)], make([]byte, n-len(e.Data))...)
	}
	b, err := BuildEcho(src, dst, nonce, e.Request, e.ID, e.Seq, e.Data)
	if err != nil {
		return nil, err
	}
	if b, err = Encapsulate(b, o.Port); err != nil {
		return nil, err
	}
	if o.Padded {
		b = Pad(b)
	}
	word := binary.BigEndian.Uint32(b)
	binary.BigEndian.PutUint32(b, word&^0xfffff|o.FlowLabel&0xfffff)
	return b, nil
}

// EncapsulatedEcho is what BuildEncapsulatedEcho makes of an echo beyond its own fields.
type EncapsulatedEcho struct {
	Port      uint16
	Padded    bool
	FlowLabel uint32 // 20 bits
	Size      int    // bytes of the whole packet, at least; 0: as long as it is
}
