package ilnp

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Limits of candidates.
const (
	maxCandidates  = 8192
	queueSlack     = 64                     // decided candidates that may stand in the queue
	candidateFirst = 300 * time.Millisecond // to the second probe, doubled each time
	candidateTries = 6                      // 19 s in all
	candidateAgain = 100 * time.Millisecond // least time between probes that its own packets cause
	silenceMin     = 200 * time.Millisecond // how long an old nonce must be silent, if 3 RTT are less
	silenceAsks    = 3                      // how often it is asked, doubling that, where two nodes may be: 1.4 s in all
)

// candidateKey tells candidates apart: a node is a NID with a nonce (RFC 6741
// §5.4), and what is to be proven is one locator of it.
type candidateKey struct {
	local  roam.NID
	remote roam.ILV
	nonce  Nonce
}

// candidateState is where a candidate stands.
type candidateState uint8

const (
	unprovenNode candidateState = iota // probes are under way
	waiting                            // proven, but its NID has a session: is the old nonce silent?
)

// candidate is a correspondent that showed a nonce without a session of ours:
// one that opens a session, or one that comes back without its state. It
// becomes a session only when it is proven to receive where it claims to be,
// so that forged first packets cost an entry here and no session.
type candidate struct {
	schedule
	key             candidateKey
	handles         PairKey // as the data plane named it
	at              Local
	own             Nonce // what the data plane answers this node with
	nonce           Nonce // what the node showed when it was proven
	found           FoundRule
	asks            bool // its packets were probes, too
	knowsMore       bool // its packets came to several of our locators
	carried         bool // its nonce came in UDP, or its answer did
	state           candidateState
	tries           int
	asked           int // how often the old nonce was
	sent            tokens
	since, provenAt time.Time
	probed          time.Time
	rtt             time.Duration
	early           []byte // a Locator Update that came before the session, whole
	earlyLink       roam.LinkID
}

// handleEmbryo takes a nonce packet that belongs to no session.
func (c *Core) handleEmbryo(now time.Time, o Observation) {
	key := candidateKey{local: c.ownNID(o.LocalNID), remote: o.Remote, nonce: o.Nonce}
	switch {
	case !c.acceptable(o.Remote.L64) || o.Remote.NID == 0:
		c.refuse(now, o.Key, reasonLocator)
		return
	case !o.Nonce.Present() || !o.OwnNonce.Present():
		c.refuse(now, o.Key, reasonNoNonce)
		return
	case c.cfg.Accept == Known && c.known[o.Remote.NID] == nil && len(c.between(key.local, o.Remote.NID)) == 0:
		c.refuse(now, o.Key, reasonAccept)
		return
	case c.byNonce(key.local, o.Remote.NID, o.Nonce) != nil:
		c.handleKnownNonce(now, c.byNonce(key.local, o.Remote.NID, o.Nonce), o)
		return
	case c.candidates[key] != nil:
		c.candidates[key].learn(o.Found)
		c.candidates[key].cameTo(c, now, o.Local)
		c.nudge(now, c.candidates[key])
		return
	case !c.makeRoom(now):
		c.refuse(now, o.Key, reasonCrowd)
		return
	}
	for _, s := range c.between(key.local, o.Remote.NID) {
		// Both ends opened at once: the nonce is the one that we wait for.
		if s.state == Initiated && s.remotes.find(o.Remote.L64) != nil {
			c.handleNonce(now, s, o)
			return
		}
	}
	k := &candidate{key: key, handles: o.Key, at: o.Local, own: o.OwnNonce, nonce: o.Nonce, since: now, carried: o.Carried}
	k.learn(o.Found)
	k.owner = k
	c.candidates[key] = k
	c.queue = append(c.queue, k)
	c.probeCandidate(now, k)
}

// makeRoom reports whether there is room for another candidate. In a flood the
// oldest one makes room that has not answered its first probe in time.
func (c *Core) makeRoom(now time.Time) bool {
	if len(c.queue) > 2*len(c.candidates)+queueSlack { // most are decided, and hold memory
		c.queue = slices.DeleteFunc(c.queue, func(k *candidate) bool { return c.candidates[k.key] != k })
	}
	for len(c.candidates) >= maxCandidates && len(c.queue) > 0 {
		k := c.queue[0]
		there := c.candidates[k.key] == k && k.state == unprovenNode
		if there && now.Sub(k.since) < candidateFirst {
			return false
		}
		c.queue = c.queue[1:]
		if there {
			c.dropCandidate(now, k)
		}
	}
	return len(c.candidates) < maxCandidates
}

// handleKnownNonce takes a nonce that does belong to a session: one made since
// the data plane looked, or that of a correspondent which shares its NID with
// another one, and which has moved to where the data plane does not know it.
func (c *Core) handleKnownNonce(now time.Time, s *session, o Observation) {
	if s.remotes.find(o.Remote.L64) == nil {
		c.handleStranger(now, s, o)
	}
}

// nudge probes a candidate that has sent once more: where much is lost, it is
// asked as often as it speaks, and a forged first packet still causes few
// packets.
func (c *Core) nudge(now time.Time, k *candidate) {
	if k.state == unprovenNode && now.Sub(k.probed) >= candidateAgain {
		c.askCandidate(now, k)
	}
}

// cameTo notes where another of its packets came in: the network of the first one
// may be gone, and it may know more locators of ours than that one.
func (k *candidate) cameTo(c *Core, now time.Time, at Local) {
	k.knowsMore = k.knowsMore || at.L64 != k.at.L64
	if !slices.ContainsFunc(c.usable(now), func(l *local) bool { return l.Local == k.at }) {
		k.at = at
	}
}

// learn keeps the rule of checksums that its packets show; probes show none.
func (k *candidate) learn(f FoundRule) {
	switch f {
	case FoundProbe:
		k.asks = true
	case FoundIPv6, FoundRFC6741:
		k.found = f
	}
}

func (c *Core) askCandidate(now time.Time, k *candidate) {
	k.probed = now
	forms := []ProbeForm{FormOption, FormUDP}
	switch {
	case c.cfg.UDPPort == 0:
		forms = forms[:1]
	case k.tries > 0: // the first one was lost, or could not pass
	case k.carried:
		forms = forms[1:]
	default:
		forms = forms[:1]
	}
	own, at := c.ownTowards(k)
	for _, form := range forms {
		pr := probe{path: Path{Local: at, Remote: k.key.remote.L64}, form: form}
		c.sendProbe(now, k, &k.sent, PairKey{k.key.local, k.key.remote.NID}, own, pr)
	}
}

// ownTowards returns the nonce to show a candidate, and from where. Where a
// session with its NID sends anyway, that is the session's: as long as we
// remember it, it does not change, whatever the other end has forgotten. So two
// ends that both took the other one for new end with one nonce each, in place of
// answering each new nonce with a further one. Elsewhere it is that of a
// stranger: else whoever claims a NID could have the nonce that its true owner
// takes for ours.
//
// The session's nonce goes first from where the session sends: a correspondent
// follows it to wherever it comes from, and no update would ever call it back
// from a locator that it was never told of. From there it goes only when two
// that left elsewhere had no answer.
func (c *Core) ownTowards(k *candidate) (own Nonce, at Local) {
	for _, s := range c.between(k.key.local, k.key.remote.NID) {
		if s.remotes.find(k.key.remote.L64) == nil {
			continue
		}
		if len(s.entry.Paths) > 0 && !s.sendsFrom(k.at) && k.tries < 2 {
			return s.localNonce, s.entry.Paths[0].Local
		}
		return s.localNonce, k.at
	}
	return k.own, k.at
}

func (c *Core) probeCandidate(now time.Time, k *candidate) {
	c.askCandidate(now, k)
	c.arm(&k.schedule, timerProbe, now, candidateFirst<<k.tries)
	k.tries++
}

// fire probes again, gives a candidate up, or ends its waiting.
func (k *candidate) fire(c *Core, now time.Time, _ timer) {
	switch {
	case k.state == waiting:
		c.decideCandidate(now, k)
	case k.tries >= candidateTries:
		c.giveUp(now, k)
	default:
		c.probeCandidate(now, k)
	}
}

// keepEarly keeps the Locator Update of a candidate until it is a session: one
// that contacts us has its session, and may have moved, a round trip before.
func (c *Core) keepEarly(link roam.LinkID, p ilnpwire.Packet, packet []byte) bool {
	kept := false
	for _, k := range c.candidates {
		if k.key.local == p.Dst.NID && k.key.remote.NID == p.Src.NID && k.key.nonce == p.Nonce {
			k.early, k.earlyLink = bytes.Clone(packet), link
			kept = true
		}
	}
	return kept
}

func (c *Core) dropCandidate(now time.Time, k *candidate) {
	c.retire(&k.schedule)
	c.forgetProbes(&k.sent, now)
	delete(c.candidates, k.key)
}

// giveUp forgets a candidate that did not answer, and has the data plane forget
// it too: as long as that answers to where it was seen, no packet of ours would
// set up a session with where it may be now.
func (c *Core) giveUp(now time.Time, k *candidate) {
	c.dropCandidate(now, k)
	for other := range maps.Keys(c.candidates) {
		if other.local == k.key.local && other.remote.NID == k.key.remote.NID {
			return
		}
	}
	if len(c.between(k.key.local, k.key.remote.NID)) == 0 {
		c.emit(Delete{Key: k.handles})
		if s := c.expected[k.handles]; s != nil {
			c.emit(Upsert{Pair: s.entry}) // its entry went with the embryo
		}
	}
}

// candidateReply takes the proof: the node has what was sent to its locator.
// The nonce of the reply is the one that it uses now.
func (c *Core) candidateReply(now time.Time, k *candidate, p ilnpwire.Packet, rtt time.Duration) {
	if k.state != unprovenNode {
		return
	}
	k.rtt, k.nonce, k.provenAt = rtt, p.Nonce, now
	if c.byNonce(k.key.local, k.key.remote.NID, k.nonce) != nil {
		c.dropCandidate(now, k) // another of its first packets was faster
		return
	}
	old := c.predecessor(k)
	if old == nil {
		c.makeSession(now, k, k.handles)
		return
	}
	if old.state != Established || old.dead {
		c.replaceSession(now, k, old)
		return
	}
	k.state = waiting
	c.askOld(now, k, old)
}

// askOld asks whether the old nonce of the candidate's NID still answers.
func (c *Core) askOld(now time.Time, k *candidate, old *session) {
	if len(c.host.active) > 0 {
		c.probePaths(now, old, old.entry.Paths)
	}
	c.arm(&k.schedule, timerProbe, now, max(3*max(k.rtt, old.rtt), silenceMin)<<k.asked)
	k.asked++
}

// doubtNonce takes the reply to a session's probe that bears another nonce than
// the one that we know. The token shows that it comes from where the probe went:
// it is the proof of a candidate. Without this, a correspondent that takes our
// nonce for right, and so sends without its own, would never be understood.
func (c *Core) doubtNonce(now time.Time, s *session, pr probe, p ilnpwire.Packet) {
	if twin := c.byNonce(s.localNID, s.remoteNID, p.Nonce); twin != nil {
		c.unite(now, s, twin, pr, p)
		return
	}
	key := candidateKey{local: s.localNID, remote: p.Src, nonce: p.Nonce}
	k := c.candidates[key]
	if k == nil {
		if len(c.candidates) >= maxCandidates {
			c.refuse(now, s.key, reasonCrowd)
			return
		}
		k = &candidate{key: key, handles: PairKey{s.localNID, s.remoteNID}, at: pr.path.Local, own: s.localNonce, since: now}
		k.owner = k
		c.candidates[key] = k
	}
	c.candidateReply(now, k, p, now.Sub(pr.sent))
}

// unite makes one session of two that were taken for those of two nodes with one
// NID, as packets with the old nonce came late: where the one is to be found,
// the other one's nonce answers, and nothing else does.
func (c *Core) unite(now time.Time, s, twin *session, pr probe, p ilnpwire.Packet) {
	if s == twin || !s.dead {
		c.refuse(now, s.key, reasonWrongNonce)
		return
	}
	k := &candidate{
		key: candidateKey{local: s.localNID, remote: p.Src, nonce: p.Nonce}, handles: s.key, at: pr.path.Local,
		own: twin.localNonce, nonce: p.Nonce, rtt: now.Sub(pr.sent),
	}
	c.removeSession(now, twin)
	c.notify(Event{Time: now, Kind: SessionEnded, Key: twin.key, Reason: "one node with " + s.key.Remote.String()})
	c.remake(now, k, s)
}

// predecessor returns the session that the candidate may be the continuation
// of: the one that knows its locator, else any with its NID.
func (c *Core) predecessor(k *candidate) *session {
	var any *session
	for _, s := range c.between(k.key.local, k.key.remote.NID) {
		if s.remotes.find(k.key.remote.L64) != nil {
			return s
		}
		if any == nil {
			any = s
		}
	}
	return any
}

// decideCandidate asks, 3 RTT after the proof, whether the old nonce has been
// heard since. If not, the node has come back without its state and replaces
// its session. If so, and from elsewhere, it is a second node with the same
// NID (RFC 6741 §5.4); on the same link there cannot be two. From elsewhere the
// old one is asked again before that: one answer that is lost or late must not
// decide, as a session that is replaced takes its connections with it.
func (c *Core) decideCandidate(now time.Time, k *candidate) {
	old := c.predecessor(k)
	known := old != nil && old.remotes.find(k.key.remote.L64) != nil
	alive := old != nil && old.lastNonceRx.After(k.provenAt)
	switch {
	case c.byNonce(k.key.local, k.key.remote.NID, k.nonce) != nil:
		c.dropCandidate(now, k)
	case old == nil:
		c.makeSession(now, k, k.handles)
	case alive && known:
		c.refuse(now, old.key, reasonForged)
		c.dropCandidate(now, k)
	case alive:
		c.makeSession(now, k, PairKey{k.handles.Local, c.handle(k.handles.Local, k.key.remote.NID)})
	case !known && !old.dead && k.asked < silenceAsks:
		c.askOld(now, k, old)
	default:
		c.replaceSession(now, k, old)
	}
}

// makeSession turns a proven candidate into a session.
func (c *Core) makeSession(now time.Time, k *candidate, key PairKey) {
	if c.sessions[key] != nil {
		key.Remote = c.handle(key.Local, k.key.remote.NID)
	}
	c.dropCandidate(now, k)
	s := &session{
		key: key, localNID: k.key.local, remoteNID: k.key.remote.NID, localNonce: k.own,
		profile: c.stranger(), rtt: k.rtt,
		lastRx: now, lastNonceRx: now,
	}
	s.remotes.put(k.key.remote.L64, preferActive, time.Time{})
	if known := c.known[s.remoteNID]; known != nil {
		s.profile = known.profile
		for _, r := range known.locators {
			if r.l64 != k.key.remote.L64 {
				s.remotes.put(r.l64, preferValid, r.expires)
			}
		}
	}
	s.found(k.found)
	s.asks = k.asks || k.carried
	if !k.knowsMore && c.host.isOnly(k.at.L64) {
		s.update.listing = []listed{{k.at.L64, preferActive}}
	}
	if k.carried {
		s.restoreCarried(now, []Path{{Local: k.at, Remote: k.key.remote.L64}})
	}
	c.addSession(now, s, "a packet of the correspondent was the first")
	c.establish(now, s, k.nonce, k.key.remote.L64)
	if k.early != nil {
		c.HandlePacket(now, k.earlyLink, k.early)
	}
}

// replaceSession ends the session that a node has lost its part of, and makes
// it anew. Its entry is replaced, not removed first: in between, packets without
// nonce would be plain IPv6, and the stack would reset their connections.
func (c *Core) replaceSession(now time.Time, k *candidate, old *session) {
	k.own, _ = c.ownTowards(k)
	c.remake(now, k, old)
}

// remake puts a new session in the place of an old one.
func (c *Core) remake(now time.Time, k *candidate, old *session) {
	c.unlink(now, old)
	c.settleHandoff(now, old.key)
	c.notify(Event{Time: now, Kind: SessionReplaced, Key: old.key, Locators: []roam.L64{k.key.remote.L64}})
	c.makeSession(now, k, old.key)
}
