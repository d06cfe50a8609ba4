package ilnp

import (
	"slices"
	"time"

	ilnpwire "roam/wire/ilnp"
)

// Several nodes may claim one NID (RFC 6741 §5.4). A nonce that comes from another locator
// than its session's, or another nonce in the answer to a session's probe, begins a
// validation of its own.

// doubtNonce handles the reply to a session's probe that has another nonce than the one
// that we know.
func (c *Core) doubtNonce(now time.Time, s *session, pr probe, p ilnpwire.Packet) {
	if other := c.byNonce(s.localNID, s.remoteNID, p.Nonce); other != nil {
		c.unite(now, s, other, pr, p)
		return
	}
	if c.proves(s.remoteNID) {
		handshakes{c}.renew(now, s)
		return
	}
	c.pending.openByReply(now, s, pr, p)
}

// openByReply validates the peer that has answered a session's probe with a nonce of its
// own. The token proves that the answer comes from the locator that was probed. Without
// this, a correspondent that treats our nonce as known, and so sends without its own, would
// never be understood.
func (ps *pendingPeers) openByReply(now time.Time, s *session, pr probe, p ilnpwire.Packet) {
	key := Pending{Local: s.localNID, Remote: p.Src, Nonce: p.Nonce}
	k := ps.byKey[key]
	if k == nil {
		if !ps.makeRoom(now, key) {
			ps.effects.refuse(now, s.key, reasonTooMany)
			return
		}
		k = &pendingPeer{key: key, alias: s.nids(), at: pr.path.Local, own: s.localNonce, nonce: p.Nonce, since: now}
		if ps.cache.predecessor(key.Local, key.Remote) != s {
			// The locator is one that a pending peer announced: it knows that nonce.
			n, ok := ps.drawNonce(now)
			if !ok {
				return
			}
			k.own = n
		}
		ps.add(k)
	}
	ps.validateByReply(now, k, p, now.Sub(pr.sent))
}

// openElsewhere begins the validation of a peer whose nonce is that of a session, and comes
// from another locator than the one that our first packets went to, when no answer to a
// probe has carried it yet: the node that is there gets a session of its own.
func (ps *pendingPeers) openElsewhere(now time.Time, s *session, o Observation) {
	key := Pending{Local: s.localNID, Remote: o.Remote, Nonce: o.Nonce}
	if k := ps.byKey[key]; k != nil {
		ps.receive(now, k, o)
		return
	}
	if !o.Nonce.Present() || !ps.makeRoom(now, key) {
		return
	}
	n, ok := ps.drawNonce(now)
	if !ok {
		return
	}
	ps.accounts.receivedInAll(now, s.key, o.Remote, o.Bytes, 1)
	k := &pendingPeer{key: key, alias: s.nids(), at: o.Local, own: n, nonce: o.Nonce, since: now, encap: o.Encapsulated}
	ps.add(k)
	ps.probeInTurn(now, k)
}

func (ps *pendingPeers) drawNonce(now time.Time) (Nonce, bool) {
	n := Nonce{Len: ps.cfg.NonceLength}
	return n, ps.effects.draw(now, n.Bytes[:n.Len])
}

// disown takes from a session the nonce that another node, at another locator, has proven
// to be its own: the session has none yet.
func (c *Core) disown(now time.Time, s *session) {
	s.state, s.remoteNonce, s.early, s.holdback = Initiated, Nonce{}, nil, holdback{}
	c.suspendUpdate(s)
	c.forgetProfile(s)
	s.passages = nil
	s.multipath.ForgetWish()
	c.arm(&s.schedule, timerSetup, now, setupPatience)
	c.refresh(now, s)
}

// unite makes one session of two that were mistaken for those of two nodes with one NID,
// as packets with the old nonce came late: at the locator of the one, the other one's
// nonce answers, and its own has not come of late. The session with that nonce goes on,
// with the other one's name. A locator that a session only announced, and where another
// one's node is, is no locator of it.
func (c *Core) unite(now time.Time, s, other *session, pr probe, p ilnpwire.Packet) {
	l := p.Src.L64
	switch r := s.remotes.find(l); {
	case s == other:
		c.refuse(now, s.key, reasonWrongNonce)
		return
	case c.predecessor(s.localNID, p.Src) != s && !(c.holder(s.localNID, s.remoteNID) == s && c.lists(p.Src)):
		if r != nil && !r.validated && len(s.remotes) > 1 {
			s.remotes = slices.DeleteFunc(s.remotes, func(r remote) bool { return r.l64 == l })
			c.remotesChanged(now, s)
		}
		c.refuse(now, s.key, reasonElsewhere)
		return
	case other.keys != nil && other.remotes.find(l) == nil: // its next update lists it, if it is there
		c.refuse(now, other.key, reasonMoveNoMAC)
		return
	case !s.dead && s.confirmed && now.Sub(s.lastNonceRx) < max(3*s.rtt, silenceMin):
		c.refuse(now, s.key, reasonWrongNonce)
		return
	}
	if c.holder(s.localNID, s.remoteNID) != s {
		c.endSession(now, s, "one node with "+other.key.String())
		s = nil
	}
	if other.remotes.find(l) == nil {
		other.remotes.put(l, preferValid, time.Time{})
	}
	other.remotes.find(l).validate()
	if s != nil {
		c.names.takeName(now, other, s, l)
	}
	c.remotesChanged(now, other)
}
