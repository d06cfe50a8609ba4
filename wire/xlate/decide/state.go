package decide

import (
	"roam"
	"roam/wire/ilnp"
)

// Times are nanoseconds of a monotonic clock, as uint64; 0 is never.
const (
	millisecond = uint64(1e6)
	second      = uint64(1e9)
)

// The bounds of an entry, as in bpf/ilnp/types.h.
const (
	MaxUplinks = 16
	MaxRemote  = 8
	MaxPaths   = 16
)

// Key names a session inside this host: the low halves of its session addresses.
type Key struct{ Local, Remote roam.NID }

// Host is struct host, and the constants that the loader sets.
type Host struct {
	SessionPrefix roam.L64
	NIDs          [4]roam.NID // unused ones are zero
	Secret        [4]uint64
	Epoch         uint32
	AcceptAny     bool // any sender of a nonce may open a session
	Collisions    bool // the programs look up the map of that name
	RealNIDs      bool // the NIDs belong to addresses of plain IPv6
	Obstructed    bool // the programs look up the map of that name
	ProbeID       uint16
	NonceLen      uint8
	Segdev        uint32     // index of the segmentation device; 0: none
	SegdevEnd     uint32     // and of its far end
	Device        uint32     // index of the session device
	Reals         []roam.ILV // addresses that servers may be bound to
	EncapPort     uint16     // of UDP encapsulation; 0: none
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
	Counted      Flags = 65536
	Ruled        Flags = 131072
	Answers      Flags = 262144
	Placed       Flags = 524288
	Narrow       Flags = 1048576
	Held         Flags = 2097152
	Cut          Flags = 4194304
)

// Found is enum rule_found: the checksum rule that a packet reveals.
type Found uint8

// The values of Found.
const (
	NotFound Found = iota
	FoundIPv6
	FoundRFC6741
	IsProbe
	FoundOther
)

// Path is a pair of uplink and remote locator.
type Path struct{ Uplink, Remote uint8 }

// Session is a session entry, which the daemon writes.
type Session struct {
	Flags                   Flags
	Slot, Seq, Birth        uint32
	LocalNID, RemoteNID     roam.NID
	Alias                   Key
	NonceUntil              uint64
	Remote                  [MaxRemote]roam.L64 // unused ones are zero
	NRemote                 int                 // of Remote, destinations; those behind are accepted sources only
	Paths                   []Path              // in use, then the reserve, those for rules and those for answers
	NPaths, NReserve        int
	NRuled                  int
	Unvalidated, Given      uint8 // bits of Remote
	Sources                 int   // number of further sources in the map of that name
	Costs                   uint64
	Grace                   uint32
	LocalNonce, RemoteNonce ilnp.Nonce
	Table                   *FlowTable // of TCP without a rule; nil: none
	Rules                   uint32     // bit i: rule i of State.Rules is for the session,
	RuleTables              map[int]*FlowTable
	UpdateKey               *UpdateKey // nil: the session is not keyed
	Live                    *Live
}

// Live is the programs' state of a session. Ticks are 2^20 ns.
type Live struct {
	Written                 bool   // the line of the session is written
	Birth, Seq              uint32 // Hint, PathBytes and LifeTold belong to that Seq
	UnansweredTx            uint32 // ticks; 0: never, as of those that follow
	LastTx, LastRx          uint32
	LastNonceRx             uint32
	TxPackets, TxBytes      uint64
	RateLast                uint32 // bytes sent in the window before that of LastTx,
	RateNow                 uint64 // and since that rate was noted
	Rated                   bool   // RateNow began with its window; without it RateLast is 0
	RxPackets, RxBytes      uint64
	WithNonce               uint32
	Bare                    bool   // packets without nonce came
	SilenceTold, Returned   uint32 // ticks
	LifeTold                bool
	Hint                    roam.L64
	Rule                    Found
	Cuts, Retried           bool
	Asked, AskedPerFlow     bool
	AskedCounts             bool
	AskedAnswers            bool
	PathBytes               [MaxPaths]uint32
	Learned                 ilnp.Nonce
	SoughtSince, CopySent   uint32 // ms
	ToldUntil, UpdatesUntil uint32 // in 2^16 ns
	StallTold, QueueTold    uint32 // ticks
	NonceAt                 roam.L64
	CopyPorts               [2]uint16
	CopyOpen                bool
	CopyAnswers             uint8
}

// Other is a pending peer that gets no answer under its NID.
type Other struct {
	Nonce uint64 // hashed; 0: none
	L64   roam.L64
	Encap bool
}

// Pending is struct pending_peer: the pending peers that share one NID.
type Pending struct {
	RemoteL64, LocalL64                    roam.L64
	Also                                   roam.L64
	Heard                                  uint64
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

// AllowanceKey names an unvalidated locator of a session, or a further source of one.
type AllowanceKey struct {
	L64         roam.L64
	Slot, Birth uint32
}

// Allowance counts the packets to and from such a locator.
type Allowance struct{ Since, RxBytes, TxBytes, TxPackets, RxPackets uint64 }

// CollisionKey distinguishes correspondents with one NID.
type CollisionKey struct {
	Local  roam.NID
	Remote roam.ILV
}

// ObstructionKey is a path, or with a zero Remote all other paths from that locator.
type ObstructionKey struct {
	Local  roam.L64
	Remote roam.ILV
}

// FlowKey is a TCP connection of a session.
type FlowKey struct {
	Alias        Key
	Own, Foreign uint16 // ports
}

// FlowEnds are the locators of a connection of plain IPv6.
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

// State is the content of the maps.
type State struct {
	Host       Host
	Uplinks    [MaxUplinks]Uplink
	Sessions   map[Key]*Session // by alias
	ByNIDs     map[Key]*Session // those with Named, by NIDs
	Sources    map[AllowanceKey]bool
	Collisions map[CollisionKey]Key
	Obstructed map[ObstructionKey]bool
	Pending    map[Key]*Pending
	PlainNodes map[Key]bool
	PlainFlows map[FlowKey]FlowEnds
	Fragmented map[Fragmented]uint64 // the first fragments of datagrams to real addresses, and when they came
	Windows    [Rates]Window
	Allowances map[AllowanceKey]*Allowance
	Known      map[roam.NID]bool // true: at any locator
	Places     map[roam.ILV]bool
	PathCounts map[PathKey]*PathCounts
	Rules      []Rule // the first one that matches decides
	answers    map[flow]flowEnds
	Crossed    map[CrossedKey]CrossedFlow
	Sockets    Sockets // nil: this host has none
	Marks      Marks
	// Forget is called with each new pending peer, so that the owner of the state can bound
	// the table, as the kernel's map does; may be nil.
	Forget func(Key)
}

// NewState returns the state of empty maps.
func NewState() *State {
	return &State{
		Host:     Host{SilenceAfter: 2 * second, SilenceAgain: 15 * second},
		Sessions: map[Key]*Session{}, ByNIDs: map[Key]*Session{}, Sources: map[AllowanceKey]bool{},
		Collisions: map[CollisionKey]Key{}, Obstructed: map[ObstructionKey]bool{}, Pending: map[Key]*Pending{},
		PlainNodes: map[Key]bool{}, PlainFlows: map[FlowKey]FlowEnds{}, Allowances: map[AllowanceKey]*Allowance{},
		Known: map[roam.NID]bool{}, Places: map[roam.ILV]bool{}, PathCounts: map[PathKey]*PathCounts{},
		answers: map[flow]flowEnds{}, Crossed: map[CrossedKey]CrossedFlow{}, Fragmented: map[Fragmented]uint64{},
	}
}

// Put publishes a session under its aliases, and under its NIDs if it is Named.
func (s *State) Put(p *Session) {
	s.Take(p.Alias)
	s.Sessions[p.Alias] = p
	if p.Flags&Named != 0 {
		s.ByNIDs[Key{p.LocalNID, p.RemoteNID}] = p
	}
}

// Take removes a session.
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

// live returns the programs' state of the session. It is cleared if the slot changed hands,
// and what belongs to an entry if that is another one.
func (p *Session) live() *Live {
	l := p.Live
	if l.Birth != p.Birth {
		*l = Live{Birth: p.Birth, Written: l.Written}
	}
	if l.Seq != p.Seq {
		l.Seq, l.Hint, l.LifeTold, l.PathBytes = p.Seq, 0, false, [MaxPaths]uint32{}
	}
	return l
}

// Seen returns a copy of the programs' state of the session.
func (p *Session) Seen() Live {
	if p.Live.Birth != p.Birth {
		return Live{}
	}
	return *p.Live
}

func (p *Session) is(f Flags) bool { return p.Flags&f != 0 }

// path returns a path; behind the last the map holds zeros.
func (p *Session) path(i int) Path {
	if i < len(p.Paths) {
		return p.Paths[i]
	}
	return Path{}
}

// Waits reports whether the entry is preinstalled and no outgoing packet has used it.
// Arriving packets do not match such an entry.
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

// onWire reports whether a locator can be a packet's source.
func onWire(l roam.L64) bool {
	return l != 0 && l>>56 != 0xff && l>>54 != 0xfe80>>6
}

// pendingOf returns the pending peer that is answered under a NID.
func (s *State) pendingOf(k Key) *Pending {
	if e := s.Pending[k]; e != nil && e.RemoteNonce.Present() {
		return e
	}
	return nil
}

// isObstructed reports whether a policy obstructs packets from a local locator to a node.
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

// exceeds counts an event and reports whether it is beyond the limit of its rate window.
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
