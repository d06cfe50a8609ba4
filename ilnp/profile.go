package ilnp

import "time"

// profile is how a correspondent's stack wants to be spoken with: what people
// said of it, what it showed itself, or the default.
type profile struct {
	rule        ChecksumRule
	fixed       bool // rule is what people said
	sought      bool // rule is a guess, to be replaced by what its packets show
	draft       bool // the form of Locator Updates
	nonceAlways bool // it wants the option on every packet
	oldFirst    bool // Locator Updates leave from a locator that it knows first
}

func (p Peer) profile() profile {
	return profile{p.Rule, p.RuleFixed, !p.RuleFixed, p.DraftLU, p.NonceAlways, p.OldFirst}
}

// stranger is the profile of a correspondent of which nothing is known.
func (c *Core) stranger() profile {
	return profile{rule: c.cfg.Rule, sought: true, draft: c.cfg.DraftLU}
}

// found takes the rule that a packet has shown. One that people fixed stays: they
// may know of a path that changes checksums.
func (p *profile) found(f FoundRule) {
	if !p.sought || f == NotFound {
		return
	}
	p.sought, p.rule = false, RuleIPv6
	if f == FoundRFC6741 {
		p.rule = RuleRFC6741
	}
}

// handleRule notes the rule of a correspondent for this session and for those
// to come.
func (c *Core) handleRule(now time.Time, s *session, f FoundRule) {
	s.found(f)
	if k := c.known[s.remoteNID]; k != nil {
		k.found(f)
	}
	if s.rule != s.entry.Rule {
		c.upsert(now, s, s.entry.Paths)
	}
}

// updatePaths returns the paths over which a Locator Update goes first: those
// now in use, or, as the thesis on soft handoff has it, those used so far.
func (s *session) updatePaths(paths []Path) []Path {
	if !s.oldFirst {
		return paths
	}
	return append(append([]Path(nil), s.entry.Paths...), paths...)
}

func (p profile) saved() savedProfile {
	return savedProfile{p.rule, p.fixed, p.sought, p.draft, p.nonceAlways, p.oldFirst}
}

func (v savedProfile) profile() profile {
	return profile{v.Rule, v.Fixed, v.Sought, v.Draft, v.NonceAlways, v.OldFirst}
}
