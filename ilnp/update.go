package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Timing of the Locator Update exchange, for which no RFC sets values.
const (
	updateMin     = 100 * time.Millisecond // least time to the first retransmission
	updateGuess   = 500 * time.Millisecond // the same while the RTT is unknown
	updatePatient = 300 * time.Millisecond // least time to it on a link that was not measured: an RTT of 200 ms and half of it
	updateMax     = 8 * time.Second        // most time between two of them
	updateDoubt   = 3                      // with this one goes a probe: is it the nonce?
	updateTries   = 8                      // then the exchange is given up ...
	updateSlowly  = 15 * time.Second       // ... and tried once in a while
)

// exchangeState is where the exchange of a Locator Update stands.
type exchangeState uint8

const (
	untold       exchangeState = iota // nothing was ever sent
	awaiting                          // sent, and again and again until acknowledged
	suspended                         // not acknowledged, and no locator to send from
	slow                              // given up, tried once in a while
	acknowledged                      // the correspondent has the newest set
)

// exchange is the Locator Update exchange with one correspondent. There is one
// at a time and the newest set wins: the format has no sequence number, so an
// acknowledgement is matched by the locators and preferences that it repeats.
// A lifetime may differ, as each transmission tells what is left of it.
type exchange struct {
	state    exchangeState
	listing  []listed                // the newest set
	body     []ilnpwire.LocatorEntry // of the last transmission
	before   []ilnpwire.LocatorEntry // of the one before, of this set or another
	told     []time.Time             // when the correspondent's copy of each locator ends; zero: never
	tries    int
	asked    int       // probes since, see spokeLast
	ways     int       // paths over which transmissions alternate
	first    time.Time // transmission of this set
	last     time.Time
	paths    []Path // in use when it began
	began    Path   // of the first transmission
	path     Path   // of the last transmission
	overNIDs bool   // it was sent summed so
	doubtful bool   // an older acknowledgement came after this set had left: confirm it once more
}

// lists reports whether the newest set has a locator.
func (u *exchange) lists(l roam.L64) bool {
	return slices.ContainsFunc(u.listing, func(e listed) bool { return e.l64 == l })
}

// startUpdate begins an exchange of a set. It is sent over paths first.
func (c *Core) startUpdate(now time.Time, s *session, list []listed, paths []Path) {
	// What it replaces may still arrive after it.
	doubtful := s.update.doubtful || s.update.state == awaiting && !slices.Equal(list, s.update.listing)
	s.update = exchange{state: awaiting, listing: list, first: now, paths: paths, doubtful: doubtful, body: s.update.body}
	s.strayed = false
	c.disarm(&s.schedule, timerRefresh)
	c.transmitUpdate(now, s)
}

// repeatUpdate begins an exchange of the set as it is now.
func (c *Core) repeatUpdate(now time.Time, s *session) {
	wanted := c.pathsFor(now, s)
	if list := c.listingFor(s, wanted); len(list) > 0 && len(wanted) > 0 {
		c.startUpdate(now, s, list, wanted)
	}
}

// suspendUpdate stops retransmissions for want of a locator. What returns is
// told anew.
func (c *Core) suspendUpdate(s *session) {
	c.disarm(&s.schedule, timerUpdate)
	c.disarm(&s.schedule, timerRefresh)
	if s.update.state == awaiting || s.update.state == slow {
		s.update.state = suspended
	}
}

// ends returns the sources and destinations of a transmission, those in use
// first.
func (c *Core) ends(now time.Time, s *session) ([]roam.LinkLocator, []roam.L64) {
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

// toldAt returns the locators that a Locator Update may go to: those where its
// correspondent was validated, and those that a record names. Only when there is
// none, it goes to where only the correspondent itself says to be, in place of a
// probe, and as far as mayReach lets it. DEVIATION from RFC 6743 §2, see
// docs/rfc/rfc6743.md: whoever lists a victim's locators must not flood it.
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

// transmitUpdate sends the set once more. The first time it leaves from the
// newest locator to the best remote one; then sources and destinations
// alternate over all that is known, so that one path that works suffices even
// if both ends have moved.
func (c *Core) transmitUpdate(now time.Time, s *session) {
	u := &s.update
	sources, destinations := c.ends(now, s)
	path, ok := c.obstructed.nextEnds(s.remoteNID, u.tries, sources, destinations)
	if !ok {
		c.suspendUpdate(s)
		return
	}
	u.path, u.ways = path, len(sources)*len(destinations)
	u.tries++
	u.last = now
	lu := c.composeUpdate(now, s)
	if u.tries == 1 {
		u.began = u.path
	}
	if c.sendUpdate(now, u.path, s, lu) {
		c.notify(Event{Time: now, Kind: UpdateSent, Key: s.key, Locators: locatorsOf(u.listing), Path: u.path})
	}
	if u.tries > 1 && c.hasUDP(s) && u.path != u.began && slices.Contains(sources, u.began.Local) &&
		!c.obstructed.has(s.remoteNID, u.began) {
		// Where all goes by now, options may be dropped: data waits for this.
		if b, ok := c.buildUpdate(u.began, s, lu, false); ok {
			c.transmitControl(now, s, u.began, b, true)
		}
	}
	c.tellFromKnown(now, s, u.path)
	c.arm(&s.schedule, timerUpdate, now, s.updateTimeout())
}

// updateTimeout is the time to the next retransmission.
func (s *session) updateTimeout() time.Duration {
	if s.update.state == slow {
		return updateSlowly
	}
	d := updateGuess
	if s.rtt > 0 {
		d = max(s.rtt*3/2, updateMin)
	}
	// The RTT may be that of a far faster link, and what is sent again too early
	// is an exchange more. So the first time of another link is patient.
	if s.update.tries == 1 && s.rttOf != (roam.LinkLocator{}) && s.rttOf != s.update.path.Local {
		return max(d, updatePatient)
	}
	return min(d<<min(s.update.tries-1, updateTries), updateMax)
}

// composeUpdate makes the message out of the set: each locator with what is
// left of its preferred lifetime.
func (c *Core) composeUpdate(now time.Time, s *session) ilnpwire.LocatorUpdate {
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Form: s.form}
	if s.form == ilnpwire.FormDraft {
		lu.Code = ilnpwire.CodeReplaceSoft
		if c.cfg.Mode == Hard {
			lu.Code = ilnpwire.CodeReplaceHard
		}
	}
	u := &s.update
	u.told = u.told[:0]
	for _, e := range u.listing[:min(len(u.listing), ilnpwire.MaxLocators)] {
		left := uint32(1)
		if end, ok := c.host.expiry(now, e.l64); ok {
			left = wireLifetime(remaining(now, end), s.form)
		}
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{L64: e.l64, Preference: uint32(e.preference), Lifetime: left})
		u.told = append(u.told, deadline(now, lifetimeOf(left, s.form)))
	}
	u.before, u.body = u.body, lu.Locators
	return lu
}

// Largest lifetimes of FormRFC and of the other forms, in seconds. That of the draft
// form is infinite, as in the Router Advertisements that it follows (RFC 4861 §4.6.2).
const (
	largestRFC  = 0xffff
	largestLong = 0xffff_ffff
)

// wireLifetime rounds to whole seconds, but never to 0, which would end the
// locator. To round down would tell half of a lifetime of two seconds, and have it
// told anew twice as often.
func wireLifetime(d time.Duration, form ilnpwire.Form) uint32 {
	largest := int64(largestRFC)
	if form != ilnpwire.FormRFC {
		largest = largestLong
	}
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Second/2 {
		seconds++
	}
	return uint32(min(max(seconds, 1), largest))
}

// longest is the longest lifetime that can be told.
func (s *session) longest() time.Duration {
	return lifetimeOf(wireLifetime(roam.Infinite, s.form), s.form)
}

// lifetimeOf reads a lifetime.
func lifetimeOf(seconds uint32, form ilnpwire.Form) time.Duration {
	if form != ilnpwire.FormRFC && seconds == largestLong {
		return roam.Infinite
	}
	return time.Duration(seconds) * time.Second
}

// sendUpdate sends the set over a path, in the forms that are due.
func (c *Core) sendUpdate(now time.Time, p Path, s *session, lu ilnpwire.LocatorUpdate) bool {
	option, encap := c.updateForms(s, p)
	if encap { // only Roam takes it
		b, ok := c.buildUpdate(p, s, lu, false)
		if !ok {
			return false
		}
		defer c.transmitControl(now, s, p, b, true)
	}
	if option {
		over := s.updateOverNIDs()
		b, ok := c.buildUpdate(p, s, lu, over)
		s.update.overNIDs = s.update.overNIDs || over
		if !ok {
			return false
		}
		c.transmitControl(now, s, p, b, false)
	}
	return true
}

// buildUpdate makes the packet of a Locator Update or an acknowledgement, summed over
// NIDs or by the ordinary rule.
func (c *Core) buildUpdate(p Path, s *session, lu ilnpwire.LocatorUpdate, overNIDs bool) ([]byte, bool) {
	src := roam.ILV{NID: s.localNID, L64: p.Local.L64}
	b, err := ilnpwire.BuildUpdate(src, roam.ILV{NID: s.remoteNID, L64: p.Remote}, s.localNonce, lu)
	if err == nil && overNIDs {
		err = ilnpwire.FinishOverNIDs(b)
	}
	return b, err == nil
}

// updateTimeout sends again, or gives the exchange up.
func (c *Core) updateTimeout(now time.Time, s *session) {
	if s.update.state == awaiting && s.update.tries >= updateTries {
		s.update.state = slow
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
		// Acknowledgements with another nonce than we know do not get here; the
		// answer to a probe does, and shows it.
		c.probePaths(now, s, []Path{s.update.path})
	}
}

// urgeUpdate sends an unacknowledged set at once: the correspondent has just
// been heard. One that is heard all the time, and acknowledges nothing, is told
// again slowly.
func (c *Core) urgeUpdate(now time.Time, s *session) {
	if s.update.state == slow && s.course != onKnown || s.update.state == suspended {
		c.repeatUpdate(now, s)
	}
}

// handleAck takes an acknowledgement. One for an older set says that the
// correspondent may hold that one, be it that two of ours overtook each other
// or that somebody replayed the older one: the newest is sent again.
func (c *Core) handleAck(now time.Time, s *session, lu ilnpwire.LocatorUpdate, encap bool) {
	u := &s.update
	if u.state == untold {
		c.refuse(now, s.key, reasonUnexpected)
		return
	}
	if !u.matches(lu) {
		c.refuse(now, s.key, reasonOlderAck)
		if u.state == acknowledged {
			c.repeatUpdate(now, s)
		} else {
			u.doubtful = true
		}
		return
	}
	if u.state == acknowledged {
		return
	}
	c.acked(now, s, encap)
}

// matches compares but for lifetimes; only, as none that we tell is 0, an
// acknowledged 0 is of somebody else's set. FormLinux has locators only, and its
// stack takes and acknowledges the first ones of a longer list in another form.
func (u *exchange) matches(lu ilnpwire.LocatorUpdate) bool {
	if lu.Form == ilnpwire.FormLinux {
		n := min(len(lu.Locators), len(u.listing))
		return n == len(lu.Locators) && slices.EqualFunc(u.listing[:n], lu.Locators, func(a listed, b ilnpwire.LocatorEntry) bool {
			return a.l64 == b.L64
		})
	}
	return slices.EqualFunc(u.listing, lu.Locators, func(a listed, b ilnpwire.LocatorEntry) bool {
		return a.l64 == b.L64 && uint32(a.preference) == b.Preference && b.Lifetime > 0
	})
}

func (c *Core) acked(now time.Time, s *session, encap bool) {
	u := &s.update
	u.state = acknowledged
	c.disarm(&s.schedule, timerUpdate)
	// After a retransmission nobody knows which one was acknowledged; the time
	// since the first is then an upper bound, good enough while none is known.
	if rtt := now.Sub(u.first); u.tries == 1 || s.rtt == 0 {
		s.noteRTT(rtt, u.path.Local)
	}
	s.lastMoveRTT = now.Sub(u.first)
	c.notify(Event{
		Time: now, Kind: UpdateAcked, Key: s.key, Locators: locatorsOf(u.listing),
		Path: u.path, RTT: now.Sub(u.first), Encapsulated: encap,
	})
	c.settleHandoff(now, s.key)
	c.knowsSet(now, s)
	if u.doubtful {
		u.doubtful = false
		c.repeatUpdate(now, s)
		return
	}
	c.armRefresh(now, s)
}

// armRefresh sets the time to renew the correspondent's copy of our lifetimes:
// between 60 and 75 per cent of the shortest told, by key, so that a host's
// refreshes do not leave in one burst.
func (c *Core) armRefresh(now time.Time, s *session) {
	if left := s.update.shortest(); left != roam.Infinite {
		share := 60 + time.Duration(uint64(s.key.Remote)%16)
		c.arm(&s.schedule, timerRefresh, now, s.update.last.Add(left*share/100).Sub(now))
	}
}

// shortest returns the shortest lifetime that the last transmission told.
func (u *exchange) shortest() time.Duration {
	d := roam.Infinite
	for _, end := range u.told {
		d = min(d, remaining(u.last, end))
	}
	return d
}

// refreshTimeout renews the correspondent's copy if our own lifetimes have
// been renewed since, and looks again later if not.
func (c *Core) refreshTimeout(now time.Time, s *session) {
	u := &s.update
	left := u.shortest()
	if u.state != acknowledged || left == roam.Infinite {
		return
	}
	for i, e := range u.listing[:len(u.told)] {
		end, ok := c.host.expiry(now, e.l64)
		if !ok || u.told[i].IsZero() {
			continue
		}
		// A quarter more than was told is news; in the last quarter, when the
		// prefix has come to live shorter, so is whatever exceeds the rounding.
		told, has := remaining(u.last, u.told[i]), remaining(now, u.told[i])
		gain := min(remaining(now, end), s.longest()) - has
		if gain > told/4 || has < told/4 && gain > time.Second {
			c.repeatUpdate(now, s)
			return
		}
	}
	if u.last.Add(2 * left).After(now) {
		c.arm(&s.schedule, timerRefresh, now, left/10)
	}
}
