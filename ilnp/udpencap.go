package ilnp

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Some networks drop destination options, Locator Updates (ICMPv6 type 156) or
// all ICMPv6 (RFC 7872). Control messages then go in UDP, with the same bytes
// and the same nonce. The form of the RFCs goes first on every path; UDP follows
// when it stays without an answer, and is left again when an answer to the other
// form comes. DEVIATION from RFC 6743 §2 and RFC 6744 §§4, 6, which know no other
// form: data on such a path bears no nonce and is known by its locators.
const (
	encapFirst = time.Second // after which the form of the RFCs is tried again, doubled each time
	encapMax   = 64 * time.Second
	openTries  = 4
	encapDoubt = 3 * time.Second // how long an answer in that form speaks for the path
)

// ProbeForm is what a probe looks like on the wire.
type ProbeForm uint8

// The forms of a probe.
const (
	FormOption ProbeForm = iota // an echo request with the Nonce option (RFC 6744 §7)
	FormUDP                     // the same in UDP
	FormPadded                  // in UDP, behind a Destination Options header that holds padding only
	FormFull                    // in UDP, as long as the link takes
)

// passage is what is known of a path's ways with control messages.
type passage struct {
	encap  bool          // the form of the RFCs does not get through, UDP does
	passed time.Time     // when that form was last seen to
	again  time.Time     // encapsulated: when it is tried next
	every  time.Duration // encapsulated: the time after that
	opened bool          // the correspondent has sent some in UDP: a firewall in front of it admits ours
}

func (s *session) encaps(p Path) bool { return s.passages[p].encap }

// isFresh reports whether a path is encapsulated by one lost packet, for all that is known: the
// other form has not been tried again for long.
func (v passage) isFresh() bool { return v.encap && v.every == 2*encapFirst }

// anyEncap reports whether data has to do without the option: the programs
// know one rule for all paths of a session.
func (s *session) anyEncap(paths []Path) bool { return slices.ContainsFunc(paths, s.encaps) }

// noteForm takes the form in which an authentic control message came over a path.
// One in UDP says that the other form does not get through, since that goes
// first, unless it has just come as well.
func (c *steering) noteForm(now time.Time, s *session, p Path, encap bool) {
	v := s.passages[p]
	was := v.encap
	s.asks = s.asks || encap // no other stack knows this form
	if encap && !v.opened {
		v.opened = true
		s.setPassage(p, v)
	}
	switch {
	case !encap:
		v.passed, v.encap = now, false
		c.probes.drop(s.sent, p, now)
	case v.encap || now.Sub(v.passed) < encapDoubt:
		return
	default:
		v.encap, v.again, v.every = true, now.Add(encapFirst), 2*encapFirst
	}
	s.setPassage(p, v)
	if was == v.encap {
		return
	}
	reason := "options"
	if v.encap {
		reason = "udp"
	}
	c.notify(Event{Time: now, Kind: EncapsulationChanged, Key: s.key, Path: p, Reason: reason})
	if s.state == Established && s.entry.Seq != 0 {
		c.upsert(now, s, s.entry.Paths)
		if v.encap && c.cfg.Trains && len(s.entry.Paths) > 1 {
			c.sendProbe(now, c.ask(now, s), probe{path: p, moot: true, lone: true}) // TCP waits for the rate
		}
	}
}

// setPassage keeps what is known of paths that can still be taken.
func (s *session) setPassage(p Path, v passage) {
	const most = 4 * MaxPaths
	if s.passages == nil || len(s.passages) >= most && s.passages[p] == (passage{}) {
		s.passages = make(map[Path]passage)
	}
	s.passages[p] = v
}

// hasUDP reports whether control messages may go in UDP: this host has a port for them,
// and the correspondent may have one.
func (c *sender) hasUDP(s *session) bool { return c.cfg.UDPPort != 0 && !s.noUDP && !s.isForeign() }

// formsOf returns the forms in which a path is asked now. A correspondent with Roam
// that is silent is asked in both at once: where a firewall stands before us, our own
// datagram opens it for what the correspondent has to tell. So is one that tells us
// in UDP where it was before, at a place that is new.
func (c *sender) formsOf(now time.Time, s *session, p Path) []ProbeForm {
	switch {
	case !c.hasUDP(s) || s.fallback == withoutILNP:
		return []ProbeForm{FormOption}
	case s.encaps(p):
		return []ProbeForm{FormUDP}
	case s.encapsHereabouts(p): // in this order: there may be only one
		return []ProbeForm{FormUDP, FormOption}
	case s.asks && (s.watch.state == suspect || s.watch.state == silent):
		return []ProbeForm{FormOption, FormUDP}
	}
	if _, doubted := c.probes.last(now, s.sent, p.Remote); doubted {
		return []ProbeForm{FormOption, FormUDP}
	}
	return []ProbeForm{FormOption}
}

// encapsHereabouts reports whether nothing is known of a path, and on others
// control messages go in UDP, or the correspondent's came so: though it may hear
// ours in the other form, our firewall may drop its own.
func (s *session) encapsHereabouts(p Path) bool {
	_, known := s.passages[p]
	return !known && (s.toldInUDP || len(s.encapPaths()) > 0)
}

// tryOption probes encapsulated paths in use, ever more rarely, in the form of the RFCs:
// the network may have changed, or it was but a packet lost. TCP waits no longer for the rate of
// such a path.
func (c *steering) tryOption(now time.Time, s *session) {
	for _, p := range s.entry.Paths {
		v := s.passages[p]
		if s.state != Established || !v.encap || v.again.After(now) || now.Sub(s.lastTx) > v.every {
			continue
		}
		v.again, v.every = now.Add(v.every), min(2*v.every, encapMax)
		s.passages[p] = v
		c.probes.forget(&s.sent, now.Add(-tokenLife))
		c.sendProbe(now, c.ask(now, s), probe{path: p})
		c.upsert(now, s, s.entry.Paths)
	}
}

// openFirewall sends a probe in UDP to a correspondent that has not asked for us:
// behind a firewall that lets only answers in we do not hear its questions, and it
// would never know that we receive here. Ours opens the firewall for those that it
// repeats in UDP. Where its questions come in, none is sent.
func (c *sender) openFirewall(now time.Time, s *session) {
	if s.state != Established || s.asks || !c.hasUDP(s) || s.opened >= openTries || len(s.entry.Paths) == 0 ||
		now.Sub(s.started) < encapFirst<<s.opened || now.Sub(s.lastTx) > encapMax {
		return
	}
	s.opened++
	c.sendProbe(now, c.ask(now, s), probe{path: s.entry.Paths[0], form: FormUDP, sizing: true})
}

// buildProbe makes the packet of a probe. A command's probe in UDP has a flow
// label, part of the token, that its answer brings back if the path leaves it.
func (c *sender) buildProbe(src, dst roam.ILV, nonce Nonce, t token, pr probe) ([]byte, error) {
	e := ilnpwire.Echo{Request: true, ID: c.cfg.ProbeID, Seq: c.probeSeq, Data: t[:]}
	if pr.report {
		e.Data = ilnpwire.Report{
			PerFlow: pr.flow, Counted: pr.counts, Answers: pr.answers, Cost: pr.cost, Sealed: pr.sealed,
			Other: pr.about != Path{}, Near: pr.about.Remote, Far: pr.about.Local.L64,
			Cross: pr.cross != ilnpwire.Connections{}, Connections: pr.cross,
		}.AppendRequest(nil, t)
	} else if pr.flow {
		e.Data = append(e.Data, make([]byte, 4)...) // by the length its programs know (bpf/ilnp/control.h)
	}
	if pr.form == FormOption {
		b, err := ilnpwire.BuildEcho(src, dst, nonce, true, e.ID, e.Seq, e.Data)
		if err == nil && pr.overNIDs {
			err = ilnpwire.FinishOverNIDs(b)
		}
		return b, err
	}
	o := ilnpwire.EncapsulatedEcho{Port: c.cfg.UDPPort, Padded: pr.form == FormPadded}
	if pr.told {
		o.FlowLabel = labelOf(t)
	}
	if pr.form == FormFull {
		o.Size = pr.size
	}
	return ilnpwire.BuildEncapsulatedEcho(src, dst, nonce, e, o)
}

// labelOf is a flow label of 20 bits, not zero.
func labelOf(t token) uint32 { return binary.BigEndian.Uint32(t[:])>>12 | 1 }

// transmitControl sends a Locator Update or an acknowledgement in one form, in
// UDP if it fits into any link: the programs look into whole datagrams only. It
// reports whether so much may go there now.
func (c *sender) transmitControl(now time.Time, s *session, p Path, packet []byte, encap bool) bool {
	return c.transmitAsProbe(now, s, p, packet, encap, false)
}

// transmitAsProbe is transmitControl. With probe the packet counts as a probe: it goes to
// a locator from which nothing need have come.
func (c *sender) transmitAsProbe(now time.Time, s *session, p Path, packet []byte, encap, probe bool) bool {
	const most = 1280 - 8
	if encap && len(packet) <= most {
		if b, err := ilnpwire.Encapsulate(packet, c.cfg.UDPPort); err == nil {
			packet = b
		}
	}
	if !c.accounts.mayReach(now, s, p.Remote, c.listedAt(s, p.Remote), len(packet), probe) {
		return false
	}
	c.emit(Transmit{Link: p.Local.Link, Packet: packet})
	return true
}

// updateForms says in which forms a transmission of the set goes over a path.
func (c *sender) updateForms(s *session, p Path) (option, encap bool) {
	known := s.encaps(p) && c.hasUDP(s)
	return !known, known || c.hasUDP(s) && s.update.tries > 1 && p == s.update.began
}

// encapPaths returns the paths on which control messages go in UDP, in order.
func (s *session) encapPaths() []Path {
	var paths []Path
	for p, v := range s.passages {
		if v.encap {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, func(a, b Path) int {
		return cmp.Or(cmp.Compare(a.Local.Link, b.Local.Link), cmp.Compare(a.Local.L64, b.Local.L64), cmp.Compare(a.Remote, b.Remote))
	})
	return paths
}

// restoreEncap takes what encapPaths of a predecessor returned.
func (s *session) restoreEncap(now time.Time, paths []Path) {
	for _, p := range paths {
		s.setPassage(p, passage{encap: true, again: now.Add(encapFirst), every: 2 * encapFirst})
	}
}
