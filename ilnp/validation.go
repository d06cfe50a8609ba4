package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Limits of pending peers.
const (
	maxPending   = 8192
	maxOfOneNID  = 256                    // of them
	queueSlack   = 64                     // decided pending peers that may stand in the queue
	pendingFirst = 300 * time.Millisecond // to the second probe, doubled each time
	pendingTries = 6                      // 19 s in all
	pendingAgain = 100 * time.Millisecond // least time between probes that its own packets cause
	silenceMin   = 200 * time.Millisecond // how long an old nonce must be silent, if 3 RTT are less
	silenceAsks  = 3                      // how often it is asked, doubling that, where two nodes may be: 1.4 s in all
)

// validationState is where a pending peer stands.
type validationState uint8

const (
	unvalidatedPeer validationState = iota // probes are under way
	waiting                                // validated, but its NID has a session: is the old nonce silent?
)

// pending peer is a correspondent that showed a nonce without a session of ours:
// one that opens a session, or one that comes back without its state. It
// becomes a session only when it is proven to receive where it claims to be,
// so that forged first packets cost an entry here and no session.
type pendingPeer struct {
	schedule
	control            // as its answers showed it
	key                Pending
	alias              SessionKey // as the data plane named it
	listed             bool       // by a record or a session, at this locator: that is where its NID is
	held               bool       // packets of it wait,
	bare               bool       // some without its nonce, which it showed in UDP there
	at                 roam.LinkLocator
	own                Nonce // what the data plane answers this node with
	nonce              Nonce // what the node showed when it was validated
	found              FoundRule
	asks               bool // its packets were probes, too
	knowsMore          bool // its packets came to several of our locators
	encap              bool // its nonce came in UDP, or its answer did
	state              validationState
	tries              int
	asked              int // how often the old nonce was
	sent               tokens
	since, validatedAt time.Time
	probed             time.Time
	life               pendingLife
	acked              bool // a packet acknowledged our SYN-ACK
	proof              lifetimeProof
	quiet              bool // it was validated otherwise than by the reply to a probe
	rtt                time.Duration
	early              []byte // a Locator Update that came before the session, whole
	earlyLink          roam.LinkID
	earlyAnswered      bool // it was acknowledged
}

// handlePending takes a nonce packet that belongs to no session.
func (c *Core) handlePending(now time.Time, o Observation) {
	key := Pending{Local: c.cfg.ownNID(o.LocalNID), Remote: o.Remote, Nonce: o.Nonce}
	if o.Held && !o.Nonce.Present() {
		c.hearBare(now, key, o)
		return
	}
	reason := ""
	switch s := c.byNonce(key.Local, o.Remote.NID, o.Nonce); {
	case !c.cfg.acceptable(o.Remote.L64) || o.Remote.NID == 0:
		reason = reasonLocator
	case !o.Nonce.Present() || !o.OwnNonce.Present():
		reason = reasonNoNonce
	case c.cfg.Accept == Known && c.known[o.Remote.NID] == nil && len(c.between(key.Local, o.Remote.NID)) == 0:
		reason = reasonAccept
	case s != nil:
		c.handleKnownNonce(now, s, o)
		return
	case c.pendingPeers[key] != nil:
		c.hear(now, c.pendingPeers[key], o)
		return
	case c.openedAtOnce(now, key, o):
		return
	case !c.makeRoom(now, key):
		reason = reasonTooMany
	}
	if reason != "" {
		c.refuse(now, o.Key, reason)
		if o.Held {
			c.emit(Dismiss{Pending: key, Key: o.Key})
		}
		return
	}
	k := &pendingPeer{key: key, alias: o.Key, at: o.Local, own: o.OwnNonce, nonce: o.Nonce, since: now, encap: o.Encapsulated}
	c.addPending(k)
	c.accounts.received(now, o.Remote, o.Bytes, min(o.Bytes, 1))
	k.held = o.Held
	k.learn(o.Found)
	k.life.note(now, o.Packets)
	c.probePending(now, k)
}

// openedAtOnce reports whether both ends began at once: the nonce is the one that a
// session of ours waits for.
func (c *Core) openedAtOnce(now time.Time, key Pending, o Observation) bool {
	s := c.holder(key.Local, o.Remote.NID)
	if s == nil || s.state != Initiated || s.remotes.find(o.Remote.L64) == nil {
		return false
	}
	c.handleNonce(now, s, o)
	if o.Held {
		c.emit(Admit{Pending: key, Key: s.key})
	}
	return true
}

// hear takes another packet of a pending peer.
func (c *Core) hear(now time.Time, k *pendingPeer, o Observation) {
	c.accounts.received(now, o.Remote, o.Bytes, 1)
	k.held = k.held || o.Held
	k.learn(o.Found)
	k.life.note(now, o.Packets)
	k.cameTo(c, now, o.Local)
	c.nudge(now, k)
}

// hearBare takes a held packet without a nonce: it is a pending peer's by its place.
func (c *Core) hearBare(now time.Time, key Pending, o Observation) {
	for _, k := range c.pending[SessionKey{key.Local, key.Remote.NID}] {
		if k.key.Remote == key.Remote {
			c.hear(now, k, o)
			k.bare = true
			return
		}
	}
	if s := c.predecessor(key.Local, key.Remote); s != nil {
		c.emit(Admit{Pending: key, Key: s.key})
		return
	}
	c.emit(Dismiss{Pending: key, Key: o.Key})
}

// bareOf names what is held of a pending peer's place without a nonce.
func (k *pendingPeer) bareOf() Pending { return Pending{Local: k.key.Local, Remote: k.key.Remote} }

// handleKnownNonce takes a nonce that does belong to a session: one made since
// the data plane looked, or that of a correspondent which shares its NID with
// another one, and which has moved to where the data plane does not know it.
func (c *Core) handleKnownNonce(now time.Time, s *session, o Observation) {
	if o.Held {
		c.emit(Admit{Pending: Pending{Local: s.localNID, Remote: o.Remote, Nonce: o.Nonce}, Key: s.key})
	}
	if s.remotes.find(o.Remote.L64) == nil {
		c.handleElsewhere(now, s, o)
	}
}

// nudge probes a pending peer that has sent once more: where much is lost, it is
// asked as often as it speaks, and a forged first packet still causes few
// packets.
func (c *Core) nudge(now time.Time, k *pendingPeer) {
	if k.state == unvalidatedPeer && now.Sub(k.probed) >= k.asksAgain() {
		c.probePendingPeer(now, k)
	}
}

// cameTo notes where another of its packets came in: the network of the first one
// may be gone, and it may know more locators of ours than that one.
func (k *pendingPeer) cameTo(c *Core, now time.Time, at roam.LinkLocator) {
	k.knowsMore = k.knowsMore || at.L64 != k.at.L64
	if !slices.ContainsFunc(c.host.usable(now), func(l *local) bool { return l.LinkLocator == k.at }) {
		k.at = at
	}
}

// learn keeps the rule of checksums that its packets show; probes show none. The first
// one counts: a copy under the other rule may follow it.
func (k *pendingPeer) learn(f FoundRule) {
	if k.nonce != k.key.Nonce {
		return // another node's packets, see shownBy
	}
	switch f {
	case FoundProbe:
		k.asks = true
	case FoundIPv6, FoundRFC6741:
		if k.found == NotFound {
			k.found = f
		}
	}
}

// probePendingPeer probes a pending peer: in the form of the RFCs at first, unless it spoke
// in UDP, then in that by the other checksum rule, unless it runs Roam, and in both
// forms by turns when that stayed without an answer. Where its NID is known to be it
// gets both at once.
//
// One question asks all that claim to be at one locator: the answer says which nonce
// is there. So one in pendingAgain does, however many nonces are shown from there.
func (c *Core) probePendingPeer(now time.Time, k *pendingPeer) {
	a := c.accounts.of(now, k.key.Remote)
	if now.Sub(a.probed) < pendingAgain {
		return
	}
	a.probed, k.probed = now, now
	forms := []ProbeForm{FormOption, FormUDP}
	turn := k.turn()
	udp := k.encap != (turn%2 == 1)
	switch {
	case c.cfg.UDPPort == 0 || k.noUDP || turn == 0 && !k.encap:
		forms = forms[:1]
	case turn > 0 && k.listed: // the first one was lost, or could not pass
	case udp:
		forms = forms[1:]
	default:
		forms = forms[:1]
	}
	own, at := c.ownTowards(k)
	if k.asksByUpdate(now) && c.askByUpdate(now, k) && forms[0] == FormOption {
		forms = forms[1:] // it goes in place of that
	}
	for _, form := range forms {
		pr := probe{path: Path{Local: at, Remote: k.key.Remote.L64}, form: form}
		c.sendProbe(now, k, &k.sent, SessionKey{k.key.Local, k.key.Remote.NID}, own, pr)
	}
}

// ownTowards returns the nonce to show a pending peer, and from where. Where the
// session with its NID sends anyway, that is the session's: as long as we
// remember it, it does not change, whatever the other end has forgotten. So two
// ends that both took the other one for new end with one nonce each, in place of
// answering each new nonce with a further one. Elsewhere it is that of a
// pending peer: else whoever claims a NID could have the nonce that its true owner
// takes for ours.
//
// The session's nonce goes first from where the session sends: a correspondent
// follows it to wherever it comes from, and no update would ever call it back
// from a locator that it was never told of. From there it goes only when two
// that left elsewhere had no answer.
func (c *Core) ownTowards(k *pendingPeer) (own Nonce, at roam.LinkLocator) {
	s := c.sharesNonce(k.key.Local, k.key.Remote)
	if s == nil {
		return k.own, k.at
	}
	if len(s.entry.Paths) > 0 && !s.sendsFrom(k.at) && k.tries < 2 {
		return s.localNonce, s.entry.Paths[0].Local
	}
	return s.localNonce, k.at
}

func (c *Core) probePending(now time.Time, k *pendingPeer) {
	c.probePendingPeer(now, k)
	c.arm(&k.schedule, timerProbe, now, pendingFirst<<k.tries)
	k.tries++
}

// fire probes again, gives a pending peer up, or ends its waiting.
func (k *pendingPeer) fire(c *Core, now time.Time, _ timer) {
	switch {
	case k.state == waiting:
		c.decidePending(now, k)
	case k.acked && c.isPlace(k.key.Remote):
		c.validatedBySynAck(now, k)
	case k.acked && k.tries < echoesFirst:
		c.askInstead(now, k)
	case k.tries >= pendingTries && k.life.goesOn(now):
		c.askSlowly(now, k)
	case k.tries >= pendingTries:
		c.giveUp(now, k)
	default:
		c.probePending(now, k)
	}
}

// giveUp forgets a pending peer that did not answer, and has the data plane forget
// it too: as long as that answers to where it was seen, no packet of ours would
// set up a session with where it may be now. Others with its NID keep what the data
// plane has of them, by their nonces.
func (c *Core) giveUp(now time.Time, k *pendingPeer) {
	c.dropPending(now, k)
	others := c.pending[SessionKey{k.key.Local, k.key.Remote.NID}]
	if c.sessionOf(k.alias) != nil || slices.ContainsFunc(others, func(o *pendingPeer) bool { return o.key.Nonce == k.key.Nonce }) {
		return
	}
	c.emit(Dismiss{Pending: k.key, Key: k.alias})
	if len(others) == 0 {
		c.letGo(k.alias)
	}
}

// pendingReply takes the proof: the node has what was sent to its locator.
// The nonce of the reply is the one that it uses now.
func (c *Core) pendingReply(now time.Time, k *pendingPeer, p ilnpwire.Packet, rtt time.Duration) {
	if k.state == unvalidatedPeer {
		c.pendingValidated(now, k, p.Nonce, rtt)
	}
}

// pendingValidated goes on with a pending peer that was validated at its locator, with the
// nonce that it uses now.
func (c *Core) pendingValidated(now time.Time, k *pendingPeer, n Nonce, rtt time.Duration) {
	k.rtt, k.nonce, k.validatedAt = rtt, n, now
	s := c.byNonce(k.key.Local, k.key.Remote.NID, k.nonce)
	if s != nil && !s.confirmed && c.predecessor(k.key.Local, k.key.Remote) != s {
		c.disown(now, s)
		s = nil
	}
	if s != nil {
		c.admit(now, k, s) // another of its first packets was faster
		return
	}
	old := c.predecessor(k.key.Local, k.key.Remote)
	switch {
	case old == nil:
		c.makeSession(now, k, nil)
	case old.state != Established || old.dead || !old.confirmed:
		c.replaceSession(now, k, old)
	default:
		k.state = waiting
		c.askOld(now, k, old)
	}
}

// admit lets in what was held of a pending peer, and of others that are the same node
// at other locators: it has a session.
func (c *Core) admit(now time.Time, k *pendingPeer, s *session) {
	for _, o := range slices.Clone(c.pending[SessionKey{k.key.Local, k.key.Remote.NID}]) {
		if o != k && o.key.Nonce != k.nonce { // not the one it began with: another node may have shown that, too
			continue
		}
		if o.held {
			o.held = false
			c.emit(Admit{Pending: o.key, Key: s.key})
		}
		if o.bare {
			o.bare = false
			c.emit(Admit{Pending: o.bareOf(), Key: s.key})
		}
		c.dropPending(now, o)
	}
}

// askOld asks whether the old nonce of the pending peer's NID still answers.
func (c *Core) askOld(now time.Time, k *pendingPeer, old *session) {
	if len(c.host.active) > 0 {
		c.probePaths(now, old, old.entry.Paths)
	}
	c.arm(&k.schedule, timerProbe, now, max(3*max(k.rtt, old.rtt), silenceMin)<<k.asked)
	k.asked++
}

// decidePending asks, 3 RTT after the proof, whether the old nonce has been
// heard since. If not, the node has come back without its state and replaces
// its session. If so, and from elsewhere, it is a second node with the same
// NID (RFC 6741 §5.4); on the same link there cannot be two. From elsewhere the
// old one is asked again before that: one answer that is lost or late must not
// decide, as a session that is replaced takes its connections with it.
func (c *Core) decidePending(now time.Time, k *pendingPeer) {
	old := c.predecessor(k.key.Local, k.key.Remote)
	known := old != nil && old.remotes.find(k.key.Remote.L64) != nil
	alive := old != nil && old.lastNonceRx.After(k.validatedAt)
	same := c.byNonce(k.key.Local, k.key.Remote.NID, k.nonce)
	switch {
	case same != nil:
		c.admit(now, k, same)
	case old == nil:
		c.makeSession(now, k, nil)
	case alive && known:
		c.refuse(now, old.key, reasonForged)
		c.dropPending(now, k)
	case alive:
		c.makeSession(now, k, nil)
	case !known && !old.dead && k.asked < silenceAsks:
		c.askOld(now, k, old)
	default:
		c.replaceSession(now, k, old)
	}
}

// makeSession turns a validated pending peer into a session, in the place of an old one if
// there is one: it is the same node's then, and so is the name that the old one bears.
func (c *Core) makeSession(now time.Time, k *pendingPeer, old *session) {
	key, owned, spent := SessionKey{Local: k.alias.Local}, c.lists(k.key.Remote), bucket{}
	if old != nil {
		key, owned, spent = old.key, owned || old.owned, old.probeBucket
	} else {
		key.Remote, owned = c.aliasFor(key.Local, k.key.Remote)
	}
	s := &session{
		key: key, localNID: k.key.Local, remoteNID: k.key.Remote.NID, localNonce: k.own,
		profile: c.defaultProfile(), rtt: k.rtt, owned: owned && key.Remote == k.key.Remote.NID, confirmed: true,
		echoes: !k.quiet, lastRx: now, lastNonceRx: now, probeBucket: spent,
	}
	s.remotes.put(k.key.Remote.L64, preferActive, time.Time{})
	if known := c.known[s.remoteNID]; known != nil {
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
	s.found(k.found)
	if r := c.recordOf(s); r != nil {
		r.found(k.found)
	}
	s.asks = s.asks || k.asks || k.encap
	s.takeControl(k.control)
	s.nonceAlways = s.nonceAlways || k.quiet && !s.asks && !s.nonceFixed
	if !k.knowsMore && c.host.isOnly(k.at.L64) {
		s.update.listing = []listed{{k.at.L64, preferActive}}
	}
	if k.encap {
		s.restoreEncap(now, []Path{{Local: k.at, Remote: k.key.Remote.L64}})
	}
	if !s.owned {
		if excess := c.names.unnamed.excess(k.key.Remote.L64); excess != nil {
			c.endSession(now, excess, reasonSite)
		}
		c.makeEntry(now)
	}
	c.admit(now, k, s) // before the entry: what comes by that must not overtake it
	c.addSession(now, s, "a packet of the correspondent was the first")
	if !s.owned {
		c.names.unnamed.enter(s, k.key.Remote.L64)
	}
	s.startKnowing(k.at.L64)
	c.establish(now, s, k.nonce, k.key.Remote.L64)
	if !k.proof.sent.IsZero() && s.update.state == untold {
		c.repeatUpdate(now, s) // what it was told lasts less long than the locator
	}
	c.emit(Release{Key: s.key}) // answers beyond what a pending peer may get
	if k.early != nil {
		s.earlyAnswered, s.earlyCounted = k.earlyAnswered, true
		c.HandlePacket(now, k.earlyLink, k.early)
		s.earlyAnswered, s.earlyCounted = false, false
	}
}

// replaceSession ends the session that a node has lost its part of, and makes
// it anew. Its entry is replaced, not removed first: in between, packets without
// nonce would be plain IPv6, and the stack would reset their connections.
func (c *Core) replaceSession(now time.Time, k *pendingPeer, old *session) {
	k.own, _ = c.ownTowards(k)
	if old.state == Established && !old.remotes.isThere(k.key.Remote.L64) {
		// It is where the record has its node, and the session was elsewhere: nothing
		// shows that the node is the same, so connections must not go on with it.
		c.names.abandon(old)
	}
	c.remake(now, k, old)
}

// remake puts a new session in the place of an old one.
func (c *Core) remake(now time.Time, k *pendingPeer, old *session) {
	also := old.alsoNamed
	c.unlink(now, old)
	c.settleHandoff(now, old.key)
	c.notify(Event{Time: now, Kind: SessionReplaced, Key: old.key, Locators: []roam.L64{k.key.Remote.L64}})
	if also {
		c.emit(Delete{Key: old.key}) // with both of its aliases
	}
	c.makeSession(now, k, old)
	if s := c.sessions[old.key]; s != nil && !also {
		c.tellPaths(old.entry, s.entry)
	}
}
