package ilnp

import (
	"slices"
	"time"

	"roam"
)

// sessionsPerSite bounds the sessions of nodes that only claim their NIDs, and are
// validated at locators of one /48: who has a prefix has as many addresses and NIDs as it
// wants. A further session replaces the least recently used one.
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

// excess returns the session that has to end before one at a locator can begin; nil: its
// site has not reached the bound.
func (st *unnamedSessions) excess(l roam.L64) *session {
	if len(st.bySite[siteOf(l)]) < sessionsPerSite {
		return nil
	}
	return st.oldest(siteOf(l))
}

// dispensable returns the session that ends first where the data plane has no entry left:
// of the site with the most sessions; of equal ones, the lowest. nil: there is none.
func (st *unnamedSessions) dispensable() *session {
	var best uint64
	for site, list := range st.bySite {
		if n := len(st.bySite[best]); len(list) > n || len(list) == n && site < best {
			best = site
		}
	}
	return st.oldest(best)
}

// oldest returns the least recently used session of a site; nil: there is none.
func (st *unnamedSessions) oldest(site uint64) *session {
	list := st.bySite[site]
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *session) int {
		return later(a.used, a.started).Compare(later(b.used, b.started))
	})
}

// makeEntry ends an unnamed session where the data plane has no entry left: for known
// correspondents, for sessions that this host begins, and for other unnamed sessions.
func (c *Core) makeEntry(now time.Time) {
	if c.cfg.MaxSessions <= 0 || len(c.sessions) < c.cfg.MaxSessions {
		return
	}
	if s := c.names.unnamed.dispensable(); s != nil {
		c.endSession(now, s, reasonSite)
	}
}

// endSession removes a session and notifies why. Sockets connected to an NID that has no
// record are destroyed: the next node that claims it would receive their packets.
func (c *Core) endSession(now time.Time, s *session, why string) {
	if !s.owned && s.key.Remote == s.remoteNID {
		c.emit(Abandon{Key: s.key})
	}
	c.removeSession(now, s)
	c.notify(Event{Time: now, Kind: SessionEnded, Key: s.key, Reason: why})
}
