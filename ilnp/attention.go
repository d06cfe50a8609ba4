package ilnp

import "time"

// Once a second the effects above read what the data plane has counted (HandleActivity). They read
// the sessions that have had packets since, and those that the core attends to: any event of a
// session makes the core attend to it, until a reading finds that the next ones would change
// nothing without packets. So a reading costs what goes on, not what there is.
type attention map[*session]struct{}

// attend has the next reading show a session.
func (a attention) attend(s *session) { a[s] = struct{}{} }

// Watched returns the sessions that the next HandleActivity needs, in no order, whether or not
// they have had packets.
func (c *node) Watched() []SessionKey {
	keys := make([]SessionKey, 0, len(c.attention))
	for s := range c.attention {
		keys = append(keys, s.key)
	}
	return keys
}

// goesOn reports whether a reading may have something to do for a session even if its counts have
// not changed.
func goesOn(c *Core, now time.Time, s *session) bool {
	switch {
	case s.expiring, s.astray != 0, s.isSought():
		return true
	case s.perFlow.On, s.multipath.GoesOn(), len(s.entry.Long) > 0:
		return true
	case s.state == Plain:
		return s.fallback == unanswered && s.lastRx.After(s.started) ||
			s.fallback == withoutILNP && !s.refused && now.Sub(s.used) < plainAgain
	case s.state != Established, !s.late && !s.nonceFixed && !s.nonceSure:
		return true
	case s.needsLength():
		return true
	}
	idle := now.Sub(s.lastTx)
	return min(idle, now.Sub(s.started), now.Sub(s.update.first)) <= monitorEvery || idle <= formsTried(&c.sender, s)
}

// needsLength reports whether measure has something to do.
func (s *session) needsLength() bool {
	if len(s.entry.Paths) < 2 {
		return false
	}
	u := s.use()
	return s.multipath.Doubtful(u) || s.multipath.AskAgain(u) > 0 && !s.schedule.Armed(timerLength)
}

// formsTried returns for how long after the last packet the form of control messages is tried
// again (tryOption, openFirewall).
func formsTried(c *sender, s *session) (longest time.Duration) {
	for _, p := range s.entry.Paths {
		if v := s.passages[p]; v.encap {
			longest = max(longest, v.every)
		}
	}
	if !s.asks && s.opened < openTries && c.hasUDP(s) {
		longest = max(longest, encapMax)
	}
	return longest
}
