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
	questions{c}.askAbout(now, s, h.Path)
}

// askAbout asks for the counts of a path along another one that has answered of late, in use if there is one, and
// reports whether there is any.
func (c questions) askAbout(now time.Time, s *session, about Path) bool {
	if !s.asksReport() || !s.entry.Counted {
		return false
	}
	paths := append(slices.Clone(s.entry.Paths), c.others(now, s)...)
	i := slices.IndexFunc(paths, func(p Path) bool {
		o := s.check.find(p)
		return p != about && o != nil && o.avoided.IsZero() && o.confirmed.IsZero() && now.Sub(o.Heard()) < checkLately &&
			c.room(now, s, o) > alongOwn
	})
	if i >= 0 {
		c.askAside(now, s, probe{path: paths[i], about: about})
	}
	return i >= 0
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
