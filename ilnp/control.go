package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// ICMPv6 checksums cover the addresses on the wire (RFC 6741 §4.3). Some stacks
// count locators as zero there, as TCP and UDP do (RFC 6741 §4.2), and drop what is
// summed otherwise without a word. A message with the right nonce is taken under
// either rule and in every form, and answered in its own. What we send first is by
// the ordinary rule; as long as the correspondent has shown none, each repetition is
// by the other one.

// icmpRule is what is known of the rule of a correspondent's ICMPv6 checksums.
type icmpRule uint8

const (
	icmpSought    icmpRule = iota // nothing: both rules by turns
	icmpOrdinary                  // its messages are by the ordinary rule; so is all of Roam's
	icmpTakesNIDs                 // it answered a message over NIDs so: Roam, for one, answers by the rule that came
	icmpOverNIDs                  // its own messages are over NIDs
)

// control is how a correspondent's stack has its control messages. It is learned from
// messages with the right nonce alone.
type control struct {
	form  ilnpwire.Form // of Locator Updates
	shown bool          // that form is the correspondent's own, not what people said
	icmp  icmpRule
	noUDP bool // it answered a probe in UDP with Port Unreachable
}

// formOf returns the form that people want for a correspondent.
func formOf(draft bool) ilnpwire.Form {
	if draft {
		return ilnpwire.FormDraft
	}
	return ilnpwire.FormRFC
}

// isForeign reports whether the correspondent has shown that it does not run Roam: by
// its control messages, or as every packet has the nonce (see judgeOption).
func (f profile) isForeign() bool {
	return !f.asks && (f.icmp == icmpOverNIDs || f.shown && f.form == ilnpwire.FormLinux || f.nonceAlways && !f.nonceFixed)
}

// sum takes the rule of a message that the correspondent made itself.
func (v *control) sum(overNIDs bool) {
	v.icmp = icmpOrdinary
	if overNIDs {
		v.icmp = icmpOverNIDs
	}
}

// sumAnswer takes the rule of an answer: over NIDs to what was over NIDs, it may be of
// a correspondent that answers by the rule that came.
func (v *control) sumAnswer(asked, answered bool) {
	switch {
	case !asked || !answered:
		v.sum(answered)
	case v.icmp == icmpSought:
		v.icmp = icmpTakesNIDs
	}
}

// noteUpdate takes what a Locator Update or an acknowledgement shows. An acknowledgement
// repeats the form of our update, if its sender knows it.
func (v *control) noteUpdate(lu ilnpwire.LocatorUpdate, p ilnpwire.Packet, asked bool) {
	if lu.Operation == ilnpwire.Advertisement {
		v.sum(p.OverNIDs)
	} else {
		v.sumAnswer(asked, p.OverNIDs)
	}
	if lu.Operation == ilnpwire.Advertisement || lu.Form != v.form {
		v.form, v.shown = lu.Form, true
	}
	v.noUDP = v.noUDP && !p.Encapsulated
}

// overNIDs reports whether the try-th transmission of a message, from 1, is summed
// over NIDs.
func (f profile) overNIDs(try int) bool {
	switch {
	case f.icmp == icmpOverNIDs:
		return true
	case f.icmp == icmpOrdinary || f.asks:
		return false
	}
	return try%2 == 0 == (f.icmp == icmpSought)
}

// shownICMP returns the rule of ICMPv6 checksums as shown to people.
func (f profile) shownICMP() string {
	if f.icmp == icmpSought && !f.asks {
		return "sought"
	}
	return f.ruleOfICMP().String()
}

// learnControl keeps what an authentic message has shown, for this session and for
// those to come.
func (c *steering) learnControl(now time.Time, s *session, learn func(*control)) {
	was := s.control
	if learn(&s.control); s.control == was {
		return
	}
	if k := c.recordOf(s); k != nil {
		k.icmp, k.noUDP = s.icmp, s.noUDP
		if s.shown {
			k.form, k.shown = s.form, true
		}
	}
	if s.state == Established && s.entry.Seq != 0 && s.ruleOfICMP() != s.entry.ICMPRule {
		c.upsert(now, s, s.entry.Paths)
	}
}

// HandleError takes an ICMPv6 error, and reports whether it answers a probe: if it
// comes from the node that was asked, with a nonce and the probe's token. So it is a
// proof like a reply: where echo requests are not answered, or the UDP port is
// closed, nothing else is. An error of a router, or of anybody else, is none.
func (c *Core) HandleError(now time.Time, packet []byte) bool {
	p, err := ilnpwire.ParseControl(packet, c.cfg.UDPPort)
	if err != nil || p.Fragmented || p.Proto != ip6.ICMPv6 || !p.Nonce.Present() || p.Type == ilnpwire.TypePacketTooBig {
		return false
	}
	m, err := ilnpwire.ParseError(p.Payload)
	if err != nil {
		return false
	}
	q, e, err := ilnpwire.ParseQuotedEcho(m.Quoted, c.cfg.UDPPort)
	if err != nil || !e.Request || len(e.Data) < len(token{}) || q.Dst != p.Src || q.Src != p.Dst {
		return false
	}
	t := token(e.Data[:len(token{})])
	pr, ok := c.probes.answeredBy(t, SessionKey{p.Dst.NID, p.Src.NID}, p.Src.L64)
	if !ok || pr.path.Local.L64 != p.Dst.L64 {
		return false
	}
	pr.noUDP = q.Encapsulated && m.Type == ilnpwire.TypeUnreachable && m.Code == ilnpwire.CodePortUnreachable
	c.answered(now, t, pr, p)
	return true
}

// answered takes the answer to a probe, a reply or an error.
func (c *Core) answered(now time.Time, t token, pr probe, p ilnpwire.Packet) {
	delete(c.probes, t)
	c.accounts.answered(now, roam.ILV{NID: pr.from.nids().Remote, L64: pr.path.Remote})
	switch m := pr.from.(type) {
	case *session:
		c.sessionReply(now, m, t, pr, p)
	case *pendingPeer:
		c.pending.answered(now, m, pr, p)
	}
}

func (v *control) noteControl(pr probe, p ilnpwire.Packet) {
	v.sumAnswer(pr.overNIDs && p.Type == ilnpwire.TypeEchoReply, p.OverNIDs) // an error is made anew
	v.noUDP = (v.noUDP || pr.noUDP) && !p.Encapsulated
}

// takeControl takes what the answers of a pending peer showed.
func (v *control) takeControl(shown control) {
	if shown.icmp != icmpSought {
		v.icmp = shown.icmp
	}
	v.noUDP = shown.noUDP
}

// entriesOf returns the locators of a Locator Update as they count: FormLinux has
// them in order, for as long as they are listed.
func entriesOf(lu ilnpwire.LocatorUpdate) []ilnpwire.LocatorEntry {
	list := slices.Clone(lu.Locators)
	for i := range list {
		switch {
		case lu.Form == ilnpwire.FormLinux:
			list[i].Preference, list[i].Lifetime = uint32(i), largestLong
		case lu.Code == ilnpwire.CodeDeleteHard || lu.Code == ilnpwire.CodeDeleteSoft:
			list[i].Lifetime = 0
		}
	}
	return list
}

// RunsRoam reports whether the correspondent of a session is known to run Roam, by the
// probes that it sends.
func (c *node) RunsRoam(k SessionKey) bool {
	s := c.sessionOf(k)
	return s != nil && s.asks
}
