package ilnp

import (
	"encoding/binary"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// UDP encapsulation of a control message. No RFC defines it. The UDP header stands in
// front of the Destination Options header, so that the path sees a datagram:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  IPv6 header, Next Header = 17; maybe a padding-only header   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       Source Port = port      |    Destination Port = port    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|          UDP Length           |         UDP Checksum          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Destination Options: Next Header = 58, Nonce option alone    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  ICMPv6 message: echo or Locator Update                       .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	encapNextAt   = ip6.UDPHeaderLen                 // Next Header of the options, from the UDP header
	encapOptionAt = ip6.UDPHeaderLen + ip6.OptionsAt // type of their first option
	encapLeast    = ip6.UDPHeaderLen + 8             // bytes, with the shortest options header
)

// ErrNotEncapsulated marks a packet without an encapsulated control message.
var ErrNotEncapsulated = fmt.Errorf("no control message in UDP: %w", ip6.ErrMalformed)

// Encapsulate puts a control packet into UDP, for paths that drop destination options or
// ICMPv6. It inserts a UDP header, from and to port, in front of the Destination Options
// header with the nonce; that and the ICMPv6 message stay as they are, checksum
// included. No RFC defines this form: DEVIATION in docs/rfc/rfc6744.md.
func Encapsulate(packet []byte, port uint16) ([]byte, error) {
	c, err := ip6.Walk(packet)
	if err != nil {
		return nil, fmt.Errorf("encapsulate in udp: %w", err)
	}
	f, err := FindNonce(packet, c)
	if err != nil {
		return nil, fmt.Errorf("encapsulate in udp: %w", err)
	}
	if packet, err = putBehind(packet[:c.End], c, f); err == nil {
		c, err = ip6.Walk(packet)
	}
	if err == nil {
		f, err = FindNonce(packet, c)
	}
	if err != nil {
		return nil, fmt.Errorf("encapsulate in udp: %w", err)
	}
	if len(c.Exts) != 1 || !f.Alone || c.Upper != ip6.ICMPv6 || port == 0 {
		return nil, fmt.Errorf("encapsulate in udp: want one header with the nonce alone, an icmpv6 message, and a port: %w",
			ip6.ErrMalformed)
	}
	return encapBehind(packet[:c.End], ip6.HeaderLen, port)
}

// Pad inserts a Destination Options header that holds padding only behind the IPv6 header
// of an encapsulated packet: a probe of whether the path drops such headers.
func Pad(encap []byte) []byte {
	const padding = 4
	h := [8]byte{encap[ip6.NextHeaderAt], 0, ip6.PadN, padding}
	b := append(append(append([]byte(nil), encap[:ip6.HeaderLen]...), h[:]...), encap[ip6.HeaderLen:]...)
	b[ip6.NextHeaderAt] = ip6.DestOpts
	binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], uint16(len(b)-ip6.HeaderLen))
	return b
}

// encapBehind inserts a UDP header at offset at.
func encapBehind(packet []byte, at int, port uint16) ([]byte, error) {
	n := len(packet) - at + ip6.UDPHeaderLen
	if n > 0xffff {
		return nil, fmt.Errorf("encapsulate in udp: %d bytes, at most 65535: %w", n, ip6.ErrMalformed)
	}
	b := append(make([]byte, 0, len(packet)+ip6.UDPHeaderLen), packet[:at]...)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(append(b, 0, 0), packet[at:]...)
	b[ip6.NextHeaderAt] = ip6.UDP
	binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], uint16(len(b)-ip6.HeaderLen))
	if err := ip6.FinishL4(b); err != nil {
		return nil, err
	}
	return b, nil
}

// ParseControl is ParsePacket for a packet that may be encapsulated in UDP to port; then
// it sets Encapsulated. Port 0 decapsulates nothing.
func ParseControl(b []byte, port uint16) (Packet, error) {
	c, err := ip6.Walk(b)
	if err != nil {
		return Packet{}, err
	}
	if !isEncapsulated(b, c, port) {
		return parseWalked(b, c)
	}
	inner, err := decapsulateWalked(b, c)
	if err != nil {
		return parseWalked(b, c)
	}
	p, err := ParsePacket(inner)
	if err != nil {
		return Packet{}, fmt.Errorf("control message in udp: %w", err)
	}
	p.Encapsulated = true
	return p, nil
}

// isEncapsulated reports whether the packet holds a control message in UDP to port, as far
// as its headers tell.
func isEncapsulated(b []byte, c ip6.Chain, port uint16) bool {
	at := c.UpperOffset
	return port != 0 && c.Upper == ip6.UDP && c.Whole() && c.End >= at+encapLeast &&
		binary.BigEndian.Uint16(b[at+ip6.DstPortAt:]) == port &&
		b[at+encapNextAt] == ip6.ICMPv6 && b[at+encapOptionAt] == OptionNonce
}

// Decapsulate returns the packet without its UDP header, the inverse of Encapsulate. Its
// error wraps ErrNotEncapsulated if b is not such a packet, or port is 0.
func Decapsulate(b []byte, port uint16) ([]byte, error) {
	c, err := ip6.Walk(b)
	if err != nil {
		return nil, err
	}
	if !isEncapsulated(b, c, port) {
		return nil, ErrNotEncapsulated
	}
	return decapsulateWalked(b, c)
}

// decapsulateWalked is Decapsulate of a packet whose headers say that it is encapsulated.
func decapsulateWalked(b []byte, c ip6.Chain) ([]byte, error) {
	at := c.UpperOffset
	if n := int(binary.BigEndian.Uint16(b[at+ip6.UDPLengthAt:])); n != c.End-at ||
		ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.UDP, b[at:c.End]) != 0 {
		return nil, fmt.Errorf("udp length %d or checksum at offset %d: %w", n, at+ip6.UDPLengthAt, ErrNotEncapsulated)
	}
	inner := append(append(make([]byte, 0, c.End), b[:at]...), b[at+ip6.UDPHeaderLen:c.End]...)
	inner[c.NextOff] = ip6.DestOpts
	binary.BigEndian.PutUint16(inner[ip6.PayloadLenAt:], uint16(len(inner)-ip6.HeaderLen))
	return putBeside(inner, at)
}

// BuildEncapsulatedEcho makes an echo request or reply in UDP as o says. It pads the data
// with zeros until the packet has o.Size bytes.
func BuildEncapsulatedEcho(src, dst roam.ILV, nonce Nonce, e Echo, o EncapsulatedEcho) ([]byte, error) {
	pad := 0
	if o.Padded {
		pad = 8
	}
	if n := o.Size - ip6.HeaderLen - pad - ip6.UDPHeaderLen - nonce.HeaderLen() - icmpDataAt; n > len(e.Data) {
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

// EncapsulatedEcho holds the parameters of BuildEncapsulatedEcho beside the echo's own.
type EncapsulatedEcho struct {
	Port      uint16
	Padded    bool   // with Pad's header in front of the UDP header
	FlowLabel uint32 // 20 bits
	Size      int    // least length of the whole packet in bytes; 0: no padding
}
