package ilnp

import (
	"slices"

	"roam"
)

// Both ends of a session may move at once, so that neither is where the other one sends, and
// no Locator Update arrives. The keeper of the names knows where the other one is (RFC 6740
// §6.2). The effects above ask for the correspondents that are sought, and look them up.

// Sought returns the correspondents that nothing has come from since they were first
// suspected, or that leave a Locator Update unacknowledged, in ascending order. A look at the
// names may bring locators of theirs (AddPeer), which are then probed at once.
func (c *node) Sought() []roam.NID {
	var list []roam.NID
	for s := range c.attention { // a session is attended to while it is sought
		if s.isSought() {
			list = append(list, s.remoteNID)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// isSought reports whether a session may have lost its correspondent.
func (s *session) isSought() bool {
	switch {
	case s.state != Established:
		return false
	case s.dead, s.watch.state == suspect, s.watch.state == silent:
		return true
	case !s.check.silent.IsZero() && !s.lastRx.After(s.check.silent):
		return true
	}
	return s.update.state == slow || s.update.state == awaiting && s.update.tries > 1
}
