package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// updates runs the Locator Update exchanges with all peers, and the handoff that they
// announce.
type updates struct {
	sender
	handoff handoff
	round   round
}

// startUpdate starts the exchange of a set; its first transmission uses the best of paths.
func (c *updates) startUpdate(now time.Time, s *session, list []listed, paths []Path) {
	c.tellWithdrawn(s, list)
	s.update.begin(now, list, paths)
	if s.keys != nil {
		s.update.since = s.keys.sent
	}
	s.strayed = false
	c.disarm(&s.schedule, timerRefresh)
	c.transmitUpdate(now, s)
}

// tellWithdrawn tells what helps TCP that a set lacks a locator of the one before it: firewalls on the paths by
// which the correspondent's data come from now on may not know the connections.
func (c *updates) tellWithdrawn(s *session, list []listed) {
	if s.entry.Seq != 0 && slices.ContainsFunc(s.update.listing, func(was listed) bool {
		return !slices.ContainsFunc(list, func(e listed) bool { return e.l64 == was.l64 })
	}) {
		c.emit(PathsChanged{Key: s.key, Why: roam.LocatorsWithdrawn, RTT: s.entry.Grace / 2})
	}
}

// repeatUpdate starts an exchange of the present set.
func (c *updates) repeatUpdate(now time.Time, s *session) {
	wanted := c.pathsFor(now, s)
	if list := c.listingFor(s, c.pathsKept(now, s)); len(list) > 0 && len(wanted) > 0 {
		c.startUpdate(now, s, list, wanted)
	}
}

// suspendUpdate stops retransmissions while the host has no locator. A locator that returns
// starts a new exchange.
func (c *updates) suspendUpdate(s *session) {
	c.disarm(&s.schedule, timerUpdate)
	c.disarm(&s.schedule, timerRefresh)
	s.update.suspend()
}

// ends returns the possible sources and destinations of a transmission, those in use first.
func (c *updates) ends(now time.Time, s *session) ([]roam.LinkLocator, []roam.L64) {
	var sources []roam.LinkLocator
	var destinations []roam.L64
	for _, p := range s.update.paths {
		sources, destinations = append(sources, p.Local), append(destinations, p.Remote)
	}
	usable := placesOf(c.host.usable(now))
	sources = slices.DeleteFunc(sources, func(l roam.LinkLocator) bool { return !slices.Contains(usable, l) })
	destinations = unique(append(destinations, s.remotes.all()...))
	return unique(append(sources, usable...)), s.toldAt(destinations)
}

// toldAt returns the locators to which a Locator Update may be sent: those that are validated,
// and those in a record. Only if there is none, it returns those that the peer alone has
// announced; the update then replaces a probe, and mayReach limits it. DEVIATION from RFC 6743
// §2, see docs/rfc/rfc6743.md: a peer that lists a victim's locators must not make us flood it.
func (s *session) toldAt(ls []roam.L64) []roam.L64 {
	sure := slices.DeleteFunc(slices.Clone(ls), func(l roam.L64) bool {
		r := s.remotes.find(l)
		return r == nil || !r.validated && !r.given
	})
	if len(sure) > 0 {
		return sure
	}
	return ls
}

// unique drops repetitions and keeps the order.
func unique[T comparable](list []T) []T {
	var u []T
	for _, v := range list {
		if !slices.Contains(u, v) {
			u = append(u, v)
		}
	}
	return u
}

// transmitUpdate transmits the set, or retransmits it. The first transmission goes from the
// newest locator to the best remote one; later ones alternate over all known sources and
// destinations, so that one working path suffices even if both ends have moved.
func (c *updates) transmitUpdate(now time.Time, s *session) {
	u := &s.update
	sources, destinations := c.ends(now, s)
	path, ok := c.obstructed.nextEnds(s.remoteNID, u.tries, sources, destinations)
	if !ok {
		c.suspendUpdate(s)
		return
	}
	u.transmit(now, path, len(sources)*len(destinations))
	lu := c.composeUpdate(now, s)
	if c.sendUpdate(now, u.path, s, lu) {
		c.notify(Event{Time: now, Kind: UpdateSent, Key: s.key, Locators: locatorsOf(u.listing), Path: u.path})
	}
	if u.tries > 1 && c.hasUDP(s) && u.path != u.began && slices.Contains(sources, u.began.Local) &&
		!c.obstructed.has(s.remoteNID, u.began) {
		// The paths in use by now may drop options, and data wait for this update.
		if b, ok := c.buildUpdate(u.began, s, lu, false); ok {
			c.transmitControl(now, s, u.began, b, true)
		}
	}
	c.tellFromKnown(now, s, u.path)
	c.arm(&s.schedule, timerUpdate, now, u.wait(s.rtt, s.rttOf))
}

// composeUpdate builds the message of the set.
func (c *updates) composeUpdate(now time.Time, s *session) ilnpwire.LocatorUpdate {
	return s.update.compose(now, s.form, c.cfg.Mode == Hard, c.host.expiry)
}

// longest returns the longest lifetime that the form can express.
func (s *session) longest() time.Duration {
	return lifetimeOf(wireLifetime(roam.Infinite, s.form), s.form)
}

// sendUpdate sends the set on a path: with the Nonce option, UDP encapsulated, or both.
func (c *updates) sendUpdate(now time.Time, p Path, s *session, lu ilnpwire.LocatorUpdate) bool {
	option, encap := c.updateForms(s, p)
	if option {
		over := s.keys == nil && s.update.isOverNIDs(s.profile)
		b, ok := c.buildUpdate(p, s, lu, over)
		s.update.overNIDs = s.update.overNIDs || over
		if !ok {
			return false
		}
		c.transmitControl(now, s, p, b, false)
	}
	if encap { // only Roam accepts this form
		b, ok := c.buildUpdate(p, s, lu, false) // behind the other one: of two MACs the later one counts
		if !ok {
			return false
		}
		c.transmitControl(now, s, p, b, true)
	}
	return true
}

// buildUpdate builds the packet of a Locator Update or an acknowledgement, with a checksum over
// NIDs or over addresses.
func (c *sender) buildUpdate(p Path, s *session, lu ilnpwire.LocatorUpdate, overNIDs bool) ([]byte, bool) {
	src, dst := roam.ILV{NID: s.localNID, L64: p.Local.L64}, roam.ILV{NID: s.remoteNID, L64: p.Remote}
	if s.keys != nil { // a peer with a key runs Roam, which has one checksum rule for ICMPv6
		return s.keys.build(src, dst, s.localNonce, lu)
	}
	b, err := ilnpwire.BuildUpdate(src, dst, s.localNonce, lu)
	if err == nil && overNIDs {
		err = ilnpwire.FinishOverNIDs(b)
	}
	return b, err == nil
}

// retransmitUpdate retransmits the set, or gives the exchange up. It reports whether a keyed exchange stays given up
// although the peer is there: something has come from it since, and has by each further transmission.
func (c *steering) retransmitUpdate(now time.Time, s *session) (isRefused bool) {
	isRefused = s.keys != nil && s.update.state == slow && s.lastRx.After(s.update.last)
	if s.update.giveUp() {
		isRefused = s.keys != nil && s.lastRx.After(s.update.first)
		c.doubtRoam(s)
		c.refresh(now, s)
		failed := Event{Time: now, Kind: UpdateFailed, Key: s.key, Locators: locatorsOf(s.update.listing), Duration: now.Sub(s.update.first)}
		if s.course == onKnown {
			failed.Path, failed.Reason = s.entry.Paths[0], "data stay on a locator that the correspondent knows"
		}
		c.notify(failed)
		c.settleHandoff(now, s.key)
	}
	c.transmitUpdate(now, s)
	if s.update.tries == updateDoubt {
		// If the peer has a new nonce, its acknowledgements do not arrive here; its answer
		// to a probe does, and reveals the nonce.
		c.probePaths(now, s, []Path{s.update.path})
	}
	return isRefused
}

// urgeUpdate retransmits an unacknowledged set at once, as a packet of the peer has arrived. To
// a peer that keeps sending and never acknowledges, retransmissions stay slow.
func (c *updates) urgeUpdate(now time.Time, s *session) {
	if s.update.state == slow && s.course != onKnown || s.update.state == suspended {
		c.repeatUpdate(now, s)
	}
}

// handleAck handles an acknowledgement. One of an older set means that the peer may have
// that set, because two updates were reordered or the older one was replayed: the newest is
// retransmitted.
func (c *liveness) handleAck(now time.Time, s *session, lu ilnpwire.LocatorUpdate, encap bool) {
	switch s.update.ack(lu) {
	case ackUnexpected:
		c.refuse(now, s.key, reasonUnexpected)
	case ackOlder:
		c.refuse(now, s.key, reasonOlderAck)
		if s.update.state == acknowledged {
			c.repeatUpdate(now, s)
		}
	case ackNew:
		c.acked(now, s, lu, encap)
	}
}

func (c *liveness) acked(now time.Time, s *session, lu ilnpwire.LocatorUpdate, encap bool) {
	u := &s.update
	c.disarm(&s.schedule, timerUpdate)
	// After a retransmission it is unknown which one was acknowledged; the time since the
	// first is an upper bound, good enough while no RTT is known.
	if rtt := now.Sub(u.first); u.tries == 1 || s.rtt == 0 {
		s.noteRTT(rtt, u.path.Local)
	}
	if !u.renewal { // which is no move
		s.lastMoveRTT = now.Sub(u.first)
	}
	c.notify(Event{
		Time: now, Kind: UpdateAcked, Key: s.key, Locators: locatorsOf(u.listing),
		Path: u.path, RTT: now.Sub(u.first), Encapsulated: encap,
	})
	c.settleHandoff(now, s.key)
	c.knowsSet(now, s, lu)
	if u.doubtful {
		u.doubtful = false
		c.repeatUpdate(now, s)
		return
	}
	c.armRefresh(now, s)
}

// armRefresh arms the timer that renews the peer's copy of our lifetimes.
func (c *updates) armRefresh(now time.Time, s *session) {
	if at := s.update.renewAt(s.key.Remote); !at.IsZero() {
		c.arm(&s.schedule, timerRefresh, now, at.Sub(now))
	}
}

// refreshTimeout renews the peer's copy if our lifetimes were renewed since the last update,
// and checks again later if not.
func (c *updates) refreshTimeout(now time.Time, s *session) {
	if s.update.isStale(now, c.host.expiry, s.longest()) {
		c.repeatUpdate(now, s)
		return
	}
	if d := s.update.lookAgain(now); d > 0 {
		c.arm(&s.schedule, timerRefresh, now, d)
	}
}
