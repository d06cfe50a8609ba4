package ilnp

import (
	"errors"
	"fmt"
	"io"
	"time"

	"roam"
)

// Config is what a Core is made with. The zero value of a field that has a
// default means that default.
type Config struct {
	NIDs             []roam.NID    // this host's own, the first one is used for new sessions; at least one
	Mode             Mode          // what to do with more than one link
	Accept           Accept        // who may open a session towards this host
	DraftLU          bool          // send Locator Updates in the draft form to peers that have not shown theirs
	NonceLength      uint8         // of our own nonces: 4 (default) or 12 octets (RFC 6744 §2)
	Rule             ChecksumRule  // for correspondents without a rule of their own
	Rand             io.Reader     // source of nonces and probe tokens; a CSPRNG outside of simulations
	FallbackLifetime time.Duration // how long "no ILNP there" is remembered; default 10 min
	IdleTimeout      time.Duration // a session without packets for so long ends; default 10 min
	SessionPrefix    roam.L64      // never acceptable as a locator; default roam.DefaultSessionPrefix
	ProbeID          uint16        // identifier of our echo requests
	Overlap          time.Duration // soft handoff: how long the outgoing locator is still listed; 0: while it is VALID
}

// ErrConfig is wrapped by the errors of New.
var ErrConfig = errors.New("invalid configuration of the core")

// Core is one host's ILNPv6: see the package comment for how it is driven. It
// is not safe for concurrent use.
type Core struct {
	cfg Config
	out []Output
}

// New makes a core without locators, peers or sessions.
func New(cfg Config) (*Core, error) {
	if len(cfg.NIDs) == 0 {
		return nil, fmt.Errorf("no node identifier: %w", ErrConfig)
	}
	return &Core{cfg: cfg}, nil
}

// HandleLocator tells that a prefix on a link appeared, was refreshed or went.
func (c *Core) HandleLocator(now time.Time, ev LocatorEvent) {}

// HandlePacket takes a whole IPv6 packet that arrived on link and that the
// data plane took for a control packet: a Locator Update or its
// acknowledgement, the reply to a probe, or an ICMPv6 Parameter Problem. The
// core keeps no part of packet.
func (c *Core) HandlePacket(now time.Time, link roam.LinkID, packet []byte) {}

// HandleObservation takes one event of the data plane.
func (c *Core) HandleObservation(now time.Time, o Observation) {}

// HandleActivity takes what the data plane counted for pairs; once a second is
// often enough.
func (c *Core) HandleActivity(now time.Time, as []Activity) {}

// HandleTimeout does what is due. It is to be called once now >= PollTimeout().
func (c *Core) HandleTimeout(now time.Time) {}

// Poll returns the next thing to do; false: nothing more until the next Handle.
func (c *Core) Poll() (Output, bool) {
	if len(c.out) == 0 {
		return nil, false
	}
	o := c.out[0]
	c.out = c.out[1:]
	return o, true
}

// PollTimeout returns when HandleTimeout wants to be called; false: never.
func (c *Core) PollTimeout() (time.Time, bool) { return time.Time{}, false }

// AddPeer makes a correspondent known, or replaces what is known of it: its
// names are united, its told locators replaced. A live session keeps the
// locators that its correspondent announced itself.
func (c *Core) AddPeer(now time.Time, p Peer) {}

// RemovePeer forgets a correspondent and ends its sessions.
func (c *Core) RemovePeer(now time.Time, nid roam.NID) {}

// SetMode changes the mode at run time.
func (c *Core) SetMode(now time.Time, m Mode) {}

// SetLinkDisabled takes a link out of use although it is up, or back in.
func (c *Core) SetLinkDisabled(now time.Time, link roam.LinkID, disabled bool) {}

// Detach tells that a link and all its locators are lost at once.
func (c *Core) Detach(now time.Time, link roam.LinkID) {}

// Mode returns the mode in force.
func (c *Core) Mode() Mode { return c.cfg.Mode }

// Locals returns the locators of this host, in the order of link and locator.
func (c *Core) Locals(now time.Time) []LocalState { return nil }

// Peers returns the correspondents, known ones and those with sessions, in the
// order of their keys.
func (c *Core) Peers(now time.Time) []PeerState { return nil }

// Snapshot returns every entry that the data plane should hold, in the order
// of keys, to compare it with what it does hold.
func (c *Core) Snapshot() []Pair { return nil }

// RejectedInput returns how often input was refused, by reason.
func (c *Core) RejectedInput() RejectedInput { return nil }

// Export returns what a successor needs to keep the sessions. It holds nonces:
// only its owner may read it.
func (c *Core) Export() []byte { return nil }

// Restore takes what an Export of a predecessor returned, with times made
// absolute, and upserts every session that is still alive. It is to be called
// before any Handle method.
func (c *Core) Restore(now time.Time, state []byte) error { return nil }
