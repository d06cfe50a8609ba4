package ilnp

import (
	"slices"
	"time"

	ilnpwire "roam/wire/ilnp"
)

// A queue that stays full may swallow each probe of a path for many seconds and pass nearly all data, as these take
// each place in it as soon as it is free. The correspondent's counts alone tell such a path from a dead one. So while
// one of several paths in use is in doubt, they are asked for along another one, by whose answers the doubt is decided
// anyway. If nearly all that has left within the doubt has arrived, data stay.
const (
	deliverLeast  = 16                    // packets from which something is concluded
	deliverParts  = 4                     // of so many parts of the data
	deliverLost   = 1                     // this many may be lost: of a path that loses more another one is better
	deliverCounts = 2                     // answers that show what arrives: the counts before, and those after
	deliverAsks   = 32                    // questions in a row that may stay without an answer: full queues swallow
	deliverMost   = 30 * time.Second      // of doubt: then data leave whatever the correspondent counts
	deliverEvery  = 15 * time.Millisecond // between the questions along one path, whatever they are about
)

// arrived is what the correspondent has counted of a path, and what had been sent along it when it was asked.
type arrived struct {
	epoch, ownEpoch uint32
	left, got       uint64 // packets
	slack           uint64 // which may have been under way, at most
	asked           time.Time
}

// delivery is what the counts of a path have shown that another path brought.
type delivery struct {
	asked   time.Time // when they were last asked for,
	asks    int       // and how often since the last answer
	waits   bool      // for its turn on the path along which to ask
	late    bool      // for its first turn in this doubt, which has lasted long
	alone   bool      // there is no such path
	answers int       // that have come in this doubt, with counts or without
	base    arrived   // with which the next counts are compared
	from    time.Time // since when packets have left of which the last comparison says
	seen    time.Time // at this time
	passes  bool      // that nearly all have arrived
	stays   time.Time // when the doubt last ended in this path's favour
	only    time.Time // when counts of the only path were last asked for (see askOnly)
	lossy   time.Time // since when data wait for counts of the only path (see losesData)
}

// reset begins another doubt. If hardly any probe of the path has stayed without an answer of late, counts of before no
// longer say that it loses probes and passes data, as behind a full queue or while one direction was dead. Compared
// with them, those of its death would say so too: of what has left between the two nearly all arrived.
func (d *delivery) reset(isClean bool) {
	d.asks, d.answers, d.waits, d.late, d.alone = 0, 0, false, false, false
	d.stays = time.Time{}
	if isClean {
		d.base, d.passes = arrived{}, false
	}
}

// askDelivery asks for the counts of one of several paths in use that is in doubt, along the one that has answered
// last of the others in use and of those that have answered in this doubt. Where there is none no answer is awaited.
// Questions about several paths along one take turns: that about which nothing was asked for longest comes first.
func (c questions) askDelivery(now time.Time, s *session, h *checkedPath) {
	d, t := &h.delivery, c.timingOf(h.Path)
	if now.Sub(d.asked) < t.Every {
		return
	}
	if s.check.hasManyDoubts(now, s.bad) {
		c.askInTurn(now, s, h)
		return
	}
	var by *checkedPath
	for _, o := range s.check.paths {
		mayAnswer := o.confirmed.IsZero() && slices.Contains(s.entry.Paths, o.Path)
		isFit := o != h && o.avoided.IsZero() && (o.Heard().After(h.since) || mayAnswer)
		if isFit && (by == nil || o.Heard().After(by.Heard())) {
			by = o
		}
	}
	d.alone = by == nil || !c.isCounted(now, s, h)
	d.waits = !d.alone && (now.Sub(by.lent) < deliverEvery || s.check.waitsLonger(h))
	if c.mayAsk(now, s, d, by) {
		c.askAside(now, s, probe{path: by.Path, about: h.Path})
	}
}

// mayAsk reports whether a path has somebody to ask, and its turn has come. The question then leaves along by.
func (c questions) mayAsk(now time.Time, s *session, d *delivery, by *checkedPath) bool {
	if d.alone {
		d.asks = 0
	}
	if d.waits = d.waits || by != nil && !d.alone && c.room(now, s, by) <= alongOwn; d.alone || d.waits {
		return false
	}
	d.asks++
	d.asked, by.lent = now, now
	c.lend(now, by)
	return true
}

// waitsLonger reports whether a question about another path in doubt waits for its turn, and waits longer.
func (k *pathCheck) waitsLonger(than *checkedPath) bool {
	return slices.ContainsFunc(k.paths, func(o *checkedPath) bool {
		isWaiting := o.delivery.waits && !o.since.IsZero() && o.avoided.IsZero()
		return isWaiting && o.delivery.asked.Before(than.delivery.asked)
	})
}

// isCounted reports whether the correspondent counts what arrives along one of several paths in use, those for rules
// and for answers to them among them, or along the only one, of which counts have shown of late that it loses probes
// and not data.
func (c questions) isCounted(now time.Time, s *session, h *checkedPath) bool {
	isOne := len(s.carriers()) > 1 || h.delivered(now)
	return isOne && s.asksReport() && s.entry.Counted && slices.Contains(s.carriers(), h.Path)
}

// noteAsked takes that such a question was answered, with counts or without.
func (k *pathCheck) noteAsked(pr probe) {
	h := k.find(pr.about)
	if h == nil || !pr.sent.After(h.since) {
		return
	}
	h.delivery.asks = 0
	h.delivery.answers++
}

// takeDelivery takes the counts in the answer to such a question.
func (c questions) takeDelivery(now time.Time, s *session, pr probe, r ilnpwire.Report) {
	h := s.check.find(pr.about)
	if h == nil {
		return
	}
	d := &h.delivery
	own, ok := c.cfg.PathCounts(s.key, pr.about)
	if !r.Other || !r.Counted || !pr.counted || !ok || own.Epoch != pr.left.Epoch {
		d.passes = d.passes && r.Other && r.Counted
		return
	}
	was, is := d.base, arrived{r.Epoch, own.Epoch, pr.left.Sent.Packets, r.Received.Packets, 0, pr.sent}
	if is.slack = is.left - is.got; is.got > is.left { // the counters began at different times
		is.slack = own.Sent.Packets - is.left
	}
	left, got := is.left-was.left, is.got-was.got
	switch {
	case is.epoch != was.epoch || is.ownEpoch != was.ownEpoch:
		d.base = is
		return
	case !is.asked.After(was.asked):
		return // it was overtaken
	case is.got < was.got:
		d.base, d.passes = arrived{}, false
		c.refuse(now, s.key, reasonReportBack)
		return
	case got > own.Sent.Packets-was.left+was.slack:
		d.base, d.passes = arrived{}, false
		c.refuse(now, s.key, reasonReportAbove)
		return
	case got == 0 && left >= uint64(h.Tries()) && !was.asked.Before(h.since):
		d.passes = false
	case left >= deliverLeast:
		d.from, d.seen, d.passes = was.asked, now, deliverParts*got >= (deliverParts-deliverLost)*left
		d.base = is
	case was.asked.Before(h.since):
		d.base = is // of this doubt, what is compared is to have left within it
	}
}

// delivers reports whether a path in doubt brings nearly all data, by what has left since the doubt began. Counts show
// that until so many questions have had no answer that none will come.
func (h *checkedPath) delivers(now time.Time, s *session) bool {
	d := &h.delivery
	return d.passes && d.from.After(h.since) && now.Sub(h.since) < deliverMost && h.awaitsCounts(now, s)
}

// awaitsCounts reports whether an answer to the questions about a path in doubt may still come.
func (h *checkedPath) awaitsCounts(now time.Time, s *session) bool {
	d := &h.delivery
	waits := d.waits && (!s.check.hasManyDoubts(now, s.bad) || s.check.isAskedBeside(now, h))
	isAsked := waits || d.asked.After(h.since)
	return isAsked && d.asks <= deliverAsks && !d.alone && now.Sub(s.lastTx) < checkTraffic
}

// delivered reports whether a path has brought nearly all data in the last doubt that showed it.
func (h *checkedPath) delivered(now time.Time) bool {
	return h.delivery.passes && now.Sub(h.delivery.seen) < deliverMost
}

// doubtedFrom returns since when a path in doubt has shown in no way that it works.
func (h *checkedPath) doubtedFrom() time.Time { return later(h.since, h.delivery.stays) }
