package ilnp

import (
	"slices"
	"time"

	ilnpwire "roam/wire/ilnp"
)

// A full queue may swallow each probe of a path for seconds and pass nearly all data, as these take every place in it
// as soon as it is free. So while one of several paths in use is in doubt, the correspondent's counts of it are asked
// for along another one. As long as they show that data arrive, data stay. Where a queue was known before, the path is
// not avoided without such counts for a while: they may be late or lost themselves.
const (
	deliverLeast = 4                      // packets from which something is concluded
	deliverLasts = 3                      // waits for an answer, for which a report counts: the next one may be lost
	deliverWaits = 6                      // waits for an answer, within which counts are waited for
	deliverQueue = 50 * time.Millisecond  // a round trip longer than the least one by this, and twice it, is of a queue,
	deliverLong  = 200 * time.Millisecond // and one of this may be: the least one of a queue that stands is as long
	deliverLost  = 0.25                   // of the data at most: a path that passes and drops in turn loses more
)

// delivery is what is known of the data that a path in doubt takes.
type delivery struct {
	asked time.Time // since when counts are asked for, or when they last showed that data arrive
	at    time.Time // when they last did; zero: never
	still bool      // they showed that nothing arrives

	epochs    [2]uint32 // of the correspondent's counts, and of ours; zeros: what follows is not known
	sent      uint64    // packets, when that was noted last,
	missing   int64     // and those that had not arrived by the report before
	left, got uint64    // packets sent and received by the last report of this doubt
}

// askDelivery asks for the counts of a path in doubt, along the one of the others in use that has answered last.
func (c questions) askDelivery(now time.Time, s *session, h *checkedPath) {
	by := s.check.besides(s.entry.Paths, h)
	if by == nil || !s.asksReport() || !s.entry.Counted || !slices.Contains(s.entry.Paths, h.Path) {
		return
	}
	if d := &h.delivery; d.asked.IsZero() {
		d.asked = now
		if e := s.reports.estimates[h.Path]; e != nil {
			if m, known := e.Missing(); known {
				c.noteDelivery(s, h, [2]uint32{m.Epoch, m.OwnEpoch}, m.Out)
			}
		}
	}
	c.askAside(now, s, probe{path: by.Path, about: h.Path})
}

// besides returns the path in use beside another one that has answered last; nil: there is none.
func (k *pathCheck) besides(used []Path, h *checkedPath) (by *checkedPath) {
	for _, o := range k.paths {
		if o != h && o.avoided.IsZero() && slices.Contains(used, o.Path) && (by == nil || o.Heard().After(by.Heard())) {
			by = o
		}
	}
	return by
}

// noteDelivery notes what has been sent along a path, given what is missing of what was sent before.
func (c questions) noteDelivery(s *session, h *checkedPath, epochs [2]uint32, missing int64) {
	if own, ok := c.cfg.PathCounts(s.key, h.Path); ok && own.Epoch == epochs[1] {
		h.delivery.epochs, h.delivery.sent, h.delivery.missing = epochs, own.Sent.Packets, missing
	}
}

// takeDelivery takes the counts of a path in doubt. What arrives beyond all that was sent before has been sent since.
// By a report that shows so, what is missing is noted anew: the next one is to show as much.
func (c questions) takeDelivery(now time.Time, s *session, pr probe, r ilnpwire.Report) {
	h := s.check.find(pr.about)
	if h == nil || h.since.IsZero() || !h.avoided.IsZero() || !r.Other || !r.Counted || !pr.counted {
		return
	}
	d, left, got, epochs := &h.delivery, pr.left.Sent.Packets, r.Received.Packets, [2]uint32{r.Epoch, pr.left.Epoch}
	switch {
	case d.epochs != epochs:
		c.noteDelivery(s, h, epochs, int64(left-got))
	case int64(got)+d.missing-int64(d.sent) >= deliverLeast:
		d.at, d.asked, d.still = now, now, false
		c.noteDelivery(s, h, epochs, int64(left-got))
	case got == d.got && left >= d.left+deliverLeast:
		d.still = true
		return // what was sent since then counts
	}
	d.left, d.got = left, got
}

// delivers reports whether data arrive, for all that is known, on a path in doubt whose probes are waited for so long.
// Where a queue was known, counts are waited for, and longer if the path that they come by leaves probes unanswered.
func (h *checkedPath) delivers(now time.Time, s *session, wait time.Duration) bool {
	d := &h.delivery
	wait = max(wait, checkAgain)
	switch {
	case d.asked.IsZero() || h.IsLossy() && !passesData(now, s, h):
		return false
	case now.Sub(d.at) < deliverLasts*wait:
		return true
	case d.still || !hasQueue(now, s, h):
		return false
	}
	by := s.check.besides(s.entry.Paths, h)
	return now.Sub(d.asked) < deliverWaits*wait || by == nil || by.Heard().Before(d.asked.Add(wait))
}

// hasQueue reports whether a path's round trips are those of a queue.
func hasQueue(now time.Time, s *session, h *checkedPath) bool {
	e := s.reports.estimates[h.Path]
	if e == nil {
		return false
	}
	least := e.State(now).Least
	return h.Mean() >= min(max(2*least, least+deliverQueue), deliverLong)
}

// passesData reports whether a path that leaves many probes unanswered loses few of the data by its own reports, or
// has a queue that may swallow probes alone.
func passesData(now time.Time, s *session, h *checkedPath) bool {
	if hasQueue(now, s, h) {
		return true
	}
	e := s.reports.estimates[h.Path]
	if e == nil {
		return false
	}
	out := e.State(now).Out
	return out.LossKnown && out.Loss <= deliverLost
}
