// Package ip6 reads and writes IPv6 headers, extension headers and their
// options, and computes the checksums of the upper layers (RFC 8200, RFC 4443
// §2.3, RFC 1624).
//
// It omits jumbograms (RFC 2675), and treats AH and ESP as upper-layer protocols: it
// does not read the headers behind them. layout.go draws the headers.
//
// The package is pure. It is driven by the other codecs of wire, by ilnp, tcpassist and
// sim, and by internal/role/ilnphost/engine, internal/role/ilnphost and lab/peergen.
package ip6

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// HeaderLen is the length of the fixed IPv6 header in bytes.
const HeaderLen = 40

// Protocol numbers, the values of a Next Header field.
const (
	HopByHop uint8 = 0
	TCP      uint8 = 6
	UDP      uint8 = 17
	DCCP     uint8 = 33
	Routing  uint8 = 43
	Fragment uint8 = 44
	ESP      uint8 = 50
	AH       uint8 = 51
	ICMPv6   uint8 = 58
	NoNext   uint8 = 59
	DestOpts uint8 = 60
	UDPLite  uint8 = 136
)

// ErrTruncated is wrapped by every error about missing bytes.
var ErrTruncated = errors.New("truncated")

// ErrMalformed is wrapped by every error about a field whose value is not allowed.
var ErrMalformed = errors.New("malformed")

// Header is the fixed IPv6 header (RFC 8200 §3).
type Header struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   uint16 // bytes behind this header
	NextHeader   uint8
	HopLimit     uint8
	Src, Dst     netip.Addr
}

// Parse reads the fixed header at the start of b. It does not compare PayloadLen with
// the length of b: Walk does.
func Parse(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, truncated("ipv6 header", headerField(len(b)), len(b), HeaderLen)
	}
	word := binary.BigEndian.Uint32(b)
	if word>>28 != 6 {
		return Header{}, fmt.Errorf("ipv6 header: version %d at offset 0: %w", word>>28, ErrMalformed)
	}
	return Header{
		TrafficClass: uint8(word >> 20),
		FlowLabel:    word & 0xfffff,
		PayloadLen:   binary.BigEndian.Uint16(b[PayloadLenAt:]),
		NextHeader:   b[NextHeaderAt],
		HopLimit:     b[HopLimitAt],
		Src:          netip.AddrFrom16([16]byte(b[SrcAt:DstAt])),
		Dst:          netip.AddrFrom16([16]byte(b[DstAt:HeaderLen])),
	}, nil
}

// AppendTo appends the header to b. The flow label must fit into 20 bits and
// the addresses must be IPv6 ones.
func (h Header) AppendTo(b []byte) ([]byte, error) {
	if h.FlowLabel > 0xfffff {
		return nil, fmt.Errorf("ipv6 header: flow label %#x at offset 1 exceeds 20 bits: %w",
			h.FlowLabel, ErrMalformed)
	}
	// The zero Addr would panic in As16, an IPv4 one would become a mapped address.
	if !h.Src.Is6() {
		return nil, fmt.Errorf("ipv6 header: source %v at offset 8 is not an IPv6 address: %w", h.Src, ErrMalformed)
	}
	if !h.Dst.Is6() {
		return nil, fmt.Errorf("ipv6 header: destination %v at offset 24 is not an IPv6 address: %w",
			h.Dst, ErrMalformed)
	}
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(h.TrafficClass)<<20|h.FlowLabel)
	b = binary.BigEndian.AppendUint16(b, h.PayloadLen)
	b = append(b, h.NextHeader, h.HopLimit)
	src, dst := h.Src.As16(), h.Dst.As16()
	b = append(b, src[:]...)
	return append(b, dst[:]...), nil
}

// headerField names the field of the fixed header that holds offset off.
func headerField(off int) string {
	switch {
	case off < 1:
		return "version"
	case off < PayloadLenAt:
		return "flow label"
	case off < NextHeaderAt:
		return "payload length"
	case off < HopLimitAt:
		return "next header"
	case off < SrcAt:
		return "hop limit"
	case off < DstAt:
		return "source"
	}
	return "destination"
}

// truncated returns the error about a field of the header what that ends at offset off of
// the packet instead of want.
func truncated(what, field string, off, want int) error {
	return fmt.Errorf("%s: %s ends at offset %d, want %d bytes: %w", what, field, off, want, ErrTruncated)
}
