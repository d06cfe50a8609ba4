package ilnp

import (
	"slices"
	"time"
)

// How a doubt about a path ends that leaves its probes without an answer: docs/design/liveness.md.

// askOthers probes what could take the place of a path in doubt.
func (c *liveness) askOthers(now time.Time, s *session, h *checkedPath) {
	for _, p := range append(slices.Clone(s.entry.Paths), c.others(now, s)...) {
		o := s.check.of(p)
		step := questions{c}.otherStep(now, s, c.timingOf(p), o)
		idle := o != h && o.since.IsZero() && o.avoided.IsZero() && now.Sub(o.last) >= step
		if idle && o.HeardTwice().Before(h.since) {
			c.probeAgain(now, s, o)
			questions{c}.askWay(now, s, p)
		}
	}
}

// endVanished ends the doubts about paths that are no more: from a locator that this host has lost, or to one that the
// correspondent has withdrawn, unless data take that as the last resort.
func (c questions) endVanished(now time.Time, s *session) {
	usable, inUse := placesOf(c.host.usable(now)), s.carriers()
	for _, h := range s.check.paths {
		isThere := slices.Contains(usable, h.Local) && s.remotes.standingOf(h.Remote) != dropped
		if !isThere && !slices.Contains(inUse, h.Path) {
			h.endDoubt()
			h.unanswered, h.confirmed = 0, time.Time{}
		}
	}
}

// answersBeside returns when to avoid a path in doubt, as another one has answered twice since; zero:
// none has. An answer that was late itself, and later than one of this path is waited for, gives this path several
// times as long: both may have become uneven at once. Then a single quick answer may be chance.
func (c *liveness) answersBeside(now time.Time, s *session, h *checkedPath, wait time.Duration) (fit time.Time) {
	for _, o := range s.check.paths {
		if o != h && o.avoided.IsZero() && !o.HeardTwice().Before(h.doubtedFrom()) {
			at := h.since
			if late := o.Late(now); late > wait {
				at = h.since.Add(min(unevenBy*late, checkAll))
			}
			fit = sooner(fit, at)
		}
	}
	return fit
}

// judge ends a doubt: all probes stayed without an answer.
func (c *liveness) judge(now time.Time, s *session, h *checkedPath, wait time.Duration) time.Time {
	fit := c.answersBeside(now, s, h, wait)
	switch {
	case h.isConfirmed(now):
		h.since = time.Time{} // our direction works: the acknowledgement says so
		return time.Time{}
	case c.awaitsConfirmation(now, s, h):
		return now.Add(checkAgain)
	case h.delivers(now, s):
		h.delivery.stays, h.tries = now, min(h.tries, h.Tries())
		c.complain(now, s, h) // no answer comes: the other direction may be dead
		c.probeAgain(now, s, h)
		return now.Add(max(wait, checkAgain))
	case !fit.IsZero() && (questions{c}).mayAwait(now, s, h):
		return now.Add(c.timingOf(h.Path).Every / 2)
	case now.Before(fit):
		questions{c}.probeUndecided(now, s, h, wait) // it may have come back since
		return sooner(fit, now.Add(max(wait, checkAgain)))
	case !fit.IsZero():
		c.avoid(now, s, h)
		return now.Add(checkAgain)
	case now.Sub(h.doubtedFrom()) >= max(checkAll, checkWaits*wait):
		h.since = time.Time{}
		c.handleSilence(now, s)
		return time.Time{}
	}
	c.askOthers(now, s, h)
	questions{c}.probeUndecided(now, s, h, wait)
	return now.Add(max(wait, checkAgain))
}

// avoid has data keep off a path. If that was the only one, and nothing at all came by it, the correspondent
// gets a complaint along the path that data take now: they keep it from being silent, so it would not
// doubt its own direction of the dead path by itself.
func (c *liveness) avoid(now time.Time, s *session, h *checkedPath) {
	if h.avoided, h.good = now, 0; h.since.IsZero() { // no probe has shown it
		h.since, h.mute = now, false
	}
	h.Leave(now)
	c.doubtRate(now, s, h.Path)
	c.notify(Event{Time: now, Kind: PathAvoided, Key: s.key, Path: h.Path})
	if c.refresh(now, s); h.silent && !h.mute {
		questions{c}.complainBeside(now, s, h.Path)
	}
}
