package ilnp

import "time"

// A peer whose key the user has given is not spoken to by plain IPv6 unless its record allows
// that: whoever drops the Nonce option on the path, or takes the peer's address, would otherwise
// have the traffic without a proof. What would leave as plain IPv6 fails instead.

// guardFor is how long packets to a guarded peer that did not answer as such are refused at once.
// Then the next one asks the peer again.
const guardFor = 2 * time.Second

// guard is how a correspondent is kept from being spoken to by less than it can do.
type guard struct {
	on       bool      // no plain IPv6
	optional bool      // its key may be missing from a session
	why      string    // why plain IPv6 was last refused, since the last session; "": it was not
	until    time.Time // packets are refused until then
}

// setGuard takes over what the user wants; packets that were refused before are not refused any more. A session
// that is plain and must not be any more ends. So does one that waits for a proof which is not needed any more: the
// next packet begins one without.
func (c *Core) setGuard(now time.Time, k *correspondent, p Peer) {
	if k.guard.on == p.Guarded && k.guard.optional == p.Optional {
		return
	}
	k.guard = guard{on: p.Guarded, optional: p.Optional}
	for _, s := range c.of(k.nid) {
		switch {
		case p.Optional && (s.state == Initiated && s.hs != nil || s.state == Plain && s.noProof):
			c.endSession(now, s, reasonOptional)
		case s.state == Plain:
			c.refusesPlain(now, s)
		}
	}
}

// refusesPlain ends a session that has become plain although its peer is guarded, and reports
// whether it did. Held packets are answered with Destination Unreachable.
func (c *Core) refusesPlain(now time.Time, s *session) bool {
	k := c.recordOf(s)
	if k == nil || !k.guard.on {
		return false
	}
	k.guard.why, k.guard.until = s.whyPlain(), now.Add(guardFor)
	c.emit(Reject{Key: s.key})
	c.notify(Event{Time: now, Kind: PlainRefused, Key: s.key, Reason: k.guard.why})
	c.endSession(now, s, reasonGuarded)
	return true
}

// reasonGuarded is why a session ended that must not be plain.
const reasonGuarded = "plain IPv6 is not allowed with this peer, as its key is known"

// reasonOptional is why a session ended whose peer may lack its key from now on.
const reasonOptional = "it waited for a proof that is not needed any more"

// refusal says why connections to the peer of a session fail; "": they do not.
func (k *correspondent) refusal(s *session) string {
	if s.state == Established && s.dead && s.noProof {
		return WhyNoProof
	}
	return k.guard.why
}

// isGuarded reports whether a session must not become plain.
func (ca *cache) isGuarded(s *session) bool {
	k := ca.recordOf(s)
	return k != nil && k.guard.on
}

// isUnfollowed reports whether the data plane must not conclude anything by itself: neither where
// the peer is, from its nonce, nor, before there is one, that a guarded peer has no ILNP.
func (c *steering) isUnfollowed(s *session) bool {
	if s.state != Established {
		return c.isGuarded(s)
	}
	return !s.confirmed || s.keys != nil
}

// mayLackKey reports whether updates of a keyed session count without a MAC: the user allows
// it, and the peer has not shown in this session that it has the key.
func (ca *cache) mayLackKey(s *session) bool {
	k := ca.recordOf(s)
	return k != nil && k.guard.optional && s.keys.updated == 0 && s.keys.acks.top == 0
}
