package ilnp

import (
	"slices"
	"time"

	"roam/multipath"
)

// If many paths die at once, what is asked about each of them would fill the few that live: all answers, and all questions
// about counts (see askDelivery), share these. So from the third path in doubt on, both ends space what they send along
// one path. The questions about counts take turns, and are probes of the path that they go along as well. Few of the
// paths in doubt get a turn before their doubt is decided; the others are judged by answers alone, unless they share a
// locator with one that delivers, or of which that is about to show: a full queue would swallow the probes of both.
const (
	doubtsMany  = 3  // paths in doubt, or that have left many probes in a row without an answer
	lendMost    = 3  // questions about counts along one path, in units of Timing.Every, may follow each other at once;
	lendPart    = 5  // then one comes in so many
	lendParts   = 4  // of so many parts of Timing.Every
	ownLeast    = 4  // a path is asked for its own counts once in so many regular probes, at least
	formsBoth   = 3  // probes of a doubt that leave in both forms at once, before the forms take turns
	othersQuick = 2  // probes of another path that follow each other at once, before they do so ever more slowly
	probesQuick = 12 // without an answer: from then on a path of which nothing is decided is probed as any other
)

// A path that was found dead counts for so long after its last probe among those that show others to be dead, and among
// those that share what may be asked.
const (
	deadLasts  = 2 * probeMax
	deadCrowds = 2 * alongIn
)

// doubtsErred is for how long an answer shows that queues may be full.
const doubtsErred = deliverMost

// hasManyDoubts reports whether so many paths seem dead that has not been decided of that what is asked is spaced.
func (k *pathCheck) hasManyDoubts(now time.Time, bad map[Path]bool) bool {
	return !k.hasErred(now) && k.countDoubts(now, bad) >= doubtsMany
}

// hasManyDead reports whether so many paths have been found dead that one which nothing shows to work probably is, too.
func (k *pathCheck) hasManyDead(now time.Time, bad map[Path]bool) bool {
	return k.countDead(now.Add(-deadLasts), bad) >= doubtsMany
}

// isCrowded reports whether so many paths seem dead, or have been found dead and are probed, that few probes are left
// for each.
func (k *pathCheck) isCrowded(now time.Time, bad map[Path]bool) bool {
	return !k.hasErred(now) && k.countDoubts(now, bad)+k.countDead(now.Add(-deadCrowds), bad) >= doubtsMany
}

// hasErred reports whether answers show that queues may be full: each path is then to be judged by its counts.
func (k *pathCheck) hasErred(now time.Time) bool {
	return !k.erred.IsZero() && now.Sub(k.erred) < doubtsErred
}

// countDoubts returns of how many paths that seem dead nothing has been decided: of one that is confirmed our direction
// lives, and no answer is expected.
func (k *pathCheck) countDoubts(now time.Time, bad map[Path]bool) (n int) {
	for _, h := range k.paths {
		isAsked := h.unanswered > othersQuick && h.left.newest().After(now.Add(-deadCrowds))
		isMissed := !h.since.IsZero() && h.missed || h.since.IsZero() && isAsked
		if h.avoided.IsZero() && h.confirmed.IsZero() && !bad[h.Path] && isMissed {
			n++
		}
	}
	return n
}

// countDead returns how many paths data keep off, or have left, that were probed later than since: some are not any
// more.
func (k *pathCheck) countDead(since time.Time, bad map[Path]bool) (n int) {
	for _, h := range k.paths {
		if (!h.avoided.IsZero() || bad[h.Path]) && h.left.newest().After(since) {
			n++
		}
	}
	return n
}

// showsQueue reports whether an answer shows that a queue may be full: it comes later than it was waited for, or the path
// has left as many probes in a row without an answer, for as long, as a dead one would.
func (c questions) showsQueue(now time.Time, s *session, h *checkedPath, sent time.Time) bool {
	isLate := h.Mean() > 0 && now.Sub(sent) > h.Wait(c.timingOf(h.Path), s.rtt)
	return isLate || !h.since.IsZero() && h.avoided.IsZero() && h.missed && h.tries >= h.Tries() && c.isLate(now, h)
}

// otherStep returns the least time between the probes that ask whether a path could take another one's place.
func (c questions) otherStep(now time.Time, s *session, t multipath.Timing, o *checkedPath) time.Duration {
	if o.unanswered <= othersQuick || !s.check.hasManyDoubts(now, s.bad) {
		return t.Step
	}
	return min(t.Step<<min(o.unanswered-othersQuick, 8), t.Every)
}

// probeUndecided probes a path in doubt of which nothing is decided yet.
func (c questions) probeUndecided(now time.Time, s *session, h *checkedPath, wait time.Duration) {
	every := time.Duration(0)
	if s.check.hasManyDoubts(now, s.bad) {
		every = max(wait, checkAgain)
		if h.unanswered > probesQuick {
			every = max(every, c.timingOf(h.Path).Every)
		}
	}
	if now.Sub(h.last) >= every {
		c.probeAgain(now, s, h)
	}
}

// askInTurn is askDelivery where many paths are in doubt.
func (c questions) askInTurn(now time.Time, s *session, h *checkedPath) {
	d := &h.delivery
	by, isAny := c.lender(now, s, h)
	d.alone, d.late = !isAny || !c.isCounted(now, s, h), !d.asked.After(h.since) && c.isLate(now, h)
	isLate := d.late && by != nil && by.Heard().After(h.since) && !s.check.passesBeside(h)
	d.waits = !d.alone && (by == nil || isLate || s.check.goesBefore(h))
	if !c.mayAsk(now, s, d, by) {
		return
	}
	if by.since.IsZero() && slices.Contains(s.carriers(), by.Path) {
		by.begin(now)
	}
	by.noteProbe(now)
	c.askAside(now, s, probe{path: by.Path, about: h.Path})
}

// lender returns the path along which to ask about one in doubt: of those that have answered in this doubt the one that
// did last. While none has, which decides nothing, it is another one in use, once the doubt has lasted. It is nil if
// each has lent enough of late; isAny is false if there is none.
func (c questions) lender(now time.Time, s *session, h *checkedPath) (by *checkedPath, isAny bool) {
	isLate, hasAnswer := c.isLate(now, h), false
	for _, o := range s.check.paths {
		answers := o.Heard().After(h.since)
		mayAnswer := o.confirmed.IsZero() && slices.Contains(s.entry.Paths, o.Path)
		if o == h || !o.avoided.IsZero() || !answers && (hasAnswer || !mayAnswer) {
			continue
		}
		if answers && !hasAnswer {
			by, hasAnswer = nil, true
		}
		isAny = true
		spent := o.lentUntil
		if answers {
			spent = spent.Add(-lendMost * c.timingOf(o.Path).Every)
		}
		if (answers || isLate) && !now.Before(spent) && (by == nil || o.Heard().After(by.Heard())) {
			by = o
		}
	}
	return by, isAny
}

// lend takes that a question about another path leaves along one.
func (c questions) lend(now time.Time, by *checkedPath) {
	every := c.timingOf(by.Path).Every
	by.lentUntil = later(by.lentUntil, now).Add(every * lendPart / lendParts)
	// Questions about one or two paths leave as they must; what they take is not missing for long when there are more.
	if most := now.Add((lendMost + 1) * every); by.lentUntil.After(most) {
		by.lentUntil = most
	}
}

// isLate reports whether a doubt has lasted as long as it takes to decide it.
func (c questions) isLate(now time.Time, h *checkedPath) bool {
	return now.Sub(h.since) >= c.timingOf(h.Path).Doubt
}

// mayAwait reports whether the counts of a path in doubt may still come, and the doubt lasts until they do. Where many
// paths are dead there may be no room for the questions, and it ends in time without them.
func (c questions) mayAwait(now time.Time, s *session, h *checkedPath) bool {
	isInTime := !c.isLate(now, h) || !s.check.isCrowded(now, s.bad)
	return isInTime && h.delivery.answers < deliverCounts && h.awaitsCounts(now, s)
}

// goesBefore reports whether a question about another path in doubt comes first: one whose counts have been asked for
// but once in this doubt, else that about which nothing was asked for longest.
func (k *pathCheck) goesBefore(than *checkedPath) bool {
	return slices.ContainsFunc(k.paths, func(o *checkedPath) bool {
		if o == than || !o.delivery.waits || o.delivery.late || o.since.IsZero() || !o.avoided.IsZero() {
			return false
		}
		if o.isHalfAsked() != than.isHalfAsked() {
			return o.isHalfAsked()
		}
		return o.delivery.asked.Before(than.delivery.asked)
	})
}

// isHalfAsked reports whether a path's counts have been asked for in this doubt, and do not decide it yet.
func (h *checkedPath) isHalfAsked() bool {
	return h.delivery.asked.After(h.since) && h.delivery.answers < deliverCounts
}

// isAskedBeside reports whether another path in doubt that shares a locator with one delivers, or may show that it does.
func (k *pathCheck) isAskedBeside(now time.Time, h *checkedPath) bool {
	return k.passesBeside(h) || slices.ContainsFunc(k.paths, func(o *checkedPath) bool {
		return o.isBeside(h) && o.isHalfAsked() && now.Sub(o.since) < checkAll
	})
}

// passesBeside reports whether another path in doubt that shares a locator with one delivers.
func (k *pathCheck) passesBeside(h *checkedPath) bool {
	return slices.ContainsFunc(k.paths, func(o *checkedPath) bool {
		return o.isBeside(h) && o.delivery.passes && o.delivery.from.After(o.since)
	})
}

// isBeside reports whether a path is in doubt, and shares a locator with another one.
func (h *checkedPath) isBeside(o *checkedPath) bool {
	return h != o && (h.Local == o.Local || h.Remote == o.Remote) && !h.since.IsZero() && h.avoided.IsZero()
}
