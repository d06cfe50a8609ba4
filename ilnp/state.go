package ilnp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// stateVersion changes when a predecessor's state cannot be read any more.
const stateVersion = 1

// ErrState is wrapped by the errors of Restore.
var ErrState = errors.New("unusable state of a predecessor")

// savedState is what Export writes. Times are absolute, so that what ran out
// while nobody was there is seen to have run out; the zero time is "never".
type savedState struct {
	Version    int             `json:"version"`
	Configured Mode            `json:"configured_mode"`
	Mode       Mode            `json:"mode"`
	Disabled   []savedDisabled `json:"disabled,omitempty"`
	Links      *DisabledLinks  `json:"links,omitempty"` // nil: a build before wrote it
	Locals     []savedLocal    `json:"locals,omitempty"`
	Known      []savedKnown    `json:"known,omitempty"`
	Border     []savedSite     `json:"border,omitempty"`
	Sessions   []savedSession  `json:"sessions,omitempty"`
	Boot       time.Time       `json:"boot,omitzero"`    // Config.Boot
	Offers     uint64          `json:"offers,omitempty"` // counters of our proofs are reserved up to this
}

// savedSite is what the border of a site makes of a locator of ours.
type savedSite struct {
	Own     roam.L64   `json:"own"`
	Outside []roam.L64 `json:"outside"`
}

type savedDisabled struct {
	Link roam.LinkID `json:"link"`
	Name string      `json:"name,omitempty"`
}

type savedLocal struct {
	Link    roam.LinkID  `json:"link"`
	Name    string       `json:"name,omitempty"`
	L64     roam.L64     `json:"l64"`
	State   LocatorState `json:"state"`
	Expires time.Time    `json:"expires"`
	Since   time.Time    `json:"since"`
	Rank    int          `json:"rank"`
	Arrival int          `json:"arrival"`
}

type savedRemote struct {
	L64        roam.L64  `json:"l64"`
	Preference uint16    `json:"preference"`
	Expires    time.Time `json:"expires"`
	Until      time.Time `json:"until"` // not zero: dropped, in grace
	Validated  bool      `json:"proven,omitempty"`
	Given      bool      `json:"given,omitempty"`
	Only       bool      `json:"only_given,omitempty"`
}

type savedProfile struct {
	Rule   ChecksumRule `json:"rule"`
	Fixed  bool         `json:"fixed,omitempty"`
	Sought bool         `json:"sought,omitempty"`
	Draft  bool         `json:"draft,omitempty"` // what builds before know of Form

	Form      ilnpwire.Form `json:"lu_form,omitempty"`
	FormShown bool          `json:"lu_form_shown,omitempty"`
	ICMP      icmpRule      `json:"icmp,omitempty"`
	NoUDP     bool          `json:"no_udp,omitempty"`

	NonceAlways bool         `json:"nonce_always,omitempty"`
	NonceFixed  bool         `json:"nonce_fixed,omitempty"`
	NonceSure   bool         `json:"nonce_sure,omitempty"`
	Asks        bool         `json:"asks,omitempty"`
	OldFirst    bool         `json:"old_first,omitempty"`
	PerFlow     savedPerFlow `json:"per_flow,omitzero"`
}

type savedPerFlow struct {
	On    bool          `json:"on,omitempty"`
	Until time.Time     `json:"until"`
	Every time.Duration `json:"every"`
}

type savedKnown struct {
	NID      roam.NID      `json:"nid"`
	Names    []string      `json:"names,omitempty"`
	Locators []savedRemote `json:"locators,omitempty"`
	savedProfile
	PlainUntil time.Time     `json:"plain_until"`
	Anywhere   bool          `json:"anywhere,omitempty"`
	Keyed      bool          `json:"keyed,omitempty"`
	Public     nidkey.Public `json:"public,omitzero"` // that the sessions below were proven with
	Retired    bool          `json:"retired,omitempty"`
	Guarded    bool          `json:"guarded,omitempty"`  // until AddPeer says otherwise
	Follows    nidkey.Public `json:"follows,omitzero"`   // key of this host that it has shown to know
	Replaced   bool          `json:"replaced,omitempty"` // its key was, and a session below is of the one before
}

type savedSession struct {
	Local       roam.NID     `json:"local"`
	Remote      roam.NID     `json:"remote"`
	LocalNID    roam.NID     `json:"local_nid"`
	RemoteNID   roam.NID     `json:"remote_nid"`
	State       SessionState `json:"state"`
	LocalNonce  []byte       `json:"local_nonce"`
	RemoteNonce []byte       `json:"remote_nonce,omitempty"`
	savedProfile
	Fallback     fallback      `json:"fallback"`
	Announced    bool          `json:"announced,omitempty"`
	Remotes      []savedRemote `json:"remotes"`
	Update       exchangeState `json:"update"`
	Listing      []savedListed `json:"listing,omitempty"`
	Told         []time.Time   `json:"told,omitempty"`
	ToldAt       time.Time     `json:"told_at"`
	NonceUntil   time.Time     `json:"nonce_until"`
	Dead         bool          `json:"dead,omitempty"`
	RTT          time.Duration `json:"rtt"`
	Seq          uint32        `json:"seq"`
	Started      time.Time     `json:"started"`
	LastRx       time.Time     `json:"last_rx"`
	LastTx       time.Time     `json:"last_tx"`
	LastMove     time.Time     `json:"last_move"`
	LastMoveRTT  time.Duration `json:"last_move_rtt"`
	Encapsulated []Path        `json:"carried,omitempty"`
	Preinstalled bool          `json:"expected,omitempty"`
	AsksPerFlow  bool          `json:"asks_per_flow,omitempty"`
	Long         []Path        `json:"long,omitempty"`
	Owned        bool          `json:"owned,omitempty"`
	AlsoNamed    bool          `json:"also_named,omitempty"`
	Confirmed    bool          `json:"confirmed,omitempty"`
	Echoes       bool          `json:"echoes,omitempty"`
	Keyed        bool          `json:"keyed,omitempty"`
	MACSent      uint64        `json:"mac_sent,omitempty"` // counters of a keyed session; its keys are in no state
	MACUpdated   uint64        `json:"mac_updated,omitempty"`
	MACAcked     uint64        `json:"mac_acked,omitempty"`
	MACRoot      []byte        `json:"mac_root,omitempty"` // what the keys of a session derive from that began by a proof
	MACOpen      bool          `json:"mac_open,omitempty"` // the peer has not shown that it has that
	MACNext      []byte        `json:"mac_next,omitempty"` // the same of a newer proof, to be confirmed
	MACNextSince time.Time     `json:"mac_next_since,omitzero"`
	MACReports   bool          `json:"mac_reports,omitempty"` // no report of the peer counts without a MAC
	Known        []roam.L64    `json:"known,omitempty"`       // of ours, from which the correspondent takes packets
	Paths        []savedPath   `json:"paths,omitempty"`
	Rates        []savedRate   `json:"rates,omitempty"`
	CostsTold    bool          `json:"costs_told,omitempty"` // the correspondent has told what paths cost, be it nothing
	Arrivals     []roam.L64    `json:"arrivals,omitempty"`   // session.arrivals
	WithNonce    uint32        `json:"with_nonce,omitempty"` // session.withNonce
}

type savedListed struct {
	L64        roam.L64 `json:"l64"`
	Preference uint16   `json:"preference"`
}

func (h *host) save() (disabled []savedDisabled, locals []savedLocal) {
	for _, link := range slices.Sorted(maps.Keys(h.disabled)) {
		disabled = append(disabled, savedDisabled{link, h.names[link]})
	}
	for _, l := range h.locals {
		locals = append(locals, savedLocal{
			l.Link, h.names[l.Link], l.L64, l.state, l.expires, l.since, l.rank, l.arrival,
		})
	}
	return disabled, locals
}

func saveRemotes(rs remotes) []savedRemote {
	var list []savedRemote
	for _, r := range rs {
		v := savedRemote{L64: r.l64, Preference: r.preference, Expires: r.expires, Validated: r.validated, Given: r.given, Only: r.only}
		if r.standing == dropped {
			v.Until = r.until
		}
		list = append(list, v)
	}
	return list
}

func (s *session) save() savedSession {
	v := savedSession{
		Local: s.key.Local, Remote: s.key.Remote, LocalNID: s.localNID, RemoteNID: s.remoteNID, State: s.state,
		LocalNonce: s.localNonce.Value(), RemoteNonce: s.remoteNonce.Value(), savedProfile: s.profile.saved(),
		Fallback: s.fallback, Announced: s.announced, Remotes: saveRemotes(s.remotes), Update: s.update.state,
		Told: slices.Clone(s.update.told), ToldAt: s.update.last, NonceUntil: s.nonceUntil, Dead: s.dead, RTT: s.rtt, Seq: s.entry.Seq,
		Started: s.started, LastRx: s.lastRx, LastTx: s.lastTx, LastMove: s.lastMove, LastMoveRTT: s.lastMoveRTT,
		Encapsulated: s.encapPaths(), AsksPerFlow: s.multipath.Wished(), Long: slices.Clone(s.entry.Long),
		Owned: s.owned, AlsoNamed: s.alsoNamed, Confirmed: s.confirmed, Echoes: s.echoes, Known: slices.Clone(s.known),
		Paths: s.check.savePaths(), Arrivals: slices.Clone(s.arrivals), WithNonce: s.withNonce,
		Rates: saveRates(s), CostsTold: s.reports.told != nil,
	}
	if k := s.keys; k != nil {
		v.Keyed, v.MACSent, v.MACUpdated, v.MACAcked = true, k.sent, k.updated, k.acks.top
		v.MACReports = sealsReports(s)
	}
	if s.agreed != nil {
		v.MACRoot, v.MACOpen = slices.Clone(s.agreed.root), s.agreed.isOpen()
	}
	if s.renewal != nil {
		v.MACNext, v.MACNextSince = slices.Clone(s.renewal.root), s.renewal.since
	}
	for _, e := range s.update.listing {
		v.Listing = append(v.Listing, savedListed{e.l64, e.preference})
	}
	return v
}

// Restore takes what an Export of a predecessor returned and upserts every
// session that is still alive and of a Node Identifier of ours. Nothing is sent and no handoff begins: the
// locators are believed to be where they were, until the system shows them
// again or 3 s have passed. It is to be called first, before any other method;
// an error wraps ErrState and leaves the core empty.
func (c *Core) Restore(now time.Time, state []byte) error {
	st, err := parseState(state)
	if err != nil {
		return err
	}
	st.rebase(st.Boot, c.cfg.Boot)
	st.Sessions = slices.DeleteFunc(st.Sessions, func(v savedSession) bool {
		return !slices.Contains(c.cfg.NIDs, v.LocalNID)
	})
	for _, v := range st.Sessions {
		if err := c.check(v); err != nil {
			return fmt.Errorf("session %v: %w", SessionKey{v.Local, v.Remote}, err)
		}
	}
	// A mode set by command lasts, until somebody configures another one.
	if st.Configured == c.configured && st.Mode <= Duality {
		c.cfg.Mode = st.Mode
	}
	for _, d := range st.Disabled {
		c.host.disabled[d.Link], c.host.left[d.Link], c.host.names[d.Link] = true, true, d.Name
	}
	c.DisabledLinks = st.disabledLinks()
	c.host.restore(now, st.Locals)
	c.host.restoreBorder(st.Border)
	c.prover.counter = st.Offers
	c.restoreKnown(st.Known)
	for _, v := range st.Sessions {
		if !v.Preinstalled {
			c.restoreSession(now, v)
		}
	}
	c.forgetUnused()
	for _, v := range st.Sessions {
		if v.Preinstalled && !c.cfg.isFormer(v.LocalNID) {
			c.preinstalled.restore(now, v)
		}
	}
	return nil
}

func parseState(state []byte) (st savedState, err error) {
	if err := json.Unmarshal(state, &st); err != nil {
		return st, fmt.Errorf("read state: %w: %w", ErrState, err)
	}
	if st.Version != stateVersion {
		return st, fmt.Errorf("state of version %d, want %d: %w", st.Version, stateVersion, ErrState)
	}
	return st, nil
}

func (c *node) restoreKnown(list []savedKnown) {
	for _, v := range list {
		c.known[v.NID] = &correspondent{
			nid: v.NID, names: v.Names, locators: loadRemotes(v.Locators), profile: v.savedProfile.profile(), plainUntil: v.PlainUntil,
			anywhere: v.Anywhere, keyed: v.Keyed, public: v.Public, guard: guard{on: v.Guarded},
			follows: c.cfg.Key != nil && v.Follows == c.cfg.Key.Public, replaced: v.Replaced,
		}
		if v.Retired && c.cfg.Key != nil { // nobody tells of it any more
			k := c.known[v.NID]
			k.retired = true
			k.secret, _ = c.cfg.Key.Shared(v.Public)
			k.guard.on = true
		}
	}
}

// check refuses sessions that cannot have come out of Export.
func (c *node) check(v savedSession) error {
	switch n, m := len(v.LocalNonce), len(v.RemoteNonce); {
	case n != 4 && n != 12, m != 0 && m != 4 && m != 12, v.State == Established && m == 0:
		return fmt.Errorf("nonces of %d and %d bytes: %w", n, m, ErrState)
	case v.State > Plain || v.Update > acknowledged || v.Fallback > withoutILNP:
		return fmt.Errorf("unknown enumeration value: %w", ErrState)
	case len(v.Remotes) == 0:
		return fmt.Errorf("no locators: %w", ErrState)
	}
	for _, r := range v.Remotes {
		if !c.cfg.acceptable(r.L64) {
			return fmt.Errorf("locator %v is not usable: %w", r.L64, ErrState)
		}
	}
	return nil
}

func (h *host) restore(now time.Time, list []savedLocal) {
	for _, v := range list {
		at := roam.LinkLocator{Link: v.Link, L64: v.L64}
		i, there := h.find(at)
		if there || !h.cfg.acceptable(v.L64) || v.Link == 0 {
			continue
		}
		h.names[v.Link] = v.Name
		h.ranks, h.arrivals = max(h.ranks, v.Rank), max(h.arrivals, v.Arrival)
		h.locals = slices.Insert(h.locals, i, &local{
			LinkLocator: at, state: v.State, expires: v.Expires, since: v.Since, rank: v.Rank, arrival: v.Arrival,
			confirmBy: now.Add(confirmWithin),
		})
	}
	h.restateAll(now)
}

func loadRemotes(list []savedRemote) remotes {
	var rs remotes
	for _, v := range list {
		r := remote{l64: v.L64, preference: v.Preference, expires: v.Expires, until: v.Until, validated: v.Validated, given: v.Given, only: v.Only}
		if !v.Until.IsZero() {
			r.standing = dropped
		}
		rs = append(rs, r)
	}
	rs.sort()
	return rs
}

// restoreSession makes a session of a predecessor's, unless it has been idle
// for too long meanwhile.
func (c *Core) restoreSession(now time.Time, v savedSession) {
	if !later(later(v.LastRx, v.LastTx), v.Started).Add(c.cfg.IdleTimeout).After(now) {
		return
	}
	if c.cfg.isFormer(v.LocalNID) && v.State == Initiated {
		return // it would begin under the former identifier
	}
	s := &session{
		key: SessionKey{v.Local, v.Remote}, localNID: v.LocalNID, remoteNID: v.RemoteNID, state: v.State,
		localNonce: loadNonce(v.LocalNonce), remoteNonce: loadNonce(v.RemoteNonce), profile: v.savedProfile.profile(),
		fallback: v.Fallback, announced: v.Announced, remotes: loadRemotes(v.Remotes), nonceUntil: v.NonceUntil,
		dead: v.Dead, rtt: v.RTT, lastRx: v.LastRx, lastTx: v.LastTx, lastMove: v.LastMove, lastMoveRTT: v.LastMoveRTT,
	}
	if v.Keyed { // without keys until AddPeer gives the secret: it takes no update before
		s.keys = &keying{sent: v.MACSent + restoredAhead, updated: v.MACUpdated}
		s.keys.acks = window{top: v.MACAcked, seen: ^uint64(0)}
		if v.MACReports {
			s.reports.macs = macsSure
		}
		if len(v.MACRoot) > 0 {
			s.agreed = &agreement{
				root: v.MACRoot, initiator: !v.MACOpen, confirmed: !v.MACOpen, tries: proofTries,
			}
		}
		if len(v.MACNext) > 0 {
			s.renewal = &agreement{root: v.MACNext, used: restoredAhead, since: sooner(v.MACNextSince, now)}
		}
		if k := c.known[v.RemoteNID]; k != nil && k.retired {
			if secret, known := c.secretOf(s); known { // else SetOldKey gives it
				s.rekey(now, secret)
			}
		}
	}
	c.restoreName(s, v)
	s.Machine, s.started, s.bad = s, v.Started, make(map[Path]bool)
	s.used = later(v.LastRx, v.LastTx)
	if v.AsksPerFlow {
		s.multipath.HandleWish(now, true) // the data plane tells soon whether it still does
	}
	s.multipath.Show(s.use())
	s.update = exchange{state: v.Update, told: v.Told, last: v.ToldAt, first: v.ToldAt}
	for _, e := range v.Listing {
		s.update.listing = append(s.update.listing, listed{e.L64, e.Preference})
	}
	s.update.told = s.update.told[:min(len(s.update.told), len(s.update.listing))]
	s.restoreEncap(now, v.Encapsulated)
	s.known = v.Known
	s.check.restorePaths(v.Paths)
	restoreRates(now, s, v.Rates, v.CostsTold)
	s.arrivals, s.withNonce = v.Arrivals, v.WithNonce
	s.entry.Seq, s.entry.Paths = v.Seq, c.heldBack(now, s, c.pathsFor(now, s)) // the data plane goes on with these
	s.entry.State, s.entry.Long = v.State, v.Long
	c.preinstalled.giveWay(s.key)
	c.index(s)
	c.attend(s)
	c.arm(&s.schedule, timerIdle, now, c.cfg.IdleTimeout)
	c.resume(now, s)
}

// restoreName gives a session the name that it had. The state of a build before
// does not say: there, who had the NID for an alias had the name, and its nonce counts.
func (c *node) restoreName(s *session, v savedSession) {
	k := c.known[s.remoteNID]
	named := s.key.Remote == s.remoteNID
	s.owned = v.Owned || named && k != nil
	s.confirmed = v.Confirmed || s.state == Established && !v.Owned
	s.echoes = v.Echoes
	if v.AlsoNamed && !named && c.holder(s.localNID, s.remoteNID) == nil {
		c.cache.name(s)
	}
	for i := range s.remotes {
		r := &s.remotes[i]
		r.given = r.given || s.owned && k != nil && k.locators.find(r.l64) != nil
	}
}

// resume arms what the predecessor had under way.
func (c *Core) resume(now time.Time, s *session) {
	switch s.update.state {
	case awaiting, slow:
		c.arm(&s.schedule, timerUpdate, now, updateMin)
	case acknowledged:
		c.armRefresh(now, s)
	}
	if s.state == Initiated {
		c.arm(&s.schedule, timerSetup, now, setupPatience)
	}
	if s.agreed.isOpen() {
		handshakes{c}.awaitConfirm(now, s)
	}
	if s.state == Established {
		c.awaitConfirmation(now, s)
	}
	if s.dead {
		s.watch = watch{state: silent, since: now}
		c.arm(&s.schedule, timerProbe, now, deadFirst)
	}
	c.remotesChanged(now, s)
}

func loadNonce(b []byte) Nonce {
	n := Nonce{Len: uint8(len(b))}
	copy(n.Bytes[:], b)
	return n
}
