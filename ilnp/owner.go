package ilnp

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"roam"
)

// Whose name, whose session. An NID proves nothing: every node can claim every
// one. A record (the hosts file, a command, a look-up) says where its node is, so
// the record's name belongs to the node that was validated at a locator which the
// record, or the session that bears the name, lists. Another node with that NID
// gets a session of its own under an alias, without the record's locators. It may
// be the same node in a network that the record does not list; then it gets the
// name as soon as it is validated at a locator that the record does list.

// lists reports whether what was made known of a node has it at that locator.
func (c *node) lists(at roam.ILV) bool {
	k := c.known[at.NID]
	return k != nil && (k.anywhere || k.locators.find(at.L64) != nil)
}

// Listed reports whether a node is known, and whether it is where its record has it: a
// data plane delivers nothing under a known NID from elsewhere before its sender is
// validated.
func (c *node) Listed(at roam.ILV) (known, listed bool) {
	return c.known[at.NID] != nil, c.lists(at)
}

// holder returns the session that bears the NID of its correspondent as its
// alias, by key or besides it.
func (c *node) holder(local, nid roam.NID) *session {
	name := SessionKey{local, nid}
	if s := c.sessions[name]; s != nil {
		return s
	}
	return c.names[name]
}

// sessionOf returns the session with an alias.
func (c *node) sessionOf(key SessionKey) *session { return c.holder(key.Local, key.Remote) }

// recordOf returns what is known of the node behind a session: nil where that node
// has only claimed the NID. What such a node shows must not change the record.
func (c *node) recordOf(s *session) *correspondent {
	if !s.owned {
		return nil
	}
	return c.known[s.remoteNID]
}

// predecessor returns the session that a node continues which is validated at a
// locator: the one whose correspondent was validated there, else the one with the
// record's name if the record lists that locator or its correspondent has announced
// it. nil: it is a node of its own. What a pending peer announces does not count.
func (c *node) predecessor(local roam.NID, at roam.ILV) *session {
	for _, s := range c.between(local, at.NID) {
		if r := s.remotes.find(at.L64); r != nil && r.validated {
			return s
		}
	}
	s := c.holder(local, at.NID)
	if s == nil || !s.owned || !c.lists(at) && s.remotes.find(at.L64) == nil {
		return nil
	}
	return s
}

// mayList reports whether a locator may become one of a session: not while it is
// that of another session with this NID, validated and alive. A nonce that no answer
// to a probe has borne shows nothing of where its node is.
func (c *node) mayList(s *session, l roam.L64) bool {
	for _, o := range c.between(s.localNID, s.remoteNID) {
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
// node that claims it, until a record comes (AddPeer).
func (c *node) aliasFor(local roam.NID, at roam.ILV) (alias roam.NID, owned bool) {
	listed := c.lists(at)
	if (listed || c.known[at.NID] == nil) && c.holder(local, at.NID) == nil {
		return at.NID, listed
	}
	return c.alias(local, at), false
}

// alias returns a free alias for a further node that claims an NID, in the space of
// locally assigned identifiers (RFC 6741 §2.3). It follows from where the node was
// validated: sockets that outlive its session are nobody else's.
func (c *node) alias(local roam.NID, at roam.ILV) roam.NID {
	const universal, group = 1 << 57, 1 << 56 // clear: a local scope, one node
	for i := uint64(1); ; i++ {
		var b []byte
		for _, v := range []uint64{uint64(local), uint64(at.NID), uint64(at.L64), i} {
			b = binary.BigEndian.AppendUint64(b, v)
		}
		sum := sha256.Sum256(b)
		h := roam.NID(binary.BigEndian.Uint64(sum[:]) &^ (universal | group))
		if _, taken := c.known[h]; !taken && h != 0 && h != at.NID && c.sessionOf(SessionKey{local, h}) == nil {
			return h
		}
	}
}

// bestow gives a session the record's name, now that its node is validated at a
// locator which the record lists: besides its alias, under which sockets have it.
// A session that bears the name and is in use keeps it: they are two nodes.
func (c *Core) bestow(now time.Time, s *session, l roam.L64) {
	if s.owned || !c.lists(roam.ILV{NID: s.remoteNID, L64: l}) {
		return
	}
	old := c.holder(s.localNID, s.remoteNID)
	if old != nil && old != s && old.state == Established && old.confirmed && !old.dead {
		return
	}
	c.takeName(now, s, old, l)
}

// takeName gives a session the name that old has had, if any, besides its alias.
func (c *Core) takeName(now time.Time, s, old *session, l roam.L64) {
	name := SessionKey{s.localNID, s.remoteNID}
	if old != nil && old != s {
		if !old.remotes.isThere(l) { // nothing shows that it is the same node
			c.abandon(old)
		}
		c.removeSession(now, old)
		c.notify(Event{Time: now, Kind: SessionReplaced, Key: old.key, Locators: []roam.L64{l}})
	}
	c.unnamed.leave(s)
	s.owned = old == nil || old == s || old.owned
	if s.key != name {
		c.uninstall(name)
		c.names[name], s.alsoNamed = s, true
	}
	c.notify(Event{Time: now, Kind: SessionNamed, Key: s.key, Locators: []roam.L64{l}})
	if k := c.known[s.remoteNID]; k != nil {
		c.adviseSession(now, s, k)
	}
	c.emit(Release{Key: name})
}

// bestowAny gives a record's name to a session that has been validated where the
// record lists its node only now.
func (c *Core) bestowAny(now time.Time, local, nid roam.NID) {
	for _, s := range c.between(local, nid) {
		for _, l := range s.remotes.all() {
			if r := s.remotes.find(l); r != nil && r.validated {
				c.bestow(now, s, l)
			}
		}
	}
}

// abandon destroys the sockets of a session.
func (c *Core) abandon(s *session) {
	c.emit(Abandon{Key: s.key})
	if s.alsoNamed {
		c.emit(Abandon{Key: SessionKey{s.localNID, s.remoteNID}})
	}
}

// evict takes an alias that is wanted for a record from a session that has no claim
// to it: its node was there before the record was. It goes on under another one.
func (c *Core) evict(now time.Time, key SessionKey) {
	s := c.sessionOf(key)
	if s == nil || s.owned && s.remoteNID == key.Remote {
		return
	}
	at := roam.ILV{NID: s.remoteNID}
	for _, r := range s.remotes {
		if s.remoteNID == key.Remote && r.validated && c.lists(roam.ILV{NID: key.Remote, L64: r.l64}) {
			s.owned = true
			c.unnamed.leave(s)
			return
		}
		if r.validated || at.L64 == 0 {
			at.L64 = r.l64
		}
	}
	c.abandon(s)
	c.rekey(now, s, SessionKey{key.Local, c.alias(key.Local, at)})
}

// rekey gives a session another alias in place of those it has.
func (c *Core) rekey(now time.Time, s *session, key SessionKey) {
	old := s.key
	c.emit(Delete{Key: old})
	c.settleHandoff(now, old)
	delete(c.sessions, old)
	delete(c.names, SessionKey{s.localNID, s.remoteNID})
	s.key, s.alsoNamed = key, false
	c.sessions[key] = s
	slices.SortFunc(c.between(s.localNID, s.remoteNID), func(a, b *session) int { return compareKey(a.key, b.key) })
	paths := s.entry.Paths
	s.entry = Entry{Seq: s.entry.Seq}
	c.upsert(now, s, paths)
	c.notify(Event{Time: now, Kind: SessionReplaced, Key: old, Locators: s.remotes.all(), Reason: "its identifier is another node's by a record"})
}
