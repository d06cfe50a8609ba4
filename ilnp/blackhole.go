package ilnp

import (
	"slices"
	"time"

	"roam/multipath"
)

// A path may answer each probe and drop data, as where a firewall admits ICMPv6 alone. The
// receiver's reports show it (multipath.Dead): data leave the path while another one delivers
// some, and return when its hold is over, which is twice as long each time. Nobody is told:
// the other direction may work.
//
// The only path in use is not counted by itself as a rule. It is for a while when nothing comes although
// probes are answered, or when the correspondent complains: either end's data may be dropped.
// Then data leave it for a path that answers, which may deliver them or not. If paths for rules, or
// for answers to them, exist beside it, what comes by these hides that nothing comes, but all are probed
// regularly, so all are counted.

// blackHoleLeast is how many packets must have been sent since anything arrived.
const blackHoleLeast = 10

// countsFor is how long the only path is counted after the last sign.
const countsFor = 10 * time.Second

// countsWait is for how long data stay on the only path, which loses probes, until its counts come.
const countsWait = time.Second

// onlyEvery is the least time between questions about the only path in use.
const onlyEvery = time.Second

// suspectLoss takes a sign that data do not arrive on the only path in use.
func (c *liveness) suspectLoss(now time.Time, s *session) {
	if len(s.carriers()) == 1 && s.asksReport() {
		s.check.counts = now
		c.wishCounts(now, s, s.reports.wished)
	}
}

// endCounting ends the counts of the only path when no sign has come for a while.
func (c *liveness) endCounting(now time.Time, s *session) {
	if k := &s.check; !k.counts.IsZero() && now.Sub(k.counts) > countsFor {
		k.counts = time.Time{}
		c.wishCounts(now, s, s.reports.wished)
	}
}

// carries reports whether a path, by which packets of a session may leave, delivers what is sent there, or would for
// all that is known: it has answered of late, and its reports show that nothing was sent there that is missing.
func carries(now time.Time, s *session, p Path) bool {
	h, e := s.check.find(p), s.reports.estimates[p]
	if e == nil {
		return false
	}
	out := e.State(now).Out
	isIdle := out.Life == multipath.LifeUnknown && out.Missing == 0 && !out.At.IsZero()
	answers := h != nil && h.avoided.IsZero() && now.Sub(h.Heard()) < checkLately
	return out.Life == multipath.Lives || isIdle && answers
}

// couldCarry reports whether another path could take what the only one drops. If none has
// answered of late, they are probed. Those that rules take are judged by their reports: carries.
func (c *liveness) couldCarry(now time.Time, s *session, only Path) (could bool) {
	if !s.entry.isOnly(only) {
		return false
	}
	taken := s.carriers()
	for _, p := range c.others(now, s) {
		if slices.Contains(taken, p) {
			continue
		}
		o := s.check.of(p)
		switch {
		case o.avoided.IsZero() && now.Sub(o.Heard()) < checkLately:
			could = true
		case o.avoided.IsZero() && o.since.IsZero() && now.Sub(o.last) >= c.timingOf(p).Every:
			c.probeAgain(now, s, o)
		}
	}
	return could
}

// leaveBlackHole avoids a path in use, by all packets or by those with rules, on which nothing arrives of what is sent,
// by reports about its direction out.
func (c *liveness) leaveBlackHole(now time.Time, s *session, p Path, out multipath.Direction) {
	taken, isCarrying := s.carriers(), func(o Path) bool { return o != p && carries(now, s, o) }
	if out.Life != multipath.Dead || out.Missing < blackHoleLeast || out.Still < c.timingOf(p).Every*3/4 || s.avoids(p) ||
		!slices.Contains(taken, p) || !slices.ContainsFunc(taken, isCarrying) && !c.couldCarry(now, s, p) {
		return
	}
	h := s.check.of(p)
	h.swallows = true
	c.avoid(now, s, h)
}

// useAgain ends that data keep off a path.
func (c *liveness) useAgain(now time.Time, s *session, h *checkedPath) {
	if h.swallows {
		s.check.counts = now
	}
	h.endDoubt()
	if e := s.reports.estimates[h.Path]; e != nil {
		e.Rest() // nothing was sent meanwhile that could have arrived
		e.aside = nil
	}
	c.notify(Event{Time: now, Kind: PathAnswers, Key: s.key, Path: h.Path})
	c.refresh(now, s)
}

// askOnly asks for the counts of the only path in use along another one, as it leaves probes without an answer: a full
// queue may swallow these and pass nearly all data. What is asked elsewhere and its answers are packets of the session,
// so at neither end it seems silent meanwhile, which shows sooner that the path has died: between two questions there
// is time for that.
func (c questions) askOnly(now time.Time, s *session, h *checkedPath) {
	if !s.entry.isOnly(h.Path) || h.IsClean() || !s.asksReport() {
		return
	}
	c.suspectLoss(now, s)
	if now.Sub(h.delivery.only) < max(onlyEvery, 2*c.timingOf(h.Path).Silence) {
		return
	}
	if c.askOthers(now, s, h); c.askAbout(now, s, h.Path) {
		h.delivery.only = now
	}
}

// losesData reports whether a path that leaves many probes without an answer loses data too, so far as counts show it.
// Data stay on the only path in use until its counts come, for countsWait at most.
func (c questions) losesData(now time.Time, s *session, h *checkedPath) bool {
	d := &h.delivery
	switch {
	case h.delivered(now):
		return false
	case !s.entry.isOnly(h.Path) || !s.asksReport() || now.Sub(d.seen) < deliverMost:
		return true
	case now.Sub(d.lossy) > countsFor:
		d.lossy = now
	}
	return now.Sub(d.lossy) >= countsWait
}

// leaveLossy avoids a path that answers too few probes, and reports whether it does: another
// one has answered of late, and answers nearly all. Otherwise the others are asked first.
func (c *liveness) leaveLossy(now time.Time, s *session, h *checkedPath) bool {
	isBetter := func(o *checkedPath) bool {
		return o != h && o.avoided.IsZero() && o.IsClean() && now.Sub(o.Heard()) < checkLately
	}
	if slices.ContainsFunc(s.check.paths, isBetter) {
		c.avoid(now, s, h)
		return true
	}
	c.askOthers(now, s, h)
	return false
}
