package ip6

import (
	"encoding/binary"
	"fmt"
)

// Ext is the place of one extension header in a packet. Offsets count from the first byte
// of the IPv6 header.
type Ext struct {
	Proto   uint8 // HopByHop, Routing, Fragment or DestOpts
	Offset  int
	Len     int // bytes, a multiple of 8
	NextOff int // offset of the Next Header field that names this header
}

// Chain is the result of Walk: the extension headers of a packet and its upper layer.
type Chain struct {
	Header Header
	Exts   []Ext

	// Upper is the first protocol number that is not an extension header, known or
	// not, and UpperOffset the offset of its header. A later fragment has bytes from the
	// middle of the message at UpperOffset, and no upper-layer header.
	Upper       uint8
	UpperOffset int
	NextOff     int // offset of the Next Header field that holds Upper
	End         int // of the packet, by its payload length; bytes behind it are padding

	Fragmented   bool   // a Fragment header is present, possibly of an atomic fragment (RFC 6946)
	FragOffset   uint16 // bytes
	More         bool
	SegmentsLeft uint8 // of the first Routing header that has any left
}

// Later reports whether the packet is a fragment other than the first one.
func (c Chain) Later() bool { return c.FragOffset != 0 }

// Whole reports whether the packet holds a whole upper-layer message.
func (c Chain) Whole() bool { return c.FragOffset == 0 && !c.More }

// Walk reads the fixed header and the extension headers of a packet. A packet shorter
// than its payload length is an error; bytes beyond it are allowed, since link layers pad
// short frames.
func Walk(b []byte) (Chain, error) { return walk(b, false) }

// WalkQuoted is Walk for the packet inside an ICMPv6 error, which may be cut off (RFC 4443
// §2.4). Its extension headers must be complete.
func WalkQuoted(b []byte) (Chain, error) { return walk(b, true) }

func walk(b []byte, quoted bool) (Chain, error) {
	h, err := Parse(b)
	if err != nil {
		return Chain{}, err
	}
	c := Chain{Header: h, End: HeaderLen + int(h.PayloadLen), NextOff: NextHeaderAt}
	if c.End > len(b) {
		if !quoted {
			return Chain{}, truncated("ipv6 packet", "payload", len(b), c.End)
		}
		c.End = len(b)
	}
	off, proto := HeaderLen, h.NextHeader
	// Each iteration consumes at least 8 bytes, so the loop ends with the packet.
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
		c.NextOff, proto, off = off, b[off+ExtNextAt], off+n
	}
	c.Upper, c.UpperOffset = proto, off
	return c, nil
}

// note stores the facts about the whole packet from its Fragment and Routing headers.
func (c *Chain) note(ext []byte, proto uint8) {
	switch proto {
	case Fragment:
		word := binary.BigEndian.Uint16(ext[FragmentOffsetAt:])
		c.Fragmented = true
		c.FragOffset = word &^ fragmentFlags
		c.More = word&fragmentMore != 0
	case Routing:
		if c.SegmentsLeft == 0 {
			c.SegmentsLeft = ext[SegmentsLeftAt]
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
	if len(b)-off < extUnit {
		field := "next header"
		if len(b) > off {
			field = "length"
		}
		if len(b) > off+ExtLenAt {
			field = "body"
		}
		return 0, truncated(extName(proto), field, len(b), off+extUnit)
	}
	if proto == Fragment {
		return FragmentHeaderLen, nil // its second byte is reserved, not a length
	}
	n := extUnit * (1 + int(b[off+ExtLenAt]))
	if len(b)-off < n {
		return 0, truncated(extName(proto), "body", len(b), off+n)
	}
	return n, nil
}
