package ilnp

import (
	"time"

	"roam"
)

// Sessions that the correspondent begins: its first packets make a pending peer, and once
// that is validated, a session.

// handlePending handles a nonce packet for which the data plane has no session. The core
// may have one: made since the data plane looked, or with a correspondent that shares its
// NID with another one, and has moved to a locator that the data plane does not know.
func (c *Core) handlePending(now time.Time, o Observation) {
	key := c.pending.keyOf(o)
	if o.Held && !o.Nonce.Present() {
		c.pending.receiveBare(now, key, o)
		return
	}
	s, reason := c.byNonce(key.Local, o.Remote.NID, o.Nonce), c.pending.refusal(key, o)
	switch k := c.pending.byKey[key]; {
	case reason != "":
		c.pending.turnAway(now, key, o, reason)
	case s != nil:
		c.pending.deliver(key, s, o)
		if s.remotes.find(o.Remote.L64) == nil {
			c.handleElsewhere(now, s, o)
		}
	case k != nil:
		c.pending.receive(now, k, o)
	case c.cache.expects(key):
		// Both ends began at once: this is the nonce that a session of ours waits for.
		s = c.holder(key.Local, o.Remote.NID)
		c.handleNonce(now, s, o)
		c.pending.deliver(key, s, o)
	default:
		c.pending.open(now, key, o)
	}
}

// deliver delivers a held packet of a correspondent that has a session.
func (ps *pendingPeers) deliver(key Pending, s *session, o Observation) {
	if o.Held {
		ps.effects.emit(Admit{Pending: key, Key: s.key})
	}
}

// expects reports whether a session that our packets began waits for the first nonce from
// the locator of a peer.
func (ca *cache) expects(key Pending) bool {
	s := ca.holder(key.Local, key.Remote.NID)
	return s != nil && s.state == Initiated && !ca.proves(key.Remote.NID) && s.remotes.find(key.Remote.L64) != nil
}

// session makes the session of a validated peer, in the place of old if that is not nil: the
// node is the same then, so it keeps the alias, the record's name and the limit of probes.
// Else it gets a free alias.
func (ps *pendingPeers) session(now time.Time, k *pendingPeer, old *session) *session {
	key, owned, spent := SessionKey{Local: k.alias.Local}, ps.cache.lists(k.key.Remote) || k.offer != nil, bucket{}
	if old != nil {
		key, owned, spent = old.key, owned || old.owned, old.probeBucket
	} else if key.Remote = k.key.Remote.NID; k.offer == nil || ps.cache.holder(key.Local, key.Remote) != nil {
		key.Remote, owned = ps.cache.aliasFor(key.Local, k.key.Remote)
	}
	s := &session{
		key: key, localNID: k.key.Local, remoteNID: k.key.Remote.NID, localNonce: k.own,
		profile: ps.cfg.defaultProfile(), rtt: k.rtt, owned: owned && key.Remote == k.key.Remote.NID, confirmed: true,
		echoes: !k.quiet, lastRx: now, lastNonceRx: now, probeBucket: spent,
	}
	s.remotes.put(k.key.Remote.L64, preferActive, time.Time{})
	if known := ps.cache.known[s.remoteNID]; known != nil {
		s.profile = known.profile
		for _, r := range known.locators {
			switch {
			case r.l64 == k.key.Remote.L64:
				s.remotes.find(r.l64).given = true
			case s.owned:
				s.remotes.give(r.l64, preferValid, r.expires)
			}
		}
	}
	s.decideRule(k.found)
	s.asks = s.asks || k.runsRoam || k.encap || k.offer != nil
	s.takeControl(k.control)
	s.nonceAlways = s.nonceAlways || k.quiet && !s.asks && !s.nonceFixed
	if !k.knowsMore && ps.host.isOnly(k.at.L64) {
		s.update.listing = []listed{{k.at.L64, ps.host.preferenceAt(k.at.L64)}}
	}
	if k.encap {
		s.restoreEncap(now, []Path{{Local: k.at, Remote: k.key.Remote.L64}})
	}
	return s
}

// startFrom makes a session of a validated peer, in the place of old if that is not nil.
func (c *Core) startFrom(now time.Time, k *pendingPeer, old *session) {
	if old != nil {
		c.endReplaced(now, k, old)
	}
	s, at := c.pending.session(now, k, old), k.key.Remote.L64
	if r := c.recordOf(s); r != nil {
		r.decideRule(k.found)
	}
	if !s.owned {
		if excess := c.names.unnamed.excess(at); excess != nil {
			c.endSession(now, excess, reasonSite)
		}
		c.makeEntry(now)
	}
	if k.offer == nil {
		handshakes{c}.begun(now, s, k, old)
	} else if s.agreed = (handshakes{c}).agree(now, s, k.offer, k.nonce, false); s.agreed == nil {
		c.pending.drop(now, k)
	} else {
		c.rest = append(c.rest, func() { handshakes{c}.begun(now, s, k, old) }) // the peer waits for the answer
	}
}

// begun lets the session of a validated peer begin: see startFrom.
func (c handshakes) begun(now time.Time, s *session, k *pendingPeer, old *session) {
	at, sent := k.key.Remote.L64, tokens(nil)
	if s.agreed != nil {
		sent, k.sent = k.sent, nil // its answers count as the session's
	}
	if old != nil && old.hs != nil && s.agreed != nil && s.localNID < s.remoteNID {
		s.crossed = &crossed{old.hs, old.localNonce}
	}
	c.pending.admit(now, k, s) // before the entry: packets that come by that must not overtake it
	c.addSession(now, s, "a packet of the correspondent was the first")
	c.probes.inherit(s, sent)
	if !s.owned {
		c.names.unnamed.enter(s, at)
	}
	s.startKnowing(k.at.L64)
	c.establish(now, s, k.nonce, at)
	if s.agreed != nil {
		c.awaitConfirm(now, s)
		c.emit(Admit{Pending: k.key, Key: s.key}) // its first packet is right behind the offer
	}
	if !k.proof.sent.IsZero() && s.update.state == untold {
		c.repeatUpdate(now, s) // the lifetime in the proof was shorter than that of the locator
	}
	c.pending.releaseExcess(s)
	if k.early != nil {
		s.earlyAnswered, s.earlyCounted = k.earlyAcked, true
		c.HandlePacket(now, k.earlyLink, k.early)
		s.earlyAnswered, s.earlyCounted = false, false
	}
	if old != nil && !old.alsoNamed {
		if s := c.sessions[old.key]; s != nil {
			c.tellPaths(s, old.entry, s.entry)
		}
	}
}

// releaseExcess sends the answers that exceed the allowance of a pending peer by its
// session, which is new. Those to another peer, which was answered under that alias, are
// given up: they must not go to this one.
func (ps *pendingPeers) releaseExcess(s *session) {
	for _, o := range ps.byNIDs[SessionKey{s.localNID, s.remoteNID}] {
		if o.excess && o.alias == s.key && o.key.Nonce != s.remoteNonce {
			ps.effects.emit(Reject{Key: s.key})
			return
		}
	}
	ps.effects.emit(Release{Key: s.key})
}

// endReplaced ends the session that a node has lost its half of. Its entry is replaced, not
// removed first: in between, packets without nonce would be plain IPv6, and the stack would
// reset their connections.
func (c *Core) endReplaced(now time.Time, k *pendingPeer, old *session) {
	known := k.offer != nil && old.agreed != nil // both have proven to be the node with the key
	if old.state == Established && !known && !old.remotes.isThere(k.key.Remote.L64) {
		// The peer is at the record's locator, and the session was elsewhere: nothing
		// proves that the node is the same, so connections must not go on with it.
		c.names.abandon(old)
	}
	also := old.alsoNamed
	c.unlink(now, old)
	c.settleHandoff(now, old.key)
	c.notify(Event{Time: now, Kind: SessionReplaced, Key: old.key, Locators: []roam.L64{k.key.Remote.L64}})
	if also {
		c.emit(Delete{Key: old.key}) // with both of its aliases
	}
}
