package ip6

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"roam"
)

// Sum is the folded one's-complement sum of b, not complemented. An odd last
// byte counts as the high half of a word (RFC 1071 §1).
func Sum(b []byte) uint16 {
	var s uint64
	for ; len(b) >= 2; b = b[2:] {
		s += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return fold(s)
}

// Sum64 is the folded one's-complement sum of the four words of a Locator: its share of
// a pseudo-header's sum. For a NID: Sum64(roam.L64(nid)).
func Sum64(l roam.L64) uint16 {
	v := uint64(l)
	return fold(v>>48 + v>>32&0xffff + v>>16&0xffff + v&0xffff)
}

// Add is the one's-complement addition of two folded sums.
func Add(a, b uint16) uint16 { return fold(uint64(a) + uint64(b)) }

// Adjust returns the checksum field check after data with the sum oldSum was replaced
// by data with the sum newSum (RFC 1624 §3, equation 3). The caller applies UDP's rule
// for a result of zero.
func Adjust(check, oldSum, newSum uint16) uint16 {
	return ^fold(uint64(^check) + uint64(^oldSum) + uint64(newSum))
}

// Checksum computes the upper-layer checksum over the pseudo-header of
// RFC 8200 §8.1 and the payload. With the payload's checksum field zero the
// result is the value to put there; with a valid one it is zero.
func Checksum(src, dst netip.Addr, proto uint8, payload []byte) uint16 {
	s, d := src.As16(), dst.As16()
	sum := uint64(Sum(s[:])) + uint64(Sum(d[:])) + uint64(Sum(payload))
	n := uint64(len(payload))
	return ^fold(sum + n>>16 + n&0xffff + uint64(proto))
}

// ChecksumOffset returns the offset of the checksum field in the header of an upper-layer
// protocol, and the least length of that header. ok is false if this package does not
// know the protocol, or its checksum does not cover the addresses.
func ChecksumOffset(proto uint8) (off, headerLen int, ok bool) {
	switch proto {
	case TCP:
		return TCPChecksumAt, TCPHeaderLen, true
	case UDP, UDPLite:
		return UDPChecksumAt, UDPHeaderLen, true
	case DCCP:
		return UDPChecksumAt, dccpHeaderLen, true
	case ICMPv6:
		return ICMPChecksumAt, ICMPHeaderLen, true
	}
	return 0, 0, false
}

// FinishL4 computes the TCP, UDP or ICMPv6 checksum of a whole packet over its
// addresses, and writes it in place. A UDP result of zero becomes 0xffff (RFC 8200
// §8.1). Fragments and packets with routing segments left are errors: the checksum
// covers data or a destination that they do not hold.
func FinishL4(packet []byte) error {
	c, err := Walk(packet)
	if err != nil {
		return fmt.Errorf("finish checksum: %w", err)
	}
	if !c.Whole() {
		return fmt.Errorf("finish checksum: fragment at offset %d of its message: %w", c.FragOffset, ErrMalformed)
	}
	if c.SegmentsLeft != 0 {
		return fmt.Errorf("finish checksum: routing header has %d segments left: %w", c.SegmentsLeft, ErrMalformed)
	}
	off, n, ok := ChecksumOffset(c.Upper)
	// UDP-Lite and DCCP may cover a part of the message only.
	if !ok || c.Upper == UDPLite || c.Upper == DCCP {
		return fmt.Errorf("finish checksum: protocol %d at offset %d is not tcp, udp or icmpv6: %w",
			c.Upper, c.UpperOffset, ErrMalformed)
	}
	msg := packet[c.UpperOffset:c.End]
	if len(msg) < n {
		return fmt.Errorf("finish checksum: %w", truncated("upper-layer header", "header", c.End, c.UpperOffset+n))
	}
	binary.BigEndian.PutUint16(msg[off:], 0)
	sum := Checksum(c.Header.Src, c.Header.Dst, c.Upper, msg)
	if sum == 0 && c.Upper == UDP {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(msg[off:], sum)
	return nil
}

// fold adds the carries back in until 16 bits are left.
func fold(s uint64) uint16 {
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
