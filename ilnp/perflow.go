package ilnp

import (
	"slices"
	"time"
)

// In duality each packet takes its own path. A firewall on one of several paths
// that tracks connections sees a part of each, and may drop what does not fit what
// it saw: TCP stands still though probes come through, as they are connections of
// their own. So when TCP has had two time-outs, or had to send much again, and all
// paths in use answer at both, its connections keep to one path each, in both
// directions; UDP is spread as ever. Nobody can ask a firewall whether it still does
// that, so packets are spread again now and then, ever more rarely.
const (
	perFlowFirst = 10 * time.Minute // after which packets are spread again, doubled each time
	perFlowMax   = 4 * time.Hour
	stallAgain   = 4 * time.Second  // within which, and four round trips, another sign is not by chance; time-outs double
	stallFresh   = 2 * time.Second  // for how long a stall is a question to the paths
	askedLasts   = 2 * monitorEvery // for how long a wish of the correspondent holds at least
)

// stall is what TCP has shown on the paths that are in use now.
type stall struct {
	sign  time.Time // when it last showed a sign of standing still
	sound time.Time // when paths were last asked that all answered at once
	asked time.Time // when they were last asked why, at a second sign
}

// perFlow says whether TCP keeps to one path for each connection.
type perFlow struct {
	on    bool
	until time.Time     // on: when packets are spread again; else: when they were
	every time.Duration // how long the last spell was; 0: there was none
}

// again returns the spell that begins now.
func (f perFlow) again(now time.Time) perFlow {
	every := perFlowFirst
	if f.every > 0 && now.Sub(f.until) < f.every {
		every = min(2*f.every, perFlowMax)
	}
	return perFlow{on: true, until: now.Add(every), every: every}
}

// handleStall asks all paths in use at each sign of TCP. One sign may be due to a
// loss, and two to an outage of all paths, or to a machine that stood still: only if
// each path answered at once between them, and does now, something on one of them
// drops what it has not seen begin.
func (c *Core) handleStall(now time.Time, s *session) {
	if s.state != Established || s.dead || len(s.entry.Paths) < 2 || s.tracked() || s.watch.state == settling {
		return
	}
	f := &s.stall
	if now.Sub(f.sign) <= stallAgain+4*s.rtt && !f.sound.Before(f.sign) {
		f.asked = now
	}
	f.sign = now
	s.lastTx = later(s.lastTx, now)
	s.monitored = time.Time{}
	c.monitor(now, s)
}

// judgeStall decides when all paths in use have answered a question. The
// correspondent hears of it by probes: it has to answer each connection on its path.
func (c *Core) judgeStall(now time.Time, s *session, question time.Time, rounds int) {
	if rounds == 1 {
		s.stall.sound = question
	}
	if now.Sub(s.stall.asked) > stallFresh || s.tracked() || len(s.entry.Paths) < 2 {
		return
	}
	c.setPerFlow(now, s, s.perFlow.again(now))
	c.probePaths(now, s, s.entry.Paths)
}

// spreadAgain ends the spell in which connections keep to one path each; also one
// whose end has moved away, as the clock was set back.
func (c *Core) spreadAgain(now time.Time, s *session) {
	if f := s.perFlow; f.on && (!now.Before(f.until) || f.until.Sub(now) > f.every) {
		c.setPerFlow(now, s, perFlow{until: now, every: f.every})
	}
}

// askedSpread does as the correspondent wants it. Its wish holds until it has been
// silent about it for a while: whoever changes its mind with every probe does not
// keep us busy, nor does an echo request of an application that is as long as a probe.
func (c *Core) askedSpread(now time.Time, s *session, byFlow bool) {
	if byFlow {
		s.wished = now
	}
	if byFlow = now.Sub(s.wished) < askedLasts; s.asksPerFlow == byFlow {
		return
	}
	s.asksPerFlow = byFlow
	c.upsert(now, s, s.entry.Paths)
}

func (c *Core) setPerFlow(now time.Time, s *session, f perFlow) {
	s.stall, s.perFlow = stall{}, f
	if k := c.recordOf(s); k != nil {
		k.perFlow = f
	}
	c.upsert(now, s, s.entry.Paths)
}

// tracked says whether connections keep to one path each as something tracks them.
func (s *session) tracked() bool { return s.perFlow.on || s.asksPerFlow }

// spread returns how TCP is spread over the paths in use.
func (s *session) spread() Spread {
	switch {
	case s.tracked():
		return ByFlow
	case slices.ContainsFunc(s.entry.Long, func(p Path) bool {
		n := s.lengths[p].n
		return n == lengthTwice || n > 0 && s.spreadTold == ByLength
	}):
		return ByLength
	}
	return ByPacket
}

// tellSpread tells when that has changed.
func (c *Core) tellSpread(now time.Time, s *session) {
	if spread := s.spread(); spread != s.spreadTold {
		s.spreadTold = spread
		c.notify(Event{Time: now, Kind: SpreadChanged, Key: s.key, Reason: spread.String()})
	}
}
