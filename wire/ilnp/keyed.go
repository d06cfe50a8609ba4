package ilnp

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// OptionExperiment is the type of the experimental destination option (RFC 4727 §3). Its two
// high bits make a node that does not know it skip it (RFC 8200 §4.2). The first byte of its
// data says which of Roam's experiments it is. This package knows one, the MAC of a Locator
// Update, which stands behind the Nonce option in the same header. DEVIATION: no RFC
// defines it, see docs/rfc/rfc6743.md.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Option Type  |  Opt Data Len |     Kind      |               |
//	|    = 0x1e     |     = 34      |     = 2       |       0       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       Counter (64 bits)                       .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|      Answers (64 bits): the counter of the message that       .
//	|          an acknowledgement answers, 0 in an update           .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        MAC (128 bits)                         .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// In UDP the header with the nonce holds the nonce alone, as the programs of the data plane
// want it. There the option follows the ICMPv6 message, in a Destination Options header of its
// own (40 bytes, Next Header 59), and the checksum of the message covers it.
const OptionExperiment uint8 = 0x1e

// Layout of the option.
const (
	kindMAC    = 2
	macDataLen = 34
	macOptLen  = ip6.OptionDataAt + macDataLen
	countersAt = ip6.OptionDataAt + 2 // from the option's type
	macAt      = countersAt + 16

	noNextHeader = 59
	behindLen    = 40 // of the header behind the message, in UDP
)

// MACLen is the length of a MAC in bytes.
const MACLen = 16

// Seal is the content of the option: what makes a Locator Update, or an acknowledgement, the
// peer's own.
type Seal struct {
	Counter uint64 // of its sender in this session; it only rises
	Answers uint64 // the counter of the update that an acknowledgement answers
	MAC     [MACLen]byte
}

// option returns the option.
func (s Seal) option() ip6.Option {
	d := binary.BigEndian.AppendUint64([]byte{kindMAC, 0}, s.Counter)
	d = binary.BigEndian.AppendUint64(d, s.Answers)
	return ip6.Option{Type: OptionExperiment, Data: append(d, s.MAC[:]...)}
}

// parseSeal reads the option whose type is at the start of b; nil: it is another one, or of
// another length.
func parseSeal(b []byte) *Seal {
	if len(b) < macOptLen || !bytes.Equal(b[:countersAt], []byte{OptionExperiment, macDataLen, kindMAC, 0}) {
		return nil
	}
	return &Seal{
		Counter: binary.BigEndian.Uint64(b[countersAt:]), Answers: binary.BigEndian.Uint64(b[countersAt+8:]),
		MAC: [MACLen]byte(b[macAt:macOptLen]),
	}
}

// findSeal returns the MAC of a packet. Two of them count as none: a receiver must not choose.
func findSeal(packet []byte, c ip6.Chain) (found *Seal) {
	n := 0
	for _, e := range c.Exts {
		if e.Proto != ip6.DestOpts {
			continue
		}
		list, err := ip6.Options(packet[e.Offset:e.Offset+e.Len], e.Offset)
		if err != nil {
			continue
		}
		for _, o := range list {
			if s := parseSeal(packet[o.Offset : e.Offset+e.Len]); s != nil {
				found = s
				n++
			}
		}
	}
	if n != 1 {
		return nil
	}
	return found
}

// appendSealed appends a Destination Options header with the nonce and the MAC.
func (n Nonce) appendSealed(b []byte, s Seal) ([]byte, error) {
	if n.Len != 4 && n.Len != 12 {
		return nil, fmt.Errorf("nonce option: %d bytes: %w", n.Len, ErrNonceLength)
	}
	return ip6.AppendOptions(b, ip6.ICMPv6, []ip6.Option{{Type: OptionNonce, Data: n.Value()}, s.option()})
}

// BuildSealed is BuildUpdate with a MAC.
func BuildSealed(src, dst roam.ILV, nonce Nonce, lu LocatorUpdate, s Seal) ([]byte, error) {
	h := ip6.Header{
		TrafficClass: TrafficClassCS6, NextHeader: ip6.DestOpts, HopLimit: HopLimit, Src: src.Addr(), Dst: dst.Addr(),
	}
	b, err := h.AppendTo(nil)
	if err == nil {
		b, err = nonce.appendSealed(b, s)
	}
	if err == nil {
		b, err = lu.AppendTo(b)
	}
	if err == nil {
		b, err = finished(b)
	}
	if err != nil {
		return nil, fmt.Errorf("build locator update: %w", err)
	}
	return b, nil
}

// finished fills in the payload length and the checksum of a whole packet.
func finished(b []byte) ([]byte, error) {
	binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], uint16(len(b)-ip6.HeaderLen))
	return b, ip6.FinishL4(b)
}

// putBehind moves the MAC of a whole packet behind its message, for Encapsulate. Other packets
// stay as they are.
func putBehind(packet []byte, c ip6.Chain, f Found) ([]byte, error) {
	s := findSeal(packet, c)
	if s == nil || f.Alone || len(c.Exts) != 1 || c.Upper != ip6.ICMPv6 {
		return packet, nil
	}
	b, err := f.Nonce.AppendHeader(append([]byte(nil), packet[:ip6.HeaderLen]...), ip6.ICMPv6)
	if err != nil {
		return nil, err
	}
	b, err = ip6.AppendOptions(append(b, packet[c.UpperOffset:c.End]...), noNextHeader, []ip6.Option{s.option()})
	if err != nil {
		return nil, err
	}
	return finished(b)
}

// putBeside undoes putBehind, for Decapsulate, in a packet whose nonce header is at an offset.
// A message whose checksum is wrong stays as it is: ParsePacket refuses it.
func putBeside(inner []byte, at int) ([]byte, error) {
	c, err := ip6.Walk(inner)
	if err != nil {
		return nil, err
	}
	end := c.End - behindLen
	if c.Upper != ip6.ICMPv6 || !c.Whole() || end < c.UpperOffset+ip6.ICMPHeaderLen ||
		inner[c.UpperOffset] != TypeLocatorUpdate || inner[end] != noNextHeader || inner[end+1] != behindLen/8-1 {
		return inner, nil
	}
	message := inner[c.UpperOffset:c.End]
	f, err := FindNonce(inner, c)
	s := parseSeal(inner[end+ip6.OptionsAt:])
	if err != nil || s == nil || !f.Alone || ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, message) != 0 {
		return inner, nil
	}
	b, err := f.Nonce.appendSealed(append([]byte(nil), inner[:at]...), *s)
	if err != nil {
		return nil, err
	}
	return finished(append(b, inner[c.UpperOffset:end]...))
}
