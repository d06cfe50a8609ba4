package ilnp

import (
	"slices"
	"time"

	ilnpwire "roam/wire/ilnp"
)

// doubtNonce takes the reply to a session's probe that bears another nonce than
// the one that we know. The token shows that it comes from where the probe went:
// it is the proof of a pending peer. Without this, a correspondent that takes our
// nonce for right, and so sends without its own, would never be understood.
func (c *Core) doubtNonce(now time.Time, s *session, pr probe, p ilnpwire.Packet) {
	if other := c.byNonce(s.localNID, s.remoteNID, p.Nonce); other != nil {
		c.unite(now, s, other, pr, p)
		return
	}
	key := Pending{Local: s.localNID, Remote: p.Src, Nonce: p.Nonce}
	k := c.pendingPeers[key]
	if k == nil {
		if !c.makeRoom(now, key) {
			c.refuse(now, s.key, reasonTooMany)
			return
		}
		k = &pendingPeer{key: key, alias: SessionKey{s.localNID, s.remoteNID}, at: pr.path.Local, own: s.localNonce, nonce: p.Nonce, since: now}
		if c.predecessor(key.Local, key.Remote) != s {
			// The locator is one that a pending peer announced: it knows that nonce.
			n, ok := c.drawNonce(now)
			if !ok {
				return
			}
			k.own = n
		}
		c.addPending(k)
	}
	c.pendingReply(now, k, p, now.Sub(pr.sent))
}

// doubtPlace asks whose nonce it is that comes from elsewhere than where our first
// packets went, when no answer to a probe has borne it yet: the node that is there
// gets a session of its own.
func (c *Core) doubtPlace(now time.Time, s *session, o Observation) {
	key := Pending{Local: s.localNID, Remote: o.Remote, Nonce: o.Nonce}
	if k := c.pendingPeers[key]; k != nil {
		c.hear(now, k, o)
		return
	}
	if !o.Nonce.Present() || !c.makeRoom(now, key) {
		return
	}
	n, ok := c.drawNonce(now)
	if !ok {
		return
	}
	c.accounts.receivedInAll(now, o.Remote, o.Bytes, 1)
	k := &pendingPeer{key: key, alias: SessionKey{s.localNID, s.remoteNID}, at: o.Local, own: n, nonce: o.Nonce, since: now, encap: o.Encapsulated}
	c.addPending(k)
	c.probePending(now, k)
}

// disown takes from a session the nonce that has turned out to be that of a node
// elsewhere: it has none yet.
func (c *Core) disown(now time.Time, s *session) {
	s.state, s.remoteNonce, s.early, s.holdback = Initiated, Nonce{}, nil, holdback{}
	c.suspendUpdate(s)
	c.forgetProfile(s)
	s.passages = nil
	s.multipath.ForgetWish()
	c.arm(&s.schedule, timerSetup, now, setupPatience)
	c.refresh(now, s)
}

// unite makes one session of two that were taken for those of two nodes with one
// NID, as packets with the old nonce came late: where the one is to be found, the
// other one's nonce answers, and its own has not been heard of late. The session goes
// on whose nonce that is, with the other one's name. A locator that a session only
// announced, and where another one's node is, is no locator of it.
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
