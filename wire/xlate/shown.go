package xlate

import (
	"encoding/binary"

	"roam"
	"roam/wire/ip6"
)

// Shown returns the rule that the transport checksum of a packet on the wire follows, and
// whether the field holds only the sum of the pseudo-header, which a driver was to
// complete. A packet whose sum is right under neither rule counts as RuleIPv6: its
// receiver will drop it.
func Shown(pkt []byte) (rule Rule, partial bool) {
	c, err := ip6.Walk(pkt)
	if err != nil {
		return RuleIPv6, false
	}
	rule, partial, _ = shown(pkt, c)
	if partial {
		rule = RuleIPv6 // the driver completes it for the translated addresses
	}
	return rule, partial
}

// ShownRule returns the rule that the checksum of a TCP or UDP packet follows, complete or
// as the seed of the pseudo-header, and whether it follows any.
func ShownRule(pkt []byte) (rule Rule, found bool) {
	c, err := ip6.Walk(pkt)
	if err != nil || c.Upper != ip6.TCP && c.Upper != ip6.UDP {
		return RuleIPv6, false
	}
	rule, _, found = shown(pkt, c)
	return rule, found
}

// isOrdinary reports whether the checksum of a TCP or UDP packet is right for the packet's
// own addresses, or the seed of such a checksum.
func isOrdinary(pkt []byte, c ip6.Chain) bool {
	rule, _, found := shown(pkt, c)
	return found && rule == RuleIPv6 && (c.Upper == ip6.TCP || c.Upper == ip6.UDP)
}

// shown also reports whether the checksum is right under any rule.
func shown(pkt []byte, c ip6.Chain) (rule Rule, partial, found bool) {
	off, n, ok := ip6.ChecksumOffset(c.Upper)
	if !ok || !c.Whole() || c.End-c.UpperOffset < n {
		return RuleIPv6, false, false
	}
	msg := pkt[c.UpperOffset:c.End]
	field := binary.BigEndian.Uint16(msg[off:])
	if field == 0 {
		return RuleIPv6, false, false
	}
	src, dst := roam.ILVFromAddr(c.Header.Src), roam.ILVFromAddr(c.Header.Dst)
	rest := ip6.Add(ip6.Add(uint16(len(msg)>>16), uint16(len(msg))), uint16(c.Upper))
	nids := ip6.Add(rest, ip6.Add(ip6.Sum64(roam.L64(src.NID)), ip6.Sum64(roam.L64(dst.NID))))
	whole := ip6.Add(nids, ip6.Add(ip6.Sum64(src.L64), ip6.Sum64(dst.L64)))
	sum := ip6.Sum(msg)
	switch {
	case ip6.Add(whole, sum) == 0xffff:
		return RuleIPv6, false, true
	case c.Upper != ip6.ICMPv6 && ip6.Add(nids, sum) == 0xffff:
		return RuleRFC6741, false, true
	case field == whole:
		return RuleIPv6, true, true
	case field == nids:
		return RuleRFC6741, true, true
	}
	return RuleIPv6, false, false
}
