package ip6

import (
	"encoding/binary"
	"fmt"
)

// Ext is where one extension header stands in a packet. Offsets count from
// the first byte of the IPv6 header.
type Ext struct {
	Proto   uint8 // HopByHop, Routing, Fragment or DestOpts
	Offset  int
	Len     int // bytes, a multiple of 8
	NextOff int // offset of the Next Header field that names this header
}

// Chain is the outcome of a walk along the extension headers of a packet.
type Chain struct {
	Header Header
	Exts   []Ext

	// Upper is the first protocol number that is not an extension header, also
	// an unknown one, and UpperOffset is where its header stands. In a later
	// fragment there is no upper-layer header: bytes out of the middle of one
	// stand there.
	Upper       uint8
	UpperOffset int
	NextOff     int // offset of the Next Header field that holds Upper
	End         int // where the packet ends, by its payload length; bytes behind it are padding

	Fragmented   bool   // there is a Fragment header, if only of an atomic fragment (RFC 6946)
	FragOffset   uint16 // bytes
	More         bool
	SegmentsLeft uint8 // of the first Routing header that has any left
}

// Later reports whether the packet is a fragment other than the first one.
func (c Chain) Later() bool { return c.FragOffset != 0 }

// Whole reports whether the packet holds a whole upper-layer message.
func (c Chain) Whole() bool { return c.FragOffset == 0 && !c.More }

// Walk reads the fixed header and the extension headers of a packet. A packet
// that is shorter than its payload length says is an error; bytes beyond it
// are allowed, as link layers pad short frames.
func Walk(b []byte) (Chain, error) { return walk(b, false) }

// WalkQuoted is Walk for the packet inside an ICMPv6 error, which may have been
// cut off (RFC 4443 §2.4). The extension headers must be there nevertheless.
func WalkQuoted(b []byte) (Chain, error) { return walk(b, true) }

func walk(b []byte, quoted bool) (Chain, error) {
	h, err := Parse(b)
	if err != nil {
		return Chain{}, err
	}
	c := Chain{Header: h, End: HeaderLen + int(h.PayloadLen), NextOff: 6}
	if c.End > len(b) {
		if !quoted {
			return Chain{}, truncated("ipv6 packet", "payload", len(b), c.End)
		}
		c.End = len(b)
	}
	off, proto := HeaderLen, h.NextHeader
	// Each turn consumes at least 8 bytes, so the loop ends with the packet.
	for isExt(proto) && !c.Later() {
		if proto == HopByHop && off != HeaderLen {
			return Chain{}, fmt.Errorf("hop-by-hop options header: not first, at offset %d: %w", off, ErrMalformed)
		}
		n, err := extLen(b[:c.End], off, proto)
		if err != nil {
			return Chain{}, err
		}
		c.Exts = append(c.Exts, Ext{Proto: proto, Offset: off, Len: n, NextOff: c.NextOff})
		c.note(b[off:off+n], proto)
		c.NextOff, proto, off = off, b[off], off+n
	}
	c.Upper, c.UpperOffset = proto, off
	return c, nil
}

// note keeps what Fragment and Routing headers say about the whole packet.
func (c *Chain) note(ext []byte, proto uint8) {
	switch proto {
	case Fragment:
		word := binary.BigEndian.Uint16(ext[2:])
		c.Fragmented = true
		c.FragOffset = word &^ 7 // the unit of the field is 8 bytes, its low 3 bits are flags
		c.More = word&1 != 0
	case Routing:
		if c.SegmentsLeft == 0 {
			c.SegmentsLeft = ext[3]
		}
	}
}

func isExt(proto uint8) bool {
	switch proto {
	case HopByHop, Routing, Fragment, DestOpts:
		return true
	}
	return false
}

func extName(proto uint8) string {
	switch proto {
	case HopByHop:
		return "hop-by-hop options header"
	case Routing:
		return "routing header"
	case Fragment:
		return "fragment header"
	}
	return "destination options header"
}

// extLen returns the length of the extension header at off.
func extLen(b []byte, off int, proto uint8) (int, error) {
	if len(b)-off < 8 {
		field := "next header"
		if len(b) > off {
			field = "length"
		}
		if len(b) > off+1 {
			field = "body"
		}
		return 0, truncated(extName(proto), field, len(b), off+8)
	}
	if proto == Fragment {
		return 8, nil // its second byte is reserved, not a length
	}
	n := 8 * (1 + int(b[off+1]))
	if len(b)-off < n {
		return 0, truncated(extName(proto), "body", len(b), off+n)
	}
	return n, nil
}
