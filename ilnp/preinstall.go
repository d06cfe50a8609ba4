package ilnp

import (
	"slices"
	"time"

	"roam"
)

// A session that is preinstalled has its entry in the data plane before its first packet,
// which so need not wait for the daemon: with a nonce, or as plain IPv6 where the
// correspondent is remembered to have no ILNP. Nothing is sent for it. As long as
// none of our packets has used it, to the data plane it is not there for whoever comes
// from outside, and a correspondent that contacts us first becomes a session as ever.
//
// Preinstalled are known correspondents without a session, at most Config.Preinstall: those
// that were made known first, and then whoever was asked for or had a session last.

// Preinstall has a known correspondent without a session expected, since an application
// has asked for it. Where there are too many, the one that was asked for the
// longest ago is not expected any more.
func (c *Core) Preinstall(now time.Time, nid roam.NID) {
	key := SessionKey{c.cfg.NIDs[0], nid}
	if i := slices.Index(c.preinstallOrder, key); i >= 0 {
		c.preinstallOrder = append(slices.Delete(c.preinstallOrder, i, i+1), key)
		return
	}
	if len(c.preinstallOrder) > 0 && len(c.preinstallOrder) >= c.cfg.Preinstall && c.canPreinstall(key) {
		c.uninstall(c.preinstallOrder[0])
	}
	c.preinstallIfFree(now, nid)
}

// canPreinstall reports whether there is something to expect, and no session.
func (c *node) canPreinstall(key SessionKey) bool {
	k := c.known[key.Remote]
	return k != nil && len(k.locators) > 0 && c.sessionOf(key) == nil
}

// isFull reports whether the data plane has no entry left.
func (c *node) isFull() bool {
	return c.cfg.MaxSessions > 0 && len(c.sessions)+len(c.preinstallOrder) >= c.cfg.MaxSessions
}

func (c *Core) preinstallIfFree(now time.Time, nid roam.NID) {
	key := SessionKey{c.cfg.NIDs[0], nid}
	if len(c.preinstallOrder) >= c.cfg.Preinstall || c.isFull() || c.preinstalled[key] != nil || !c.canPreinstall(key) {
		return
	}
	n, ok := c.drawNonce(now)
	if !ok {
		return
	}
	c.await(now, c.initiated(key, c.known[nid], n))
}

func (c *Core) await(now time.Time, s *session) {
	c.preinstalled[s.key] = s
	c.preinstallOrder = append(c.preinstallOrder, s.key)
	c.stand(now, s)
}

// stand brings the entry of a preinstalled entry in line with what is known now.
func (c *Core) stand(now time.Time, s *session) {
	s.state, s.fallback, s.remembered = Initiated, noFallback, false
	if c.isPlain(now, s) {
		s.state, s.fallback, s.remembered = Plain, withoutILNP, true
	}
	s.remotes.age(now, s.grace())
	c.upsert(now, s, c.pathsFor(now, s))
}

// isPlain reports whether a correspondent is remembered to be without ILNP.
func (c *node) isPlain(now time.Time, s *session) bool {
	k := c.recordOf(s)
	return k != nil && k.plainUntil.After(now)
}

// standAll does so for all of them, after a change of our own locators.
func (c *Core) standAll(now time.Time) {
	for _, key := range c.preinstallOrder {
		c.stand(now, c.preinstalled[key])
	}
}

// standAged does so for those about which something has run out. It need not be
// known to the second: when the first packet leaves, the session judges anew.
func (c *Core) standAged(now time.Time) {
	for _, key := range c.preinstallOrder {
		s := c.preinstalled[key]
		limited := slices.ContainsFunc(s.remotes, func(r remote) bool { return !r.expires.IsZero() })
		if limited || c.isPlain(now, s) != (s.state == Plain) {
			c.stand(now, s)
		}
	}
}

// advisePreinstalled brings what was told of a correspondent into the session that is
// expected with it.
func (c *Core) advisePreinstalled(now time.Time, k *correspondent) {
	s := c.preinstalled[SessionKey{c.cfg.NIDs[0], k.nid}]
	switch {
	case s == nil:
		c.preinstallIfFree(now, k.nid)
	case len(k.locators) == 0:
		c.uninstall(s.key)
	default:
		s.profile, s.remotes = k.profile, k.targets()
		c.stand(now, s)
	}
}

// take makes a preinstalled entry one that is not, without a word to the data plane;
// nil: it was not expected.
func (c *Core) take(key SessionKey) *session {
	s := c.preinstalled[key]
	if s != nil {
		delete(c.preinstalled, key)
		c.preinstallOrder = slices.DeleteFunc(c.preinstallOrder, func(k SessionKey) bool { return k == key })
	}
	return s
}

func (c *Core) uninstall(key SessionKey) {
	if c.take(key) != nil {
		c.emit(Delete{Key: key})
	}
}

// begin makes a session of an expected one that a packet of ours has used, and
// which has left already.
func (c *Core) begin(now time.Time, key SessionKey) *session {
	s := c.take(key)
	if s != nil {
		c.initiate(now, s)
		c.validate(now, s)
	}
	return s
}

// giveWay frees an entry of the data plane for a session that begins, if all are
// taken and some by sessions that are only expected.
func (c *Core) giveWay(key SessionKey) {
	c.take(key) // its entry is replaced
	for len(c.preinstallOrder) > 0 && c.isFull() {
		c.uninstall(c.preinstallOrder[0])
	}
}

// restorePreinstalled keeps the nonce of a predecessor's, as packets may have used it
// while there was no daemon.
func (c *Core) restorePreinstalled(now time.Time, v savedSession) {
	key := SessionKey{v.Local, v.Remote}
	c.take(key) // one that was made since the start has another nonce
	if len(c.preinstallOrder) >= c.cfg.Preinstall || c.isFull() || v.Remote != v.RemoteNID || !c.canPreinstall(key) {
		return
	}
	s := c.initiated(key, c.known[v.RemoteNID], loadNonce(v.LocalNonce))
	s.entry.Seq = v.Seq
	c.await(now, s)
}
