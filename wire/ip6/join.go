package ip6

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// FragmentID returns the identification in the Fragment header of a packet; false: it has none.
func (c Chain) FragmentID(packet []byte) (id uint32, ok bool) {
	e, ok := c.fragmentHeader()
	if ok {
		id = binary.BigEndian.Uint32(packet[e.Offset+fragmentIDAt:])
	}
	return id, ok
}

func (c Chain) fragmentHeader() (Ext, bool) {
	i := slices.IndexFunc(c.Exts, func(e Ext) bool { return e.Proto == Fragment })
	if i < 0 {
		return Ext{}, false
	}
	return c.Exts[i], true
}

// piece is a fragment by its parts.
type piece struct {
	offset int
	last   bool
	head   []byte // the IPv6 header and all headers before the Fragment header
	nextAt int    // offset in head of the Next Header field that names the Fragment header
	next   uint8  // the header behind the Fragment header
	body   []byte // of the message
}

// Join is the reverse of Split: it makes a packet of its fragments, which may come in any order.
// ok: none is missing. Fragments that overlap (RFC 5722) or whose extension headers differ, and
// so their nonces (RFC 6744 §7), are an error.
func Join(fragments [][]byte) (packet []byte, ok bool, err error) {
	var pieces []piece
	for _, b := range fragments {
		p, err := pieceOf(b)
		if err != nil {
			return nil, false, fmt.Errorf("join fragments: %w", err)
		}
		pieces = append(pieces, p)
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return a.offset - b.offset })
	pieces = slices.CompactFunc(pieces, func(a, b piece) bool {
		return a.offset == b.offset && bytes.Equal(a.body, b.body)
	})
	for i, p := range pieces {
		switch {
		case !bytes.Equal(p.head[HeaderLen:], pieces[0].head[HeaderLen:]):
			return nil, false, fmt.Errorf("join fragments: other headers at offset %d: %w", p.offset, ErrMalformed)
		case i == 0:
			packet = append(packet, p.head...)
		case p.offset < pieces[i-1].offset+len(pieces[i-1].body) || pieces[i-1].last:
			return nil, false, fmt.Errorf("join fragments: overlap at offset %d: %w", p.offset, ErrMalformed)
		}
		packet = append(packet, p.body...)
	}
	n := len(pieces)
	if n == 0 || !pieces[n-1].last || len(packet) != len(pieces[0].head)+pieces[n-1].offset+len(pieces[n-1].body) {
		return nil, false, nil
	}
	if len(packet)-HeaderLen > 0xffff {
		return nil, false, fmt.Errorf("join fragments: packet of %d bytes: %w", len(packet), ErrMalformed)
	}
	packet[pieces[0].nextAt] = pieces[0].next
	binary.BigEndian.PutUint16(packet[PayloadLenAt:], uint16(len(packet)-HeaderLen))
	return packet, true, nil
}

func pieceOf(b []byte) (piece, error) {
	c, err := Walk(b)
	if err != nil {
		return piece{}, err
	}
	e, ok := c.fragmentHeader()
	if !ok {
		return piece{}, fmt.Errorf("not a fragment: %w", ErrMalformed)
	}
	p := piece{
		offset: int(c.FragOffset), last: !c.More, head: b[:e.Offset], nextAt: e.NextOff,
		next: b[e.Offset], body: b[e.Offset+FragmentHeaderLen : c.End],
	}
	if len(p.body)%(fragmentFlags+1) != 0 && c.More {
		return piece{}, fmt.Errorf("fragment of %d bytes, want a multiple of 8: %w", len(p.body), ErrMalformed)
	}
	return p, nil
}
