package ilnp

import (
	"slices"
	"time"

	"roam"
)

// A firewall in front of the correspondent that admits only answers drops our probes, which are requests, and our
// acknowledgements of its updates, but no data of a flow on which the correspondent sends. So the path seems dead, and
// is not.

// probeAgain probes a path in the form that is known to get through. One in doubt is asked in UDP, too, if the
// correspondent has sent some there: a firewall in front of it that admits only answers drops our requests in the
// form of the RFCs, and admits those in UDP, and data. It reports whether there was room for all of that: a probe in
// one form alone might leave for nothing.
func (c *liveness) probeAgain(now time.Time, s *session, h *checkedPath) bool {
	forms := questions{c}.formsAgain(now, s, h)
	if c.room(now, s, h) < len(forms) {
		h.last = now
		return false
	}
	h.noteProbe(now)
	h.own = now
	c.probes.forget(&s.sent, now.Add(-tokenLife))
	for _, form := range forms {
		h.left.note(now)
		c.sendProbe(now, c.ask(now, s), probe{path: h.Path, form: form, moot: true, lone: true})
	}
	return true
}

// formsAgain returns the forms of the next probe of a path.
func (c questions) formsAgain(now time.Time, s *session, h *checkedPath) []ProbeForm {
	isDoubted := !h.avoided.IsZero() || !h.since.IsZero() && (h.tries > 0 || h.mute)
	switch {
	case s.encaps(h.Path), h.inUDP && !isDoubted:
		return []ProbeForm{FormUDP}
	case !isDoubted || !s.passages[h.Path].opened || !c.hasUDP(s):
		return []ProbeForm{FormOption}
	}
	forms := []ProbeForm{FormOption, FormUDP}
	if h.tries >= formsBoth && s.check.hasManyDoubts(now, s.bad) {
		return forms[(h.tries+1)%2:][:1]
	}
	return forms
}

// noteProbe takes that a probe leaves along a path.
func (h *checkedPath) noteProbe(now time.Time) {
	h.tries++
	h.unanswered++
	h.last = now
}

// noteAnswer takes the form of an answer. UDP counts alone in a doubt that the other form has left without an answer.
func (h *checkedPath) noteAnswer(now time.Time, form ProbeForm) {
	switch {
	case form == FormOption:
		h.inUDP, h.inOption = false, now
	case !h.since.IsZero() && h.inOption.Before(h.since):
		h.inUDP = true
	}
}

// listedPaths returns the paths to the validated locators that the correspondent lists.
func (c *pathChoice) listedPaths(now time.Time, s *session) []Path {
	var listed []roam.L64
	for _, r := range s.remotes {
		if r.standing == current && r.validated {
			listed = append(listed, r.l64)
		}
	}
	return c.obstructed.without(s.remoteNID, pairs(placesOf(c.host.usable(now)), listed))
}

// trustLast has data take the paths to what the correspondent still lists, as it has dropped another locator. If data
// keep off all of them, there is nothing better any more: nothing arrives where it has left. They may only have left
// our questions without an answer.
func trustLast(s *session, listed []Path) {
	if slices.ContainsFunc(listed, func(p Path) bool { return !s.bad[p] && !s.avoids(p) }) {
		return
	}
	for _, p := range listed {
		delete(s.bad, p)
		if h := s.check.find(p); h != nil {
			h.endDoubt()
		}
	}
}
