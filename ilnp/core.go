package ilnp

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"roam"
)

// Config is what a Core is made with. The zero value of a field that has a
// default means that default.
type Config struct {
	NIDs             []roam.NID            // this host's own, the first one is used for new sessions; at least one
	Mode             Mode                  // what to do with more than one link
	Place            func(link string) int // of a link by its name: one of a lower place is stayed on, and of equal ones the newest wins; nil: all are equal
	Accept           Accept                // who may open a session towards this host
	DraftLU          bool                  // send Locator Updates in the draft form to peers that have not shown theirs
	NonceLength      uint8                 // of our own nonces: 4 (default) or 12 bytes (RFC 6744 §2)
	Rule             ChecksumRule          // for correspondents without a rule of their own
	Rand             io.Reader             // source of nonces and probe tokens; a CSPRNG outside of simulations
	FallbackLifetime time.Duration         // how long "no ILNP there" is remembered; default 10 min
	IdleTimeout      time.Duration         // a session without packets of applications for so long ends; default 10 min
	SessionPrefix    roam.L64              // never acceptable as a locator; default roam.DefaultSessionPrefix
	ProbeID          uint16                // identifier of our echo requests
	UDPPort          uint16                // of control messages where a path drops the option or ICMPv6; 0: never
	Preinstall       int                   // how many known correspondents without a session have an entry ready; 0: none
	MaxSessions      int                   // entries that the data plane has; preinstalled entries give way to others; 0: no bound
}

// Defaults of Config.
const (
	defaultNonceLength = 4
	defaultFallback    = 10 * time.Minute
	defaultIdle        = 10 * time.Minute
)

// ErrConfig is wrapped by the errors of New.
var ErrConfig = errors.New("invalid configuration of the core")

// Core is one host's ILNPv6: see the package comment for how it is driven. It
// is not safe for concurrent use.
type Core struct {
	agenda
	outbox
	cfg        Config
	configured Mode // cfg.Mode before any command
	host       host
	cache
	names        ownership
	accounts     accounts
	preinstalled preinstalled
	pendingPeers map[Pending]*pendingPeer
	pending      map[SessionKey][]*pendingPeer // by the NIDs on the wire
	queue        []*pendingPeer                // in the order in which they came; some are no more
	probes       map[token]probe
	probeSeq     uint16
	handoff      handoff
	round        round
	obstructed   obstructions
}

// New makes a core without locators, peers or sessions.
func New(cfg Config) (*Core, error) {
	switch {
	case len(cfg.NIDs) == 0:
		return nil, fmt.Errorf("no node identifier: %w", ErrConfig)
	case cfg.Rand == nil:
		return nil, fmt.Errorf("no source of randomness: %w", ErrConfig)
	case cfg.NonceLength != 0 && cfg.NonceLength != 4 && cfg.NonceLength != 12:
		return nil, fmt.Errorf("nonce length %d, want 4 or 12: %w", cfg.NonceLength, ErrConfig)
	case cfg.Mode > Duality:
		return nil, fmt.Errorf("mode %d: %w", cfg.Mode, ErrConfig)
	}
	if cfg.NonceLength == 0 {
		cfg.NonceLength = defaultNonceLength
	}
	if cfg.FallbackLifetime == 0 {
		cfg.FallbackLifetime = defaultFallback
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = defaultIdle
	}
	if cfg.SessionPrefix == 0 {
		cfg.SessionPrefix = roam.DefaultSessionPrefix
	}
	c := &Core{
		cfg:          cfg,
		configured:   cfg.Mode,
		cache:        newCache(),
		pendingPeers: make(map[Pending]*pendingPeer),
		pending:      make(map[SessionKey][]*pendingPeer),
		probes:       make(map[token]probe),
		obstructed:   make(obstructions),
	}
	c.host = newHost(&c.cfg, &c.outbox, &c.agenda)
	c.host.schedule.Machine = &c.host
	c.preinstalled = preinstalled{
		cfg: &c.cfg, cache: &c.cache, entries: make(map[SessionKey]*session), emit: c.emit, draw: c.drawNonce,
		write: func(now time.Time, s *session) { c.upsert(now, s, c.pathsFor(now, s)) },
	}
	c.names = ownership{cache: &c.cache, preinstalled: &c.preinstalled, effects: c}
	return c, nil
}

// PollTimeout returns when HandleTimeout wants to be called; false: never.
func (c *Core) PollTimeout() (time.Time, bool) {
	return c.deadlines.Next()
}

// HandleTimeout does what is due. It is to be called once now >= PollTimeout().
func (c *Core) HandleTimeout(now time.Time) {
	for m, t, due := c.deadlines.Due(now); due; m, t, due = c.deadlines.Due(now) {
		m.fire(c, now, t)
	}
}

// Mode returns the mode in force.
func (c *Core) Mode() Mode { return c.cfg.Mode }

// SetMode changes the mode at run time: the active set follows at once, with a
// Locator Update to every correspondent to whom it makes a difference.
func (c *Core) SetMode(now time.Time, m Mode) {
	if m == c.cfg.Mode || m > Duality {
		return
	}
	c.cfg.Mode = m
	c.notify(Event{Time: now, Kind: ModeChanged, Reason: m.String()})
	c.reselect(now, "mode "+m.String())
}

// Snapshot returns every entry that the data plane should hold, in the order
// of keys, to compare it with what it does hold.
func (c *Core) Snapshot() []Entry {
	entries := make([]Entry, 0, len(c.sessions)+len(c.preinstalled.entries))
	for _, s := range c.sessions {
		entries = append(entries, s.entry)
	}
	for _, s := range c.preinstalled.entries {
		entries = append(entries, s.entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return compareKey(a.Key, b.Key) })
	return entries
}

// draw returns n random bytes, or false if there is no randomness: nothing
// that needs to be unpredictable is made then.
func (c *Core) draw(now time.Time, b []byte) bool {
	if _, err := io.ReadFull(c.cfg.Rand, b); err != nil {
		c.refuse(now, SessionKey{}, reasonRandom)
		return false
	}
	return true
}

func (c *Core) drawNonce(now time.Time) (Nonce, bool) {
	n := Nonce{Len: c.cfg.NonceLength}
	return n, c.draw(now, n.Bytes[:n.Len])
}

// acceptable reports whether a locator may stand on the wire.
func (cfg *Config) acceptable(l roam.L64) bool { return l.Usable() && l != cfg.SessionPrefix }
