package ilnp

import (
	"slices"
	"time"

	ilnpwire "roam/wire/ilnp"
)

// Where only our direction of a path lives, none of its probes is answered. An acknowledged complaint
// has shown that it lives, and the next one would show its death too late: data leave by other paths as well,
// so the host is not silent. The correspondent's counts of that path, asked for along another one, show it
// as soon as any death.

// aside is what the counts of a path have shown that another path brought.
type aside struct {
	epoch, ownEpoch uint32
	left, got       uint64    // packets sent and received by the last report in which something had arrived
	since           time.Time // of the first report after that by which more had been sent; zero: there was none
	still           int       // reports since then
}

// asideStill is how many reports in a row must contain nothing new, of as many packets at least as chance loses
// together once in a million.
const asideStill = 2

// askAlive asks for the counts of a path of which only our direction lives, along another one in use.
func (c *liveness) askAlive(now time.Time, s *session, h *checkedPath) {
	if now.Sub(h.confirmed) < checkAll {
		questions{c}.askAbout(now, s, h.Path)
	}
}

// askAbout asks for the counts of a path along another one that has answered of late, in use if there is one, and
// reports whether there is any.
func (c questions) askAbout(now time.Time, s *session, about Path) bool {
	if !s.asksReport() || !s.entry.Counted {
		return false
	}
	by := c.lenderOf(now, s, about, s.entry.Paths)
	if by == nil {
		by = c.lenderOf(now, s, about, c.others(now, s))
	}
	if by == nil {
		return false
	}
	by.lent = now
	if s.check.isCrowded(now, s.bad) { // it is the probe of that path, too
		if by.since.IsZero() && slices.Contains(s.carriers(), by.Path) {
			by.begin(now)
		}
		by.noteProbe(now)
	}
	c.askAside(now, s, probe{path: by.Path, about: about})
	return true
}

// lenderOf returns the one of several paths along which to ask about another one: of those that have answered of late
// the one that was asked along longest ago.
func (c questions) lenderOf(now time.Time, s *session, about Path, paths []Path) (by *checkedPath) {
	for _, p := range paths {
		o := s.check.find(p)
		isFit := p != about && o != nil && o.avoided.IsZero() && o.confirmed.IsZero() && now.Sub(o.Heard()) < checkLately
		kept := alongOwn
		if isFit && o.since.IsZero() && now.Sub(o.own) < ownLeast*c.timingOf(p).Every {
			kept = 0 // where there is so little, it takes the place of that path's own probe
		}
		if isFit && c.room(now, s, o) > kept && (by == nil || o.lent.Before(by.lent)) {
			by = o
		}
	}
	return by
}

// takeAlive takes the counts of a path of which only our direction lived, and avoids it if nothing has
// arrived for longer than its round trip.
func (c *liveness) takeAlive(now time.Time, s *session, pr probe, r ilnpwire.Report) {
	h := s.check.find(pr.about)
	if h == nil || h.confirmed.IsZero() || !h.avoided.IsZero() || !r.Other || !r.Counted || !pr.counted {
		return
	}
	a, left, got := &h.aside, pr.left.Sent.Packets, r.Received.Packets
	switch {
	case a.epoch != r.Epoch || a.ownEpoch != pr.left.Epoch || got != a.got:
		*a = aside{epoch: r.Epoch, ownEpoch: pr.left.Epoch, left: left, got: got}
		return
	case left <= a.left:
		return
	case a.since.IsZero():
		a.since = now
	}
	a.still++
	if a.still >= asideStill && left-a.left >= uint64(h.Tries()) &&
		now.Sub(a.since) >= h.Wait(c.timingOf(h.Path), s.rtt) {
		h.confirmed, h.aside = time.Time{}, aside{}
		c.avoid(now, s, h)
	}
}
