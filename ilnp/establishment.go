package ilnp

import (
	"slices"
	"time"

	"roam"
	"roam/multipath"
)

// setupPatience is how long first packets may stay unanswered before plain IPv6
// is tried (RFC 6744 §6: "in a timely manner"). Probes go beside them, so that
// one lost packet does not decide. With it a connection to a host that has no
// ILNP takes less than a second longer, also on a machine that is busy.
const setupPatience = 950 * time.Millisecond

// plainDoubt is how long probes go on although plain packets come back: they
// may be those of a correspondent that has had a session with us all along,
// which we have lost, and which would not find us after a move.
const plainDoubt = 30 * time.Second

// plainAgain is how often a correspondent is asked once more that was concluded to have
// no ILNP because packets without nonce came: anybody can write those while it is away.
const plainAgain = time.Minute

// fallback says why a session is, or is not, plain IPv6.
type fallback uint8

const (
	noFallback  fallback = iota
	unanswered           // nothing came back: probing goes on, as the node may just be down
	withoutILNP          // the node is there and has no ILNP
)

// HandleObservation takes one event of the data plane.
func (c *Core) HandleObservation(now time.Time, o Observation) {
	c.finish()
	s := c.sessionOf(o.Key)
	if s != nil {
		c.attend(s)
	}
	if s == nil && (o.Trigger == SeenFirst || o.Trigger == SeenNonce || o.Trigger == SeenRefusal) {
		s = c.begin(now, o.Key) // the answer may be told before what was answered
	}
	switch {
	case o.Trigger == SeenMiss:
		c.handleMiss(now, o.Key)
	case o.Trigger == SeenMore:
		c.accounts.receivedInAll(now, o.Key, o.Remote, o.Bytes, o.Packets)
		questions{&c.liveness}.noteSource(now, s, o.Remote.L64)
	case o.Trigger == SeenPending, o.Trigger == SeenOtherNonce:
		c.handlePending(now, o)
	case o.Trigger == SeenAcked:
		c.handlePending(now, o)
		c.pending.synAcked(now, o)
	case o.Trigger == SeenExcess:
		c.handleExcess(now, o)
	case s == nil:
		c.refuse(now, o.Key, reasonNoSession)
	case o.Trigger == SeenNonce:
		c.handleNonce(now, s, o)
	case o.Trigger == SeenLocator:
		c.handleElsewhere(now, s, o)
	case o.Trigger == SeenRule:
		c.handleFoundRule(now, s, o.Found)
	case o.Trigger == SeenRefusal:
		c.nonceRefused(now, s)
	case o.Trigger == SeenSilence:
		c.noticeSilence(now, s)
	case o.Trigger == SeenPerFlow:
		c.askedSpread(now, s, true)
	case o.Trigger == SeenStall:
		c.handleStall(now, s, multipath.Standing{Connection: uint32(o.Bytes), Delivered: uint32(o.Packets)})
	case o.Trigger == SeenQueue:
		c.handleQueue(now, s)
	case o.Trigger == SeenStretched:
		crossings{&c.steering}.stretched(now, s, o.Connections)
	case o.Trigger == SeenLife:
		s.lastRx = now
		c.heard(now, s)
	}
}

// handleMiss sets a session up as initiator: a nonce is drawn, and the first
// packets carry it (RFC 6744 §6).
func (c *Core) handleMiss(now time.Time, key SessionKey) {
	if s := c.sessionOf(key); s != nil {
		c.emit(Upsert{Entry: s.entry})
		c.emit(Release{Key: key})
		return
	}
	if c.known[key.Remote] == nil && c.pending.isPending(key) {
		return // more than it may get before it is validated: released then
	}
	k := c.known[key.Remote]
	if k == nil || k.retired || len(k.locators) == 0 || k.guard.until.After(now) || c.cfg.isFormer(key.Local) {
		c.emit(Reject{Key: key})
		return
	}
	s := c.preinstalled.take(key) // its entry came too late for this packet
	if s == nil {
		n, ok := c.drawNonce(now)
		if !ok {
			c.emit(Reject{Key: key})
			return
		}
		s = k.initiated(key, c.cfg.ownNID(key.Local), n)
	}
	if c.initiate(now, s); s.hs != nil {
		c.emit(Release{Key: key})
		return // offers find the path: until one is answered, replies to probes show nothing
	}
	c.emit(Release{Key: key})
	c.validate(now, s) // behind the packets: they wait
}

// initiated makes a session that our packets are the first of.
func (k *correspondent) initiated(key SessionKey, localNID roam.NID, n Nonce) *session {
	return &session{
		key: key, localNID: localNID, remoteNID: key.Remote, state: Initiated, localNonce: n,
		profile: k.profile, rtt: k.rtt, remotes: k.targets(), owned: true,
	}
}

// initiate lets it begin.
func (c *Core) initiate(now time.Time, s *session) {
	if len(c.host.told) == 1 && len(c.host.outside(c.host.told[0].l64)) == 0 && c.host.isOnly(c.host.told[0].l64) {
		// The correspondent will see this one on our packets; more have to be told.
		s.update.listing = c.host.told
	}
	s.asks = s.asks || c.proves(s.remoteNID) // no other stack has such keys
	s.lastTx, s.lastMove = now, time.Time{}
	c.addSession(now, s, "a packet of ours was the first")
	s.state, s.fallback, s.remembered = Initiated, noFallback, false
	c.ageRemotes(now, s)
	if c.isPlain(now, s) {
		s.state, s.fallback, s.remembered = Plain, withoutILNP, true
	} else {
		c.arm(&s.schedule, timerSetup, now, s.patience())
		c.awaitRule(now, s)
		if h := (handshakes{c}); h.prove(now, s) {
			h.offer(now, s) // ahead of the packets, and of the entry, as all else waits for the answer
		}
	}
	c.refresh(now, s)
}

// ownNID returns the NID that a local alias stands for; aliases of this host
// are its NIDs.
func (cfg *Config) ownNID(alias roam.NID) roam.NID {
	if slices.Contains(cfg.NIDs, alias) {
		return alias
	}
	return cfg.NIDs[0]
}

// setupTimeout falls back when nothing has come back.
func (c *Core) setupTimeout(now time.Time, s *session) {
	switch {
	case s.state != Initiated:
	case len(s.entry.Paths) == 0:
		c.arm(&s.schedule, timerSetup, now, s.patience())
	default:
		c.fallBack(now, s, unanswered)
	}
}

// fallBack turns an unconfirmed session into plain IPv6 and lets the held
// packets go (RFC 6744 §6). The session of a guarded peer ends instead.
func (c *Core) fallBack(now time.Time, s *session, why fallback) {
	switch {
	case s.state == Established:
		c.refuse(now, s.key, reasonQuote)
		return
	case s.state == Plain && s.fallback == withoutILNP:
		return // said once more: every packet under way is answered so
	}
	was := s.state
	s.state, s.fallback = Plain, why
	if c.refusesPlain(now, s) {
		return
	}
	c.disarm(&s.schedule, timerSetup)
	c.disarm(&s.schedule, timerCopy)
	if why == withoutILNP {
		if k := c.recordOf(s); k != nil {
			k.plainUntil = now.Add(c.cfg.FallbackLifetime)
		}
		c.suspendProbes(s)
		s.watch.state = quiet
	}
	c.refresh(now, s)
	if was == Initiated {
		c.emit(Release{Key: s.key})
		c.notify(Event{Time: now, Kind: SessionFellBack, Key: s.key, Reason: s.whyPlain()})
	}
}

// Why a session is plain IPv6, as PeerState and the event SessionFellBack say.
const (
	WhyNoAnswer   = "no answer"               // to its first packets
	WhyNoILNP     = "no ILNP there"           // it said so by a Parameter Problem
	WhyRemembered = "no ILNP there before"    // an earlier session was plain
	WhyNoNonce    = "answers without a nonce" // plain packets come back, none with a nonce
	WhyNoProof    = "answers without its key" // with a nonce, and without the proof that its key is asked for
)

// whyPlain says why a session is plain IPv6; "" when it is not.
func (s *session) whyPlain() string {
	switch {
	case s.state != Plain:
		return ""
	case s.noProof:
		return WhyNoProof
	case s.fallback == unanswered:
		return WhyNoAnswer
	case s.refused:
		return WhyNoILNP
	case s.remembered:
		return WhyRemembered
	}
	return WhyNoNonce
}

// handleNonce takes the first nonce of a correspondent that we contacted: it
// has ILNP, and its locator is where our packets reached it.
func (c *Core) handleNonce(now time.Time, s *session, o Observation) {
	if s.state == Established || !o.Nonce.Present() {
		return
	}
	if c.proves(s.remoteNID) {
		handshakes{c}.offerAgain(now, s, Path{Local: o.Local, Remote: o.Remote.L64}, o.Encapsulated)
		return
	}
	if other := c.byNonce(s.localNID, s.remoteNID, o.Nonce); other != nil && other != s {
		return // another one's, whom the answer to a probe will tell from its node (unite)
	}
	s.lastRx, s.lastNonceRx = now, now
	if o.Encapsulated {
		s.restoreEncap(now, []Path{{Local: o.Local, Remote: o.Remote.L64}})
	}
	c.beginAt(now, s, Path{Local: o.Local, Remote: o.Remote.L64})
	s.startKnowing(o.Local.L64)
	c.establish(now, s, o.Nonce, o.Remote.L64)
}

// establish completes a session whose correspondent has answered from behind
// locator at.
func (c *Core) establish(now time.Time, s *session, remoteNonce Nonce, at roam.L64) {
	was := s.state
	s.state, s.fallback, s.remoteNonce = Established, noFallback, remoteNonce
	s.refused, s.remembered, s.noProof = false, false, false
	c.rekeySession(now, s)
	if k := c.recordOf(s); k != nil {
		k.plainUntil = time.Time{}
		k.guard.why = ""
	}
	c.disarm(&s.schedule, timerSetup)
	if s.remotes.find(at) == nil {
		s.remotes.put(at, 0, time.Time{})
		s.remotes.lead(at)
	}
	a := s.agreed
	switch {
	case a == nil, a.reached, a.confirmed && a.went.are(at),
		a.confirmed && was != Established && slices.Contains(a.went, at): // offers went where the record says
		s.remotes.find(at).validate()
	default: // its own key lists it there, which is as good as a record; the confirmation, or a probe, validates it
		s.remotes.find(at).given = true
	}
	c.names.bestow(now, s, at)
	s.openNonce(now)
	c.awaitConfirmation(now, s)
	c.notify(Event{Time: now, Kind: SessionEstablished, Key: s.key, RTT: s.rtt, Locators: s.remotes.all()})
	c.ageRemotes(now, s)
	c.refresh(now, s)
	handshakes{c}.confirmProof(now, s)
	c.remotesChanged(now, s)
	if was == Initiated && s.entry.Encap {
		c.emit(Release{Key: s.key}) // the first packets were lost with their option
	}
}

// handleElsewhere follows a correspondent that showed its nonce from a locator
// which its set does not have: data came before the Locator Update.
func (c *Core) handleElsewhere(now time.Time, s *session, o Observation) {
	switch {
	case !c.cfg.acceptable(o.Remote.L64):
		s.stray(now, o.Remote.L64)
		c.refuse(now, s.key, reasonLocator)
		return
	case !s.confirmed:
		c.confirm(now, s)
		c.confirmSoon(now, s)
		c.pending.openElsewhere(now, s, o)
		return
	case s.keys != nil && s.remotes.find(o.Remote.L64) == nil:
		// The data plane does not follow it either, and counts what it drops. An update of the
		// peer's own, right behind, lists the locator.
		return
	case !c.mayList(s, o.Remote.L64):
		s.stray(now, o.Remote.L64)
		c.refuse(now, s.key, reasonElsewhere)
		c.doubtPresence(now, o)
		return
	}
	c.accounts.receivedInAll(now, s.key, o.Remote, o.Bytes, 1) // the data plane counts what comes of a session
	s.lastRx, s.lastNonceRx = now, now
	// One that it announced has the preference that it gave it; one that it has withdrawn
	// a late packet may come from, and whoever goes back there says so by an update.
	if r := s.remotes.find(o.Remote.L64); r != nil && (r.standing == current || r.standing == dropped) {
		if !slices.Contains(s.entry.Accept, r.l64) { // not every one of a very large set is there
			s.astray = recalled
		}
	} else {
		s.remotes.put(o.Remote.L64, 0, time.Time{})
		s.remotes.lead(o.Remote.L64)
		s.lastMove = now
		c.notify(Event{Time: now, Kind: PeerMoved, Key: s.key, Locators: []roam.L64{o.Remote.L64}, Path: Path{Local: o.Local, Remote: o.Remote.L64}})
	}
	c.remotesChanged(now, s)
	c.heard(now, s)
}

// doubtPresence asks who is where another session's nonce was seen. Where its node has
// taken the place of the one that was validated there, the answer tells (unite).
func (c *sender) doubtPresence(now time.Time, o Observation) {
	s := c.predecessor(o.LocalNID, o.Remote)
	if s == nil || s.state != Established || now.Sub(s.confirming) < pendingAgain {
		return
	}
	s.confirming = now
	c.probePaths(now, s, []Path{{Local: o.Local, Remote: o.Remote.L64}})
}

// astrayFor is how long the data plane follows a correspondent to where the core does
// not. If it is there, the answer to who is there has come by then, and its next packet
// with the nonce leads there again. If that was a late packet, nothing else would end it
// while packets come from elsewhere.
const astrayFor = 2 * time.Second

// stray notes that the data plane may send to a locator that the core has refused.
func (s *session) stray(now time.Time, l roam.L64) {
	if s.astray != l {
		s.astray, s.astraySince = l, now
	}
}

// endStray has the data plane send where the core does again.
func (c *Core) endStray(now time.Time, s *session) {
	if s.astray != 0 && now.Sub(s.astraySince) >= astrayFor && s.recall() {
		c.refresh(now, s)
	}
}

// recalled stands for a locator that the next entry makes the data plane forget.
const recalled = ^roam.L64(0)

// recall reports whether the data plane may still send to a locator that the core has
// refused; the next entry ends that. Nothing else would, as the set does not change.
func (s *session) recall() bool {
	if s.astray == 0 {
		return false
	}
	s.astray = recalled
	return true
}

// doubtPlain concludes from plain packets that come back, and go on doing so
// while probes go unanswered, that there is no ILNP.
func (c *Core) doubtPlain(now time.Time, s *session) {
	if s.state == Plain && s.fallback == withoutILNP && !s.refused {
		c.askAgain(now, s)
		return
	}
	if s.state != Plain || s.fallback != unanswered || !s.lastRx.After(s.started) {
		return
	}
	if s.plainSince.IsZero() {
		s.plainSince = now
		if len(c.host.active) > 0 {
			c.restartProbes(now, s) // it is back: while the session is plain it cannot move
		}
	}
	if now.Sub(s.plainSince) >= plainDoubt {
		c.fallBack(now, s, withoutILNP)
	}
}

// askAgain asks a correspondent that never said that it has no ILNP whether it has.
func (c *liveness) askAgain(now time.Time, s *session) {
	if now.Sub(later(s.plainSince, s.started)) < plainAgain || now.Sub(s.used) >= plainAgain || len(c.host.active) == 0 {
		return
	}
	s.plainSince = now
	c.probePaths(now, s, s.entry.Paths)
}

// noteUse notes when applications' packets were seen. The data plane counts
// control packets too, before the core gets them: what came later was none.
func (s *session) noteUse(a Activity) {
	s.used = later(s.used, a.LastTx)
	if a.LastRx.After(s.lastControl) {
		s.used = later(s.used, a.LastRx)
	}
}

// HandleActivity takes what the data plane counted for entries that have had packets since the
// last call, and for those that were Watched; more do no harm. Once a second is often enough.
func (c *Core) HandleActivity(now time.Time, as []Activity) {
	c.finish()
	asking := 0
	for _, a := range as {
		s := c.sessions[a.Key]
		if s == nil && !a.LastTx.IsZero() {
			s = c.begin(now, a.Key) // nobody was there to be told of its first packet
		}
		if s == nil {
			continue
		}
		delete(c.attention, s)
		asking += read(c, now, s, a, asking < sizeAtOnce)
		if c.sessions[a.Key] == s && goesOn(c, now, s) {
			c.attend(s)
		}
	}
	c.preinstalled.updateAged(now)
}

// read handles what the data plane counted for one session. It returns how many probes of the path MTU it
// sent, which it does only if it may.
func read(c *Core, now time.Time, s *session, a Activity, mayAsk bool) (asked int) {
	alive := a.LastRx.After(s.lastRx) && s.dead
	s.lastRx, s.lastTx = later(s.lastRx, a.LastRx), later(s.lastTx, a.LastTx)
	s.lastNonceRx = later(s.lastNonceRx, a.LastNonceRx)
	c.knowsLocator(now, s, a.NonceAt)
	if a.WithNonce != s.withNonce { // else it is where one came at any time before
		s.withNonce = a.WithNonce
		c.noteArrival(now, s, a.NonceAt)
	}
	s.noteUse(a)
	if !c.judgeIdle(now, s) {
		return 0
	}
	if alive {
		c.heard(now, s)
	}
	c.endStray(now, s)
	c.doubtPlain(now, s)
	c.judgeOption(now, s, a)
	c.askedSpread(now, s, a.AsksPerFlow)
	c.wishCounts(now, s, a.AsksCounts)
	c.wishAnswers(now, s, a.AsksAnswers)
	c.spreadAgain(now, s)
	c.forgetQueues(now, s)
	c.placeFlows(now, s, a.Flows)
	c.measure(now, s)
	c.monitor(now, s, false)
	c.watchPaths(now, s)
	c.tryOption(now, s)
	c.openFirewall(now, s)
	sized := c.checkSize(now, s, mayAsk)
	c.narrow(now, s)
	if sized {
		return 1
	}
	return 0
}
