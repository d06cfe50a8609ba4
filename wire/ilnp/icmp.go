package ilnp

import (
	"encoding/binary"
	"fmt"

	"roam/wire/ip6"
)

// The body of an echo request or reply (RFC 4443 §4), behind type, code and checksum:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Identifier          |        Sequence Number        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Data ...
//	+-+-+-+-+-
//
// The body of an error (§3). The parameter is the MTU of a Packet Too Big, the pointer of
// a Parameter Problem, and unused in the other types:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       MTU, Pointer or unused                  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Quoted packet, cut so that the error fits in 1280 bytes   .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	echoIDAt   = 4
	echoSeqAt  = 6
	paramAt    = 4
	icmpDataAt = 8 // of an echo's data and of an error's quoted packet
)

// Echo is an ICMPv6 echo request or reply (RFC 4443 §4). With a Nonce option in its packet
// it is the probe of a path.
type Echo struct {
	Request bool
	ID, Seq uint16
	Data    []byte
}

// ParseEcho reads an echo message from its type field on. Data is a part of b.
func ParseEcho(b []byte) (Echo, error) {
	if len(b) < icmpDataAt {
		fields := [icmpDataAt]string{"type", "code", "checksum", "checksum",
			"identifier", "identifier", "sequence number", "sequence number"}
		return Echo{}, fmt.Errorf("echo: %s ends at offset %d, want %d bytes: %w",
			fields[len(b)], len(b), icmpDataAt, ip6.ErrTruncated)
	}
	typ := b[ip6.ICMPTypeAt]
	if typ != TypeEchoRequest && typ != TypeEchoReply {
		return Echo{}, fmt.Errorf("echo: type %d at offset 0: %w", typ, ip6.ErrMalformed)
	}
	return Echo{
		Request: typ == TypeEchoRequest,
		ID:      binary.BigEndian.Uint16(b[echoIDAt:]),
		Seq:     binary.BigEndian.Uint16(b[echoSeqAt:]),
		Data:    b[icmpDataAt:],
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
	Quoted     []byte // the start of the packet that caused the error
}

// ParseError reads an ICMPv6 error from its type field on. Quoted is a part of
// b; ParseQuoted reads it.
func ParseError(b []byte) (ErrorMessage, error) {
	if len(b) < icmpDataAt {
		fields := [icmpDataAt]string{"type", "code", "checksum", "checksum",
			"parameter", "parameter", "parameter", "parameter"}
		return ErrorMessage{}, fmt.Errorf("icmpv6 error: %s ends at offset %d, want %d bytes: %w",
			fields[len(b)], len(b), icmpDataAt, ip6.ErrTruncated)
	}
	typ := b[ip6.ICMPTypeAt]
	if typ < TypeUnreachable || typ > TypeParameterProblem {
		return ErrorMessage{}, fmt.Errorf("icmpv6 error: type %d at offset 0: %w", typ, ip6.ErrMalformed)
	}
	return ErrorMessage{
		Type:   typ,
		Code:   b[ip6.ICMPCodeAt],
		Param:  binary.BigEndian.Uint32(b[paramAt:]),
		Quoted: b[icmpDataAt:],
	}, nil
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

// ParseQuotedEcho reads the echo message that an ICMPv6 error quotes. An echo that is
// encapsulated in UDP to port has Encapsulated set; port 0 decapsulates nothing. The
// quoted packet may be cut off anywhere behind the echo's header.
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

// decapsulateQuoted is Decapsulate for a packet that may be cut off, so it verifies no
// checksum. It returns b itself if b is not encapsulated.
func decapsulateQuoted(b []byte, port uint16) (inner []byte, encap bool) {
	c, err := ip6.WalkQuoted(b)
	if err != nil {
		return b, false
	}
	at := c.UpperOffset
	if !isEncapsulated(b, c, port) || c.Header.PayloadLen < ip6.UDPHeaderLen {
		return b, false
	}
	inner = append(append(make([]byte, 0, c.End), b[:at]...), b[at+ip6.UDPHeaderLen:c.End]...)
	inner[c.NextOff] = ip6.DestOpts
	binary.BigEndian.PutUint16(inner[ip6.PayloadLenAt:], c.Header.PayloadLen-ip6.UDPHeaderLen)
	return inner, true
}
