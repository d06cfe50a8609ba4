package ilnp

import "time"

// decideRule sets the checksum rule that a packet has revealed. A rule that the user has fixed
// stays, as there may be a reason, such as a path that changes checksums.
func (p *profile) decideRule(f FoundRule) {
	if f == FoundProbe {
		p.asks = true
	}
	if !p.sought || f != FoundIPv6 && f != FoundRFC6741 {
		return
	}
	p.sought, p.rule = false, RuleIPv6
	if f == FoundRFC6741 {
		p.rule = RuleRFC6741
	}
}

// handleFoundRule stores the rule of a peer for this session and for later ones.
func (c *steering) handleFoundRule(now time.Time, s *session, f FoundRule) {
	if f == FoundOther {
		c.guessOtherRule(now, s)
		return
	}
	s.decideRule(f)
	if k := c.confirmedRecordOf(s); k != nil {
		k.decideRule(f)
	}
	if s.rule != s.entry.Rule {
		c.upsert(now, s, s.entry.Paths)
	}
}

// guessOtherRule switches to the other rule, for this session only, since the packets that
// suggest it have no nonce. The first packet with the nonce reveals the rule. A peer that
// answers by the rule of plain IPv6 also treats packets without a nonce as plain IPv6, so every
// packet gets one.
func (c *steering) guessOtherRule(now time.Time, s *session) {
	if !s.sought {
		return
	}
	if s.rule == RuleIPv6 {
		s.rule = RuleRFC6741
	} else {
		s.rule = RuleIPv6
	}
	s.nonceAlways = s.nonceAlways || !s.nonceFixed
	c.upsert(now, s, s.entry.Paths)
}

// ruleOfICMP returns the rule for ICMPv6 messages of applications and of our stack, which are
// sent under one rule only.
func (f profile) ruleOfICMP() ChecksumRule {
	if f.overNIDs(1) {
		return RuleRFC6741
	}
	return RuleIPv6
}
