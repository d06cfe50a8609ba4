package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// The correspondent of a session may answer no echo request either. Then what probes would
// show is shown by Locator Updates with drawn lifetimes: that the first nonce is of the
// node behind the locator where our first packets were answered, and that it has come
// to a locator which it names later. Each such update goes where a probe would have gone, and
// within the same allowance.

// awaitConfirmation lets a correspondent whose nonce no probe has confirmed be asked by an
// update: once a second probe could have been answered, and not before the answer to the
// first one, which leaves beside our first packets, has had as long as theirs.
func (c *updates) awaitConfirmation(now time.Time, s *session) {
	if !s.confirmed && !s.Armed(timerConfirm) {
		c.arm(&s.schedule, timerConfirm, now, max(pendingFirst-now.Sub(s.started), ackPatience))
	}
}

// confirmTimeout asks, and asks again, ever less often.
func (c *updates) confirmTimeout(now time.Time, s *session) {
	if s.state != Established || s.confirmed {
		return
	}
	again := updateAgain
	if now.Sub(s.started) > updateRounds*updateAgain {
		again = pendingSlowly
	}
	c.arm(&s.schedule, timerConfirm, now, again)
	c.confirmByUpdate(now, s)
}

// confirmSoon asks before that, as the correspondent has sent what waits for it. The
// first time is left to the timer: its first probe may still be answered.
func (c *updates) confirmSoon(now time.Time, s *session) {
	if s.proof.updates > 0 && now.Sub(s.proof.sent) >= pendingFirst {
		c.confirmByUpdate(now, s)
	}
}

// confirmByUpdate asks a correspondent that has answered our first packets, and no
// probe: until its nonce is confirmed, its session cannot move.
func (c *updates) confirmByUpdate(now time.Time, s *session) {
	if len(s.entry.Paths) == 0 {
		return
	}
	path := s.entry.Paths[0]
	if r := s.remotes.find(path.Remote); r != nil && r.given {
		c.askByLifetimes(now, s, path)
	}
}

// confirmedByUpdate takes an acknowledgement of such an update. It may come from where
// the correspondent has moved to: what counts is where the update went. It reports
// whether it was one.
func (c *Core) confirmedByUpdate(now time.Time, s *session, p ilnpwire.Packet) bool {
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if err != nil || lu.Operation != ilnpwire.Acknowledgement || s.proof.sent.IsZero() {
		return false
	}
	if s.update.isBody(lu) {
		return true // of an update that has nothing drawn, and shows nothing
	}
	validated, next := c.proofAcked(now, s, p, lu)
	if validated {
		s.confirmed = true
		c.disarm(&s.schedule, timerConfirm)
		c.upsert(now, s, s.entry.Paths)
		c.provedByUpdate(now, s)
		if early := s.early; early != nil {
			s.early = nil
			c.HandlePacket(now, s.earlyLink, early)
		}
	} else if next {
		c.confirmByUpdate(now, s)
	}
	return true
}

// proofAcked takes an acknowledgement that may be of an update with drawn lifetimes.
func (c *Core) proofAcked(now time.Time, s *session, p ilnpwire.Packet, lu ilnpwire.LocatorUpdate) (validated, next bool) {
	validated, next, refused := s.proof.acked(lu)
	if refused != "" {
		c.refuse(now, s.key, refused)
	}
	if validated || next {
		c.learnControl(now, s, func(v *control) { v.sumAnswer(s.proof.overNIDs, p.OverNIDs) }) // the next one is by the rule that was taken
	}
	return validated, next
}

// provedByUpdate marks the locator that was asked as validated.
func (c *Core) provedByUpdate(now time.Time, s *session) {
	path := s.proof.path
	s.noteRTT(now.Sub(s.proof.sent), path.Local)
	wasBad := s.bad[path]
	delete(s.bad, path)
	c.validated(now, s, path.Remote)
	if wasBad {
		c.remotesChanged(now, s)
	}
}

// endProof forgets what updates have shown of a locator that is validated, and tells the
// whole lifetimes: what they told lasts less long than our locators.
func (c *updates) endProof(now time.Time, s *session, l roam.L64) {
	if f := &s.proof; f.path.Remote == l && !f.sent.IsZero() {
		*f = lifetimeProof{updates: f.updates}
		c.repeatUpdate(now, s)
	}
}

// placeToAsk returns the locator, of those that wait for a validation, which an update may
// ask; 0: none. One that is being asked is first.
func (s *session) placeToAsk() roam.L64 {
	list := s.remotes.unvalidated()
	switch {
	case s.state != Established || !s.confirmed || len(list) == 0:
		return 0
	case slices.Contains(list, s.proof.path.Remote):
		return s.proof.path.Remote
	}
	return list[0]
}

// leavesProbes reports whether the correspondent has answered no probe ever.
func (s *session) leavesProbes() bool { return !s.echoes && !s.asks }

// updatesTurn reports whether an update goes in place of a probe in this round: one that has
// answered probes gets some first.
func (s *session) updatesTurn() bool {
	return s.watch.round%2 == 0 && (s.leavesProbes() || s.watch.round >= echoesFirst)
}

// awaitsAck reports whether an update that asks a locator may still be acknowledged.
func (s *session) awaitsAck(now time.Time, l roam.L64) bool {
	return s.proof.drawn > 0 && s.proof.path.Remote == l && now.Sub(s.proof.sent) < max(s.rtt*3/2, probeMin)
}

// askPlace asks a locator by an update. It reports whether it did.
func (c *updates) askPlace(now time.Time, s *session, l roam.L64) bool {
	if len(s.entry.Paths) == 0 {
		return false
	}
	return c.askByLifetimes(now, s, Path{Local: s.entry.Paths[0].Local, Remote: l})
}

// askPlaces returns the paths by which probes are to ask locators, each from the next one of
// sources, and asks one of them by an update if it is its turn.
func (c *updates) askPlaces(now time.Time, s *session, sources []roam.LinkLocator, targets []roam.L64) (paths []Path) {
	asked := s.placeToAsk()
	for i, l := range targets {
		if l != asked || !s.awaitsAck(now, l) && !(s.updatesTurn() && c.askPlace(now, s, l)) {
			paths = append(paths, Path{Local: sources[(s.watch.round+i)%len(sources)], Remote: l})
		}
	}
	return paths
}

// isOnlyThere reports whether the correspondent has said that it is at a locator, and nowhere
// else, and goes on sending: to leave it for one that it has left loses all. What goes
// there stays within the allowance.
func (s *session) isOnlyThere(r *remote) bool {
	for _, o := range s.remotes {
		if o.standing == current && o.l64 != r.l64 {
			return false
		}
	}
	return s.announced && r.standing == current && s.lastRx.After(s.updated)
}

// askNewPlace asks a locator at once by which a correspondent has come that has answered no
// probe so far, whatever else its probes are for.
func (c *updates) askNewPlace(now time.Time, s *session) {
	l := s.placeToAsk()
	if l != 0 && s.leavesProbes() && l != s.proof.path.Remote {
		c.askPlace(now, s, l)
	}
}

// placeAcked takes an acknowledgement of a session whose nonce is confirmed, and reports
// whether it is of an update with drawn lifetimes. The next one may go for it: whoever
// sent it knows what went to the locator. Another one that is not of the set as it was
// told may be a guess, and ends the attempt.
func (c *Core) placeAcked(now time.Time, s *session, p ilnpwire.Packet, lu ilnpwire.LocatorUpdate, bytes int) bool {
	f := &s.proof
	asked := slices.Equal(lu.Locators, f.last) || slices.Equal(lu.Locators, f.before)
	if f.drawn == 0 || s.update.isBody(lu) {
		return asked
	}
	validated, next := c.proofAcked(now, s, p, lu)
	if validated {
		c.provedByUpdate(now, s)
	} else if next {
		c.accounts.received(now, roam.ILV{NID: s.remoteNID, L64: f.path.Remote}, bytes, 1)
		c.askByLifetimes(now, s, f.path)
	}
	return asked
}

// askLifeByUpdate tells a correspondent that answers no probe our set again, when it is to
// show whether it lives: where data go one way only, acknowledgements are all that may
// come. An exchange that is under way asks already.
func (c *updates) askLifeByUpdate(now time.Time, s *session) {
	if s.leavesProbes() && s.update.state == acknowledged {
		c.repeatUpdate(now, s)
	}
}

// isBody reports whether an acknowledgement is of one of the last two transmissions of the
// set, in which nothing is drawn.
func (u *exchange) isBody(lu ilnpwire.LocatorUpdate) bool {
	return slices.Equal(lu.Locators, u.body) || u.before != nil && slices.Equal(lu.Locators, u.before)
}

// askByLifetimes sends the set over a path, with lifetimes that are drawn. It reports
// whether it did.
func (c *updates) askByLifetimes(now time.Time, s *session, path Path) bool {
	f := &s.proof
	list := c.listingFor(s, c.pathsKept(now, s))
	if c.obstructed.has(s.remoteNID, path) || !slices.ContainsFunc(list, func(e listed) bool { return e.l64 == path.Local.L64 }) {
		return false
	}
	lu, drawn := c.host.drawUpdate(now, c.draw, list, 0, s.form)
	if drawn == 0 {
		return false
	}
	over := s.keys == nil && s.overNIDs(f.updates+1)
	b, ok := c.buildUpdate(path, s, lu, over)
	if ok && s.encaps(path) && c.hasUDP(s) {
		encap, err := ilnpwire.Encapsulate(b, c.cfg.UDPPort)
		b, ok = encap, err == nil
	}
	// Behind a right acknowledgement it is no probe of somebody who never asked for one.
	probe := f.known == 0 || path.Remote != f.path.Remote
	if !ok || !c.accounts.mayReach(now, s, path.Remote, c.listedAt(s, path.Remote), len(b), probe) {
		return false
	}
	if path.Remote != f.path.Remote {
		*f = lifetimeProof{updates: f.updates}
	}
	if f.noted(now, path, lu, drawn); f.known == 0 {
		f.updates++
	}
	f.overNIDs = over
	c.emit(Transmit{Link: path.Local.Link, Packet: b})
	return true
}
