package ip6

import (
	"encoding/binary"
	"fmt"
)

// Split cuts a whole packet into fragments of at most mtu bytes (RFC 8200
// §4.5), or returns it alone if it fits. Each fragment repeats all extension headers, so
// that each one carries the nonce (RFC 6744 §7). The packet must not be a fragment;
// the caller chooses a new id for each packet between two hosts.
func Split(packet []byte, mtu int, id uint32) ([][]byte, error) {
	c, err := Walk(packet)
	if err != nil {
		return nil, fmt.Errorf("split packet: %w", err)
	}
	packet = packet[:c.End]
	if len(packet) <= mtu {
		return [][]byte{packet}, nil
	}
	if c.Fragmented {
		return nil, fmt.Errorf("split packet: it is a fragment already: %w", ErrMalformed)
	}
	head, rest := packet[:c.UpperOffset], packet[c.UpperOffset:]
	step := (mtu - len(head) - FragmentHeaderLen) &^ fragmentFlags // fragments but the last are multiples of 8
	if step <= 0 {
		return nil, fmt.Errorf("split packet: %d bytes of headers leave no space in %d: %w", len(head), mtu, ErrMalformed)
	}
	var out [][]byte
	for off := 0; off < len(rest); off += step {
		end := min(off+step, len(rest))
		b := make([]byte, 0, len(head)+FragmentHeaderLen+end-off)
		b = append(b, head...)
		b[c.NextOff] = Fragment
		field := uint16(off)
		if end < len(rest) {
			field |= fragmentMore
		}
		b = append(b, c.Upper, 0)
		b = binary.BigEndian.AppendUint16(b, field)
		b = binary.BigEndian.AppendUint32(b, id)
		b = append(b, rest[off:end]...)
		binary.BigEndian.PutUint16(b[PayloadLenAt:], uint16(len(b)-HeaderLen))
		out = append(out, b)
	}
	return out, nil
}
