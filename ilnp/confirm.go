package ilnp

import "time"

// isUnconfirmed reports whether the correspondent's nonce came with no answer to a probe
// yet. A first probe may be lost; from where the correspondent has gone to, it could not
// be followed.
func (s *session) isUnconfirmed() bool {
	return s.state == Established && !s.confirmed && len(s.entry.Paths) > 0
}

// confirm asks for the correspondent's nonce where it answered our first packets. The
// first nonce that came may be a forgery, which shows nothing but that its sender
// knows whom we contact. Until an answer to a probe bears it, it neither moves the
// session nor changes its locators.
func (c *sender) confirm(now time.Time, s *session) {
	if len(c.host.active) > 0 && now.Sub(s.confirming) >= pendingAgain {
		s.confirming = now
		c.probePaths(now, s, s.entry.Paths)
	}
}
