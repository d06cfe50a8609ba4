package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam/multipath"
)

// How a session's traffic is spread over several paths, package multipath decides: the
// core tells it of answers to probes and of what TCP shows, sends the probes that it
// wants, and writes into the entry what it says.

// use is how the session sends now.
func (s *session) use() multipath.Use[Path] {
	return multipath.Use[Path]{Paths: s.entry.Paths, Long: s.entry.Long, PerFlow: s.tracked(), Crosses: s.reports.crosses}
}

// tracked says whether connections keep to one path each as something tracks them.
func (s *session) tracked() bool { return s.perFlow.On || s.multipath.Wished() }

// choose completes an entry, which has all paths that a packet may take: which of them everything takes.
func (c *steering) choose(now time.Time, s *session, p *Entry) {
	u := s.use()
	if s.entry.State != Established {
		u.Paths = nil // TCP takes none yet
	}
	isValid := func(q Path) bool { return !slices.Contains(p.Unvalidated, q.Remote) }
	choice := s.multipath.Choose(now, multipath.Request[Path]{
		Now: u, Begun: s.entry.Seq != 0, Paths: p.Paths, Several: s.state == Established,
		Rates: c.ratesOf(now, s, p.Paths), Told: s.reports.told, Valid: isValid, Key: pathKey, Rules: c.demandsOf(s, *p),
	})
	p.Long, p.Costs, p.Table, p.RuleTables = choice.Long, choice.Costs, choice.Table, choice.Rules
	if p.Rules.Mask == 0 { // else a connection may have other paths
		p.SlowStart = choice.SlowStart
	}
	crossings{c}.follow(now, s)
}

// pathKey is the same at both ends of a path.
func pathKey(p Path) uint64 { return multipath.PathKey(uint64(p.Local.L64), uint64(p.Remote)) }

// forgetPaths drops what is known of paths that are not in use any more. One that is left
// as its queue swallowed probes may be back soon, no longer and no faster.
func (s *session) forgetPaths() {
	gone := func(p Path) bool { return !slices.Contains(s.carriers(), p) && !s.bad[p] }
	s.multipath.Forget(gone)
	maps.DeleteFunc(s.reports.told, func(p Path, _ uint8) bool { return gone(p) })
}

// noteLength takes the answer to a probe.
func (c *steering) noteLength(now time.Time, s *session, pr probe) {
	s.multipath.HandleAnswer(now, pr.path, pr.sent)
	if len(s.entry.Paths) > 1 && slices.Contains(s.entry.Paths, pr.path) {
		c.upsert(now, s, s.entry.Paths)
		c.tellSpread(now, s)
		return
	}
	c.followRules(now, s)
}

// measure asks all paths in use if the length of one is in doubt: at once, or after a pause.
func (c *liveness) measure(now time.Time, s *session) {
	if s.state != Established {
		return
	}
	if s.multipath.Doubtful(s.use()) {
		c.askLengths(now, s)
	} else if d := s.multipath.AskAgain(s.use()); d > 0 && !s.schedule.Armed(timerLength) {
		c.arm(&s.schedule, timerLength, now, d)
	}
}

// lengthTimeout asks all paths in use again, unless the doubt is over by now.
func (c *liveness) lengthTimeout(now time.Time, s *session) {
	if s.state == Established && s.multipath.AskAgain(s.use()) > 0 {
		c.askLengths(now, s)
	}
}

func (c *liveness) askLengths(now time.Time, s *session) {
	s.monitored = time.Time{}
	c.monitor(now, s, false)
}

// handleQueue asks all paths in use, unless that has just been done.
func (c *liveness) handleQueue(now time.Time, s *session) {
	if c.cfg.Flows != nil && len(s.entry.Long) > 0 {
		c.placeFlows(now, s, c.cfg.Flows(s.key)) // connections fill the short paths
	}
	if s.state == Established && !s.dead && s.multipath.HandleQueue(now, s.use(), s.watch.state == settling) {
		s.lastTx = later(s.lastTx, now)
		c.askQueues(now, s)
	}
}

func (c *liveness) askQueues(now time.Time, s *session) {
	s.monitored = time.Time{}
	if c.monitor(now, s, false); s.watch.state == settling { // else it has other questions
		s.multipath.Asked(now)
	}
}

// judgeQueues takes the end of a round of probes. It reports whether to ask again at once.
func (c *steering) judgeQueues(now time.Time, s *session) (again bool) {
	lost := s.unansweredPaths()
	s.multipath.HandleNoAnswer(s.use(), lost)
	carried := make(map[Path]float64)
	for _, p := range s.entry.Paths {
		if e := s.reports.estimates[p]; e != nil {
			carried[p] = e.State(now).Out.Rate
		}
	}
	changed, again := s.multipath.HandleSettled(now, s.use(), lost, len(s.watch.answered) > 0, carried)
	if changed {
		c.upsert(now, s, s.entry.Paths)
	}
	return again
}

// forgetQueues has all paths get the same again when nothing has waited for long.
func (c *steering) forgetQueues(now time.Time, s *session) {
	if s.multipath.Expire(now) {
		c.upsert(now, s, s.entry.Paths)
	}
}

// placeFlows has connections take other paths by what they send.
func (c *steering) placeFlows(now time.Time, s *session, sent *multipath.Flows) {
	if s.multipath.HandleFlows(now, s.use(), sent) {
		c.upsert(now, s, s.entry.Paths)
	}
	crossings{c}.follow(now, s)
}

// placed returns the long path of each bucket of connections that takes one.
func (e Entry) placed() map[int]Path {
	placed := make(map[int]Path)
	if e.Table == nil || len(e.Long) == 0 {
		return placed
	}
	for b := range multipath.Buckets {
		if p, only := e.Table.Only(b); only && slices.Contains(e.Long, p) {
			placed[b] = p
		}
	}
	return placed
}

// isPlaced reports whether TCP connections take a long path whole.
func (s *session) isPlaced(p Path) bool {
	for _, at := range s.entry.placed() {
		if at == p {
			return true
		}
	}
	return false
}

// crosses reports whether a long path takes turns with the short ones.
func (e Entry) crosses(p Path) bool {
	return e.Table != nil && slices.Contains(e.Long, p) && e.Table.Crosses(p)
}

// IsCut reports whether each segment of a GSO packet of TCP takes its own path: as a whole it would keep a slow path
// busy for so long that TCP takes its segments for lost.
func (e Entry) IsCut() bool { return e.Table != nil && !e.PerFlow && e.Table.IsUneven() }

// handleStall asks all paths in use at each sign of TCP.
func (c *liveness) handleStall(now time.Time, s *session, of multipath.Standing) {
	if s.state != Established || s.dead || len(s.entry.Paths) < 2 || s.tracked() || s.watch.state == settling {
		return
	}
	s.multipath.HandleStall(now, s.rtt, of)
	s.lastTx = later(s.lastTx, now)
	s.monitored = time.Time{}
	c.monitor(now, s, false)
}

// judgeStall takes that all paths in use have answered a question. The correspondent
// learns by probes that connections keep to one path: it has to answer each on its path.
func (c *liveness) judgeStall(now time.Time, s *session, question time.Time, rounds int) {
	if s.multipath.HandleSound(now, s.use(), question, rounds) {
		c.setPerFlow(now, s, s.perFlow.Again(now))
		c.probePaths(now, s, s.entry.Paths)
	}
}

// spreadAgain ends the spell in which connections keep to one path each.
func (c *steering) spreadAgain(now time.Time, s *session) {
	if next, over := s.perFlow.End(now); over {
		c.setPerFlow(now, s, next)
	}
}

// askedSpread does as the correspondent wants it.
func (c *steering) askedSpread(now time.Time, s *session, byFlow bool) {
	if s.multipath.HandleWish(now, byFlow) {
		c.upsert(now, s, s.entry.Paths)
	}
}

func (c *steering) setPerFlow(now time.Time, s *session, spell multipath.Spell) {
	s.multipath.HandleSpell()
	s.perFlow = spell
	if k := c.recordOf(s); k != nil {
		k.perFlow = spell
	}
	c.upsert(now, s, s.entry.Paths)
}

// tellSpread tells when that has changed.
func (c *steering) tellSpread(now time.Time, s *session) {
	if spread, changed := s.multipath.Show(s.use()); changed {
		c.notify(Event{Time: now, Kind: SpreadChanged, Key: s.key, Reason: spread.String()})
	}
}
