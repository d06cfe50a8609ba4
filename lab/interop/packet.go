package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Upper layers and ICMPv6 types.
const (
	protoTCP, protoUDP, protoICMP = 6, 17, 58

	icmpEchoRequest, icmpEchoReply = 128, 129
	icmpSolicit, icmpAdvert        = 135, 136
	icmpUpdate                     = 156 // RFC 6743 §2
)

const (
	ipLen     = 40
	nextOpts  = 60   // Destination Options
	optNonce  = 0x8b // RFC 6744 §2
	optPad1   = 0
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

// packet is an IPv6 packet with at most one extension header, that of the
// nonce.
type packet struct {
	src, dst address
	nonce    string // empty: none
	proto    byte
	body     []byte // from the upper-layer header on
}

var errForeign = errors.New("not a packet that this host understands")

// parsePacket reads a packet from its IPv6 header on.
func parsePacket(b []byte) (p packet, err error) {
	if len(b) < ipLen || b[0]>>4 != 6 {
		return p, errForeign
	}
	end := ipLen + int(binary.BigEndian.Uint16(b[4:]))
	if end > len(b) {
		return p, fmt.Errorf("packet ends at octet %d of %d: %w", len(b), end, errForeign)
	}
	p.src, p.dst, p.proto, p.body = readAddress(b[8:]), readAddress(b[24:]), b[6], b[ipLen:end]
	if p.proto != nextOpts {
		return p, nil
	}
	if len(p.body) < 8 || len(p.body) < 8+8*int(p.body[1]) {
		return p, fmt.Errorf("options end early: %w", errForeign)
	}
	options := p.body[2 : 8+8*int(p.body[1])]
	p.proto, p.body = p.body[0], p.body[8+8*int(p.body[1]):]
	for len(options) > 0 {
		if options[0] == optPad1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || len(options) < 2+int(options[1]) {
			return p, fmt.Errorf("option ends early: %w", errForeign)
		}
		if options[0] == optNonce {
			p.nonce = string(options[2 : 2+int(options[1])])
		}
		options = options[2+int(options[1]):]
	}
	return p, nil
}

// bytes writes the packet; the checksum in its body is filled in.
func (p packet) bytes(nidsOnly bool, hops byte) []byte {
	p.fill(nidsOnly)
	next, options := p.proto, []byte(nil)
	if p.nonce != "" {
		// Neither length of a nonce needs padding (RFC 6744 §2).
		options = append([]byte{p.proto, byte(len(p.nonce)+4)/8 - 1, optNonce, byte(len(p.nonce))}, p.nonce...)
		next = nextOpts
	}
	b := []byte{0x60, 0, 0, 0, 0, 0, next, hops}
	binary.BigEndian.PutUint16(b[4:], uint16(len(options)+len(p.body)))
	b = p.dst.append(p.src.append(b))
	return append(append(b, options...), p.body...)
}

// checksumAt is where the checksum stands in each upper layer.
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

// sum adds up pseudo-header and body. With nidsOnly locators count as zero
// in TCP and UDP (RFC 6741 §4.2); ICMPv6 always counts them (§4.3).
func (p packet) sum(nidsOnly bool) uint16 {
	src, dst := p.src, p.dst
	if nidsOnly && p.proto != protoICMP {
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

// entry is one locator of a Locator Update.
type entry struct {
	l64        uint64
	preference uint16 // lower is preferred
	lifetime   uint32 // seconds
}

// locatorUpdate is the message of RFC 6743 §2 with code 0, or the draft's
// with code 7, replace softly.
type locatorUpdate struct {
	code, operation byte
	entries         []entry
}

const (
	codeRFC, codeReplaceSoft       = 0, 7
	opAdvertise, opAcknowledgement = 1, 2
)

func (u locatorUpdate) bytes() []byte {
	b := []byte{icmpUpdate, u.code, 0, 0, byte(len(u.entries)), u.operation, 0, 0}
	for _, e := range u.entries {
		b = binary.BigEndian.AppendUint64(b, e.l64)
		b = binary.BigEndian.AppendUint16(b, e.preference)
		if u.code == codeRFC {
			b = binary.BigEndian.AppendUint16(b, uint16(min(e.lifetime, 0xffff)))
		} else {
			b = binary.BigEndian.AppendUint32(append(b, 0, 0), e.lifetime)
		}
	}
	return b
}

func parseUpdate(b []byte) (u locatorUpdate, err error) {
	size := 16
	if len(b) >= 2 && b[1] == codeRFC {
		size = 12
	}
	if len(b) < 8 || len(b) != 8+size*int(b[4]) || b[4] == 0 {
		return u, fmt.Errorf("locator update of %d octets: %w", len(b), errForeign)
	}
	u.code, u.operation = b[1], b[5]
	for b = b[8:]; len(b) > 0; b = b[size:] {
		e := entry{l64: binary.BigEndian.Uint64(b), preference: binary.BigEndian.Uint16(b[8:])}
		if size == 12 {
			e.lifetime = uint32(binary.BigEndian.Uint16(b[10:]))
		} else {
			e.lifetime = binary.BigEndian.Uint32(b[12:])
		}
		u.entries = append(u.entries, e)
	}
	return u, nil
}
