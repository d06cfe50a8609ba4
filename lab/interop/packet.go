package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Upper layers and ICMPv6 types.
const (
	protoTCP, protoUDP, protoICMP = 6, 17, 58

	icmpUnreachable                = 1
	icmpEchoRequest, icmpEchoReply = 128, 129
	icmpSolicit, icmpAdvert        = 135, 136
	icmpUpdate                     = 156 // RFC 6743 §2
)

const (
	ipLen     = 40
	nextOpts  = 60  // Destination Options
	fullHops  = 255 // Neighbour Discovery wants it
	otherHops = 64
)

// address is an IPv6 address: locator, then identifier.
type address struct{ l64, nid uint64 }

func (a address) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, a.l64), a.nid)
}

func readAddress(b []byte) address {
	return address{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// packet is an IPv6 packet with no extension headers but destination options.
type packet struct {
	src, dst address
	nonce    string // empty: none
	beside   Options
	proto    byte
	body     []byte // from the upper-layer header on
	raw      []byte // the whole packet as received
}

var errForeign = errors.New("not a packet that this host understands")

// parsePacket reads a packet from its IPv6 header on.
func parsePacket(b []byte) (p packet, err error) {
	if len(b) < ipLen || b[0]>>4 != 6 {
		return p, errForeign
	}
	end := ipLen + int(binary.BigEndian.Uint16(b[4:]))
	if end > len(b) {
		return p, fmt.Errorf("packet ends at byte %d of %d: %w", len(b), end, errForeign)
	}
	p.src, p.dst, p.proto = readAddress(b[8:]), readAddress(b[24:]), b[6]
	p.body, p.raw = b[ipLen:end], b[:end]
	for p.proto == nextOpts {
		if len(p.body) < 8 || len(p.body) < 8+8*int(p.body[1]) {
			return p, fmt.Errorf("options end early: %w", errForeign)
		}
		options := p.body[2 : 8+8*int(p.body[1])]
		p.proto, p.body = p.body[0], p.body[8+8*int(p.body[1]):]
		nonce, err := findNonce(options)
		if err != nil {
			return p, err
		}
		if nonce != "" {
			p.nonce = nonce
		}
	}
	return p, nil
}

// bytes writes the packet; the checksum in its body is filled in.
func (p packet) bytes(nidsOnly bool, hops byte) []byte {
	p.fill(nidsOnly)
	next, options := p.proto, []byte(nil)
	if p.nonce != "" {
		next, options = nextOpts, p.beside.headers(p.proto, p.nonce)
	}
	b := []byte{0x60, 0, 0, 0, 0, 0, next, hops}
	binary.BigEndian.PutUint16(b[4:], uint16(len(options)+len(p.body)))
	b = p.dst.append(p.src.append(b))
	return append(append(b, options...), p.body...)
}

// checksumAt is the offset of the checksum in each upper layer.
var checksumAt = map[byte]int{protoTCP: 16, protoUDP: 6, protoICMP: 2}

func (p packet) fill(nidsOnly bool) {
	at, ok := checksumAt[p.proto]
	if !ok {
		return
	}
	p.body[at], p.body[at+1] = 0, 0
	sum := ^p.sum(nidsOnly)
	if sum == 0 && p.proto == protoUDP {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(p.body[at:], sum)
}

// sound reports whether the checksum is right.
func (p packet) sound(nidsOnly bool) bool {
	at, ok := checksumAt[p.proto]
	return ok && len(p.body) >= at+2 && p.sum(nidsOnly) == 0xffff
}

// isUDPForm reports whether a packet is a control message of Roam in UDP, for
// paths that drop the option. It goes by the port that Roam has unless it is
// configured otherwise.
func (p packet) isUDPForm() bool {
	const port = 6740
	return p.proto == protoUDP && len(p.body) >= 8 && binary.BigEndian.Uint16(p.body[2:]) == port
}

// sum adds up pseudo-header and body. With nidsOnly locators count as zero: RFC 6741 §4.2
// requires it for TCP and UDP, and §4.3 forbids it for ICMPv6.
func (p packet) sum(nidsOnly bool) uint16 {
	src, dst := p.src, p.dst
	if nidsOnly {
		src.l64, dst.l64 = 0, 0
	}
	b := dst.append(src.append(nil))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.body)))
	b = append(append(b, 0, 0, 0, p.proto), p.body...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}
