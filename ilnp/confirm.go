package ilnp

import "time"

// isUnconfirmed reports whether no answer to a probe has carried the correspondent's nonce
// yet. A first probe may be lost; a correspondent that has moved since could not be
// followed.
func (s *session) isUnconfirmed() bool {
	return s.state == Established && !s.confirmed && len(s.entry.Paths) > 0
}

// confirm probes the paths in use of a session whose nonce is not confirmed. The first
// nonce that came may be a forgery, which proves only that its sender knows which peer we
// contact. Until an answer to a probe carries that nonce, it neither moves the session nor
// changes its locators.
func (c *sender) confirm(now time.Time, s *session) {
	if len(c.host.active) > 0 && now.Sub(s.confirming) >= pendingAgain {
		s.confirming = now
		c.probePaths(now, s, s.entry.Paths)
	}
}
