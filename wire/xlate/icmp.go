package xlate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// minMTU is the least link MTU of IPv6 (RFC 8200 §5).
const minMTU = 1280

// ErrorInward translates an ICMPv6 error, types 1 to 4, about a packet that this host sent
// under the entry. It replaces the outer destination and both addresses of the quoted
// packet by session addresses, removes a quoted nonce, and lowers the MTU of a Packet
// Too Big by the nonce's length, though not below 1280, since the stack would ignore
// that (RFC 8201 §4). The outer source stays, so that traceroute lists the router,
// unless it is the correspondent itself.
func ErrorInward(pkt []byte, e Entry) ([]byte, error) {
	out, err := errorInward(pkt, e)
	if err != nil {
		return nil, fmt.Errorf("translate error inward: %w", err)
	}
	return out, nil
}

func errorInward(pkt []byte, e Entry) ([]byte, error) {
	c, err := ip6.Walk(pkt)
	if err != nil {
		return nil, err
	}
	wire, session := e.wire(), e.session()
	src := roam.ILVFromAddr(c.Header.Src)
	if err := expect(c, src, wire.local); err != nil {
		return nil, err
	}
	if src == wire.remote {
		src = session.remote
	}
	if err := verify(pkt); err != nil {
		return nil, err
	}
	out, err := stripExpected(pkt[:c.End], c, e.Nonce)
	if err != nil {
		return nil, err
	}
	setAddresses(out, src, session.local)
	at, m, err := errorIn(out)
	if err != nil {
		return nil, err
	}
	// This host sent the quoted packet.
	q := quote{from: wire, to: session, e: e, outward: false}
	quoted, gone, goneAt, err := q.translate(m.Quoted, q.from.local, q.from.remote, q.to.local, q.to.remote)
	if err != nil {
		return nil, err
	}
	m.Quoted, m.Param = quoted, lowerParam(m, gone, goneAt, e.Spare)
	return putError(out[:at], m)
}

// ErrorOutward translates an ICMPv6 error of our own stack about a packet from session
// addresses: the reverse of ErrorInward. It inserts the entry's nonce into the outer
// packet; the quoted packet's nonce is lost. It cuts the quoted packet so that the error
// does not exceed 1280 bytes (RFC 4443 §2.4).
func ErrorOutward(pkt []byte, e Entry) ([]byte, error) {
	out, err := errorOutward(pkt, e)
	if err != nil {
		return nil, fmt.Errorf("translate error outward: %w", err)
	}
	return out, nil
}

func errorOutward(pkt []byte, e Entry) ([]byte, error) {
	out, _, err := outward(pkt, e)
	if err != nil {
		return nil, err
	}
	if err := verify(out); err != nil {
		return nil, err
	}
	at, m, err := errorIn(out)
	if err != nil {
		return nil, err
	}

	// The correspondent sent the quoted packet.
	q := quote{from: e.session(), to: e.wire(), e: e, outward: true}
	m.Quoted, _, _, err = q.translate(m.Quoted, q.from.remote, q.from.local, q.to.remote, q.to.local)
	if err != nil {
		return nil, err
	}
	if room := minMTU - at - 8; len(m.Quoted) > room {
		m.Quoted = m.Quoted[:max(room, 0)]
	}
	if out, err = putError(out[:at], m); err != nil || e.ICMPRule != RuleRFC6741 || !e.Nonce.Present() {
		return out, err
	}
	return out, ilnp.FinishOverNIDs(out)
}

// verify refuses an ICMPv6 message with a wrong checksum: recomputing it after the
// translation would hide the damage.
func verify(b []byte) error {
	if _, err := ilnp.ParsePacket(b); errors.Is(err, ilnp.ErrChecksum) {
		return err // errorIn returns the other errors, with more detail
	}
	return nil
}

// errorIn finds the ICMPv6 error in a packet.
func errorIn(b []byte) (at int, m ilnp.ErrorMessage, err error) {
	c, err := ip6.Walk(b)
	if err != nil {
		return 0, m, err
	}
	if c.Upper != ip6.ICMPv6 {
		return 0, m, fmt.Errorf("protocol %d at offset %d is not icmpv6: %w", c.Upper, c.UpperOffset, ErrUnsupported)
	}
	if !c.Whole() {
		return 0, m, fmt.Errorf("icmpv6 error in fragments: %w", ErrUnsupported)
	}
	m, err = ilnp.ParseError(b[c.UpperOffset:c.End])
	return c.UpperOffset, m, err
}

// putError appends the error to the headers in b and finishes the packet.
func putError(b []byte, m ilnp.ErrorMessage) ([]byte, error) {
	out, err := m.AppendTo(append([]byte(nil), b...))
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(out[ip6.PayloadLenAt:], uint16(len(out)-ip6.HeaderLen))
	return out, ip6.FinishL4(out)
}

// quote translates the packet inside an ICMPv6 error.
type quote struct {
	from, to ends
	e        Entry
	outward  bool
}

// translate returns the packet with addresses src and dst replaced by newSrc and newDst,
// and without its nonce. gone is the number of bytes removed, goneAt their offset.
func (q quote) translate(b []byte, src, dst, newSrc, newDst roam.ILV) (out []byte, gone, goneAt int, err error) {
	c, err := ip6.WalkQuoted(b)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("quoted packet: %w", err)
	}
	if err := expect(c, src, dst); err != nil {
		return nil, 0, 0, fmt.Errorf("quoted packet: %w", err)
	}
	f, err := ilnp.FindNonce(b, c)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("quoted packet: %w", err)
	}
	out, gone, goneAt = stripNonce(b[:c.End], c, f)
	setAddresses(out, newSrc, newDst)
	oldSum, newSum := q.e.wireSum(c.Upper), q.e.sessionSum()
	if q.outward {
		oldSum, newSum = newSum, oldSum
	}
	// A quoted packet may end before its checksum; then there is nothing to adjust.
	if off, _, ok := ip6.ChecksumOffset(c.Upper); ok && !c.Later() {
		if at := c.UpperOffset - gone + off; at+2 <= len(out) {
			adjustField(out[at:], c.Upper, oldSum, newSum)
		}
	}
	return out, gone, goneAt, nil
}

// lowerParam returns the parameter of an error after the removal of gone bytes at goneAt
// from the quoted packet.
func lowerParam(m ilnp.ErrorMessage, gone, goneAt int, spare uint32) uint32 {
	switch {
	case m.Type == ilnp.TypePacketTooBig && m.Param > minMTU+spare:
		return max(m.Param-uint32(gone)-spare, minMTU)
	case m.Type == ilnp.TypePacketTooBig:
		return min(m.Param, minMTU)
	case gone == 0:
		return m.Param
	case m.Type == ilnp.TypeParameterProblem && m.Param >= uint32(goneAt+gone):
		return m.Param - uint32(gone)
	case m.Type == ilnp.TypeParameterProblem && m.Param > uint32(goneAt):
		return uint32(goneAt) // the pointer was inside the nonce
	}
	return m.Param
}
