package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	"roam/nidkey"
)

// After a rotation two Node Identifiers live side by side for a time, at both ends. This host
// keeps its former one (Config.Former): sessions of it go on, and none begins under it. A
// correspondent whose key has vouched for another one is retired: its sessions go on with the keys
// that they have, and nothing new is accepted from it.

// isFormer reports whether a Node Identifier is one that this host had before.
func (cfg *Config) isFormer(nid roam.NID) bool { return cfg.Former != 0 && nid == cfg.Former }

// FormerInUse reports whether this host still needs its former Node Identifier: sessions, for those
// of it that live; vouches, as its old key may vouch for the present one.
func (c *Core) FormerInUse(now time.Time) (sessions, vouches bool) {
	old := c.inheritance.old
	sessions = c.ofLocal[c.cfg.Former] > 0
	return sessions, old != nil && old.NID == c.cfg.Former && now.Before(old.Until)
}

// ForgetFormer gives the former Node Identifier up. Its sessions end.
func (c *Core) ForgetFormer(now time.Time) {
	former := c.cfg.Former
	for _, s := range c.sorted() {
		if s.localNID == former {
			c.endSession(now, s, reasonFormer)
		}
	}
	for nid := range c.known {
		c.pending.dropAll(now, former, nid)
	}
	c.cfg.Former = 0
	c.cfg.NIDs = slices.DeleteFunc(slices.Clone(c.cfg.NIDs), func(n roam.NID) bool { return n == former })
}

// RetirePeer is RemovePeer for a correspondent whose key has vouched for another one: its
// established sessions go on until they are idle, if they have keys.
func (c *Core) RetirePeer(now time.Time, nid roam.NID) {
	k := c.known[nid]
	if k == nil {
		return
	}
	k.retired, k.names = true, nil
	c.preinstalled.remove(SessionKey{c.cfg.NIDs[0], nid})
	for _, s := range c.of(nid) {
		switch {
		case s.state != Established || s.keys == nil || s.keys.in == nil || s.agreed != nil && !s.agreed.confirmed:
			c.endSession(now, s, "removed")
		default: // its offer, if it makes one, will not be answered
			s.hs = nil
			c.upsert(now, s, s.entry.Paths)
		}
	}
	for _, local := range c.cfg.NIDs {
		c.pending.dropAll(now, local, nid)
	}
	c.forgetRetired(nid)
}

// forgetRetired forgets a retired correspondent with its last session.
func (ca *cache) forgetRetired(nid roam.NID) {
	if k := ca.known[nid]; k != nil && k.retired && len(ca.byRemote[nid]) == 0 {
		delete(ca.known, nid)
	}
}

// forgetUnused forgets the retired correspondents that have no session.
func (ca *cache) forgetUnused() {
	for _, nid := range slices.Collect(maps.Keys(ca.known)) {
		ca.forgetRetired(nid)
	}
}

// secretOf returns what this host shares with the peer of a session under the Node Identifier that
// the session has here; known: it can be told.
func (c *node) secretOf(s *session) (secret nidkey.Secret, known bool) {
	k := c.known[s.remoteNID]
	switch {
	case k == nil:
		return secret, true
	case k.keyed && !k.secret.Present(): // restored, and not added yet
		return secret, false
	case !c.cfg.isFormer(s.localNID) || s.agreed != nil:
		return k.secret, true
	case c.formerKey == nil:
		return secret, false
	}
	secret, err := c.formerKey.Shared(k.public)
	return secret, err == nil
}
