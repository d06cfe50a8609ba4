package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	"roam/multipath"
	"roam/nidkey"
)

// correspondent is what is known of a node apart from any session.
type correspondent struct {
	profile
	nid        roam.NID
	secret     nidkey.Secret
	public     nidkey.Public
	retired    bool      // its key has vouched for another one: its sessions go on, none begins
	keyed      bool      // it had a secret, which is not known yet after a restart
	offers     freshness // of its proofs
	anywhere   bool      // its name is not bound to locators
	names      []string
	locators   remotes
	rtt        time.Duration // of its last session
	plainUntil time.Time     // it is remembered to be without ILNP
	guard      guard
	copy       keyCopy
	follows    bool                  // it has shown that it knows our present key
	replaced   bool                  // its key was, before a restart, and sessions may be of the one before
	vouches    int                   // how often our old key has vouched towards it
	vouched    time.Time             // when its key last vouched for another one
	offered    int                   // offers to it since the last one that was answered
	proofKeys  map[SessionKey][]byte // by receiver and sender; made when first asked for

	spare      ephemeral // for the next proof with it, after a first one
	wantsSpare bool      // it is to get one

	formerProofs []byte // key of the MACs of its proofs towards our former NID; nil: not asked for yet
}

// targets returns the locators that were told of it, for a session.
func (k *correspondent) targets() remotes {
	var rs remotes
	for _, r := range k.locators {
		rs.give(r.l64, r.preference, r.expires)
	}
	return rs
}

// AddPeer makes a correspondent known, or replaces what is known of it, names and
// told locators included. A live session keeps the
// locators that its correspondent announced itself; new ones are added behind
// them, to be tried when those stay silent (RFC 6740 §6.2: both have moved,
// and the DNS knows more).
func (c *Core) AddPeer(now time.Time, p Peer) {
	c.finish()
	k, named := c.known[p.NID], true
	if k == nil {
		k, named = &correspondent{nid: p.NID}, false
		c.known[p.NID] = k
	}
	seen := k.profile
	if k.profile = p.profile(); named {
		k.profile = seen.advised(p)
	}
	k.anywhere = p.Anywhere
	replaced := k.public != (nidkey.Public{}) && (k.public != p.Public || k.replaced)
	k.replaced = false
	k.secret, k.public, k.keyed, k.retired = p.Secret, p.Public, p.Secret.Present(), false
	k.proofKeys, k.formerProofs = nil, nil
	if replaced { // what was proven with the old key, which may be stolen, counts no more
		k.offers, k.copy = freshness{}, keyCopy{}
	}
	c.setGuard(now, k, p)
	for _, s := range c.of(p.NID) {
		if replaced {
			s.agreed, s.renewal, s.hs, s.crossed = nil, nil, nil, nil
		}
		if _, known := c.secretOf(s); replaced && !known { // its keys are of what was proven
			c.endSession(now, s, "removed")
			continue
		}
		c.rekeySession(now, s)
		if replaced {
			handshakes{c}.demand(now, s)
		}
	}
	k.names = slices.Clone(p.Names)
	k.locators = nil
	for _, r := range p.Locators {
		if !c.cfg.acceptable(r.L64) || r.Lifetime < 0 {
			c.refuse(now, SessionKey{Remote: p.NID}, reasonLocator)
			continue
		}
		k.locators.put(r.L64, r.Preference, deadline(now, r.Lifetime))
	}
	k.locators.sort()
	for _, local := range c.cfg.NIDs {
		c.names.evict(now, SessionKey{local, p.NID})
		if s := c.holder(local, p.NID); s != nil && s.owned {
			c.adviseSession(now, s, k)
		}
		c.names.bestowAny(now, local, p.NID)
	}
	c.preinstalled.advise(now, k)
	for _, s := range c.of(p.NID) { // of an earlier process, or before the key was known
		if s.state == Initiated && (handshakes{c}).prove(now, s) {
			c.upsert(now, s, s.entry.Paths)
			handshakes{c}.offer(now, s)
		}
	}
}

// advised returns the profile of a known correspondent after it was told of again: a
// default does not change what the peer has shown.
func (seen profile) advised(p Peer) profile {
	f := p.profile()
	f.perFlow = seen.perFlow
	said := f.form
	if f.control = seen.control; !seen.shown {
		f.form = said
	}
	if f.sought && !seen.sought && !seen.fixed {
		f.rule, f.sought = seen.rule, false
	}
	if !f.nonceFixed && !seen.nonceFixed {
		f.nonceAlways, f.nonceSure = seen.nonceAlways, seen.nonceSure
	}
	return f
}

// Knows reports whether the correspondent is known as p tells of it, so that AddPeer
// would change nothing.
func (c *node) Knows(p Peer) bool {
	k := c.known[p.NID]
	if k == nil || k.retired || k.anywhere != p.Anywhere || !slices.Equal(k.names, p.Names) ||
		k.secret != p.Secret || k.public != p.Public || k.keyed != p.Secret.Present() ||
		k.guard.on != p.Guarded || k.guard.optional != p.Optional {
		return false
	}
	said := k.profile.advised(p)
	said.asks = k.asks // nobody says that
	if k.profile != said {
		return false
	}
	var told remotes
	for _, r := range p.Locators {
		if c.cfg.acceptable(r.L64) && r.Lifetime >= 0 {
			told.put(r.L64, r.Preference, time.Time{})
		}
	}
	told.sort()
	return slices.EqualFunc(k.locators, told, func(a, b remote) bool { return a.l64 == b.l64 && a.preference == b.preference })
}

// adviseSession brings what was told of a correspondent into its session.
func (c *liveness) adviseSession(now time.Time, s *session, k *correspondent) {
	c.attend(s)
	last := uint16(0)
	for _, r := range s.remotes {
		if r.standing == current {
			last = max(last, r.preference)
		}
	}
	news := false
	for _, r := range k.locators {
		news = news || s.remotes.find(r.l64) == nil
		switch known := s.remotes.find(r.l64); {
		case !s.announced && (known == nil || s.state != Established):
			s.remotes.give(r.l64, r.preference, r.expires)
		case known == nil:
			s.remotes.give(r.l64, min(last, 0xfffe)+1, r.expires)
		default:
			known.given = true
		}
	}
	shown, asks, flow := s.control, s.asks, s.perFlow
	s.profile = k.profile
	s.control, s.asks, s.perFlow = shown, asks, flow
	c.remotesChanged(now, s)
	if news && s.dead && len(c.host.active) > 0 {
		c.restartProbes(now, s)
	}
}

// RemovePeer forgets a correspondent and ends its sessions.
func (c *Core) RemovePeer(now time.Time, nid roam.NID) {
	c.finish()
	delete(c.known, nid) // first: its sessions are nobody's any more
	c.preinstalled.remove(SessionKey{c.cfg.NIDs[0], nid})
	for _, s := range c.of(nid) {
		s.owned = false // nor is its name any node's, from now on
		c.endSession(now, s, "removed")
	}
	for _, local := range c.cfg.NIDs {
		c.pending.dropAll(now, local, nid)
	}
}

// KnownNIDs returns the Node Identifiers of the correspondents of which somebody
// told, in no order.
func (c *node) KnownNIDs() (list []roam.NID) {
	for nid, k := range c.known {
		if !k.retired {
			list = append(list, nid)
		}
	}
	return list
}

func (c *node) showSession(now time.Time, s *session) PeerState {
	p := PeerState{
		Key: s.key, NID: s.remoteNID, State: s.state, Dead: s.dead, Locators: s.show(now), Paths: slices.Clone(s.entry.Paths),
		RTT: s.rtt, Since: s.started, LastMove: s.lastMove, LastMoveRTT: s.lastMoveRTT,
		Rule: s.rule, UpdateForm: s.form, ICMPRule: s.shownICMP(), WhyPlain: s.whyPlain(),
		RuleSought: s.sought, NonceAlways: s.nonceAlways, OldFirst: s.oldFirst,
		Encapsulated: s.encapPaths(), Spread: s.multipath.Spread(s.use()), RTTs: make(map[Path]time.Duration), Long: slices.Clone(s.entry.Long), Shares: multipath.Shares(s.entry.Paths, s.entry.Costs),
	}
	p.Ruled, p.RuleTables = slices.Clone(s.entry.Ruled), maps.Clone(s.entry.RuleTables)
	p.Answers = s.entry.answerPaths()
	for _, path := range p.Paths {
		if rtt, known := s.multipath.RTT(path); known {
			p.RTTs[path] = rtt
		}
	}
	for _, path := range p.Ruled {
		if rtt, known := s.delayOf(path); known {
			p.RTTs[path] = rtt
		}
	}
	p.Views = s.views(now, p.Shares)
	p.Claims, p.Keyed = !s.owned, s.keys != nil
	p.Proved = s.agreed != nil && s.agreed.confirmed
	p.Unkeyed = p.Keyed && s.keys.unkeyed
	p.Listed = c.isListed(s)
	if k := c.recordOf(s); k != nil {
		p.Names, p.PlainRefused, p.KeyCopy = slices.Clone(k.names), k.refusal(s), slices.Clone(k.copiedAt(now))
	}
	if k := c.known[s.remoteNID]; k != nil && p.Proved {
		p.OwnKeyCopy = slices.Clone(k.oursAt(now))
	}
	return p
}

// isListed reports whether the peer of a session was validated at a locator of its record, and so
// has the record's name.
func (c *node) isListed(s *session) bool {
	k := c.recordOf(s)
	return k != nil && !k.anywhere && s.state != Plain
}

func (c *node) showKnown(now time.Time, k *correspondent) PeerState {
	p := PeerState{Key: SessionKey{c.cfg.NIDs[0], k.nid}, NID: k.nid, Names: slices.Clone(k.names), Rule: k.rule, UpdateForm: k.form, ICMPRule: k.shownICMP(),
		RuleSought: k.sought, NonceAlways: k.nonceAlways, OldFirst: k.oldFirst, Keyed: k.secret.Present(),
		PlainRefused: k.guard.why, Listed: !k.anywhere && len(k.locators) > 0}
	for _, r := range k.locators {
		p.Locators = append(p.Locators, r.show(now, false))
	}
	return p
}

func (s *session) show(now time.Time) []RemoteState {
	list := make([]RemoteState, 0, len(s.remotes))
	for i := range s.remotes {
		r := &s.remotes[i]
		inUse := slices.ContainsFunc(s.entry.Paths, func(p Path) bool { return p.Remote == r.l64 })
		list = append(list, r.show(now, inUse))
	}
	return list
}

// show gives a remote locator the state of RFC 6741 §5.1.
func (r *remote) show(now time.Time, inUse bool) RemoteState {
	v := RemoteState{
		RemoteLocator: RemoteLocator{L64: r.l64, Preference: r.preference, Lifetime: remaining(now, r.expires)},
		Validated:     r.validated,
	}
	switch {
	case r.within(now) && inUse:
		v.State = Active
	case inUse:
		v.State = Expired
	case r.standing == dropped || !r.within(now):
		v.State = Aged
	}
	return v
}
