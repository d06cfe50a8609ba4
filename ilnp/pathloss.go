package ilnp

import (
	"slices"
	"time"

	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// Data leave a path when it is avoided, left, or gone with its locator. What a move has cost in
// packets then shows once all that was under way has arrived or is lost: another path asks the
// correspondent for its counts of the path that was left. What is missing by these, and was not
// by the last report before, is lost. Of a session whose paths are not counted nothing is known.
const (
	lossAfter  = time.Second      // after data have left a path
	lossWithin = 10 * time.Second // after that nothing is asked for any longer
	lossTries  = 3                // probes that ask
	lossPaths  = 4                // of a session, at most
)

// LostPackets is what was lost on a path around the time when data left it.
type LostPackets struct{ Sent, Received uint64 }

// leftPath is a path that data have left.
type leftPath struct {
	Path
	at     time.Time
	tries  int
	before multipath.Missing
}

// noteLeft keeps the counts of paths that data leave, for paths that take their place.
func (c *steering) noteLeft(now time.Time, s *session, paths []Path) {
	s.left = slices.DeleteFunc(s.left, func(l leftPath) bool { return slices.Contains(paths, l.Path) })
	if !s.entry.Counted {
		return
	}
	for _, p := range s.entry.Paths {
		e := s.reports.estimates[p]
		if e == nil || slices.Contains(paths, p) || len(s.left) >= lossPaths {
			continue
		}
		if before, ok := e.Missing(); ok {
			s.left = append(s.left, leftPath{Path: p, at: now, before: before})
			c.arm(&s.schedule, timerLoss, now, lossAfter)
		}
	}
}

// lossTimeout asks for the counts of paths that data have left.
func (c *liveness) lossTimeout(now time.Time, s *session) {
	s.left = slices.DeleteFunc(s.left, func(l leftPath) bool {
		return l.tries >= lossTries || now.Sub(l.at) > lossWithin
	})
	if len(s.left) == 0 {
		c.endLoss(now, s)
		return
	}
	for i := range s.left {
		l := &s.left[i]
		if now.Sub(l.at) < lossAfter || len(s.entry.Paths) == 0 {
			continue
		}
		by := s.entry.Paths[l.tries%len(s.entry.Paths)]
		if h := s.check.find(by); h != nil && c.room(now, s, h) <= alongOwn {
			continue
		}
		l.tries++
		c.askAside(now, s, probe{path: by, about: l.Path})
	}
	c.arm(&s.schedule, timerLoss, now, lossAfter)
}

// takeLoss takes a report about a path that data have left. One that is not about that path, as
// of a Roam that knows no such question, says nothing.
func (c *liveness) takeLoss(now time.Time, s *session, pr probe, r ilnpwire.Report) {
	i := slices.IndexFunc(s.left, func(l leftPath) bool { return l.Path == pr.about })
	own, ok := c.cfg.PathCounts(s.key, pr.about)
	if i < 0 || !r.Other || !r.Counted || !pr.counted || !ok {
		return
	}
	before := s.left[i].before
	if r.Epoch != before.Epoch || own.Epoch != before.OwnEpoch || pr.left.Epoch != own.Epoch {
		return
	}
	s.left = slices.Delete(s.left, i, i+1)
	lost := LostPackets{
		Sent:     lostOf(pr.left.Sent.Packets, r.Received.Packets, before.Out),
		Received: lostOf(r.Sent.Packets, own.Received.Packets, before.In),
	}
	c.notify(Event{Time: now, Kind: PacketsLost, Key: s.key, Path: pr.about, Lost: &lost})
	if len(s.left) == 0 {
		c.endLoss(now, s)
	}
}

// endLoss has neither end count any longer for the sake of a path that was left. The correspondent
// goes by the last probe, and a session with one path may send no other.
func (c *liveness) endLoss(now time.Time, s *session) {
	c.disarm(&s.schedule, timerLoss)
	c.wishCounts(now, s, s.reports.wished)
	if !s.isSeveral(s.carriers()) && len(s.entry.Paths) > 0 {
		c.askAside(now, s, probe{path: s.entry.Paths[0]})
	}
}

// askAside sends a probe whose silence says nothing.
func (c *liveness) askAside(now time.Time, s *session, pr probe) {
	if h := s.check.find(pr.path); h != nil {
		h.left.note(now)
	}
	if s.encaps(pr.path) {
		pr.form = FormUDP
	}
	pr.moot, pr.lone = true, true
	c.sendProbe(now, c.ask(now, s), pr)
}

// lostOf returns how many more packets are missing than before. Of a peer's counts everything
// is believed that can be: at most all packets are lost.
func lostOf(left, arrived uint64, before int64) uint64 {
	return uint64(min(max(int64(left-arrived)-before, 0), int64(min(left, 1<<62))))
}
