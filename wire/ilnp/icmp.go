package ilnp

import (
	"encoding/binary"
	"fmt"

	"roam/wire/ip6"
)

// Echo is an ICMPv6 echo request or reply (RFC 4443 §4). With a Nonce option
// in its packet it is the probe of a path.
type Echo struct {
	Request bool
	ID, Seq uint16
	Data    []byte
}

// ParseEcho reads an echo message from its type field on. Data is a part of b.
func ParseEcho(b []byte) (Echo, error) {
	if len(b) < 8 {
		return Echo{}, fmt.Errorf("echo: %s ends at offset %d, want 8 bytes: %w",
			[8]string{"type", "code", "checksum", "checksum", "identifier", "identifier", "sequence number", "sequence number"}[len(b)],
			len(b), ip6.ErrTruncated)
	}
	if b[0] != TypeEchoRequest && b[0] != TypeEchoReply {
		return Echo{}, fmt.Errorf("echo: type %d at offset 0: %w", b[0], ip6.ErrMalformed)
	}
	return Echo{
		Request: b[0] == TypeEchoRequest,
		ID:      binary.BigEndian.Uint16(b[4:]),
		Seq:     binary.BigEndian.Uint16(b[6:]),
		Data:    b[8:],
	}, nil
}

// AppendTo appends the message to b with a checksum of zero.
func (e Echo) AppendTo(b []byte) ([]byte, error) {
	typ := TypeEchoReply
	if e.Request {
		typ = TypeEchoRequest
	}
	b = append(b, typ, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, e.ID)
	b = binary.BigEndian.AppendUint16(b, e.Seq)
	return append(b, e.Data...), nil
}

// ErrorMessage is an ICMPv6 error, types 1 to 4 (RFC 4443 §3).
type ErrorMessage struct {
	Type, Code uint8
	Param      uint32 // MTU of a Packet Too Big, pointer of a Parameter Problem
	Quoted     []byte // as much of the packet in question as came along
}

// ParseError reads an ICMPv6 error from its type field on. Quoted is a part of
// b; ParseQuoted reads it.
func ParseError(b []byte) (ErrorMessage, error) {
	if len(b) < 8 {
		return ErrorMessage{}, fmt.Errorf("icmpv6 error: %s ends at offset %d, want 8 bytes: %w",
			[8]string{"type", "code", "checksum", "checksum", "parameter", "parameter", "parameter", "parameter"}[len(b)],
			len(b), ip6.ErrTruncated)
	}
	if b[0] < TypeUnreachable || b[0] > TypeParameterProblem {
		return ErrorMessage{}, fmt.Errorf("icmpv6 error: type %d at offset 0: %w", b[0], ip6.ErrMalformed)
	}
	return ErrorMessage{Type: b[0], Code: b[1], Param: binary.BigEndian.Uint32(b[4:]), Quoted: b[8:]}, nil
}

// AppendTo appends the message to b with a checksum of zero. The caller cuts
// Quoted to what fits.
func (m ErrorMessage) AppendTo(b []byte) ([]byte, error) {
	if m.Type < TypeUnreachable || m.Type > TypeParameterProblem {
		return nil, fmt.Errorf("icmpv6 error: type %d at offset 0: %w", m.Type, ip6.ErrMalformed)
	}
	b = append(b, m.Type, m.Code, 0, 0)
	b = binary.BigEndian.AppendUint32(b, m.Param)
	return append(b, m.Quoted...), nil
}

// ParseQuotedEcho reads the echo message that an ICMPv6 error quotes, also one in UDP
// to port, for which Encapsulated is set. Port 0 opens none. The quote may be cut off
// anywhere behind the echo's header.
func ParseQuotedEcho(quoted []byte, port uint16) (Packet, Echo, error) {
	inner, encap := decapsulateQuoted(quoted, port)
	p, err := ParseQuoted(inner)
	if err != nil {
		return Packet{}, Echo{}, err
	}
	if p.Encapsulated = encap; p.Proto != ip6.ICMPv6 || p.Later {
		return Packet{}, Echo{}, fmt.Errorf("quoted packet: protocol %d is no echo: %w", p.Proto, ip6.ErrMalformed)
	}
	e, err := ParseEcho(p.Payload)
	if err != nil {
		return Packet{}, Echo{}, fmt.Errorf("quoted packet: %w", err)
	}
	return p, e, nil
}

// decapsulateQuoted is Decapsulate for a packet that may have been cut off: no checksum is
// verified. It returns b itself if that is none in UDP.
func decapsulateQuoted(b []byte, port uint16) (inner []byte, encap bool) {
	c, err := ip6.WalkQuoted(b)
	if err != nil {
		return b, false
	}
	at := c.UpperOffset
	if port == 0 || c.Upper != ip6.UDP || !c.Whole() || c.End < at+udpHeaderLen+8 || binary.BigEndian.Uint16(b[at+2:]) != port ||
		b[at+udpHeaderLen] != ip6.ICMPv6 || b[at+udpHeaderLen+2] != OptionNonce || c.Header.PayloadLen < udpHeaderLen {
		return b, false
	}
	inner = append(append(make([]byte, 0, c.End), b[:at]...), b[at+udpHeaderLen:c.End]...)
	inner[c.NextOff] = ip6.DestOpts
	binary.BigEndian.PutUint16(inner[4:], c.Header.PayloadLen-udpHeaderLen)
	return inner, true
}
