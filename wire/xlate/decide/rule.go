package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ip6"
)

const ruleMost = 1536 // greatest length of a segment to sum

func sumOf(v roam.ILV) (locator, nid uint16) {
	return ip6.Sum64(v.L64), ip6.Sum64(roam.L64(v.NID))
}

// ruleShown returns the rule that the checksum of the packet follows, complete or as the
// seed of the pseudo-header.
func (t *step) ruleShown() Found {
	k, c := t.k, &t.c
	if !hasRule(c.proto) && c.proto != ip6.ICMPv6 || !c.isWhole() {
		return NotFound
	}
	off, _, _ := ip6.ChecksumOffset(c.proto)
	b, ok := k.load(c.at+off, 2)
	if !ok {
		return NotFound
	}
	field, end := binary.BigEndian.Uint16(b), k.Len
	if n := int(binary.BigEndian.Uint16(k.Bytes[ip6.PayloadLenAt:])); n != 0 {
		end = ip6.HeaderLen + n
	}
	if field == 0 || end <= c.at {
		return NotFound
	}
	srcL, srcN := sumOf(ilvAt(k.Bytes[ip6.SrcAt:]))
	dstL, dstN := sumOf(ilvAt(k.Bytes[ip6.DstAt:]))
	n := end - c.at
	locators := ip6.Add(srcL, dstL)
	seed := ip6.Add(ip6.Add(srcN, dstN), ip6.Add(ip6.Add(uint16(n), uint16(n>>16)), uint16(c.proto)))
	if k.GSO == 0 && n <= ruleMost {
		all, ok := k.load(c.at, n)
		if !ok {
			return NotFound
		}
		switch sum := ip6.Add(seed, ip6.Sum(all)); {
		case ip6.Add(sum, locators) == 0xffff:
			return FoundIPv6
		case sum == 0xffff:
			return FoundRFC6741
		}
	}
	switch {
	case !hasRule(c.proto):
		return NotFound
	case field == ip6.Add(seed, locators):
		return FoundIPv6
	case field == seed:
		return FoundRFC6741
	}
	return NotFound
}

// sumsNIDsOnly reports whether the checksum of this packet of a correspondent counts
// locators as zero.
func (t *step) sumsNIDsOnly() bool {
	return t.c.nonce.Present() || !hasRule(t.c.proto) || t.ruleShown() != FoundIPv6
}

// isICMPOverNIDs is the same for this ICMPv6 message.
func (t *step) isICMPOverNIDs(p *Session) bool {
	if !t.c.nonce.Present() {
		return false
	}
	if !t.c.isWhole() {
		return p != nil && p.is(ICMPRFC6741)
	}
	return t.ruleShown() == FoundRFC6741
}

// countsNIDsOnly reports whether locators count as zero towards this correspondent.
func countsNIDsOnly(p *Session, l *Live) bool {
	if p.is(Plain) {
		return false
	}
	if p.is(RuleSought) && l.Rule != NotFound {
		return l.Rule == FoundRFC6741
	}
	return p.is(RFC6741)
}

// isRuleSought reports whether the correspondent's rule is still unknown.
func isRuleSought(p *Session, l *Live) bool {
	return p.is(RuleSought) && !p.is(Plain) && l.Rule == NotFound
}

// noteRule learns the rule from a packet with the right nonce.
func (t *step) noteRule(p *Session, l *Live) {
	if !isRuleSought(p, l) || !hasRule(t.c.proto) {
		return
	}
	found := t.ruleShown()
	if found == NotFound {
		return
	}
	l.Rule = found
	if (found == FoundRFC6741) != p.is(RFC6741) {
		t.tellOf(p, RuleSeen, found)
	}
}

const (
	copyAnswers  = 2
	copyAnswerIn = 20 // ms
)

// noteBare processes a datagram without nonce in a session whose rule is unknown. If only
// probe copies are answered, each at once, the other rule is the right one.
func (t *step) noteBare(p *Session, l *Live) {
	from, to, ok := t.k.ports(t.c.at)
	if !ok {
		return
	}
	since, within := ms(t.now)-l.CopySent, max(p.Grace/uint32(millisecond), copyAnswerIn)
	if !l.CopyOpen || since > within || from != l.CopyPorts[0] || to != l.CopyPorts[1] {
		l.SoughtSince, l.CopyAnswers = 0, 0
		return
	}
	l.CopyOpen = false
	l.CopyAnswers++
	if l.CopyAnswers < copyAnswers {
		return
	}
	l.SoughtSince, l.CopyAnswers, l.Bare = 0, 0, false
	t.tellOf(p, RuleSeen, FoundOther)
}
