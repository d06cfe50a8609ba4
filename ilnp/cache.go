package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
)

// cache is the remote half of the Identifier-Locator Communication Cache (RFC 6741
// §5.1): the records of nodes that were made known, and the sessions. It answers which
// session or record an NID, an alias, a nonce or a locator belongs to, and has no
// effects.
type cache struct {
	known    map[roam.NID]*correspondent
	sessions map[SessionKey]*session // by alias
	byRemote map[roam.NID][]*session // by the correspondent's NID, in the order of keys
	ofLocal  map[roam.NID]int        // how many there are, by this host's NID
	second   map[SessionKey]*session // sessions that have the peer's NID as an alias besides that of their key
	proving  bool                    // this host has a key
}

func newCache() cache {
	return cache{
		known:    make(map[roam.NID]*correspondent),
		sessions: make(map[SessionKey]*session),
		byRemote: make(map[roam.NID][]*session),
		ofLocal:  make(map[roam.NID]int),
		second:   make(map[SessionKey]*session),
	}
}

// index adds a session under its key and its NIDs.
func (ca *cache) index(s *session) {
	ca.sessions[s.key] = s
	ca.byRemote[s.remoteNID] = append(ca.byRemote[s.remoteNID], s)
	ca.sort(s.remoteNID)
	ca.ofLocal[s.localNID]++
}

func (ca *cache) sort(remote roam.NID) {
	slices.SortFunc(ca.byRemote[remote], func(a, b *session) int { return compareKey(a.key, b.key) })
}

// remove removes a session, its aliases included.
func (ca *cache) remove(s *session) {
	nids := s.nids()
	delete(ca.sessions, s.key)
	if ca.second[nids] == s {
		delete(ca.second, nids)
	}
	ca.byRemote[s.remoteNID] = slices.DeleteFunc(ca.byRemote[s.remoteNID], func(o *session) bool { return o == s })
	if len(ca.byRemote[s.remoteNID]) == 0 {
		delete(ca.byRemote, s.remoteNID)
	}
	if ca.ofLocal[s.localNID]--; ca.ofLocal[s.localNID] == 0 {
		delete(ca.ofLocal, s.localNID)
	}
}

// name gives a session the NID of its correspondent as an alias, besides that of its
// key if the two differ. It reports whether they do.
func (ca *cache) name(s *session) bool {
	if s.key == s.nids() {
		return false
	}
	ca.second[s.nids()], s.alsoNamed = s, true
	return true
}

// rekey gives a session another alias in place of those that it has.
func (ca *cache) rekey(s *session, key SessionKey) {
	delete(ca.sessions, s.key)
	delete(ca.second, s.nids())
	s.key, s.alsoNamed = key, false
	ca.sessions[key] = s
	ca.sort(s.remoteNID)
}

// sorted returns the sessions in the order of their keys: the same input gives
// the same output.
func (ca *cache) sorted() []*session {
	ss := slices.Collect(maps.Values(ca.sessions))
	slices.SortFunc(ss, func(a, b *session) int { return compareKey(a.key, b.key) })
	return ss
}

// between returns the sessions between two nodes, in the order of keys. There
// are several when correspondents claim one NID (RFC 6741 §5.4).
func (ca *cache) between(localNID, remoteNID roam.NID) []*session {
	all := ca.byRemote[remoteNID]
	other := func(s *session) bool { return s.localNID != localNID }
	if !slices.ContainsFunc(all, other) { // this host rarely has two
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), other)
}

// of returns the sessions with a correspondent, in the order of keys. They are a copy, as what is
// done with one may end it.
func (ca *cache) of(remote roam.NID) []*session { return slices.Clone(ca.byRemote[remote]) }

// byNonce finds the session that a packet with a nonce belongs to: the key is
// the remote identifier with the nonce (RFC 6741 §5.4).
func (ca *cache) byNonce(localNID, remoteNID roam.NID, n Nonce) *session {
	for _, s := range ca.between(localNID, remoteNID) {
		if s.remoteNonce.Present() && s.remoteNonce == n {
			return s
		}
	}
	return nil
}

// holder returns the session that has the NID of its correspondent as an alias, by key
// or besides it.
func (ca *cache) holder(local, nid roam.NID) *session {
	name := SessionKey{local, nid}
	if s := ca.sessions[name]; s != nil {
		return s
	}
	return ca.second[name]
}

// sessionOf returns the session with an alias.
func (ca *cache) sessionOf(key SessionKey) *session { return ca.holder(key.Local, key.Remote) }

// recordOf returns the record of the node behind a session: nil where that node has only
// claimed the NID. Packets of such a node must not change the record.
func (ca *cache) recordOf(s *session) *correspondent {
	if !s.owned {
		return nil
	}
	return ca.known[s.remoteNID]
}

// isPlain reports whether the record of a session's node says that it has no ILNP.
func (ca *cache) isPlain(now time.Time, s *session) bool {
	k := ca.recordOf(s)
	return k != nil && !k.guard.on && k.plainUntil.After(now)
}

// lists reports whether the record of a node has it at that locator.
func (ca *cache) lists(at roam.ILV) bool {
	k := ca.known[at.NID]
	return k != nil && (k.anywhere || k.locators.find(at.L64) != nil)
}

// listedAt reports whether a record has the correspondent of a session at a locator.
func (ca *cache) listedAt(s *session, l roam.L64) bool {
	return ca.lists(roam.ILV{NID: s.remoteNID, L64: l})
}

// isPlace reports whether a record names that locator for its node, not just any.
func (ca *cache) isPlace(at roam.ILV) bool {
	k := ca.known[at.NID]
	return k != nil && k.locators.find(at.L64) != nil
}
