package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// A probe along a path is no question about that path if the peer answers where its data go: its
// stack does so, and the programs of Roam leave a probe to the stack if the nonces of the two ends
// differ in length. If that is where nothing arrives, every probe of every path stays without an
// answer. A Locator Update is acknowledged to where it came from (RFC 6743 §2), so it asks in place
// of the probe: the set that the peer has, along a path that is not in use.

// askedWay is an update that asks whether a path works.
type askedWay struct {
	sent time.Time
	list []ilnpwire.LocatorEntry
}

// answersElsewhere reports whether the answer to a probe may take another path than the probe.
func (s *session) answersElsewhere() bool {
	return !s.runsRoam() || s.localNonce.Len != s.remoteNonce.Len
}

// questions are what the core asks of paths by Locator Updates.
type questions struct{ *liveness }

// askOtherWay asks one path that is not in use, in each round another one, as nothing comes on those
// that are. While the peer counts as dead those in use take their turns as well: the peer may receive there, and
// answer from where nothing arrives. Of an only path the answers to probes show as much. One update a round: of two
// with a MAC the older one would be refused if it arrived last.
func (c questions) askOtherWay(now time.Time, s *session) {
	if s.watch.round == 0 || s.leavesProbes() {
		return // often one packet was lost; who answers no probe is asked by updates anyway
	}
	paths := cross(placesOf(c.host.usable(now)), s.remotes.all())
	if !s.dead || len(paths) == 1 {
		paths = slices.DeleteFunc(paths, func(p Path) bool { return slices.Contains(s.entry.Paths, p) })
	}
	if len(paths) > 0 {
		c.askWay(now, s, paths[s.watch.round%len(paths)])
	}
}

// askUnlisted asks along the path of the last transmission of a set that has had no acknowledgement for long, if that
// left from a locator which the set does not list: nothing may arrive at the one that it lists, to which a peer that
// runs Roam sends its acknowledgements, and a host that sends no data misses nothing. The peer may not miss the host
// either, as it gets these transmissions.
func (c questions) askUnlisted(now time.Time, s *session) {
	u := &s.update
	if (s.keys != nil || s.asks) && u.state != acknowledged && u.tries >= updateDoubt && !u.lists(u.path.Local.L64) {
		c.askByUpdate(now, s, u.path)
	}
}

// askWay asks a path by an update, if probes may not tell.
func (c questions) askWay(now time.Time, s *session, p Path) {
	isDropped := s.keys != nil && !s.update.lists(p.Local.L64) // a keyed peer answers no probe from there
	if s.answersElsewhere() || isDropped {
		c.askByUpdate(now, s, p)
	}
}

// askByUpdate asks a path by an update. One from a locator that the set does not
// have lists it too, preferred least: the peer goes on sending to those that it knows. A locator that
// a look-up has named need not be validated, as the peer's answers may be what its dead path loses.
// A set that has just been announced comes first. One that stays without an acknowledgement does not: it may be the set
// that has the acknowledgements go where nothing arrives.
func (c questions) askByUpdate(now time.Time, s *session, p Path) {
	r := s.remotes.find(p.Remote)
	exchanging := s.update.state != acknowledged && s.update.tries < updateDoubt && !s.dead
	if exchanging || len(s.update.listing) == 0 ||
		r == nil || !r.validated && !r.given ||
		c.obstructed.has(s.remoteNID, p) || now.Sub(s.askedWays[p].sent) < complainEvery {
		return
	}
	list := s.update.listing
	if !s.update.lists(p.Local.L64) {
		least := list[len(list)-1].preference
		own := c.host.asSeenOutside([]listed{{p.Local.L64, max(least, least+1)}})
		list = append(slices.Clone(list[:min(len(list), ilnpwire.MaxLocators-len(own))]), own...)
		s.strayed = true // the set is repeated later
	}
	maps.DeleteFunc(s.askedWays, func(_ Path, w askedWay) bool { return now.Sub(w.sent) >= checkAll })
	if s.askedWays == nil {
		s.askedWays = make(map[Path]askedWay)
	}
	s.askedWays[p] = askedWay{sent: now, list: c.sendAlong(now, s, p, list, 0)}
	s.check.of(p).said = saying{askedWay: s.askedWays[p]}
}

// wayAnswered takes an acknowledgement that came by a path. If it may be that of an update which left
// along that path, both directions of it work. It reports whether it is that of a question and not
// of the set.
func (c *Core) wayAnswered(now time.Time, s *session, by Path, lu ilnpwire.LocatorUpdate) (asked bool) {
	w, ok := s.askedWays[by]
	isOf := func(w askedWay) bool {
		return slices.EqualFunc(w.list, lu.Locators, func(a, b ilnpwire.LocatorEntry) bool {
			return a.L64 == b.L64 && a.Preference == b.Preference && b.Lifetime > 0
		})
	}
	if !ok || now.Sub(w.sent) >= checkAll || !isOf(w) {
		return false
	}
	delete(s.askedWays, by)
	c.pathLives(now, s, probe{path: by, sent: w.sent})
	questions{&c.liveness}.leaveListed(now, s, by)
	return !s.update.matches(lu)
}

// leaveListed leaves all paths from the locators that the newest set lists, as a question from another locator of
// ours was acknowledged there, and the set has had no acknowledgement for long: those go to the locators that it
// lists, so nothing arrives at these. No probe shows it, as data stay on a locator that the correspondent knows.
func (c questions) leaveListed(now time.Time, s *session, by Path) {
	u := &s.update
	if u.state == acknowledged || u.tries < updateDoubt || u.lists(by.Local.L64) {
		return
	}
	listed := slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool { return !u.lists(l.L64) })
	paths := cross(listed, s.remotes.all())
	if slices.ContainsFunc(paths, func(p Path) bool {
		h := s.check.find(p)
		return h != nil && h.Heard().After(u.first)
	}) {
		return
	}
	for _, p := range paths {
		s.bad[p] = true
	}
	s.watch.proved = 0
	c.remotesChanged(now, s)
}

// pathLives takes that a path works, as the answer to a question about it has come.
func (c *Core) pathLives(now time.Time, s *session, pr probe) {
	c.checkReply(now, s, pr)
	if s.bad[pr.path] {
		s.forgive(now, pr.path)
		c.remotesChanged(now, s)
	}
	inRound := !pr.lone || s.watch.state != settling
	if s.watch.state == quiet || !inRound {
		return
	}
	s.watch.answered = append(s.watch.answered, pr.path)
	if s.watch.state == suspect || s.watch.state == silent {
		c.settle(now, s)
	}
}

// askFrom returns the sources of questions to new places, the best first. A new place gets few, and nothing may
// arrive at what this host prefers. So if data leave from further locators, these come first. A correspondent without
// a key follows our nonce to any further one. In a session with keys the usable locator where the correspondent's
// last update came in is first, and as long as it has not acknowledged our set, those that it knows.
func (c *pathChoice) askFrom(now time.Time, s *session, sources []roam.LinkLocator) []roam.LinkLocator {
	for _, p := range s.entry.Paths {
		if !slices.Contains(sources, p.Local) {
			sources = append([]roam.LinkLocator{p.Local}, sources...)
		}
	}
	if s.keys == nil {
		return sources
	}
	first := slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool {
		came := l == s.updatedAt && now.Sub(s.updated) < s.grace()
		return !came && (s.update.state == acknowledged || !slices.Contains(s.known, l.L64))
	})
	return unique(append(first, sources...))
}

// noteSource takes that the correspondent sends from a locator that is not validated: by a
// rule it may from one that it prefers less. Until that one is validated, packets without
// the nonce may be refused there.
func (c questions) noteSource(now time.Time, s *session, l roam.L64) {
	if s == nil {
		return
	}
	if r := s.remotes.find(l); r != nil && r.standing == current && !r.validated {
		r.sends = now
		c.validate(now, s)
	}
}

// heardFirst returns the usable locators. While the correspondent is where it is not validated, that at which its last
// update came in is the first: a new place gets few probes, and nothing may leave by what this host prefers.
func (c *pathChoice) heardFirst(now time.Time, s *session) []roam.LinkLocator {
	sources := placesOf(c.host.usable(now))
	if slices.Contains(sources, s.updatedAt) && len(s.remotes.unvalidated()) > 0 {
		sources = unique(append([]roam.LinkLocator{s.updatedAt}, sources...))
	}
	return sources
}

// isElsewhere reports whether packets can come in at a locator of ours that data do not leave from.
func (c *pathChoice) isElsewhere(now time.Time, s *session, at roam.L64) bool {
	return slices.ContainsFunc(c.host.usable(now), func(l *local) bool { return l.L64 == at }) &&
		!slices.ContainsFunc(s.entry.Paths, func(p Path) bool { return p.Local.L64 == at })
}
