package slowpath

import (
	"time"

	"roam"
	"roam/ilnp"
)

// pathMTULife is how long the kernel remembers a path MTU (route.mtu_expires).
const pathMTULife = 10 * time.Minute

// PathMTUs remembers of which sessions the host's own stack may know a path MTU: it
// learns of one from what is handed to it, or was by a predecessor. To have it forget
// that of every session of a move would take longer than all the rest.
type PathMTUs struct {
	last      map[ilnp.SessionKey]int // what the last Packet Too Big named
	inherited time.Time               // until then those of a predecessor may be known
}

// Inherit says that sessions were taken over from a predecessor.
func (m *PathMTUs) Inherit(now time.Time) { m.inherited = now.Add(pathMTULife) }

// Note notes what a Packet Too Big about a session named.
func (m *PathMTUs) Note(k ilnp.SessionKey, mtu int) {
	if m.last == nil {
		m.last = make(map[ilnp.SessionKey]int)
	}
	m.last[k] = mtu
}

// Last returns what the last Packet Too Big about a session named, 0 if there was none.
func (m *PathMTUs) Last(k ilnp.SessionKey) int { return m.last[k] }

// HandlePaths takes a change of the paths of a session, and reports whether our own
// stack is to forget a path MTU: it was that of another path.
func (m *PathMTUs) HandlePaths(now time.Time, k ilnp.SessionKey, why roam.PathChange) bool {
	if !why.Has(roam.PathsAdded | roam.PathsLost | roam.PathsReordered) {
		return false
	}
	_, noted := m.last[k]
	delete(m.last, k)
	return noted || now.Before(m.inherited)
}

// Forget drops what is remembered of a session that has ended.
func (m *PathMTUs) Forget(k ilnp.SessionKey) { delete(m.last, k) }
