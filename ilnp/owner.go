package ilnp

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"roam"
)

// Which session owns a name. An NID proves nothing: every node can claim every
// one. A record (the hosts file, a command, a look-up) says where its node is, so
// the record's name belongs to the node that was validated at a locator which the
// record, or the session that has the name, lists. Another node with that NID
// gets a session of its own under an alias, without the record's locators. It may
// be the same node in a network that the record does not list; then it gets the
// name as soon as it is validated at a locator that the record does list.

// Listed reports whether a node is known, and whether it is where its record has it: a
// data plane delivers nothing under a known NID from elsewhere before its sender is
// validated. One that has to prove itself is listed nowhere.
func (c *node) Listed(at roam.ILV) (known, listed bool) {
	return c.known[at.NID] != nil, c.lists(at) && !c.proves(at.NID)
}

// predecessor returns the session that a node continues which is validated at a
// locator: the one whose correspondent was validated there, else the one that has the
// record's name if the record lists that locator or its correspondent has announced
// it. nil: it is a node of its own. Locators that a pending peer announces do not count.
func (ca *cache) predecessor(local roam.NID, at roam.ILV) *session {
	for _, s := range ca.between(local, at.NID) {
		if r := s.remotes.find(at.L64); r != nil && r.validated {
			return s
		}
	}
	s := ca.holder(local, at.NID)
	if s == nil || !s.owned || !ca.lists(at) && s.remotes.find(at.L64) == nil {
		return nil
	}
	return s
}

// mayList reports whether a locator may become one of a session: not while it is
// that of another session with this NID, validated and alive. A nonce that no answer
// to a probe has carried proves nothing about the location of its node.
func (ca *cache) mayList(s *session, l roam.L64) bool {
	for _, o := range ca.between(s.localNID, s.remoteNID) {
		if o == s || o.dead || !o.confirmed {
			continue
		}
		if r := o.remotes.find(l); r != nil && r.validated {
			return false
		}
	}
	return true
}

// aliasFor returns the alias of a new session with a validated node, and whether
// the node owns the record's name. An NID without a record is free for the first
// node that claims it, until a record is added (AddPeer).
func (ca *cache) aliasFor(local roam.NID, at roam.ILV) (alias roam.NID, owned bool) {
	listed := ca.lists(at)
	if (listed || ca.known[at.NID] == nil) && ca.holder(local, at.NID) == nil {
		return at.NID, listed
	}
	return ca.alias(local, at), false
}

// alias returns a free alias for a further node that claims an NID, in the space of
// locally assigned identifiers (RFC 6741 §2.3). It is derived from the locator where
// the node was validated: sockets that outlive its session reach no other node.
func (ca *cache) alias(local roam.NID, at roam.ILV) roam.NID {
	const universal, group = 1 << 57, 1 << 56 // clear: a local scope, one node
	for i := uint64(1); ; i++ {
		var b []byte
		for _, v := range []uint64{uint64(local), uint64(at.NID), uint64(at.L64), i} {
			b = binary.BigEndian.AppendUint64(b, v)
		}
		sum := sha256.Sum256(b)
		h := roam.NID(binary.BigEndian.Uint64(sum[:]) &^ (universal | group))
		if _, taken := ca.known[h]; !taken && h != 0 && h != at.NID && ca.sessionOf(SessionKey{local, h}) == nil {
			return h
		}
	}
}

// sharesNonce returns the session whose nonce of ours this host sends to a pending peer at
// a locator; nil: none.
func (ca *cache) sharesNonce(local roam.NID, at roam.ILV) *session {
	s := ca.predecessor(local, at)
	if s == nil || s.remotes.find(at.L64) == nil {
		return nil
	}
	return s
}

// ownership moves the names of records between sessions, as nodes are validated and
// records change.
type ownership struct {
	cache        *cache
	preinstalled *preinstalled
	unnamed      unnamedSessions
	effects      ownershipEffects
}

// ownershipEffects are the effects that a change of names has on sessions.
type ownershipEffects interface {
	emit(Output)
	removeSession(now time.Time, s *session)
	// rekeyed writes the entry of a session under its new key; it had the key old.
	rekeyed(now time.Time, s *session, old SessionKey)
	adviseSession(now time.Time, s *session, k *correspondent)
}

// bestow gives a session the record's name, now that its node is validated at a
// locator which the record lists: besides its alias, which its sockets use.
// A session that has the name and is in use keeps it: they are two nodes.
func (o *ownership) bestow(now time.Time, s *session, l roam.L64) {
	if s.owned || !o.cache.lists(roam.ILV{NID: s.remoteNID, L64: l}) {
		return
	}
	old := o.cache.holder(s.localNID, s.remoteNID)
	if old != nil && old != s && old.state == Established && old.confirmed && !old.dead {
		return
	}
	o.takeName(now, s, old, l)
}

// takeName gives a session the name that old has had, if any, besides its alias.
func (o *ownership) takeName(now time.Time, s, old *session, l roam.L64) {
	name := s.nids()
	if old != nil && old != s {
		if !old.remotes.isThere(l) { // nothing proves that it is the same node
			o.abandon(old)
		}
		o.effects.removeSession(now, old)
		o.effects.emit(Notify{Event: Event{Time: now, Kind: SessionReplaced, Key: old.key, Locators: []roam.L64{l}}})
	}
	o.unnamed.leave(s)
	s.owned = old == nil || old == s || old.owned
	if s.key != name {
		o.preinstalled.remove(name)
		o.cache.name(s)
	}
	o.effects.emit(Notify{Event: Event{Time: now, Kind: SessionNamed, Key: s.key, Locators: []roam.L64{l}}})
	if k := o.cache.known[s.remoteNID]; k != nil {
		o.effects.adviseSession(now, s, k)
	}
	o.effects.emit(Release{Key: name})
}

// bestowAny gives a record's name to a session that was validated at a locator which the
// record lists only now.
func (o *ownership) bestowAny(now time.Time, local, nid roam.NID) {
	for _, s := range slices.Clone(o.cache.between(local, nid)) { // who gets the name ends who had it
		if o.cache.sessions[s.key] != s {
			continue // another one of them has taken its name
		}
		for _, l := range s.remotes.all() {
			if r := s.remotes.find(l); r != nil && r.validated {
				o.bestow(now, s, l)
			}
		}
	}
}

// abandon destroys the sockets of a session.
func (o *ownership) abandon(s *session) {
	o.effects.emit(Abandon{Key: s.key})
	if s.alsoNamed {
		o.effects.emit(Abandon{Key: s.nids()})
	}
}

// evict takes an alias that a record needs from a session that does not own it: its node
// claimed the NID before there was a record. The session goes on under another alias.
func (o *ownership) evict(now time.Time, key SessionKey) {
	s := o.cache.sessionOf(key)
	if s == nil || s.owned && s.remoteNID == key.Remote {
		return
	}
	at := roam.ILV{NID: s.remoteNID}
	for _, r := range s.remotes {
		if s.remoteNID == key.Remote && r.validated && o.cache.lists(roam.ILV{NID: key.Remote, L64: r.l64}) {
			s.owned = true
			o.unnamed.leave(s)
			return
		}
		if r.validated || at.L64 == 0 {
			at.L64 = r.l64
		}
	}
	o.abandon(s)
	old := s.key
	o.effects.emit(Delete{Key: old})
	o.cache.rekey(s, SessionKey{key.Local, o.cache.alias(key.Local, at)})
	o.effects.rekeyed(now, s, old)
	o.effects.emit(Notify{Event: Event{Time: now, Kind: SessionReplaced, Key: old, Locators: s.remotes.all(), Reason: "its identifier is another node's by a record"}})
}

// rekeyed ends the handoff of a session that had the key old, and writes its entry anew.
func (c *Core) rekeyed(now time.Time, s *session, old SessionKey) {
	c.settleHandoff(now, old)
	paths := s.entry.Paths
	s.entry = Entry{Seq: s.entry.Seq}
	c.upsert(now, s, paths)
}
