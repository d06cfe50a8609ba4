package ilnp

import (
	"time"

	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// profile is how a correspondent's stack wants to be spoken with: what people
// said of it, what it showed itself, or the default.
type profile struct {
	control
	rule        ChecksumRule
	fixed       bool // rule is what people said
	sought      bool // rule is a guess, to be replaced by what its packets show
	nonceAlways bool // it wants the option on every packet
	nonceFixed  bool // nonceAlways is what people said
	nonceSure   bool // so did late packets with its nonce (see judgeOption)
	asks        bool // it has sent a probe, so it is Roam
	oldFirst    bool // Locator Updates leave from a locator that it knows first
	perFlow     multipath.Spell
}

func (p Peer) profile() profile {
	return profile{
		rule: p.Rule, fixed: p.RuleFixed, sought: !p.RuleFixed, control: control{form: formOf(p.DraftLU)}, oldFirst: p.OldFirst,
		nonceAlways: p.NonceAlways, nonceFixed: p.NonceFixed || p.NonceAlways,
	}
}

// defaultProfile is the profile of a correspondent of which nothing is known.
func (cfg *Config) defaultProfile() profile {
	return profile{rule: cfg.Rule, sought: true, control: control{form: formOf(cfg.DraftLU)}}
}

// judgeOption finds out whether a correspondent wants the option on every
// packet. Roam itself puts it on the first ones only, but these are all that
// there is at the beginning; what tells it from stacks that always do is that it
// probes who contacts it. So two hosts with Roam never take each other for one.
//
// Packets without a nonce anybody may write. So where the correspondent has put its own
// on packets long after all that calls for it, they do not count any more.
func (c *steering) judgeOption(now time.Time, s *session, a Activity) {
	c.noteAsks(s, a)
	s.noteLate(now, a)
	always, sure := s.nonceAlways, s.nonceSure
	switch {
	case s.nonceFixed || s.state != Established:
		return
	case s.asks:
		always, sure = false, false
	case s.nonceSure:
		always = true
	case a.WithoutNonce > 0:
		always = false
	case a.WithNonce > 0: // one must do: whom we send none to may not send a second
		always = true
	}
	was := s.nonceAlways
	s.nonceAlways, s.nonceSure = always, sure
	if k := c.confirmedRecordOf(s); k != nil && !k.nonceFixed {
		k.nonceAlways, k.nonceSure = always, sure
	}
	if always != was {
		c.upsert(now, s, s.entry.Paths)
	}
}

// lateNonce is how long after the session's start, an update of the correspondent or a
// move of it a nonce is none of its first ones, beside 3 RTT (RFC 6744 §4).
const lateNonce = 4 * time.Second

// noteLate notes whether the correspondent has sent a nonce that nothing called for.
func (s *session) noteLate(now time.Time, a Activity) {
	first := later(later(s.started, s.updated), s.lastMove)
	switch {
	case s.nonceFixed || s.nonceSure || s.state != Established || now.Sub(first) < lateNonce+3*s.rtt:
		s.late = false
	case !s.late || a.WithNonce < s.lateFrom:
		s.late, s.lateFrom = true, a.WithNonce
	case a.WithNonce > s.lateFrom:
		s.nonceSure = !s.asks
	}
}

// noteAsks remembers that a correspondent runs Roam, for this session and for those
// to come.
func (c *steering) noteAsks(s *session, a Activity) {
	if !a.Asks {
		return
	}
	if !s.asks {
		s.icmp = icmpOrdinary
	}
	s.asks, s.asksByRecord = true, false
	if k := c.confirmedRecordOf(s); k != nil {
		k.asks = true
	}
}

// doubtRoam forgets that, as the correspondent acknowledges nothing, unless it has
// asked in this session: its node may run another stack by now.
func (c *node) doubtRoam(s *session) {
	if !s.asksByRecord {
		return
	}
	s.asks, s.asksByRecord = false, false
	if k := c.recordOf(s); k != nil {
		k.asks = false
	}
}

// confirmedRecordOf is recordOf for what packets with the session's nonce have shown. Until
// an answer to a probe bears that nonce it may be a forgery's, and what the session
// learned ends with it.
func (c *node) confirmedRecordOf(s *session) *correspondent {
	if !s.confirmed {
		return nil
	}
	return c.recordOf(s)
}

// recordProfile keeps for sessions to come what a session has learned before its nonce
// was confirmed.
func (c *node) recordProfile(s *session) {
	k := c.recordOf(s)
	if k == nil {
		return
	}
	if k.sought && !s.sought {
		k.rule, k.sought = s.rule, false
	}
	if !k.nonceFixed {
		k.nonceAlways, k.nonceSure = s.nonceAlways, s.nonceSure
	}
	k.asks = s.asks
}

// forgetProfile gives a session back what was known of its correspondent before it began.
func (c *node) forgetProfile(s *session) {
	s.profile = c.cfg.defaultProfile()
	if k := c.recordOf(s); k != nil {
		s.profile = k.profile
	}
	s.asksByRecord = s.asks
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
	return savedProfile{
		p.rule, p.fixed, p.sought, p.form == ilnpwire.FormDraft, p.form, p.shown, p.icmp, p.noUDP,
		p.nonceAlways, p.nonceFixed, p.nonceSure, p.asks, p.oldFirst, savedPerFlow(p.perFlow),
	}
}

func (v savedProfile) profile() profile {
	form := v.Form
	if v.Draft || form > ilnpwire.FormLinux {
		form = formOf(v.Draft) // as a build before wrote it, or one to come
	}
	return profile{
		rule: v.Rule, fixed: v.Fixed, sought: v.Sought, oldFirst: v.OldFirst,
		control:     control{form: form, shown: v.FormShown, icmp: min(v.ICMP, icmpOverNIDs), noUDP: v.NoUDP},
		nonceAlways: v.NonceAlways, nonceFixed: v.NonceFixed, nonceSure: v.NonceSure, asks: v.Asks, perFlow: multipath.Spell(v.PerFlow),
	}
}
