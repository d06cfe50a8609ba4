package ilnp

import (
	"slices"
	"time"

	"roam"
)

// sessionsPerSite bounds the sessions of nodes that only claim their NIDs, and are
// validated at locators of one /48: whoever has a prefix has as many addresses and
// NIDs as it likes. The one that was used the longest ago makes room for another.
const sessionsPerSite = 256

// unnamedSessions are the sessions that others began and that own no name of a record.
type unnamedSessions struct {
	bySite map[uint64][]*session
	count  int
}

func (st *unnamedSessions) enter(s *session, l roam.L64) {
	if st.bySite == nil {
		st.bySite = make(map[uint64][]*session)
	}
	s.site, s.unnamed = siteOf(l), true
	st.bySite[s.site] = append(st.bySite[s.site], s)
	st.count++
}

func (st *unnamedSessions) leave(s *session) {
	if !s.unnamed {
		return
	}
	s.unnamed = false
	left := slices.DeleteFunc(st.bySite[s.site], func(o *session) bool { return o == s })
	if st.bySite[s.site] = left; len(left) == 0 {
		delete(st.bySite, s.site)
	}
	st.count--
}

// largest returns the site with the most sessions; of equal ones the lowest.
func (st *unnamedSessions) largest() uint64 {
	var best uint64
	for site, list := range st.bySite {
		if n := len(st.bySite[best]); len(list) > n || len(list) == n && site < best {
			best = site
		}
	}
	return best
}

// admitUnnamed makes room for a pending peer's session at a locator: among those of its
// site, and where the data plane has no entry left, among those of the site with most.
func (c *Core) admitUnnamed(now time.Time, l roam.L64) {
	if len(c.unnamed.bySite[siteOf(l)]) >= sessionsPerSite {
		c.evictOf(now, siteOf(l))
	}
	c.makeEntry(now)
}

// makeEntry has a pending peer's session make room where the data plane has no entry left:
// for known correspondents, for sessions that this host begins, and for other unnamed sessions.
func (c *Core) makeEntry(now time.Time) {
	if c.cfg.MaxSessions > 0 && len(c.sessions) >= c.cfg.MaxSessions && c.unnamed.count > 0 {
		c.evictOf(now, c.unnamed.largest())
	}
}

// evictOf ends the session of a site that was used the longest ago.
func (c *Core) evictOf(now time.Time, site uint64) {
	list := c.unnamed.bySite[site]
	if len(list) == 0 {
		return
	}
	oldest := slices.MinFunc(list, func(a, b *session) int {
		return later(a.used, a.started).Compare(later(b.used, b.started))
	})
	c.endSession(now, oldest, reasonSite)
}

// endSession removes a session and tells why. Sockets on an NID that is nobody's by a
// record are destroyed: the next node that claims it would get what they send.
func (c *Core) endSession(now time.Time, s *session, why string) {
	if !s.owned && s.key.Remote == s.remoteNID {
		c.emit(Abandon{Key: s.key})
	}
	c.removeSession(now, s)
	c.notify(Event{Time: now, Kind: SessionEnded, Key: s.key, Reason: why})
}
