// Package packets reads captures and counts what the papers count: loss, misordering, TCP
// retransmissions, gaps, bytes over time, and exchanges of Locator Updates.
//
// It implements reading of pcap files with IPv6 over Ethernet, up to TCP, UDP and the
// Locator Update. It has its own parser, so that it judges our packets by the RFCs and not
// by our codecs. It omits IPv4 and fragments. It is driven by experiments and by
// lab/virtual.
package packets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
)

// The upper-layer protocols that are looked into.
const (
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// KindMAC is the kind of the experimental option that holds the MAC of a keyed session's Locator Update.
const KindMAC = 2

// Packet is one IPv6 packet of a capture, as far as it was captured.
type Packet struct {
	At       time.Time
	Where    string // as given to Read: host, interface or both
	Src, Dst netip.Addr
	Class    uint8  // traffic class
	Nonce    bool   // has the Nonce option (RFC 6744)
	Kind     uint8  // of the experimental option (RFC 4727), its first byte; 0: it has none
	Proto    uint8  // upper layer
	Length   int    // payload length of the IPv6 header, in bytes
	Raw      []byte // from the IPv6 header on
	// Of TCP and UDP.
	SrcPort, DstPort uint16
	Payload          int    // bytes, captured or not
	Data             []byte // the captured part; of ICMPv6 the message from its type on
	// Of TCP.
	Seq, Ack uint32
	Flags    uint8
}

// Read reads a capture. Frames that are not IPv6 are left out, and so are
// packets cut within their headers.
func Read(path, where string) (out []Packet, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read capture %s: %w", path, err)
	}
	for {
		b, info, err := r.ReadPacketData()
		// An interrupted capture ends within a packet.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read capture %s: %w", path, err)
		}
		if p, ok := ParseFrame(b); ok {
			p.At, p.Where = info.Timestamp, where
			out = append(out, p)
		}
	}
}

// Merge puts captures together in order of time.
func Merge(lists ...[]Packet) []Packet {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Packet) int { return a.At.Compare(b.At) })
	return all
}

// Select returns the packets for which keep is true.
func Select(list []Packet, keep func(Packet) bool) (out []Packet) {
	for _, p := range list {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

const (
	etherLen  = 14
	etherIPv6 = 0x86dd
	ipLen     = 40
	hopByHop  = 0
	destOpts  = 60
	optNonce  = 0x8b

	optExperiment = 0x1e
)

// ParseFrame parses an Ethernet frame without keeping b; false: it holds no IPv6 packet, or
// ends within its headers.
func ParseFrame(b []byte) (p Packet, ok bool) {
	if len(b) < etherLen+ipLen || binary.BigEndian.Uint16(b[12:]) != etherIPv6 {
		return p, false
	}
	return Parse(slices.Clone(b[etherLen:]))
}

// Parse parses an IPv6 packet and keeps b; false: it ends within its headers.
func Parse(b []byte) (p Packet, ok bool) {
	if len(b) < ipLen {
		return p, false
	}
	p.Raw = b
	p.Class = uint8(binary.BigEndian.Uint16(b) >> 4)
	p.Length = int(binary.BigEndian.Uint16(b[4:]))
	p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	next, rest, left := b[6], b[ipLen:], p.Length
	for next == hopByHop || next == destOpts {
		if len(rest) < 8 {
			return p, false
		}
		n := 8 * (int(rest[1]) + 1)
		if len(rest) < n {
			return p, false
		}
		if next == destOpts {
			p.readOptions(rest[2:n])
		}
		next, rest, left = rest[0], rest[n:], left-n
	}
	p.Proto = next
	return p, p.upper(rest, left)
}

// Upper returns the message of the upper layer, header included; false when the
// capture does not hold all of it.
func (p Packet) Upper() ([]byte, bool) {
	next, at, end := p.Raw[6], ipLen, ipLen+p.Length
	for (next == hopByHop || next == destOpts) && at+2 <= len(p.Raw) {
		next, at = p.Raw[at], at+8*(int(p.Raw[at+1])+1)
	}
	if at > end || end > len(p.Raw) {
		return nil, false
	}
	return p.Raw[at:end], true
}

// String is a packet of TCP or UDP in one line, as in a table.
func (p Packet) String() string {
	s := fmt.Sprintf("from %s to %s, ", netip.AddrPortFrom(p.Src, p.SrcPort), netip.AddrPortFrom(p.Dst, p.DstPort))
	if p.Proto == TCP {
		s += fmt.Sprintf("TCP %d, flags %#02x, acknowledges %d, ", p.Seq, p.Flags, p.Ack)
	}
	s += fmt.Sprintf("%d bytes", p.Payload)
	if p.Nonce {
		s += ", nonce"
	}
	return s
}

// readOptions walks the options of a header.
func (p *Packet) readOptions(b []byte) {
	for len(b) > 0 {
		if b[0] == 0 { // one byte of padding
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return
		}
		option, data := b[0], b[2:2+int(b[1])]
		switch {
		case option == optNonce:
			p.Nonce = true
		case option == optExperiment && len(data) > 0:
			p.Kind = data[0]
		}
		b = b[2+len(data):]
	}
}

// upper reads the header of the upper layer; left are its bytes as sent.
func (p *Packet) upper(b []byte, left int) bool {
	head := map[uint8]int{TCP: 20, UDP: 8, ICMPv6: 4}[p.Proto]
	if len(b) < head {
		return false
	}
	switch p.Proto {
	case TCP:
		p.Seq, p.Ack, p.Flags = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), b[13]
		head = 4 * int(b[12]>>4)
	case ICMPv6:
		p.Data = b
		return true
	case UDP:
	default:
		return true
	}
	p.SrcPort, p.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	p.Payload, p.Data = left-head, b[min(head, len(b)):]
	return p.Payload >= 0
}

// Control returns the control message in a packet: ICMPv6 with a nonce, in the form of the RFCs
// or in UDP, as package wire/ilnp describes it. ok is false of other packets.
func (p Packet) Control() (inner Packet, udp, ok bool) {
	if p.Proto == ICMPv6 {
		return p, false, p.Nonce
	}
	b := p.Data
	if p.Proto != UDP || p.SrcPort != p.DstPort || len(b) < 8 || b[0] != ICMPv6 {
		return p, false, false
	}
	n := 8 * (int(b[1]) + 1)
	if len(b) < n+4 {
		return p, false, false
	}
	inner = p
	inner.Nonce = false
	if inner.readOptions(b[2:n]); !inner.Nonce {
		return p, false, false
	}
	inner.Proto, inner.SrcPort, inner.DstPort, inner.Payload, inner.Data = ICMPv6, 0, 0, 0, b[n:]
	return inner, true, true
}
