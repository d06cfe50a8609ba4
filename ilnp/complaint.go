package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// The two directions of a path die apart, and a probe shows only that both live. A host that
// hears nothing on a path therefore complains: it repeats the set of locators that its
// correspondent has, along that path alone.

// endSplit has the correspondent send where our own data leave, as nothing comes at the
// locators that were kept for its direction alone: paths of which our direction had died before are dead
// in both now.
func (c *liveness) endSplit(now time.Time, s *session) {
	at := s.check.heardAt
	if len(at) == 0 {
		return
	}
	s.check.heardAt = nil
	for _, h := range slices.Clone(s.check.paths) {
		if !at[h.Local.L64].IsZero() && !h.avoided.IsZero() {
			c.leave(now, s, h)
		}
	}
	c.refresh(now, s)
	c.complainAlong(now, s, func(Path) bool { return true }) // if the set is still the same
}

// complain sends the set that the correspondent knows along a path from which nothing comes
// back, and along no other.
func (c *liveness) complain(now time.Time, s *session, h *checkedPath) {
	r := s.remotes.find(h.Remote)
	if h.mute || !s.runsRoam() || r == nil || !r.validated { // what is only named gets probes, within their bounds
		return
	}
	c.noteOnlyLocator(s)
	if s.update.state != acknowledged || now.Sub(s.update.last) < checkQuiet || !s.update.lists(h.Local.L64) {
		return
	}
	sooner, isApart := questions{c}.apart(now, s, h)
	beside := s.check.saidBeside(now, h)
	again := h.tries > 2 && h.confirmed.IsZero() || !h.avoided.IsZero()
	if now.Sub(h.complained) < complainEvery*time.Duration(1+beside/complainAtOnce) || again && beside > 0 && !isApart {
		return // the acknowledgement could be that of another path's complaint, and would count for neither
	}
	h.complained = now
	questions{c}.say(now, s, h, sooner)
}

// saying is a set of locators that was repeated along one path, with lifetimes that end so many seconds sooner.
type saying struct {
	askedWay
	sooner uint32
}

// Several paths may complain within the time in which the acknowledgement of one may come. By their lifetimes each
// complaint is known as another one than the rest, as that of complainBeside is: complainAtOnce of them leave in
// complainEvery, and the more there are, the more rarely each path complains.
const (
	complainAtOnce = 3
	ackSpread      = 3 // seconds by which the lifetimes in complaints along one path may differ within checkAll
)

// apart returns by how many seconds the lifetimes in a path's complaint end sooner, so that it differs from all that
// was said along other paths of late; false: they are too short for that.
func (c questions) apart(now time.Time, s *session, h *checkedPath) (sooner uint32, ok bool) {
	isTaken := func(o *checkedPath) bool {
		return o != h && now.Sub(o.said.sent) < besideLasts && o.said.sooner == sooner
	}
	for slices.ContainsFunc(s.check.paths, isTaken) {
		sooner = max(sooner, besideSooner) + besideSooner
	}
	if sooner > 0 && !c.lasts(now, s, sooner) {
		return 0, false
	}
	return sooner, true
}

// lasts reports whether all lifetimes that the host announces are long enough to end so many seconds sooner.
func (c questions) lasts(now time.Time, s *session, sooner uint32) bool {
	return s.form != ilnpwire.FormLinux && !slices.ContainsFunc(s.update.listing, func(l listed) bool {
		end, known := c.host.expiry(now, l.l64)
		return !known || remaining(now, end) <= 4*time.Duration(sooner)*time.Second // renewed at 3/4
	})
}

// saidBeside returns along how many other paths an update was repeated whose acknowledgement may still come.
func (k *pathCheck) saidBeside(now time.Time, h *checkedPath) (n int) {
	for _, o := range k.paths {
		if o != h && now.Sub(o.said.sent) < checkQuiet {
			n++
		}
	}
	return n
}

// noteOnlyLocator takes the set as known to a correspondent that was never told of it: it sees our only
// locator on our packets.
func (c *liveness) noteOnlyLocator(s *session) {
	if list := c.listingFor(s, s.entry.Paths); s.update.state == untold && len(list) == 1 {
		s.update.listing, s.update.state = list, acknowledged
	}
}

// complainOfSilence complains where a session hears nothing again and again although its path
// answers probes: programs answer along the path of the probe, and the data of the
// correspondent leave by another one, which may be dead. That, or it has nothing
// to say, so there are half as many complaints each time.
func (c *liveness) complainOfSilence(now time.Time, s *session) {
	k := &s.check
	if slices.ContainsFunc(k.paths, func(h *checkedPath) bool { return now.Sub(h.complained) < checkQuiet }) {
		return // whose acknowledgement may be late
	}
	if now.Sub(k.mute) > checkTraffic {
		k.mutes = 0
	}
	k.mute = now
	k.mutes++
	if k.mutes > 1 {
		c.suspectLoss(now, s)
	}
	if n := k.mutes; n >= 2 && n&(n-1) == 0 {
		c.complainAlong(now, s, func(p Path) bool { return now.Sub(k.of(p).Heard()) <= checkTraffic })
	}
}

// complainAlong complains along one of the paths in use that is fit for it.
func (c *liveness) complainAlong(now time.Time, s *session, fit func(Path) bool) {
	if p, ok := (questions{c}).wayOfComplaint(s, fit); ok {
		c.repeatAlong(now, s, p)
	}
}

// wayOfComplaint returns one of the paths in use that a complaint may go along.
func (c questions) wayOfComplaint(s *session, fit func(Path) bool) (Path, bool) {
	c.noteOnlyLocator(s)
	i := slices.IndexFunc(s.entry.Paths, func(p Path) bool {
		r := s.remotes.find(p.Remote)
		return r != nil && r.validated && s.update.lists(p.Local.L64) && fit(p)
	})
	if i < 0 || s.update.state != acknowledged {
		return Path{}, false
	}
	return s.entry.Paths[i], true
}

// besideLasts is for how long the acknowledgement of a complaint of complainBeside may come, and besideSooner by how
// many seconds the lifetimes in it are shorter than those of any other complaint of that time, which may itself be
// rounded.
const (
	besideLasts  = 4 * checkAll
	besideSooner = uint32(besideLasts/time.Second) + 2
)

// complainBeside complains along the path that data take instead of the only one, left, by which nothing came any
// more. What comes from here keeps the correspondent from being silent, so it would not doubt its direction of
// that path by itself. Its acknowledgement must not pass for that of the complaint along left, which may be
// late (see confirmPaths): by its lifetimes it is known as another one.
func (c questions) complainBeside(now time.Time, s *session, left Path) {
	p, ok := c.wayOfComplaint(s, func(p Path) bool { return p != left })
	if !ok || !c.lasts(now, s, besideSooner) {
		return
	}
	k := &s.check
	sent := askedWay{sent: now, list: c.sendAlong(now, s, p, s.update.listing, besideSooner)}
	k.beside = append(slices.Clone(k.beside[max(0, len(k.beside)-1):]), sent)
}

// isOfBeside reports whether an acknowledgement is that of complainBeside.
func (k *pathCheck) isOfBeside(now time.Time, lu ilnpwire.LocatorUpdate) bool {
	return slices.ContainsFunc(k.beside, func(b askedWay) bool {
		return now.Sub(b.sent) < besideLasts && slices.Equal(b.list, lu.Locators)
	})
}

// updateAlong repeats an update that waits in vain for its acknowledgement along a path that has
// just answered a probe, to a locator where it has not been sent yet: its transmissions
// alternate over all that is known, ever more rarely, and most of that may be where the
// correspondent was before it moved.
func (c *liveness) updateAlong(now time.Time, s *session, p Path) {
	u, r := &s.update, s.remotes.find(p.Remote)
	if u.state != awaiting && u.state != slow || u.tries < 2 || slices.Contains(u.toward, p.Remote) ||
		r == nil || !r.validated || !u.lists(p.Local.L64) {
		return
	}
	c.repeatAlong(now, s, p)
	u.toward = append(u.toward, p.Remote)
	c.notify(Event{Time: now, Kind: UpdateSent, Key: s.key, Locators: locatorsOf(u.listing), Path: p})
}

// repeatAlong repeats the newest set of locators along a path.
func (c *liveness) repeatAlong(now time.Time, s *session, p Path) {
	questions{c}.say(now, s, s.check.of(p), 0)
}

// say repeats the newest set along a path, with lifetimes that end so many seconds sooner.
func (c questions) say(now time.Time, s *session, h *checkedPath, sooner uint32) {
	h.said = saying{askedWay{now, c.sendAlong(now, s, h.Path, s.update.listing, sooner)}, sooner}
}

// sendAlong sends a set of locators along a path beside the exchange of the newest set, with lifetimes that end
// so many seconds sooner, and returns what it sent.
func (c *liveness) sendAlong(now time.Time, s *session, p Path, list []listed, sooner uint32) []ilnpwire.LocatorEntry {
	was := s.update // what it says of lifetimes may be lost
	s.update.told, s.update.listing = slices.Clone(was.told), list
	lu := c.composeUpdate(now, s)
	for i := range lu.Locators {
		e := &lu.Locators[i]
		n := slices.IndexFunc(was.listing, func(l listed) bool { return l.l64 == e.L64 })
		if n >= 0 && n < len(was.told) { // the correspondent is not renewed before what it has ends
			e.Lifetime = max(e.Lifetime, wireLifetime(remaining(now, was.told[n]), s.form))
		}
		e.Lifetime -= sooner
	}
	overNIDs := s.update.isOverNIDs(s.profile)
	s.update = was
	if b, ok := c.buildUpdate(p, s, lu, overNIDs && !s.encaps(p)); ok {
		c.transmitControl(now, s, p, b, s.encaps(p))
	}
	return lu.Locators
}

// confirmPaths takes an acknowledgement that came over a path: complaints along others have
// arrived. A path that was avoided before it came is used again at once. If the complaint left later,
// the path may have healed, and the probe that went with it is waited for. It shows nothing if it may be
// that of another update, nor of a locator of ours at which nothing has come since it is in the set: a
// correspondent that could not validate it may not accept data from there.
func (c *liveness) confirmPaths(now time.Time, s *session, by Path, lu ilnpwire.LocatorUpdate) {
	for _, h := range slices.Clone(s.check.paths) {
		if h.Path == by || now.Sub(h.complained) >= checkAll || h.since.IsZero() || h.complained.Before(h.since) ||
			!slices.Contains(s.arrivals, h.Local.L64) || !s.isOfComplaint(h, lu) {
			continue
		}
		if h.confirmed = now; h.complained.Before(h.avoided) && h.isOneWay() {
			h.Stay() // it was no flap
			c.useAgain(now, s, h)
		}
	}
}

// isOneWay reports whether an avoided path has shown that our direction lives, and no answer that both do.
func (h *checkedPath) isOneWay() bool {
	return !h.avoided.IsZero() && !h.swallows && !h.IsLossy() && !h.Heard().After(h.avoided) &&
		!h.confirmed.Before(h.complained)
}

// isConfirmed reports whether the last complaint was acknowledged over another path, and was of
// this doubt or shortly before.
func (h *checkedPath) isConfirmed(now time.Time) bool {
	return !h.confirmed.IsZero() && !h.confirmed.Before(h.complained) && !h.confirmed.Before(h.contested) &&
		now.Sub(h.complained) < max(now.Sub(h.since), 3*complainEvery)
}

// isOfComplaint reports whether an acknowledgement is that of the complaint along a path, and of no update that left
// otherwise shortly before, or since.
func (s *session) isOfComplaint(h *checkedPath, lu ilnpwire.LocatorUpdate) bool {
	from := h.complained.Add(-checkQuiet)
	isOther := func(o *checkedPath) bool { return o != h && o.said.sent.After(from) && o.said.isAcked(lu) }
	return h.said.isAcked(lu) && !s.update.last.After(from) && !slices.ContainsFunc(s.check.paths, isOther)
}

// isAcked reports whether an acknowledgement may be that of an update, or of the same one shortly before.
func (w saying) isAcked(lu ilnpwire.LocatorUpdate) bool {
	return lu.Form == ilnpwire.FormLinux || slices.EqualFunc(w.list, lu.Locators, func(a, b ilnpwire.LocatorEntry) bool {
		return a.L64 == b.L64 && a.Preference == b.Preference && b.Lifetime-a.Lifetime <= ackSpread
	})
}

// awaitsConfirmation reports whether a path in doubt has been the living one of two directions, and
// the acknowledgement of the complaint may only be late, or one of the two lost. Then the host complains
// again.
func (c *liveness) awaitsConfirmation(now time.Time, s *session, h *checkedPath) bool {
	patience := checkAll
	if h.contested.After(h.confirmed) {
		patience = complainAgain
	}
	if h.confirmed.IsZero() || h.mute || now.Sub(h.since) >= patience {
		return false
	}
	c.complain(now, s, h)
	return true
}

// complaint takes a Locator Update that changes nothing, and came over a path: the
// correspondent may hear nothing on it. It is acknowledged elsewhere too, and what we
// send along that path is in doubt, or all that we send, where none goes along it.
func (c *liveness) complaint(now time.Time, s *session, by Path, ack func(Path)) {
	if c.cfg.Liveness == nil || s.state != Established || !s.runsRoam() {
		return
	}
	if s.check.heardAt == nil {
		s.check.heardAt = make(map[roam.L64]time.Time)
	}
	s.check.heardAt[by.Local.L64] = now
	elsewhere := slices.DeleteFunc(append(slices.Clone(s.entry.Paths), c.others(now, s)...), func(p Path) bool {
		return p.Local.L64 == by.Local.L64 && p.Remote == by.Remote || !s.update.lists(p.Local.L64)
	})
	if len(elsewhere) > 0 {
		ack(elsewhere[0])
	}
	if !c.checks(now, s) || now.Sub(s.check.heeded) < complainEvery {
		return
	}
	s.check.heeded = now
	c.suspectLoss(now, s)
	doubted := slices.DeleteFunc(slices.Clone(s.entry.Paths), func(p Path) bool { return p != by })
	if len(doubted) == 0 {
		doubted = s.entry.Paths
	}
	for _, p := range slices.Clone(doubted) {
		h := s.check.of(p)
		isOneWay := p != by && !h.confirmed.IsZero() // then an acknowledgement decides
		if h.contested = now; p == by {
			h.confirmed = time.Time{}
		}
		if !h.avoided.IsZero() || !h.since.IsZero() && h.tries > 1 {
			continue
		}
		if h.since.IsZero() {
			c.question(now, s, h)
		}
		h.mute, h.sampled = !isOneWay, false
		c.askOthers(now, s, h)
	}
	c.stepCheck(now, s)
}

// isSplit reports whether data leave by an only path while the correspondent's come by another one, of
// which our direction has died.
func (s *session) isSplit() bool {
	return s.isAvoiding() && slices.ContainsFunc(slices.Collect(maps.Keys(s.check.heardAt)), s.isHeardAt)
}

// isHeardAt reports whether the correspondent is heard at a locator of ours that our own
// packets do not leave from, as they do not get through. Where no path is dead, what looked like
// a complaint was the renewal of a lifetime.
func (s *session) isHeardAt(l roam.L64) bool {
	isAvoided := func(h *checkedPath) bool { return h.Local.L64 == l && !h.avoided.IsZero() }
	return !s.check.heardAt[l].IsZero() && (slices.ContainsFunc(s.check.paths, isAvoided) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(s.bad)), func(p Path) bool { return p.Local.L64 == l }))
}

// lists reports whether the correspondent's set is already the one that an update lists,
// lifetimes aside.
func (s *session) lists(list []ilnpwire.LocatorEntry) bool {
	n := 0
	for _, r := range s.remotes {
		if r.standing == current {
			n++
		}
	}
	return n == len(list) && !slices.ContainsFunc(list, func(e ilnpwire.LocatorEntry) bool {
		r := s.remotes.find(e.L64)
		return r == nil || r.standing != current || uint32(r.preference) != e.Preference || e.Lifetime == 0
	})
}
