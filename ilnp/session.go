package ilnp

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// How long packets carry the nonce after the session's start and after a change
// of our locators: 3 RTT (RFC 6744 §4), but not less than nonceMin, and
// nonceGuess while no RTT is known, long enough for a satellite's.
const (
	nonceMin   = time.Second
	nonceGuess = 3 * time.Second
)

// session is one correspondent with which packets are exchanged, the remote
// half of the cache of RFC 6741 §5.1.
type session struct {
	schedule
	key                     SessionKey
	localNID, remoteNID     roam.NID
	state                   SessionState
	localNonce, remoteNonce Nonce
	keys                    *keying    // nil: the nonce alone says who the peer is
	hs                      *handshake // under way; nil: none
	agreed                  *agreement // nil: the peer has proven nothing at set-up
	renewal                 *agreement // our answer to an offer in this session, to be confirmed; nil: none
	crossed                 *crossed   // nil: no offer of ours is given up for the peer's that agreed is of
	asked                   time.Time  // when its peer last asked for a proof
	insists                 int        // offers that insisted since the last acknowledgement,
	insisted                time.Time  // and when the last one did
	noProof                 bool       // it has answered probes with a nonce and, so far, no proof
	profile
	fallback      fallback
	refused       bool      // a Parameter Problem was why it fell back
	remembered    bool      // it is plain as an earlier session was
	plainSince    time.Time // when plain packets came back first
	copied        bool      // its first segment went under the other rule, too
	remotes       remotes
	announced     bool // the correspondent itself has told its locators
	bad           map[Path]bool
	passages      map[Path]passage
	multipath     multipath.Machine[Path]
	trains        map[Path]*pathTrain
	rates         rates
	size          sizeCheck
	opened        int      // probes in UDP that were to open a firewall
	owned         bool     // it owns the record's name (see ownership)
	astray        roam.L64 // where the data plane may follow the correspondent to, and the core does not; 0: nowhere
	astraySince   time.Time
	alsoNamed     bool   // it has the name besides the alias of key
	confirmed     bool   // the nonce came with the answer to a probe: nobody off the path made it up
	early         []byte // a Locator Update that came before that, whole
	earlyLink     roam.LinkID
	earlyAnswered bool      // the update in hand was acknowledged when it came
	earlyCounted  bool      // and counted
	confirming    time.Time // when it was last asked for
	echoes        bool      // it has answered a probe
	proof         lifetimeProof
	probeBucket   bucket
	unnamed       bool // counted among pending peers, at this site
	site          uint64
	nonceUntil    time.Time
	updated       time.Time        // when the correspondent's last update came
	updatedAt     roam.LinkLocator // where it came in
	again         int              // retransmitted updates that were acknowledged from a locator it does not know
	late          bool             // its first nonces are over; there were lateFrom packets with one
	lateFrom      uint32
	dead          bool
	update        exchange
	borderAnew    borderAnew
	holdback
	watch          watch
	check          pathCheck
	askedBack      map[Path]time.Time // when an update left along a dead path to learn whether the other direction lives
	askedWays      map[Path]askedWay  // updates that ask along paths that are not in use
	reports        pathReports
	left           []leftPath // whose losses are not known yet
	crosses        ilnpwire.Connections
	sent           tokens // probes under way
	monitored      time.Time
	validateNext   time.Time  // when unvalidated locators and dead paths are asked again
	asksByRecord   bool       // that it runs Roam is remembered of an earlier session
	checks         int        // by command, before there was a nonce
	toldInUDP      bool       // a Locator Update of the correspondent came in UDP
	withNonce      uint32     // packets of TCP and UDP with its nonce, when they were last counted
	arrivals       []roam.L64 // our locators in its set at which packets with its nonce have come
	strayed        bool       // probes have left from locators that the last update does not list
	rtt            time.Duration
	rttOf          roam.LinkLocator // where it was measured; zero: unknown
	leastRTT       time.Duration    // of the last two
	started        time.Time
	lastRx, lastTx time.Time
	lastControl    time.Time // when a control packet came
	used           time.Time // when an application's packet was last seen, either way
	expiring       bool      // idle for long, if the next reading agrees
	lastNonceRx    time.Time // when the right nonce was last seen
	lastMove       time.Time
	lastMoveRTT    time.Duration
	entry          Entry // as the data plane has it
}

func compareKey(a, b SessionKey) int {
	return cmp.Or(cmp.Compare(a.Local, b.Local), cmp.Compare(a.Remote, b.Remote))
}

func (c *Core) addSession(now time.Time, s *session, why string) {
	s.Machine, s.started, s.bad, s.asksByRecord = s, now, make(map[Path]bool), s.asks
	s.multipath.Show(s.use())
	c.makeEntry(now)
	c.preinstalled.giveWay(s.key)
	c.index(s)
	c.attend(s)
	c.arm(&s.schedule, timerIdle, now, c.cfg.IdleTimeout)
	c.notify(Event{Time: now, Kind: SessionStarted, Key: s.key, Locators: s.remotes.all(), Reason: why})
}

// removeSession forgets a session without telling why.
func (c *Core) removeSession(now time.Time, s *session) {
	c.unlink(now, s)
	c.emit(Delete{Key: s.key})
	c.settleHandoff(now, s.key)
}

// unlink takes a session out of everything but the data plane.
func (c *Core) unlink(now time.Time, s *session) {
	c.retire(&s.schedule)
	c.probes.forget(&s.sent, now)
	c.names.unnamed.leave(s)
	c.cache.remove(s)
	delete(c.attention, s)
	c.forgetRetired(s.remoteNID)
}

// sessionTimeout is called when one of the session's timers has run out.
func (c *Core) sessionTimeout(now time.Time, s *session, t timer) {
	c.attend(s)
	switch t {
	case timerUpdate:
		if c.retransmitUpdate(now, s) {
			handshakes{c}.insist(now, s)
		}
		questions{&c.liveness}.askUnlisted(now, s)
	case timerRefresh:
		c.refreshTimeout(now, s)
	case timerProbe:
		c.probeTimeout(now, s)
	case timerRemote:
		c.remotesChanged(now, s)
	case timerSetup:
		c.setupTimeout(now, s)
	case timerCopy:
		c.copyTimeout(now, s)
	case timerConfirm:
		c.confirmTimeout(now, s)
	case timerCheck:
		c.stepCheck(now, s)
	case timerIdle:
		c.idleTimeout(now, s)
	case timerLength:
		c.lengthTimeout(now, s)
	case timerCross:
		crossings{&c.steering}.timeout(now, s)
	case timerLoss:
		c.lossTimeout(now, s)
	case timerReturn:
		c.returnTimeout(now, s)
	case timerProve:
		handshakes{c}.proveTimeout(now, s)
	case timerShared:
		handshakes{c}.shareAhead(s)
	}
}

// idleTimeout asks whether the session has been without packets of applications
// for long. Control packets do not count: where lifetimes are short, Locator
// Updates renew them more often than sessions end. What has passed since the
// data plane was last read is not known here, so the session ends with the next
// reading (HandleActivity); without one, it has no entry to be read from.
func (c *Core) idleTimeout(now time.Time, s *session) {
	switch left := s.idleIn(c.cfg.IdleTimeout, now); {
	case left > 0:
		c.arm(&s.schedule, timerIdle, now, left)
	case s.expiring:
		c.endIdle(now, s)
	default:
		s.expiring = true
		c.arm(&s.schedule, timerIdle, now, idleUnread)
	}
}

// idleUnread is how long an idle session waits for a reading.
const idleUnread = 15 * time.Second

// idleIn returns when the session will have been idle for a time.
func (s *session) idleIn(timeout time.Duration, now time.Time) time.Duration {
	return later(s.used, s.started).Add(timeout).Sub(now)
}

// judgeIdle ends an expiring session, or lets it live on, after a reading. It
// reports whether the session is still there.
func (c *Core) judgeIdle(now time.Time, s *session) bool {
	if !s.expiring {
		return true
	}
	left := s.idleIn(c.cfg.IdleTimeout, now)
	if left <= 0 {
		c.endIdle(now, s)
		return false
	}
	s.expiring = false
	c.arm(&s.schedule, timerIdle, now, left)
	return true
}

func (c *Core) endIdle(now time.Time, s *session) {
	c.endSession(now, s, "idle")
	c.preinstalled.lookedUp(now, s.remoteNID)
}

// noteRTT takes a round-trip time that was measured from a locator of ours. The
// lesser of two bounds what an unvalidated locator gets, as one may be that of a machine
// that stood still.
func (s *session) noteRTT(rtt time.Duration, from roam.LinkLocator) {
	s.leastRTT = rtt
	if s.rtt > 0 {
		s.leastRTT = min(s.rtt, rtt)
	}
	s.rtt, s.rttOf = rtt, from
}

// grace is how long a dropped locator stays acceptable.
func (s *session) grace() time.Duration { return max(3*s.rtt, graceMin) }

// openNonce puts the nonce on every packet for 3 RTT (RFC 6744 §4).
func (s *session) openNonce(now time.Time) {
	d := max(3*s.rtt, nonceMin)
	if s.rtt == 0 {
		d = nonceGuess
	}
	s.nonceUntil = later(s.nonceUntil, now.Add(d))
}

// steering writes the entries that the data plane sends by, and has Locator Updates tell
// of what they leave by.
type steering struct{ updates }

// refresh brings the data plane and the correspondent in line with what the
// session uses now. Data from a locator that the correspondent may not know
// waits for the Locator Update to leave, or, unless it runs Roam, for its
// acknowledgement (see heldBack); a path that is no more is left at once, and
// told afterwards. The update tells what this host wants, wherever data wait.
func (c *steering) refresh(now time.Time, s *session) {
	was, wanted := s.course, c.pathsFor(now, s)
	paths := c.heldBack(now, s, wanted)
	left := s.course == ahead && was != ahead
	if slices.ContainsFunc(paths, func(p Path) bool { return !s.sendsFrom(p.Local) }) {
		s.openNonce(now)
		c.hope(now, s)
	}
	list := c.listingFor(s, c.pathsKept(now, s))
	returned := len(s.entry.Paths) == 0 && s.entry.Seq != 0
	tell := s.state == Established && len(paths) > 0 && len(list) > 0 && (returned || left || !slices.Equal(list, s.update.listing))
	first := tell && (returned || left || slices.ContainsFunc(wanted, func(p Path) bool { return !s.update.lists(p.Local.L64) }))
	if first {
		c.startUpdate(now, s, list, s.updatePaths(wanted))
	}
	c.upsert(now, s, paths)
	if tell && !first {
		c.startUpdate(now, s, list, wanted)
	}
	if left {
		c.compare(now, s)
	}
	if len(paths) == 0 {
		c.suspendUpdate(s)
	}
}

func (s *session) sendsFrom(l roam.LinkLocator) bool {
	return slices.ContainsFunc(s.entry.Paths, func(p Path) bool { return p.Local == l })
}

// listingFor returns what a Locator Update to this correspondent lists: the
// host's set, in which what the session really sends from is preferred. That
// differs from the active set when liveness has found a path dead.
func (c *pathChoice) listingFor(s *session, paths []Path) []listed {
	list := c.obstructed.reachable(s, slices.Clone(c.host.told), c.host.locals)
	if s.state != Established || len(s.bad) == 0 {
		return c.host.asSeenOutside(list)
	}
	// Where the correspondent is heard it goes on sending, though our direction died there.
	isKept := func(l roam.L64) bool { return c.host.isActive(l) && s.isHeardAt(l) }
	isAnyKept := slices.ContainsFunc(list, func(e listed) bool { return isKept(e.l64) })
	c.host.prefer(list, func(l roam.L64) bool {
		isUsed := slices.ContainsFunc(paths, func(p Path) bool { return p.Local.L64 == l })
		return isKept(l) || isUsed && (c.host.isActive(l) || !isAnyKept)
	})
	for _, p := range paths {
		if !slices.ContainsFunc(list, func(e listed) bool { return e.l64 == p.Local.L64 }) {
			list = append(list, listed{p.Local.L64, c.host.preferenceAt(p.Local.L64)})
		}
	}
	slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(a.preference, b.preference) })
	return c.host.asSeenOutside(list)
}

// upsert writes the entry if it differs from what the data plane has.
func (c *steering) upsert(now time.Time, s *session, paths []Path) {
	c.noteLeft(now, s, paths)
	s.arrivals = slices.DeleteFunc(s.arrivals, func(l roam.L64) bool { return !c.mayArrive(s, paths, l) })
	p := Entry{
		Key: s.key, State: s.state, LocalNID: s.localNID, RemoteNID: s.remoteNID,
		LocalNonce: s.localNonce, RemoteNonce: s.remoteNonce, Rule: s.rule, RuleSought: s.sought,
		NonceAlways: s.nonceAlways || keepsNonce(s, paths) || s.agreed.isOpen(), // until then the peer may have no entry
		NonceUntil:  s.nonceUntil, Encap: s.state == Established && s.anyEncap(paths), Dead: s.dead,
		PerFlow:      s.tracked(),
		Preinstalled: c.preinstalled.has(s), Named: s.alsoNamed,
		ICMPRule:    s.ruleOfICMP(),
		Unrecorded:  !s.owned,
		Unconfirmed: c.isUnfollowed(s),
		MACKey:      s.keyIn(),
		Paths:       paths, Accept: s.acceptFor(now, paths), Grace: 2 * cmp.Or(s.leastRTT, s.rtt),
	}
	if s.keys != nil {
		p.MACCounter = s.keys.updated
	}
	if p.Holds = s.hs != nil; p.Holds && !p.RemoteNonce.Present() {
		p.RemoteNonce = s.hs.nobody
	}
	if p.State != Plain {
		p.Unvalidated, p.Given = s.unvalidatedIn(p)
		p.Reserve = c.reserveFor(s, p)
	}
	p.Validated = c.validatedOf(s, p.Accept)
	if p.Rules = c.rules.of(s, c.recordOf(s)); p.Rules.Mask != 0 {
		p.Ruled = c.ruledFor(now, s, p)
	}
	if p.Answers = s.reports.answers && s.state == Established; p.Answers {
		p.Back = c.backFor(s, p)
	}
	p.Narrow = s.size.least && slices.Equal(paths, s.entry.Paths)
	p.Counted = c.countsPaths(s, p.carriers())
	c.choose(now, s, &p)
	if s.entry.Seq != 0 && s.astray != recalled && sameEntry(p, s.entry) {
		return
	}
	if !slices.Equal(p.Paths, s.entry.Paths) {
		s.size = sizeCheck{} // what the stack learned of the path is forgotten with it
		s.multipath.HandlePaths()
		s.reports.stopped = time.Time{} // the new ones may bring reports
	}
	p.Seq, s.astray = s.entry.Seq+1, 0 // what the data plane follows was for the entry before
	if len(s.entry.Paths) > 0 && len(p.Paths) > 0 && p.Paths[0] != s.entry.Paths[0] {
		s.lastMove = now
	}
	was := s.entry
	s.entry = p
	c.emit(Upsert{Entry: p})
	if c.sessions[s.key] == s { // it is not preinstalled, nor at its end
		c.attend(s)
	}
	c.tellPaths(s, was, p)
	s.forgetPaths()
	c.tellSpread(now, s)
	c.measureRates(now, s)
}

// remotesChanged brings everything in line with the correspondent's set of
// locators, after a change of it or when a lifetime has ended.
func (c *liveness) remotesChanged(now time.Time, s *session) {
	c.ageRemotes(now, s)
	c.refresh(now, s)
	c.validate(now, s)
	if !s.owned && s.state == Established && c.cfg.Liveness != nil {
		c.validateOthers(now, s) // flows with rules come from there soon, and count as this session's once it is validated
	}
}

// ageRemotes forgets what is over of the correspondent's set.
func (c *steering) ageRemotes(now time.Time, s *session) {
	s.remotes.age(now, s.grace())
	if next := s.remotes.next(now); next.IsZero() {
		c.disarm(&s.schedule, timerRemote)
	} else {
		c.arm(&s.schedule, timerRemote, now, next.Sub(now))
	}
	for p := range maps.Keys(s.bad) {
		if s.remotes.find(p.Remote) == nil {
			delete(s.bad, p)
		}
	}
}
