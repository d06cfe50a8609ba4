// Package golden reads and writes golden cases: pairs of packets, one with session
// addresses and one as on the wire, with the entry that translates one into the other.
// The model in wire/xlate and the data plane run the same cases.
//
// A case is two files: a classic pcap of raw IPv6 (LINKTYPE_IPV6) with exactly two
// packets, the session's first, and a text of "key: value" lines. The files are in
// wire/testdata; its README gives their origin.
//
// It omits reading files, pcapng, and other link types. The package is pure; it is
// driven by tests.
package golden

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam/wire/xlate"
)

// LinkTypeIPv6 is the pcap link type of packets that start with their IPv6
// header.
const LinkTypeIPv6 = 229

// ErrFormat is wrapped by every error of Parse.
var ErrFormat = errors.New("not a golden case")

// Direction names the translation of a case.
type Direction string

// The directions, each named after the function of package xlate that makes Out from In.
const (
	Outward      Direction = "outward"
	Inward       Direction = "inward"
	ErrorInward  Direction = "error-inward"
	ErrorOutward Direction = "error-outward"
)

// Case is one golden case.
type Case struct {
	Description string // one line, for people
	Direction   Direction
	Entry       xlate.Entry
	Session     []byte // the packet with session addresses
	Wire        []byte // the packet on the wire
}

// In returns the packet to translate.
func (c Case) In() []byte {
	if c.Direction == Outward || c.Direction == ErrorOutward {
		return c.Session
	}
	return c.Wire
}

// Out returns the packet that the translation must produce.
func (c Case) Out() []byte {
	if c.Direction == Outward || c.Direction == ErrorOutward {
		return c.Wire
	}
	return c.Session
}

// Translate runs In through the function of package xlate that Direction
// names.
func (c Case) Translate() ([]byte, error) {
	switch c.Direction {
	case Outward:
		return xlate.Outward(c.In(), c.Entry)
	case Inward:
		return xlate.Inward(c.In(), c.Entry)
	case ErrorInward:
		return xlate.ErrorInward(c.In(), c.Entry)
	case ErrorOutward:
		return xlate.ErrorOutward(c.In(), c.Entry)
	}
	return nil, fmt.Errorf("direction %q: %w", c.Direction, ErrFormat)
}

// Parse returns the case in the contents of its two files.
func Parse(pcap, txt []byte) (Case, error) {
	c, err := parseText(txt)
	if err != nil {
		return Case{}, fmt.Errorf("text: %w", err)
	}
	packets, err := parsePcap(pcap)
	if err != nil {
		return Case{}, fmt.Errorf("pcap: %w", err)
	}
	if len(packets) != 2 {
		return Case{}, fmt.Errorf("pcap: %d packets, want 2: %w", len(packets), ErrFormat)
	}
	c.Session, c.Wire = packets[0], packets[1]
	return c, nil
}

// The headers of a classic pcap file and of one packet in it
// (draft-ietf-opsawg-pcap §§4, 5), in the byte order of the magic number:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                   Magic Number = 0xa1b2c3d4                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|      Major Version = 2        |      Minor Version = 4        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Reserved (64 bits)                       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            SnapLen                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        LinkType = 229                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Timestamp: seconds, then microseconds              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    Captured Packet Length                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    Original Packet Length                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	linkTypeAt   = 20
	fileHeader   = 24
	capturedAt   = 8
	originalAt   = 12
	recordHeader = 16

	magicMicro = 0xa1b2c3d4
	snapLen    = 65535 + 40
)

// parsePcap returns the packets of a classic pcap of either byte order.
func parsePcap(b []byte) ([][]byte, error) {
	if len(b) < fileHeader {
		return nil, fmt.Errorf("header ends at offset %d, want %d bytes: %w", len(b), fileHeader, ErrFormat)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if order.Uint32(b) != magicMicro {
		order = binary.BigEndian
	}
	if order.Uint32(b) != magicMicro {
		return nil, fmt.Errorf("magic number %#08x at offset 0: %w", order.Uint32(b), ErrFormat)
	}
	if t := order.Uint32(b[linkTypeAt:]); t != LinkTypeIPv6 {
		return nil, fmt.Errorf("link type %d at offset 20, want %d: %w", t, LinkTypeIPv6, ErrFormat)
	}
	var packets [][]byte
	for at := fileHeader; at < len(b); {
		if len(b)-at < recordHeader {
			return nil, fmt.Errorf("record header ends at offset %d, want %d bytes: %w",
				len(b), at+recordHeader, ErrFormat)
		}
		n, whole := uint64(order.Uint32(b[at+capturedAt:])), order.Uint32(b[at+originalAt:])
		if n != uint64(whole) {
			return nil, fmt.Errorf("packet at offset %d: %d of %d bytes captured: %w", at, n, whole, ErrFormat)
		}
		at += recordHeader
		if uint64(len(b)-at) < n {
			return nil, fmt.Errorf("packet ends at offset %d, want %d bytes: %w", len(b), uint64(at)+n, ErrFormat)
		}
		packets = append(packets, b[at:at+int(n):at+int(n)])
		at += int(n)
	}
	return packets, nil
}

// AppendPcap appends the case's pcap file to b. Timestamps are zero, so that equal cases
// make equal files.
func (c Case) AppendPcap(b []byte) []byte {
	order := binary.LittleEndian
	b = order.AppendUint32(b, magicMicro)
	b = order.AppendUint16(b, 2) // version 2.4
	b = order.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...) // time zone and accuracy, always zero
	b = order.AppendUint32(b, snapLen)
	b = order.AppendUint32(b, LinkTypeIPv6)
	for _, p := range [][]byte{c.Session, c.Wire} {
		b = append(b, make([]byte, 8)...)
		b = order.AppendUint32(b, uint32(len(p)))
		b = order.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}
