package ilnp

import (
	"slices"
	"time"

	"roam"
)

// Check sends a probe on every path to the correspondent with this handle,
// except on those that are done, because somebody asks whether they work. It
// returns all of these paths, at most MaxPaths; each answer is told by an event
// PathAnswered. A correspondent that is known and has no session gets one, as
// by the first packet of an application; of an unknown one, and where there is
// no locator to send from, no path is returned.
//
// As long as the correspondent has shown no nonce, one call sends on one path,
// the next call on the next one: it answers each pair of locators with another
// nonce, and two at once would leave the two ends with different ones.
func (c *Core) Check(now time.Time, remote roam.NID, done []Path) []Path {
	key := PairKey{Local: c.cfg.NIDs[0], Remote: remote}
	s := c.sessions[key]
	if s == nil {
		if k := c.known[remote]; k == nil || len(k.locators) == 0 || len(c.host.active) == 0 {
			return nil
		}
		c.handleMiss(now, key)
		if s = c.sessions[key]; s == nil {
			return nil
		}
	}
	paths := cross(c.checkedFrom(now, s), s.remotes.all())
	open := slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return slices.Contains(done, p) })
	if !s.remoteNonce.Present() && len(open) > 0 {
		open = []Path{open[s.checks%len(open)]}
		s.checks++
	}
	for _, p := range open {
		c.forgetProbes(&s.sent, now.Add(-tokenLife))
		before := len(s.sent)
		c.sendProbe(now, s, &s.sent, s.localNID, s.remoteNID, p, s.localNonce)
		for _, t := range s.sent[before:] {
			pr := c.probes[t]
			pr.told = true
			c.probes[t] = pr
		}
	}
	return paths
}

// checkedFrom returns the locators that can be asked from without moving the
// session: a correspondent follows the nonce to a locator that it was not told.
func (c *Core) checkedFrom(now time.Time, s *session) []Local {
	return slices.DeleteFunc(placesOf(c.usable(now)), func(l Local) bool {
		return s.state == Established && !s.update.lists(l.L64)
	})
}
