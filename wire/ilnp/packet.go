package ilnp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// TrafficClassCS6 is the traffic class of Locator Updates: DSCP CS6, network
// control (RFC 2474 §4.2.2.2).
const TrafficClassCS6 uint8 = 0xc0

// HopLimit is the hop limit of every packet that this package builds.
const HopLimit uint8 = 64

// minMTU is the least link MTU of IPv6. No ICMPv6 error exceeds it (RFC 4443 §2.4).
const minMTU = 1280

// ErrChecksum marks an ICMPv6 message with a wrong checksum.
var ErrChecksum = errors.New("wrong checksum")

// Packet is an IPv6 packet, parsed as far as an ILNP node needs it.
type Packet struct {
	Src, Dst     roam.ILV
	TrafficClass uint8
	FlowLabel    uint32
	HopLimit     uint8
	Encapsulated bool   // ParseControl took it out of UDP
	Nonce        Nonce  // the zero value: no Nonce option
	Seal         *Seal  // nil: no MAC
	Proof        *Proof // nil: no proof
	Vouch        *Vouch // nil: no vouch for a new key
	Proto        uint8  // upper-layer protocol
	Type, Code   uint8  // of an ICMPv6 message, if its header is present
	OverNIDs     bool   // its ICMPv6 checksum counts locators as zero
	Fragmented   bool   // Payload is not a whole message
	Later        bool   // a fragment other than the first: Payload has no upper-layer header
	Payload      []byte // upper-layer header and data
}

// ParsePacket reads a whole packet. Truncation, a second Nonce option, and a wrong
// checksum of an unfragmented ICMPv6 message are errors. The checksum may cover the
// addresses (RFC 6741 §4.3) or, in a packet with a Nonce option, the NIDs alone, as some
// stacks compute it. A sender that knows the nonce gains nothing by the second rule.
// Payload is a part of b and ends with the payload length.
func ParsePacket(b []byte) (Packet, error) {
	c, err := ip6.Walk(b)
	if err != nil {
		return Packet{}, err
	}
	return parseWalked(b, c)
}

// parseWalked is ParsePacket of a packet whose headers are known.
func parseWalked(b []byte, c ip6.Chain) (Packet, error) {
	p, err := newPacket(b, c)
	if err != nil || p.Proto != ip6.ICMPv6 || p.Later {
		return p, err
	}
	if len(p.Payload) < ip6.ICMPHeaderLen {
		return Packet{}, fmt.Errorf("icmpv6 header: ends at offset %d, want %d bytes: %w",
			c.End, c.UpperOffset+ip6.ICMPHeaderLen, ip6.ErrTruncated)
	}
	if p.Fragmented || ip6.Checksum(c.Header.Src, c.Header.Dst, p.Proto, p.Payload) == 0 {
		return p, nil
	}
	if p.OverNIDs = p.Nonce.Present() && sumOverNIDs(p.Src, p.Dst, p.Payload) == 0; p.OverNIDs {
		return p, nil
	}
	return Packet{}, fmt.Errorf("icmpv6 header: checksum %#04x at offset %d: %w",
		binary.BigEndian.Uint16(p.Payload[ip6.ICMPChecksumAt:]), c.UpperOffset+ip6.ICMPChecksumAt, ErrChecksum)
}

// sumOverNIDs is ip6.Checksum of an ICMPv6 message with locators counted as zero.
func sumOverNIDs(src, dst roam.ILV, message []byte) uint16 {
	return ip6.Checksum(roam.ILV{NID: src.NID}.Addr(), roam.ILV{NID: dst.NID}.Addr(), ip6.ICMPv6, message)
}

// FinishOverNIDs recomputes the checksum of a whole ICMPv6 message with locators counted
// as zero, and writes it in place. The packet must have a Nonce option and not be
// encapsulated yet.
func FinishOverNIDs(packet []byte) error {
	c, err := ip6.Walk(packet)
	if err != nil {
		return fmt.Errorf("finish checksum over nids: %w", err)
	}
	f, err := FindNonce(packet, c)
	if err != nil {
		return fmt.Errorf("finish checksum over nids: %w", err)
	}
	if !f.Nonce.Present() || c.Upper != ip6.ICMPv6 || !c.Whole() || c.SegmentsLeft != 0 ||
		c.End-c.UpperOffset < ip6.ICMPHeaderLen {
		return fmt.Errorf("finish checksum over nids: want a nonce and a whole icmpv6 message: %w", ip6.ErrMalformed)
	}
	message := packet[c.UpperOffset:c.End]
	binary.BigEndian.PutUint16(message[ip6.ICMPChecksumAt:], 0)
	sum := sumOverNIDs(roam.ILVFromAddr(c.Header.Src), roam.ILVFromAddr(c.Header.Dst), message)
	binary.BigEndian.PutUint16(message[ip6.ICMPChecksumAt:], sum)
	return nil
}

// ParseQuoted reads the packet inside an ICMPv6 error, which may be cut off anywhere behind
// its extension headers. So it verifies no checksum.
func ParseQuoted(b []byte) (Packet, error) {
	c, err := ip6.WalkQuoted(b)
	if err != nil {
		return Packet{}, fmt.Errorf("quoted packet: %w", err)
	}
	p, err := newPacket(b, c)
	if err != nil {
		return Packet{}, fmt.Errorf("quoted packet: %w", err)
	}
	return p, nil
}

func newPacket(b []byte, c ip6.Chain) (Packet, error) {
	f, err := FindNonce(b, c)
	if err != nil {
		return Packet{}, err
	}
	p := Packet{
		Src:          roam.ILVFromAddr(c.Header.Src),
		Dst:          roam.ILVFromAddr(c.Header.Dst),
		TrafficClass: c.Header.TrafficClass,
		FlowLabel:    c.Header.FlowLabel,
		HopLimit:     c.Header.HopLimit,
		Nonce:        f.Nonce,
		Proto:        c.Upper,
		Fragmented:   !c.Whole(),
		Later:        c.Later(),
		Payload:      b[c.UpperOffset:c.End],
	}
	if bytes.IndexByte(b[ip6.HeaderLen:c.UpperOffset], OptionExperiment) >= 0 {
		p.Seal, p.Proof, p.Vouch = findOne(b, c, parseSeal), findOne(b, c, parseProof), findOne(b, c, parseVouch)
	}
	if p.Proto == ip6.ICMPv6 && !p.Later && len(p.Payload) >= ip6.ICMPChecksumAt {
		p.Type, p.Code = p.Payload[ip6.ICMPTypeAt], p.Payload[ip6.ICMPCodeAt]
	}
	return p, nil
}

// BuildUpdate makes the whole packet of a Locator Update or acknowledgement.
// The nonce is required (RFC 6743 §2). DEVIATION: the packet lacks the "ILNPv6 Identifier
// option" of the same section, since no RFC defines one. A packet of many locators may
// exceed the link's MTU; BuildUpdate does not fragment it.
func BuildUpdate(src, dst roam.ILV, nonce Nonce, lu LocatorUpdate) ([]byte, error) {
	if !nonce.Present() {
		return nil, fmt.Errorf("build locator update: without nonce: %w", ErrNonceLength)
	}
	b, err := build(src, dst, TrafficClassCS6, nonce, lu)
	if err != nil {
		return nil, fmt.Errorf("build locator update: %w", err)
	}
	return b, nil
}

// BuildEcho makes the whole packet of an echo request or reply; without a nonce it is an
// echo of plain IPv6.
func BuildEcho(src, dst roam.ILV, nonce Nonce, request bool, id, seq uint16, data []byte) ([]byte, error) {
	b, err := build(src, dst, 0, nonce, Echo{Request: request, ID: id, Seq: seq, Data: data})
	if err != nil {
		return nil, fmt.Errorf("build echo: %w", err)
	}
	return b, nil
}

// BuildError makes the whole packet of an ICMPv6 error about m.Quoted. It cuts the quoted
// packet so that the error does not exceed 1280 bytes. Without a nonce it is an error of
// plain IPv6.
func BuildError(src, dst roam.ILV, nonce Nonce, m ErrorMessage) ([]byte, error) {
	room := minMTU - ip6.HeaderLen - nonce.HeaderLen() - icmpDataAt
	if len(m.Quoted) > room {
		m.Quoted = m.Quoted[:room]
	}
	b, err := build(src, dst, 0, nonce, m)
	if err != nil {
		return nil, fmt.Errorf("build icmpv6 error: %w", err)
	}
	return b, nil
}

// appender is an ICMPv6 message.
type appender interface {
	AppendTo(b []byte) ([]byte, error)
}

// usualLen is the space that build begins with, in bytes: that of a probe with a report.
const usualLen = ip6.HeaderLen + 16 + icmpDataAt + SealedReportLen

// build makes the packet of an ICMPv6 message, with the ordinary checksum, which RFC 6743
// §2 keeps for the Locator Update. FinishOverNIDs replaces it by that of the other rule.
func build(src, dst roam.ILV, class uint8, nonce Nonce, m appender) ([]byte, error) {
	h := ip6.Header{TrafficClass: class, NextHeader: ip6.ICMPv6, HopLimit: HopLimit, Src: src.Addr(), Dst: dst.Addr()}
	if nonce.Present() {
		h.NextHeader = ip6.DestOpts
	}
	b, err := h.AppendTo(make([]byte, 0, usualLen))
	if err != nil {
		return nil, err
	}
	if nonce.Present() {
		if b, err = nonce.AppendHeader(b, ip6.ICMPv6); err != nil {
			return nil, err
		}
	}
	if b, err = m.AppendTo(b); err != nil {
		return nil, err
	}
	n := len(b) - ip6.HeaderLen
	if n > 0xffff {
		return nil, fmt.Errorf("payload of %d bytes, at most 65535: %w", n, ip6.ErrMalformed)
	}
	binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], uint16(n))
	if err := ip6.FinishL4(b); err != nil {
		return nil, err
	}
	return b, nil
}
