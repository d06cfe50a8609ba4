package ilnp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"roam"
	"roam/multipath"
	"roam/nidkey"
)

// Config is what a Core is made with. The zero value of a field that has a
// default means that default.
type Config struct {
	NIDs             []roam.NID            // this host's own, the first one is used for new sessions; at least one
	Former           roam.NID              // had before a rotation of the key: its sessions go on, none begins; 0: none
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

	// Preference is that of the locators of a link, by the link's name: lower is preferred, and
	// stayed on. nil: all are equal.
	Preference func(link string) uint16
	// Outside names the locators that the border of a site makes of one of ours, which peers
	// are told in its place.
	Outside map[roam.L64][]roam.L64
	// Liveness is how soon a path over a link is suspected, by the link's name. nil: paths are
	// not judged one by one.
	Liveness func(link string) multipath.Level
	// Trains has the rates of several paths in use be measured by trains of packets.
	Trains  bool
	Silence time.Duration // after which the data plane reports that nothing comes; default 2 s

	// Boot is when the host's monotonic clock began, by its wall clock now: Export and Restore go by the
	// former. Zero: the wall clock never jumps.
	Boot time.Time

	// Key is this node's key pair: peers with a key of theirs prove it at set-up. nil: it has none.
	Key *nidkey.Key

	// PathCounts returns what the data plane has counted along a path of a session with
	// Entry.Counted; false: nothing yet. nil: it does not count, and nothing is known of paths but
	// their round trips.
	PathCounts func(SessionKey, Path) (PathCounts, bool)

	// Flows returns what TCP connections have sent where Entry.Long has paths; nil: that is not
	// counted. It is asked when segments wait. Config.Flows itself may be nil: Activity.Flows serves, once a second.
	Flows func(SessionKey) *multipath.Flows
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
// is not safe for concurrent use. It makes and ends sessions; what goes on within them
// are the layers below it, of which each knows those below it only:
//
//	liveness     whether paths and the correspondent work
//	steering     what the data of a session leave by: its entry
//	updates      the exchange of Locator Updates
//	sender       probes and control messages
//	pathChoice   which paths a session may take
//	node         the host, its sessions and what is known of their correspondents
type Core struct {
	// DisabledLinks is set by the driver, or by Restore to what a predecessor had; Export saves it. Which
	// locators are used is up to SetLinkDisabled.
	DisabledLinks DisabledLinks
	liveness
	configured  Mode // cfg.Mode before any command
	names       ownership
	pending     pendingPeers
	prover      prover
	inheritance inheritance
	showing     []*session  // that are still to show their nonces to a border,
	showOn      roam.LinkID // on this link
}

// New makes a core without locators, peers or sessions.
func New(cfg Config) (*Core, error) {
	switch {
	case len(cfg.NIDs) == 0:
		return nil, fmt.Errorf("no node identifier: %w", ErrConfig)
	case cfg.NIDs[0] == cfg.Former:
		return nil, fmt.Errorf("the former node identifier is the present one: %w", ErrConfig)
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
	if cfg.Former != 0 && !slices.Contains(cfg.NIDs, cfg.Former) {
		cfg.NIDs = append(slices.Clone(cfg.NIDs), cfg.Former)
	}
	cfg.Silence = cmp.Or(cfg.Silence, silenceAll)
	c := &Core{
		configured: cfg.Mode,
	}
	c.liveness.init(cfg)
	c.preinstalled = preinstalled{
		cfg: &c.cfg, cache: &c.cache, entries: make(map[SessionKey]*session), emit: c.emit, draw: c.drawNonce,
		write: func(now time.Time, s *session) { c.upsert(now, s, c.pathsFor(now, s)) },
	}
	c.pending = pendingPeers{
		cfg: &c.cfg, cache: &c.cache, host: &c.host, obstructed: c.obstructed, preinstalled: &c.preinstalled,
		accounts: &c.accounts, probes: c.probes, effects: c,
		byKey: make(map[Pending]*pendingPeer), byNIDs: make(map[SessionKey][]*pendingPeer),
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
	for {
		c.finish()
		m, t, due := c.deadlines.Due(now)
		if !due {
			return
		}
		switch m := m.(type) {
		case *session:
			c.sessionTimeout(now, m, t)
		case *pendingPeer:
			c.pending.timeout(now, m)
		case *host:
			c.hostTimeout(now, t)
		}
	}
}

// Mode returns the mode in force.
func (c *node) Mode() Mode { return c.cfg.Mode }

// SetMode changes the mode at run time: the active set follows at once, with a
// Locator Update to every correspondent to whom it makes a difference.
func (c *Core) SetMode(now time.Time, m Mode) {
	c.finish()
	if m == c.cfg.Mode || m > Duality {
		return
	}
	c.cfg.Mode = m
	c.notify(Event{Time: now, Kind: ModeChanged, Reason: m.String()})
	c.reselect(now, "mode "+m.String())
}

// Snapshot returns every entry that the data plane should hold, in the order
// of keys, to compare it with what it does hold.
func (c *node) Snapshot() []Entry {
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

// acceptable reports whether a locator may stand on the wire.
func (cfg *Config) acceptable(l roam.L64) bool { return l.Usable() && l != cfg.SessionPrefix }
