package decide

import (
	"roam"
	"roam/wire/ilnp"
)

// Times are nanoseconds of one clock that does not jump, as uint64; 0 is never.
const (
	millisecond = uint64(1e6)
	second      = uint64(1e9)
)

// The bounds of an entry, as bpf/ilnp/types.h has them.
const (
	MaxUplinks = 16
	MaxRemote  = 8
	MaxPaths   = 16
)

// Key names a session inside this host: the low halves of its session addresses.
type Key struct{ Local, Remote roam.NID }

// Host is struct host, and what the loader sets.
type Host struct {
	SessionPrefix roam.L64
	NIDs          [4]roam.NID // unused ones are zero
	Secret        [4]uint64
	Epoch         uint32
	AcceptAny     bool // who sends a nonce may open a session
	Collisions    bool // the map of that name is looked at
	RealNIDs      bool // the NIDs are those of addresses of plain IPv6
	Obstructed    bool // the map of that name is looked at
	ProbeID       uint16
	NonceLen      uint8
	Segdev        uint32     // index of the link that cuts GSO packets; 0: none
	Reals         []roam.ILV // addresses that servers may be bound to
	EncapPort     uint16     // of control in UDP; 0: none
	SilenceAfter  uint64
	SilenceAgain  uint64
}

// Uplink is one local locator on one link.
type Uplink struct {
	L64      roam.L64
	Link     uint32
	MTU      uint32
	Usable   bool
	Physical bool
}

// Flags are enum entry_flags.
type Flags uint32

// The flags of a session entry, with the values of bpf/ilnp/types.h.
const (
	Initiated    Flags = 1
	Plain        Flags = 2
	Dead         Flags = 4
	RFC6741      Flags = 8
	RuleSought   Flags = 16
	NonceAlways  Flags = 32
	RealSockets  Flags = 64
	ByAlias      Flags = 128
	Encap        Flags = 256
	Preinstalled Flags = 512
	PerFlow      Flags = 1024
	Named        Flags = 2048
	Unconfirmed  Flags = 4096
	PlainFlows   Flags = 8192
	ICMPRFC6741  Flags = 16384
	Unrecorded   Flags = 32768
)

// Found is enum rule_found: what a packet shows of its sender's checksum rule.
type Found uint8

// The values of Found.
const (
	NotFound Found = iota
	FoundIPv6
	FoundRFC6741
	IsProbe
	FoundOther
)

// Path is one way to send.
type Path struct{ Uplink, Remote uint8 }

// Session is a session entry, written by the daemon.
type Session struct {
	Flags                   Flags
	Slot, Seq, Birth        uint32
	LocalNID, RemoteNID     roam.NID
	Alias                   Key
	NonceUntil              uint64
	Remote                  [MaxRemote]roam.L64 // unused ones are zero
	NRemote                 int                 // of Remote, that are sent to; those behind are accepted only
	Paths                   []Path              // that are chosen from, then the reserve
	NPaths                  int
	Unvalidated, Given      uint8 // bits of Remote
	Sources                 int   // how many further ones the map of that name holds
	Long                    uint16
	Costs                   uint64
	Grace                   uint32
	LocalNonce, RemoteNonce ilnp.Nonce
	Live                    *Live
}

// Live is what the programs saw of a session. Ticks are 2^20 ns.
type Live struct {
	Birth, PathSeq, HintSeq, LifeSeq uint32
	UnansweredTx, LastTx             uint64
	TxPackets, TxBytes               uint64
	RateSince                        uint64
	RateLast, RateNow                uint32
	LastRx, LastNonceRx              uint64
	RxPackets, RxBytes               uint64
	WithNonce, WithoutNonce          uint32
	SilenceTold, Returned            uint32 // ticks
	Hint                             roam.L64
	Rule                             Found
	Cuts, Retried                    bool
	Asked, AskedPerFlow              bool
	PathBytes                        [MaxPaths]uint32
	Learned                          ilnp.Nonce
	SoughtSince, CopySent            uint32 // ms
	ToldUntil, UpdatesUntil          uint64
	StallTold, QueueTold             uint32 // ticks
	NonceAt                          roam.L64
	CopyPorts                        [2]uint16
	CopyOpen                         bool
	CopyAnswers                      uint8
}

// Other is a pending peer that is not answered under its NID.
type Other struct {
	Nonce uint64 // in one word; 0: none
	L64   roam.L64
	Encap bool
}

// Pending is struct pending_peer: those that share one NID.
type Pending struct {
	RemoteL64, LocalL64                    roam.L64
	FirstRemote, FirstLocal                roam.L64
	RemoteNonce                            ilnp.Nonce // Len 0: none is answered
	Link                                   uint32
	Epoch                                  uint16
	EncapCame, EncapSpoke, Cuts            bool
	Since, SynAck                          uint64
	RxBytes, RxPackets, TxBytes, TxPackets uint64
	Rule                                   Found
	Given                                  bool
	Next, Guesses                          uint32
	Others                                 [others]Other
}

// AllowanceKey names an unvalidated locator of a session, and a further source of one.
type AllowanceKey struct {
	L64         roam.L64
	Slot, Birth uint32
}

// Allowance is what went to and came from such a locator.
type Allowance struct{ Since, RxBytes, TxBytes, TxPackets, RxPackets uint64 }

// CollisionKey tells correspondents with one NID apart.
type CollisionKey struct {
	Local  roam.NID
	Remote roam.ILV
}

// ObstructionKey is a path, or with a zero Remote all others from that locator.
type ObstructionKey struct {
	Local  roam.L64
	Remote roam.ILV
}

// FlowKey is a TCP connection of a session.
type FlowKey struct {
	Alias        Key
	Own, Foreign uint16 // ports
}

// FlowEnds are the locators that a connection of plain IPv6 is bound to.
type FlowEnds struct{ Local, Remote roam.L64 }

// Window is struct rate_window.
type Window struct {
	Since     uint64
	Last, Now uint32
}

// The windows.
const (
	RatePending = iota
	RateMisses
	RateReplies
	Rates
)

// State is what the maps hold.
type State struct {
	Host       Host
	Uplinks    [MaxUplinks]Uplink
	Sessions   map[Key]*Session // by aliases
	ByNIDs     map[Key]*Session // those with Named, by their NIDs
	Sources    map[AllowanceKey]bool
	Collisions map[CollisionKey]Key
	Obstructed map[ObstructionKey]bool
	Pending    map[Key]*Pending
	PlainNodes map[Key]bool
	PlainFlows map[FlowKey]FlowEnds
	Windows    [Rates]Window
	Allowances map[AllowanceKey]*Allowance
	Known      map[roam.NID]bool // true: anywhere
	Places     map[roam.ILV]bool
	Sockets    Sockets // nil: this host has none
	// Forget is called with each pending peer that is new, so that who holds the
	// state can bound the table, as the kernel's map is (nil).
	Forget func(Key)
}

// NewState returns the state of maps that are empty.
func NewState() *State {
	return &State{
		Host:     Host{SilenceAfter: 2 * second, SilenceAgain: 15 * second},
		Sessions: map[Key]*Session{}, ByNIDs: map[Key]*Session{}, Sources: map[AllowanceKey]bool{},
		Collisions: map[CollisionKey]Key{}, Obstructed: map[ObstructionKey]bool{}, Pending: map[Key]*Pending{},
		PlainNodes: map[Key]bool{}, PlainFlows: map[FlowKey]FlowEnds{}, Allowances: map[AllowanceKey]*Allowance{},
		Known: map[roam.NID]bool{}, Places: map[roam.ILV]bool{},
	}
}

// Put publishes a session, which is found by its aliases, and by its NIDs if it is Named.
func (s *State) Put(p *Session) {
	s.Take(p.Alias)
	s.Sessions[p.Alias] = p
	if p.Flags&Named != 0 {
		s.ByNIDs[Key{p.LocalNID, p.RemoteNID}] = p
	}
}

// Take withdraws a session.
func (s *State) Take(alias Key) {
	p := s.Sessions[alias]
	if p == nil {
		return
	}
	delete(s.Sessions, alias)
	if nids := (Key{p.LocalNID, p.RemoteNID}); s.ByNIDs[nids] == p {
		delete(s.ByNIDs, nids)
	}
}

// find returns the session with these aliases, or nil.
func (s *State) find(k Key) *Session {
	if p := s.Sessions[k]; p != nil {
		return p
	}
	return s.ByNIDs[k]
}

// live returns what was seen of the session; cleared when the slot changed hands.
func (p *Session) live() *Live {
	if p.Live.Birth != p.Birth {
		*p.Live = Live{Birth: p.Birth}
	}
	return p.Live
}

// Seen returns what was seen of the session so far.
func (p *Session) Seen() Live {
	if p.Live.Birth != p.Birth {
		return Live{}
	}
	return *p.Live
}

func (p *Session) is(f Flags) bool { return p.Flags&f != 0 }

// path returns a path; beyond those that there are, the map holds zeros.
func (p *Session) path(i int) Path {
	if i < len(p.Paths) {
		return p.Paths[i]
	}
	return Path{}
}

// Waits reports whether the entry is preinstalled, and no packet of ours has used it: it
// is not there for whoever comes from outside.
func (p *Session) Waits() bool {
	return p.is(Preinstalled) && (p.Live.Birth != p.Birth || p.Live.LastTx == 0)
}

// isOurs reports whether an identifier is one of this host.
func (h *Host) isOurs(nid roam.NID) bool {
	ours := false
	for _, n := range h.NIDs {
		ours = ours || n != 0 && n == nid
	}
	return ours
}

// onWire reports whether packets can come from a locator.
func onWire(l roam.L64) bool {
	return l != 0 && l>>56 != 0xff && l>>54 != 0xfe80>>6
}

// pendingOf returns the pending peer that is answered under an NID.
func (s *State) pendingOf(k Key) *Pending {
	if e := s.Pending[k]; e != nil && e.RemoteNonce.Present() {
		return e
	}
	return nil
}

// isObstructed reports whether a policy takes packets from a locator of ours to a node elsewhere.
func (s *State) isObstructed(from roam.L64, to roam.ILV) bool {
	if !s.Host.Obstructed {
		return false
	}
	if is, ok := s.Obstructed[ObstructionKey{from, to}]; ok {
		return is
	}
	_, others := s.Obstructed[ObstructionKey{from, roam.ILV{}}]
	return others
}

const rateCountWindow = 100 * millisecond

// exceeds reports whether this is one of too many of a kind.
func (s *State) exceeds(now uint64, kind int, most uint32) bool {
	w := &s.Windows[kind]
	if now-w.Since >= rateCountWindow {
		if w.Last = 0; now-w.Since < 2*rateCountWindow {
			w.Last = w.Now
		}
		w.Now, w.Since = 0, now
	}
	w.Now++
	return w.Last > most || w.Now > most
}
