package sbr

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// Rule is how a flow's TCP and UDP checksums count locators.
type Rule uint8

// The rules. ICMPv6 always follows RuleIPv6.
const (
	RuleIPv6    Rule = iota // valid for the addresses on the wire
	RuleRFC6741             // locators count as zero, so rewriting changes nothing
)

// End is which address of a packet is rewritten.
type End int

// The ends: offsets of the locator in the IPv6 header.
const (
	Source      End = ip6.SrcAt
	Destination End = ip6.DstAt
)

// ErrRouted is wrapped by the error of Rewrite for a packet that is to pass other nodes
// before its destination: its checksum does not cover the destination that it bears.
var ErrRouted = errors.New("routing header with segments left")

// Rewrite returns a packet with the locator at one end replaced. The checksum stays as
// right or wrong as it was. A later fragment and a protocol without a known checksum over
// addresses change in their address alone.
func Rewrite(packet []byte, at End, to roam.L64, rule Rule) ([]byte, error) {
	c, err := ip6.Walk(packet)
	if err != nil {
		return nil, err
	}
	if c.SegmentsLeft != 0 {
		return nil, fmt.Errorf("rewrite locator: %w", ErrRouted)
	}
	b := append([]byte(nil), packet...)
	from := roam.L64(binary.BigEndian.Uint64(b[at:]))
	binary.BigEndian.PutUint64(b[at:], uint64(to))
	off, n, ok := ip6.ChecksumOffset(c.Upper)
	if !ok || c.Later() || rule == RuleRFC6741 && c.Upper != ip6.ICMPv6 {
		return b, nil
	}
	if c.End-c.UpperOffset < n {
		return nil, fmt.Errorf("rewrite locator: upper-layer header of %d bytes, want %d: %w",
			c.End-c.UpperOffset, n, ip6.ErrTruncated)
	}
	adjust(b[c.UpperOffset+off:], c.Upper, from, to)
	return b, nil
}

// adjust changes the checksum field at the start of b for a locator that changed. A UDP
// checksum of zero means none and stays; a result of zero becomes 0xffff.
func adjust(b []byte, proto uint8, from, to roam.L64) {
	check := binary.BigEndian.Uint16(b)
	noZero := proto == ip6.UDP || proto == ip6.UDPLite
	if noZero && check == 0 {
		return
	}
	check = ip6.Adjust(check, ip6.Sum64(from), ip6.Sum64(to))
	if noZero && check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(b, check)
}
