package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Towards a correspondent that runs Roam, data leave from a new locator right behind
// the Locator Update. Other stacks may drop data from a locator that no update has
// told them of, and some acknowledge none. So towards them data stay on a locator
// that they know while it is usable, until they show that they know the new one.
const (
	returnAfter = 500 * time.Millisecond // without an acknowledgement, data return to a usable locator that is known
	heardWithin = 200 * time.Millisecond // or 2 RTT: a correspondent that is silent for longer is left for the new locator at once
	sourceTry   = 3                      // with this transmission, ...
	sourceEvery = 4                      // ... and every fourth after it, an update bears a known source (see tellFromKnown)
)

// course is where data towards a correspondent leave from while it does not know the
// locators that this host prefers.
type course uint8

const (
	onWanted course = iota // the correspondent knows them, or there is no choice
	onKnown                // data stay on, or are back on, a locator that it knows
	ahead                  // data have left a usable one that it knows
)

// holdback is what a session knows of the correspondent's view of our locators.
type holdback struct {
	course
	known   []roam.L64 // from which it takes packets; none: nothing is known of that
	silent  bool       // ahead: the known locator was left because nothing came
	replied struct {   // ahead: echo replies since then
		known, wanted bool
	}
}

// startKnowing notes the locator at which the correspondent's first answer came; 0:
// that is not known, and what was sent from so far is taken for it.
func (s *session) startKnowing(at roam.L64) {
	s.holdback = holdback{}
	if at != 0 {
		s.known = []roam.L64{at}
		return
	}
	for _, p := range s.entry.Paths {
		s.known = append(s.known, p.Local.L64)
	}
	s.known = unique(s.known)
}

// runsRoam reports whether the correspondent has shown in this session that it runs
// Roam, which acknowledges updates and knows their sender by its nonce.
func (s *session) runsRoam() bool { return s.asks && !s.asksByRecord }

// followsNonce reports whether the correspondent takes data from a locator that no update has
// told it of, if the nonce comes with them. In a keyed session it does not.
func (s *session) followsNonce() bool { return s.runsRoam() && s.keys == nil }

func (s *session) knows(p Path) bool { return slices.Contains(s.known, p.Local.L64) }

// followsOnce is followsNonce of one that may have run Roam in an earlier session only.
func (s *session) followsOnce() bool { return s.asks && s.keys == nil }

// sendsFromKnown reports whether data leave from a locator that is known.
func (s *session) sendsFromKnown() bool { return slices.ContainsFunc(s.entry.Paths, s.knows) }

// heldBack returns the paths to send on, given those that this host wants: if the
// correspondent may not know their locators, those from the ones that it knows. An
// immediate handoff does not wait (RFC 6740 §6.2), nor does one away from silence, nor
// one towards a correspondent that ran Roam in an earlier session; these return.
func (c *steering) heldBack(now time.Time, s *session, wanted []Path) []Path {
	known := wanted
	unknown := func(p Path) bool { return !s.knows(p) }
	if s.state == Established && !s.followsNonce() && len(s.known) > 0 && slices.ContainsFunc(wanted, unknown) {
		known = c.knownPaths(now, s, wanted)
	}
	switch {
	case len(known) == 0, slices.Equal(known, wanted):
		c.stopHolding(s)
		return wanted
	case s.course == ahead:
		return wanted
	case s.course == onWanted && s.sendsFromKnown() && (c.cfg.Mode == Hard || s.followsOnce() || s.isSilent(now)):
		s.course, s.silent = ahead, c.cfg.Mode != Hard && !s.followsOnce()
		s.replied.known, s.replied.wanted = false, false
		c.arm(&s.schedule, timerReturn, now, max(returnAfter, s.rtt*3/2))
		return wanted
	}
	if len(s.entry.Paths) > 0 && !s.sendsFromKnown() {
		c.notify(Event{Time: now, Kind: HandoffReturned, Key: s.key, Path: known[0], Duration: now.Sub(s.update.first),
			Locators: locatorsOf(s.update.listing), Reason: "the correspondent does not acknowledge the new locators"})
	}
	c.disarm(&s.schedule, timerReturn)
	s.course = onKnown
	return known
}

func (c *steering) stopHolding(s *session) {
	s.course = onWanted
	c.disarm(&s.schedule, timerReturn)
}

// knownPaths returns the paths from locators that the correspondent knows: those
// among the wanted ones, else from those in use, else from the best usable one.
func (c *pathChoice) knownPaths(now time.Time, s *session, wanted []Path) []Path {
	unknown := func(p Path) bool { return !s.knows(p) }
	if paths := slices.DeleteFunc(slices.Clone(wanted), unknown); len(paths) > 0 {
		return paths
	}
	sources := slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool { return !slices.Contains(s.known, l.L64) })
	inUse := slices.DeleteFunc(slices.Clone(sources), func(l roam.LinkLocator) bool { return !s.sendsFrom(l) })
	if len(inUse) == 0 {
		inUse = sources[:min(len(sources), 1)]
	}
	paths := slices.DeleteFunc(c.obstructed.without(s.remoteNID, cross(inUse, s.remotes.targets())), func(p Path) bool { return s.bad[p] })
	if len(paths) == 0 {
		return nil
	}
	return s.equalised(paths)
}

// isSilent reports whether nothing has come of the correspondent for a while.
func (s *session) isSilent(now time.Time) bool {
	return s.dead || now.Sub(s.lastRx) > max(2*s.rtt, heardWithin)
}

// Unacquainted returns the sessions whose data may wait for an acknowledgement when
// this host's locators change, at most moveFirst, those used last first. Before such a
// change the effects above read them (HandleHeard): it matters whether the locator
// in use has just worked.
func (c *node) Unacquainted() []SessionKey {
	var ss []*session
	for _, s := range c.sessions {
		if s.state == Established && !s.followsNonce() && len(s.known) > 0 {
			ss = append(ss, s)
		}
	}
	slices.SortFunc(ss, compareUse)
	var keys []SessionKey
	for _, s := range ss[:min(len(ss), moveFirst)] {
		keys = append(keys, s.key)
	}
	return keys
}

// HandleHeard takes when the correspondents of sessions were last heard.
func (c *node) HandleHeard(as []Activity) {
	for _, a := range as {
		if s := c.sessions[a.Key]; s != nil {
			s.lastRx = later(s.lastRx, a.LastRx)
		}
	}
}

// compare asks for echo replies on the locator that was left for its silence, and on
// the new one. In the hard mode the left one is withdrawn: a probe would call the
// correspondent back to it.
func (c *sender) compare(now time.Time, s *session) {
	if known := c.knownPaths(now, s, s.entry.Paths); s.silent && len(known) > 0 {
		c.probePaths(now, s, []Path{known[0], s.entry.Paths[0]})
	}
}

// noteReply notes an echo reply. It shows that a path works, but not that the
// correspondent would take data on it.
func (s *session) noteReply(p Path) {
	s.noProof = s.noProof && s.state != Established // it is there with the nonce that it had
	if s.knows(p) {
		s.replied.known = true
	} else {
		s.replied.wanted = true
	}
}

// returnTimeout takes data back to a known locator, unless that one is silent and
// the new one is not.
func (c *steering) returnTimeout(now time.Time, s *session) {
	if s.course != ahead {
		return
	}
	if s.silent && s.replied.wanted && !s.replied.known {
		c.arm(&s.schedule, timerReturn, now, max(returnAfter, s.rtt*3/2))
		c.compare(now, s)
		return
	}
	s.course = onKnown
	c.refresh(now, s)
}

// leaveKnown tries the new locators when nothing comes any more on the known one and
// a first round of probes stayed without an answer. That alone says nothing of a stack
// that answers no echo request.
func (c *steering) leaveKnown(now time.Time, s *session) {
	if s.course == onKnown && s.watch.round == 1 && s.watch.silence {
		s.course = onWanted // refresh judges anew
		c.refresh(now, s)
	}
}

// knowsSet notes that the correspondent has acknowledged the newest set, or the first locators of it: one of FormLinux
// takes no packet from those that it does not repeat.
func (c *liveness) knowsSet(now time.Time, s *session, lu ilnpwire.LocatorUpdate) {
	s.known = locatorsOf(s.update.listing[:len(lu.Locators)])
	c.followKnown(now, s)
	c.followRules(now, s)
}

// knowsLocator notes that the correspondent has sent data or an update to a locator
// that it was told of.
func (c *liveness) knowsLocator(now time.Time, s *session, l roam.L64) {
	if len(s.known) == 0 || slices.Contains(s.known, l) || !s.update.lists(l) {
		return
	}
	s.known = append(s.known, l)
	c.followKnown(now, s)
}

func (c *liveness) followKnown(now time.Time, s *session) {
	if s.course != onWanted {
		c.refresh(now, s)
		c.measure(now, s) // several paths may be in use from now on
	}
}

// tellFromKnown sends an unacknowledged set once more, with a source that the
// correspondent knows and that is no longer to be had, out of the link of path. A
// stack that takes updates from known sources only is not reached otherwise after an
// immediate handoff. Ingress filters (RFC 2827) may drop it, hence it is the last resort
// and rare. Its acknowledgement comes to a locator of the set. While the rule of its
// checksums is sought, that over NIDs goes first: the stacks that want this one have it. Behind a site border the
// correspondent sees the same locators as before, and the border would take the source for where this host is.
func (c *updates) tellFromKnown(now time.Time, s *session, path Path) {
	u := &s.update
	usable := c.host.usable(now)
	isUsable := func(l roam.L64) bool { return slices.ContainsFunc(usable, func(o *local) bool { return o.L64 == l }) }
	if s.asks || len(s.known) == 0 || len(c.host.outside(s.known[0])) > 0 ||
		slices.ContainsFunc(s.known, isUsable) || u.tries%sourceEvery != sourceTry%sourceEvery {
		return
	}
	p := Path{Local: roam.LinkLocator{Link: path.Local.Link, L64: s.known[0]}, Remote: path.Remote}
	overNIDs := s.icmp == icmpOverNIDs || s.icmp != icmpOrdinary && u.tries/sourceEvery%2 == 0
	if b, ok := c.buildUpdate(p, s, c.composeUpdate(now, s), overNIDs); ok {
		c.transmitControl(now, s, p, b, false)
	}
}
