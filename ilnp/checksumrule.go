package ilnp

import "time"

// decideRule takes the rule that a packet has shown. One that people fixed stays: they
// may know of a path that changes checksums.
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

// handleFoundRule notes the rule of a correspondent for this session and for those
// to come.
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

// guessOtherRule takes the other rule for the more likely one, of this session alone: what
// told bears no nonce. The first packet that does will show which it is. Who answers as
// plain IPv6 by its rule also takes packets without nonce for such.
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

// ruleOfICMP returns the rule for ICMPv6 messages of applications and of our stack,
// which are not repeated by another one.
func (f profile) ruleOfICMP() ChecksumRule {
	if f.overNIDs(1) {
		return RuleRFC6741
	}
	return RuleIPv6
}
