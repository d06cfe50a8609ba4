// Package xlate models in plain Go how the data plane translates packets between session
// addresses and wire addresses. Golden packets run through both.
//
// It implements the rewriting of both address halves, the insertion and
// removal of the Nonce option (RFC 6744), the adjustment of transport
// checksums (TCP, UDP, UDP-Lite, DCCP) by either rule, and the translation of
// ICMPv6 errors with the packet that they quote. ICMPv6 checksums follow the
// ordinary rule (RFC 6741 §4.3), unless the correspondent wants them over NIDs.
//
// It omits the choice of locators, ingress filtering (it compares nonce and source with
// the entry only), Routing headers with segments left, and the checksums of other
// transports, which pass unchanged. DEVIATION: AH (RFC 6741 §11) covers the addresses,
// so translation breaks it; ESP passes, with the Nonce option in front of it, since no
// option can be inserted inside.
//
// The package is pure. It is driven by ilnp/slowpath and internal/role/ilnphost/engine, for ICMPv6
// errors that the data plane hands to the daemon, by wire/golden, and by the model of
// the data plane in wire/xlate/decide.
package xlate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Rule says which addresses the transport checksums on the wire cover.
type Rule uint8

// The values of Rule.
const (
	RuleIPv6    Rule = iota // the addresses on the wire
	RuleRFC6741             // the NIDs only: locators count as zero (RFC 6744 §3)
)

// String returns the rule's name in configuration and in golden files.
func (r Rule) String() string {
	switch r {
	case RuleIPv6:
		return "ipv6"
	case RuleRFC6741:
		return "rfc6741"
	}
	return fmt.Sprintf("rule %d", uint8(r))
}

// ErrAddress marks a packet whose addresses are not those of the entry.
var ErrAddress = errors.New("address does not belong to the session")

// ErrNonce marks an incoming packet with another nonce than the entry's.
var ErrNonce = errors.New("wrong nonce")

// ErrUnsupported marks a packet that is well formed but not translated.
var ErrUnsupported = errors.New("not translated")

// Entry holds the facts of a session, and of the path chosen for the packet, that a
// translation needs.
type Entry struct {
	SessionPrefix           roam.L64
	LocalAlias, RemoteAlias roam.NID // low halves of the session addresses
	LocalNID, RemoteNID     roam.NID // low halves on the wire
	LocalL64, RemoteL64     roam.L64 // high halves on the wire
	Rule                    Rule
	// ICMPRule is the rule of ICMPv6 messages with our nonce to the correspondent.
	// Inward detects the rule of a whole message by its checksum.
	ICMPRule Rule

	// Nonce is inserted outward, if present. Inward it is the only accepted nonce, if
	// present; a packet without nonce is translated in either case.
	Nonce ilnp.Nonce
	// Spare is subtracted from the MTU of a Packet Too Big inward, in bytes, beside the
	// length of the nonce.
	Spare uint32
}

// ends are the two addresses of a session, either on the wire or as session addresses.
type ends struct{ local, remote roam.ILV }

func (e Entry) session() ends {
	return ends{roam.ILV{NID: e.LocalAlias, L64: e.SessionPrefix}, roam.ILV{NID: e.RemoteAlias, L64: e.SessionPrefix}}
}

func (e Entry) wire() ends {
	return ends{roam.ILV{NID: e.LocalNID, L64: e.LocalL64}, roam.ILV{NID: e.RemoteNID, L64: e.RemoteL64}}
}

// sessionSum is the share of the two session addresses in a pseudo-header's sum.
func (e Entry) sessionSum() uint16 {
	s := e.session()
	return ip6.Add(ilvSum(s.local), ilvSum(s.remote))
}

// wireSum is the share of the two wire addresses in the sum of a pseudo-header of proto.
func (e Entry) wireSum(proto uint8) uint16 {
	w, rule := e.wire(), e.Rule
	if proto == ip6.ICMPv6 {
		rule = e.ICMPRule
	}
	if rule == RuleRFC6741 {
		w.local.L64, w.remote.L64 = 0, 0
	}
	return ip6.Add(ilvSum(w.local), ilvSum(w.remote))
}

func ilvSum(v roam.ILV) uint16 {
	return ip6.Add(ip6.Sum64(v.L64), ip6.Sum64(roam.L64(v.NID)))
}

// Outward translates a packet of our own stack from session addresses to the entry's wire
// addresses, and inserts the entry's nonce. The result never shares memory with pkt.
func Outward(pkt []byte, e Entry) ([]byte, error) {
	out, _, err := outward(pkt, e)
	if err != nil {
		return nil, fmt.Errorf("translate outward: %w", err)
	}
	return out, nil
}

func outward(pkt []byte, e Entry) ([]byte, ip6.Chain, error) {
	c, err := ip6.Walk(pkt)
	if err != nil {
		return nil, c, err
	}
	from, to := e.session(), e.wire()
	if err := expect(c, from.local, from.remote); err != nil {
		return nil, c, err
	}
	f, err := ilnp.FindNonce(pkt, c)
	if err != nil {
		return nil, c, err
	}
	if f.Ext >= 0 {
		// Only the data plane inserts nonces of this host.
		return nil, c, fmt.Errorf("nonce option of a session packet at offset %d: %w", f.Offset, ilnp.ErrTwoNonces)
	}
	out, err := insertNonce(pkt[:c.End], c, e.Nonce)
	if err != nil {
		return nil, c, err
	}
	if !e.Nonce.Present() {
		e.ICMPRule = RuleIPv6
	}
	setAddresses(out, to.local, to.remote)
	c, err = ip6.Walk(out)
	if err != nil {
		return nil, c, err
	}
	return out, c, adjust(out, c, e.sessionSum(), e.wireSum(c.Upper))
}

// Inward translates a packet from the entry's wire addresses to session addresses and
// removes the Nonce option (see stripNonce). A packet without nonce whose checksum is
// right by the ordinary rule is translated by that rule, whatever the entry's is. The
// result never shares memory with pkt.
func Inward(pkt []byte, e Entry) ([]byte, error) {
	out, err := inward(pkt, e)
	if err != nil {
		return nil, fmt.Errorf("translate inward: %w", err)
	}
	return out, nil
}

func inward(pkt []byte, e Entry) ([]byte, error) {
	c, err := ip6.Walk(pkt)
	if err != nil {
		return nil, err
	}
	from, to := e.wire(), e.session()
	if err := expect(c, from.remote, from.local); err != nil {
		return nil, err
	}
	out, err := stripExpected(pkt[:c.End], c, e.Nonce)
	if err != nil {
		return nil, err
	}
	if f, _ := ilnp.FindNonce(pkt, c); f.Ext < 0 && isOrdinary(pkt, c) {
		e.Rule = RuleIPv6
	}
	if c.Upper == ip6.ICMPv6 && c.Whole() {
		e.ICMPRule = RuleIPv6
		if p, err := ilnp.ParsePacket(pkt); err == nil && p.OverNIDs {
			e.ICMPRule = RuleRFC6741
		}
	}
	setAddresses(out, to.remote, to.local)
	if c, err = ip6.Walk(out); err != nil {
		return nil, err
	}
	return out, adjust(out, c, e.wireSum(c.Upper), e.sessionSum())
}

// expect refuses a packet with other addresses than src and dst, and one whose destination
// is not its final one: the checksum covers the final one.
func expect(c ip6.Chain, src, dst roam.ILV) error {
	if roam.ILVFromAddr(c.Header.Src) != src {
		return fmt.Errorf("source %v at offset 8, want %v: %w", c.Header.Src, src.Addr(), ErrAddress)
	}
	if roam.ILVFromAddr(c.Header.Dst) != dst {
		return fmt.Errorf("destination %v at offset 24, want %v: %w", c.Header.Dst, dst.Addr(), ErrAddress)
	}
	if c.SegmentsLeft != 0 {
		return fmt.Errorf("routing header with %d segments left: %w", c.SegmentsLeft, ErrUnsupported)
	}
	return nil
}

func setAddresses(b []byte, src, dst roam.ILV) {
	binary.BigEndian.PutUint64(b[ip6.SrcAt:], uint64(src.L64))
	binary.BigEndian.PutUint64(b[ip6.SrcAt+ip6.NIDAt:], uint64(src.NID))
	binary.BigEndian.PutUint64(b[ip6.DstAt:], uint64(dst.L64))
	binary.BigEndian.PutUint64(b[ip6.DstAt+ip6.NIDAt:], uint64(dst.NID))
}

// adjust replaces oldSum by newSum in the checksum of the upper layer. Later fragments
// have none, and the checksums of other protocols do not cover addresses.
func adjust(b []byte, c ip6.Chain, oldSum, newSum uint16) error {
	off, n, ok := ip6.ChecksumOffset(c.Upper)
	if !ok || c.Later() {
		return nil
	}
	if c.End-c.UpperOffset < n {
		return fmt.Errorf("upper-layer header of protocol %d ends at offset %d, want %d bytes: %w",
			c.Upper, c.End, c.UpperOffset+n, ip6.ErrTruncated)
	}
	adjustField(b[c.UpperOffset+off:], c.Upper, oldSum, newSum)
	return nil
}

// adjustField adjusts the checksum field at the start of b. A UDP checksum of zero means no
// checksum and stays; a result of zero becomes 0xffff (RFC 8200 §8.1, RFC 3828 §3.1).
func adjustField(b []byte, proto uint8, oldSum, newSum uint16) {
	check := binary.BigEndian.Uint16(b)
	noZero := proto == ip6.UDP || proto == ip6.UDPLite
	if noZero && check == 0 {
		return
	}
	check = ip6.Adjust(check, oldSum, newSum)
	if noZero && check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(b, check)
}
