package ip6

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// TCPSegment is a TCP segment without data (RFC 9293 §3.1) that a third party makes in
// the name of an end of the connection. Its window is 65,535.
type TCPSegment struct {
	Src, Dst netip.AddrPort
	Seq, Ack uint32
	Flags    uint8
	Options  []byte // a multiple of four bytes, at most 40
}

// AppendTo appends the whole packet to b, from its IPv6 header.
func (s TCPSegment) AppendTo(b []byte) ([]byte, error) {
	const hopLimit, maxOptions = 64, 40
	if len(s.Options)%4 != 0 || len(s.Options) > maxOptions {
		return nil, fmt.Errorf("tcp segment: options of %d bytes at offset %d: %w",
			len(s.Options), TCPHeaderLen, ErrMalformed)
	}
	size := TCPHeaderLen + len(s.Options)
	h := Header{PayloadLen: uint16(size), NextHeader: TCP, HopLimit: hopLimit, Src: s.Src.Addr(), Dst: s.Dst.Addr()}
	b, err := h.AppendTo(b)
	if err != nil {
		return nil, err
	}
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, s.Src.Port())
	b = binary.BigEndian.AppendUint16(b, s.Dst.Port())
	b = binary.BigEndian.AppendUint32(b, s.Seq)
	b = binary.BigEndian.AppendUint32(b, s.Ack)
	b = append(b, byte(size/4<<4), s.Flags, 0xff, 0xff, 0, 0, 0, 0)
	b = append(b, s.Options...)
	binary.BigEndian.PutUint16(b[at+TCPChecksumAt:], Checksum(h.Src, h.Dst, TCP, b[at:]))
	return b, nil
}
