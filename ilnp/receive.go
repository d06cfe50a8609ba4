package ilnp

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// HandlePacket takes a whole IPv6 packet that arrived on link and that the
// data plane took for a control packet: a Locator Update or its
// acknowledgement, the reply to a probe, or an ICMPv6 Parameter Problem. The
// core keeps no part of packet.
func (c *Core) HandlePacket(now time.Time, link roam.LinkID, packet []byte) {
	c.finish()
	p, err := ilnpwire.ParseControl(packet, c.cfg.UDPPort)
	if err != nil || p.Fragmented {
		c.refuse(now, c.claimed(packet), reasonMalformed)
		return
	}
	switch {
	case p.Proto != ip6.ICMPv6:
		c.refuse(now, c.claimed(packet), reasonUnexpected)
	case p.Type == ilnpwire.TypeLocatorUpdate:
		c.handleUpdate(now, link, p, packet)
	case p.Type == ilnpwire.TypeEchoReply:
		c.handleReply(now, p)
	case p.Type == ilnpwire.TypeParameterProblem:
		c.handleParameterProblem(now, p)
	case p.Type < ilnpwire.TypeParameterProblem && p.Type > 0:
		if !c.HandleError(now, packet) {
			c.refuse(now, c.claimed(packet), reasonQuote)
		}
	default:
		c.refuse(now, c.claimed(packet), reasonUnexpected)
	}
}

// claimed names the session that a refused packet claims to be of, for people.
func (c *node) claimed(packet []byte) SessionKey {
	h, err := ip6.Parse(packet)
	if err != nil {
		return SessionKey{}
	}
	key := SessionKey{roam.ILVFromAddr(h.Dst).NID, roam.ILVFromAddr(h.Src).NID}
	if ss := c.between(key.Local, key.Remote); len(ss) == 1 {
		return ss[0].key
	}
	return key
}

// handleUpdate admits a Locator Update or an acknowledgement: the nonce comes
// before everything else (RFC 6743 §6, RFC 6741 §11.1).
func (c *Core) handleUpdate(now time.Time, link roam.LinkID, p ilnpwire.Packet, packet []byte) {
	key := SessionKey{p.Dst.NID, p.Src.NID}
	if p.Vouch != nil {
		handshakes{c}.handleVouch(now, p, len(packet))
		return
	}
	if p.Proof != nil {
		handshakes{c}.handleProof(now, link, p, len(packet))
		return
	}
	s := c.byNonce(p.Dst.NID, p.Src.NID, p.Nonce)
	if h := (handshakes{c}); h.confirmsBySeal(now, s, p) {
		defer h.writeConfirmed(now, s, s.entry.Seq) // once the counter of this message is noted
	}
	switch {
	case !p.Nonce.Present():
		c.refuse(now, key, reasonNoNonce)
		return
	case s == nil && c.pending.keepEarly(now, link, p, packet):
		return
	case s == nil && len(c.between(p.Dst.NID, p.Src.NID)) == 0:
		c.refuse(now, key, reasonNoSession)
		return
	case s == nil:
		c.refuse(now, key, reasonWrongNonce)
		return
	case c.refusesUnkeyed(now, s, p):
		return
	case !s.confirmed && c.confirmedByUpdate(now, s, p):
		s.acceptSeal(p)
		return
	case !s.confirmed:
		s.early, s.earlyLink = bytes.Clone(packet), link
		c.confirm(now, s)
		c.confirmSoon(now, s)
		return
	}
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if reason := c.cfg.faultOf(lu, err, p.Payload); reason != "" {
		c.refuse(now, s.key, reason)
		return
	}
	s.acceptSeal(p)
	s.lastNonceRx, s.lastControl = now, now
	if lu.Operation == ilnpwire.Advertisement || s.update.matches(lu) { // another acknowledgement is in the form of who knows what
		c.learnControl(now, s, func(v *control) { v.noteUpdate(lu, p, s.update.overNIDs) })
	}
	by := Path{Local: roam.LinkLocator{Link: link, L64: p.Dst.L64}, Remote: p.Src.L64}
	c.noteArrival(now, s, p.Dst.L64)
	c.noteForm(now, s, by, p.Encapsulated)
	if lu.Operation == ilnpwire.Acknowledgement {
		c.acknowledged(now, s, p, lu, by, len(packet))
		return
	}
	c.heard(now, s)
	if r := s.remotes.find(p.Src.L64); !s.earlyCounted && (r == nil || !r.validated) {
		c.accounts.receivedInAll(now, s.key, p.Src, len(packet), 1) // more the data plane counts
	}
	s.toldInUDP = s.toldInUDP || p.Encapsulated
	questions{&c.liveness}.takeUpdate(now, s, p, lu, by)
}

// takeUpdate applies an authentic Locator Update that came by a path, and acknowledges it.
func (c questions) takeUpdate(now time.Time, s *session, p ilnpwire.Packet, lu ilnpwire.LocatorUpdate, by Path) {
	s.updatedAt = by.Local
	isRepeated, last := s.lists(entriesOf(lu)), s.updated
	// In this order: once acknowledged, nothing more is sent to a locator that was
	// withdrawn, and its owner may let it go.
	c.applyUpdate(now, s, lu)
	c.knowsLocator(now, s, p.Dst.L64)
	// The other form of an update comes sooner, the renewal of lifetimes above 25 s later.
	if since := now.Sub(last); isRepeated && since >= updateMin/2 && since <= 2*updateMax {
		c.acknowledgeAside(now, s, p, lu, by)
	}
	var acked Path
	if !s.earlyAnswered {
		acked = c.acknowledge(now, by.Local.Link, p, s, lu)
	}
	c.doubtPath(now, s, p.Dst.L64)
	if isRepeated {
		c.complaint(now, s, by, func(q Path) {
			if b, ok := c.buildUpdate(q, s, lu.Ack(), p.OverNIDs); ok && (q != acked || s.encaps(q) != p.Encapsulated) {
				c.transmitControl(now, s, q, b, s.encaps(q))
			}
		})
	}
}

// acknowledgeAside acknowledges a retransmitted update from a locator of ours that the correspondent does not know,
// too: nothing may leave from those that it knows, as the update came again. It leaves from where the update came in,
// or, as long as the correspondent has answered no probe where it is, from any other one by turns. The correspondent
// may follow our nonce there, so the set is repeated.
func (c *updates) acknowledgeAside(now time.Time, s *session, p ilnpwire.Packet, lu ilnpwire.LocatorUpdate, by Path) {
	unknown := slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool {
		return s.sendsFrom(l) || s.update.lists(l.L64) || c.obstructed.has(s.remoteNID, Path{l, by.Remote})
	})
	if r := s.remotes.find(by.Remote); r != nil && r.validated || slices.Contains(unknown, by.Local) {
		unknown = slices.DeleteFunc(unknown, func(l roam.LinkLocator) bool { return l != by.Local })
	}
	if len(unknown) == 0 {
		return
	}
	s.again++
	path := Path{Local: unknown[s.again%len(unknown)], Remote: by.Remote}
	b, ok := c.buildUpdate(path, s, lu.Ack(), p.OverNIDs)
	s.strayed = ok && c.transmitAsProbe(now, s, path, b, p.Encapsulated, false) || s.strayed
}

// acknowledged takes an authentic acknowledgement that came by a path.
func (c *Core) acknowledged(
	now time.Time, s *session, p ilnpwire.Packet, lu ilnpwire.LocatorUpdate, by Path, bytes int,
) {
	isQuestion := c.wayAnswered(now, s, by, lu)
	c.heard(now, s)
	if isQuestion {
		return
	}
	if s.update.matches(lu) && !s.check.isOfBeside(now, lu) {
		c.confirmPaths(now, s, by, lu)
		questions{&c.liveness}.cameBack(now, s, by)
	}
	if !c.placeAcked(now, s, p, lu, bytes) && !c.answersOlder(now, s, p) {
		c.handleAck(now, s, lu, p.Encapsulated)
	}
}

// doubtPath asks the paths in use at once, as the correspondent has sent an
// update to a locator that we do not send from: ours may have died, and one that we do not
// list the correspondent has looked up.
func (c *liveness) doubtPath(now time.Time, s *session, at roam.L64) {
	if c.isElsewhere(now, s, at) {
		s.monitored = time.Time{}
		c.monitor(now, s, true)
	}
}

// faultOf returns the reason to refuse an authentic Locator Update, or "".
func (cfg *Config) faultOf(lu ilnpwire.LocatorUpdate, err error, payload []byte) string {
	switch {
	case errors.Is(err, ilnpwire.ErrNoLocators):
		return reasonNoLocators
	case len(payload) > 1 && (payload[1] > ilnpwire.CodeReplaceSoft || payload[1] == ilnpwire.CodeUnused):
		return reasonCode
	case err != nil:
		return reasonMalformed
	}
	for _, e := range lu.Locators {
		if !cfg.acceptable(e.L64) {
			return reasonLocator
		}
	}
	return ""
}

// acknowledge answers a Locator Update with its own body (RFC 6743 §2), in its own form
// and by its own rule: to
// where it came from if it lists that locator, else to the best that it lists, or
// to where it came from after all if so much must not go there yet. It returns the path by which the acknowledgement
// left; none: it did not.
func (c *updates) acknowledge(
	now time.Time, link roam.LinkID, p ilnpwire.Packet, s *session, lu ilnpwire.LocatorUpdate,
) Path {
	list := entriesOf(lu)
	to := list[0]
	for _, e := range list {
		if e.L64 == p.Src.L64 {
			to = e
			break
		}
		if e.Preference < to.Preference || to.Lifetime == 0 && e.Lifetime > 0 {
			to = e
		}
	}
	from := roam.LinkLocator{Link: link, L64: p.Dst.L64}
	sources := c.host.usable(now)
	// From a locator that is not in our set, the correspondent would follow the
	// nonce to it.
	known := (s.sendsFrom(from) || s.update.lists(from.L64)) && !c.obstructed.has(s.remoteNID, Path{Local: from, Remote: to.L64})
	if !known || !slices.ContainsFunc(sources, func(l *local) bool { return l.LinkLocator == from }) {
		path, ok := c.obstructed.nextEnds(s.remoteNID, 0, placesOf(sources), []roam.L64{to.L64})
		if !ok {
			return Path{}
		}
		from = path.Local
	}
	for _, remote := range unique([]roam.L64{to.L64, p.Src.L64}) {
		path := Path{Local: from, Remote: remote}
		b, ok := c.buildUpdate(path, s, lu.Ack(), p.OverNIDs)
		if ok && c.transmitAsProbe(now, s, path, b, p.Encapsulated, remote != p.Src.L64) {
			return path
		}
	}
	return Path{}
}

// applyUpdate changes the correspondent's set as it says: the RFC form and the
// draft form's "replace" give the whole set (RFC 6743 §4).
func (c *liveness) applyUpdate(now time.Time, s *session, lu ilnpwire.LocatorUpdate) {
	s.announced, s.updated = true, now
	list := entriesOf(lu)
	best, were := slices.Clone(s.remotes.targets()), s.remotes.listed()
	switch lu.Code {
	case ilnpwire.CodeAddHard, ilnpwire.CodeAddSoft, ilnpwire.CodeDeleteHard, ilnpwire.CodeDeleteSoft:
	default:
		for i := range s.remotes {
			r := &s.remotes[i]
			if !slices.ContainsFunc(list, func(e ilnpwire.LocatorEntry) bool { return e.L64 == r.l64 }) {
				r.drop(now, s.grace())
			}
		}
	}
	var seen []roam.L64
	for _, e := range list {
		if slices.Contains(seen, e.L64) {
			continue
		}
		seen = append(seen, e.L64)
		r := s.remotes.find(e.L64)
		if e.Lifetime == 0 {
			// Ended: age drops it, unless it is the last one.
			if r != nil && r.standing == current {
				r.expires, r.ended = now, true
			} else if r != nil {
				r.drop(now, s.grace())
			}
			continue
		}
		if !c.mayList(s, e.L64) {
			c.refuse(now, s.key, reasonElsewhere)
			continue
		}
		isAgain := r != nil && (r.asked || r.standing == dropped)
		r = s.remotes.put(e.L64, uint16(e.Preference), deadline(now, lifetimeOf(e.Lifetime, lu.Form)))
		r.asked = isAgain && slices.ContainsFunc(list, func(o ilnpwire.LocatorEntry) bool {
			return o.Preference < e.Preference
		})
	}
	s.remotes.sort()
	if !slices.Contains(seen, s.astray) {
		s.recall()
	}
	c.ageRemotes(now, s)
	moved := !slices.Equal(best, s.remotes.targets())
	if moved {
		s.lastMove = now
	}
	c.notify(Event{Time: now, Kind: UpdateReceived, Key: s.key, Locators: seen, Moved: moved})
	if slices.ContainsFunc(were, func(l roam.L64) bool { return s.remotes.standingOf(l) == dropped }) {
		trustLast(s, c.listedPaths(now, s))
	}
	c.remotesChanged(now, s)
}
