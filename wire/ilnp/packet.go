package ilnp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// TrafficClassCS6 is the traffic class of Locator Updates: DSCP CS6, network
// control (RFC 2474 §4.2.2.2).
const TrafficClassCS6 uint8 = 0xc0

// HopLimit is that of every packet built here.
const HopLimit uint8 = 64

// minMTU is the least link MTU of IPv6; an ICMPv6 error never exceeds it
// (RFC 4443 §2.4).
const minMTU = 1280

// ErrChecksum marks an ICMPv6 message with a wrong checksum.
var ErrChecksum = errors.New("wrong checksum")

// Packet is an IPv6 packet as an ILNP node sees it.
type Packet struct {
	Src, Dst     roam.ILV
	TrafficClass uint8
	FlowLabel    uint32
	HopLimit     uint8
	Encapsulated bool   // it stood in UDP (ParseControl)
	Nonce        Nonce  // the zero value: no Nonce option
	Proto        uint8  // upper-layer protocol
	Type, Code   uint8  // of an ICMPv6 message, if its header is here
	OverNIDs     bool   // its ICMPv6 checksum is right with locators counted as zero, not with them
	Fragmented   bool   // Payload is not a whole message
	Later        bool   // a fragment other than the first: Payload does not start with a header
	Payload      []byte // upper-layer header and all that follows
}

// ParsePacket reads a whole packet. It is strict: truncation, a second Nonce
// option, and a wrong checksum of an ICMPv6 message in one piece are errors.
// The checksum may be over the addresses (RFC 6741 §4.3) or, with a Nonce option,
// over the NIDs alone, as some stacks have it: whoever knows the nonce gains
// nothing by the second rule, and without it the packet is one of plain IPv6.
// Payload is a part of b; bytes behind the payload length are cut off.
func ParsePacket(b []byte) (Packet, error) {
	c, err := ip6.Walk(b)
	if err != nil {
		return Packet{}, err
	}
	p, err := newPacket(b, c)
	if err != nil || p.Proto != ip6.ICMPv6 || p.Later {
		return p, err
	}
	if len(p.Payload) < 4 {
		return Packet{}, fmt.Errorf("icmpv6 header: ends at offset %d, want %d bytes: %w", c.End, c.UpperOffset+4, ip6.ErrTruncated)
	}
	if p.Fragmented || ip6.Checksum(c.Header.Src, c.Header.Dst, p.Proto, p.Payload) == 0 {
		return p, nil
	}
	if p.OverNIDs = p.Nonce.Present() && sumOverNIDs(p.Src, p.Dst, p.Payload) == 0; p.OverNIDs {
		return p, nil
	}
	return Packet{}, fmt.Errorf("icmpv6 header: checksum %#04x at offset %d: %w",
		binary.BigEndian.Uint16(p.Payload[2:]), c.UpperOffset+2, ErrChecksum)
}

// sumOverNIDs is ip6.Checksum of an ICMPv6 message with locators counted as zero.
func sumOverNIDs(src, dst roam.ILV, message []byte) uint16 {
	return ip6.Checksum(roam.ILV{NID: src.NID}.Addr(), roam.ILV{NID: dst.NID}.Addr(), ip6.ICMPv6, message)
}

// FinishOverNIDs computes the checksum of a whole ICMPv6 message anew, with locators
// counted as zero, and writes it in place. The packet has a Nonce option and is not
// in UDP yet.
func FinishOverNIDs(packet []byte) error {
	c, err := ip6.Walk(packet)
	if err != nil {
		return fmt.Errorf("finish checksum over nids: %w", err)
	}
	f, err := FindNonce(packet, c)
	if err != nil {
		return fmt.Errorf("finish checksum over nids: %w", err)
	}
	if !f.Nonce.Present() || c.Upper != ip6.ICMPv6 || !c.Whole() || c.SegmentsLeft != 0 || c.End-c.UpperOffset < 4 {
		return fmt.Errorf("finish checksum over nids: want a nonce and a whole icmpv6 message: %w", ip6.ErrMalformed)
	}
	message := packet[c.UpperOffset:c.End]
	binary.BigEndian.PutUint16(message[2:], 0)
	sum := sumOverNIDs(roam.ILVFromAddr(c.Header.Src), roam.ILVFromAddr(c.Header.Dst), message)
	binary.BigEndian.PutUint16(message[2:], sum)
	return nil
}

// ParseQuoted reads the packet inside an ICMPv6 error, which may have been cut
// off anywhere behind its extension headers. No checksum is verified.
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
	if p.Proto == ip6.ICMPv6 && !p.Later && len(p.Payload) >= 2 {
		p.Type, p.Code = p.Payload[0], p.Payload[1]
	}
	return p, nil
}

// BuildUpdate makes the whole packet of a Locator Update or acknowledgement.
// The nonce is required (RFC 6743 §2). DEVIATION: the "ILNPv6 Identifier option"
// of the same section is not there, since no RFC defines one. A packet of many locators may exceed
// the link's MTU; it is not fragmented here.
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

// BuildEcho makes the whole packet of an echo request or reply; without a
// nonce it is one of plain IPv6.
func BuildEcho(src, dst roam.ILV, nonce Nonce, request bool, id, seq uint16, data []byte) ([]byte, error) {
	b, err := build(src, dst, 0, nonce, Echo{Request: request, ID: id, Seq: seq, Data: data})
	if err != nil {
		return nil, fmt.Errorf("build echo: %w", err)
	}
	return b, nil
}

// BuildError makes the whole packet of an ICMPv6 error about m.Quoted, which is
// cut so that the packet does not exceed 1280 bytes. Without a nonce it is an
// error of plain IPv6.
func BuildError(src, dst roam.ILV, nonce Nonce, m ErrorMessage) ([]byte, error) {
	room := minMTU - ip6.HeaderLen - nonce.HeaderLen() - 8
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

// build puts an ICMPv6 message into a packet and finishes its checksum by the
// ordinary rule, which RFC 6743 §2 keeps for the Locator Update. FinishOverNIDs
// makes it one by the other rule.
func build(src, dst roam.ILV, class uint8, nonce Nonce, m appender) ([]byte, error) {
	h := ip6.Header{TrafficClass: class, NextHeader: ip6.ICMPv6, HopLimit: HopLimit, Src: src.Addr(), Dst: dst.Addr()}
	if nonce.Present() {
		h.NextHeader = ip6.DestOpts
	}
	b, err := h.AppendTo(nil)
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
	binary.BigEndian.PutUint16(b[4:], uint16(n))
	if err := ip6.FinishL4(b); err != nil {
		return nil, err
	}
	return b, nil
}
