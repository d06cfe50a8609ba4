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
// data says which of Roam's experiments it is. This package knows three, which stand behind the
// Nonce option in the same header: the Proof of a set-up, the MAC of a Locator Update, and the
// Vouch for a new key.
// DEVIATION: no RFC defines it, see docs/rfc/rfc6743.md.
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
	macBehind    = 40 // bytes of the header behind the message, in UDP
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

// findOne returns the option of a packet that parse knows. Two of them count as none: a receiver
// must not choose.
func findOne[T any](packet []byte, c ip6.Chain, parse func([]byte) *T) (found *T) {
	n := 0
	var space [4]ip6.Option
	for _, e := range c.Exts {
		if e.Proto != ip6.DestOpts {
			continue
		}
		list, _ := ip6.OptionsIn(space[:0], packet[e.Offset:e.Offset+e.Len], e.Offset) // one that is cut has no options
		for _, o := range list {
			if s := parse(packet[o.Offset : e.Offset+e.Len]); s != nil {
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

// appendWith appends a Destination Options header with the nonce and a further option.
func (n Nonce) appendWith(b []byte, o ip6.Option) ([]byte, error) {
	if n.Len != 4 && n.Len != 12 {
		return nil, fmt.Errorf("nonce option: %d bytes: %w", n.Len, ErrNonceLength)
	}
	return ip6.AppendOptions(b, ip6.ICMPv6, []ip6.Option{{Type: OptionNonce, Data: n.Value()}, o})
}

// BuildSealed is BuildUpdate with a MAC.
func BuildSealed(src, dst roam.ILV, nonce Nonce, lu LocatorUpdate, s Seal) ([]byte, error) {
	return buildWith(src, dst, nonce, lu, s.option())
}

// buildWith is BuildUpdate with an option behind the nonce.
func buildWith(src, dst roam.ILV, nonce Nonce, lu LocatorUpdate, o ip6.Option) ([]byte, error) {
	h := ip6.Header{
		TrafficClass: TrafficClassCS6, NextHeader: ip6.DestOpts, HopLimit: HopLimit, Src: src.Addr(), Dst: dst.Addr(),
	}
	b, _ := h.AppendTo(nil) // fails for addresses of IPv4 only
	b, err := nonce.appendWith(b, o)
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

// putBehind moves the MAC or the proof of a whole packet behind its message, for Encapsulate.
// Other packets stay as they are.
func putBehind(packet []byte, c ip6.Chain, f Found) ([]byte, error) {
	o, one := experiment(packet, c)
	if !one || len(c.Exts) != 1 || c.Upper != ip6.ICMPv6 {
		return packet, nil
	}
	b, err := f.Nonce.AppendHeader(append([]byte(nil), packet[:ip6.HeaderLen]...), ip6.ICMPv6)
	if err != nil {
		return nil, err
	}
	b, err = ip6.AppendOptions(append(b, packet[c.UpperOffset:c.End]...), noNextHeader, []ip6.Option{o})
	if err != nil {
		return nil, err
	}
	return finished(b)
}

// experiment returns the option of a packet that may stand behind its message; false: there is
// none, or more than one.
func experiment(packet []byte, c ip6.Chain) (o ip6.Option, one bool) {
	n := 0
	if s := findOne(packet, c, parseSeal); s != nil {
		o, n = s.option(), n+1
	}
	if p := findOne(packet, c, parseProof); p != nil {
		o, n = p.option(), n+1
	}
	if v := findOne(packet, c, parseVouch); v != nil {
		o, n = v.option(), n+1
	}
	return o, n == 1
}

// behind are the options that stand behind a message, with the length of their header.
var behind = []struct {
	length int
	option func(b []byte) (ip6.Option, bool)
}{
	{macBehind, func(b []byte) (o ip6.Option, ok bool) {
		if s := parseSeal(b); s != nil {
			return s.option(), true
		}
		return o, false
	}},
	{proofBehind, func(b []byte) (o ip6.Option, ok bool) {
		if p := parseProof(b); p != nil {
			return p.option(), true
		}
		return o, false
	}},
	{vouchBehind, func(b []byte) (o ip6.Option, ok bool) {
		if v := parseVouch(b); v != nil {
			return v.option(), true
		}
		return o, false
	}},
}

// putBeside undoes putBehind, for Decapsulate, in a packet whose nonce header is at an offset.
// A message whose checksum is wrong stays as it is: ParsePacket refuses it.
func putBeside(inner []byte, at int) ([]byte, error) {
	c, err := ip6.Walk(inner)
	if err != nil {
		return nil, err
	}
	if c.Upper != ip6.ICMPv6 || !c.Whole() {
		return inner, nil
	}
	message := inner[c.UpperOffset:c.End]
	for _, h := range behind {
		end := c.End - h.length
		if end < c.UpperOffset+ip6.ICMPHeaderLen || inner[c.UpperOffset] != TypeLocatorUpdate ||
			inner[end] != noNextHeader || int(inner[end+1]) != h.length/8-1 {
			continue
		}
		f, _ := FindNonce(inner, c) // what is no nonce does not stand alone
		o, ok := h.option(inner[end+ip6.OptionsAt : c.End])
		if !ok || !f.Alone || ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, message) != 0 {
			continue
		}
		b, err := f.Nonce.appendWith(append([]byte(nil), inner[:at]...), o)
		if err != nil {
			return nil, err
		}
		return finished(append(b, inner[c.UpperOffset:end]...))
	}
	return inner, nil
}
