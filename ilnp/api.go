package ilnp

import (
	"time"

	"roam"
	"roam/multipath"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// Mode is what the host does when it has more than one usable link.
type Mode uint8

// The modes, switched at run time.
const (
	Soft    Mode = iota // make before break: the newest locator carries all traffic, the old one still receives
	Hard                // break before make: at once, the old locator is no longer listed
	Duality             // every usable locator is ACTIVE and carries its share
)

// Accept rules who may open a session towards this host.
type Accept uint8

// The values of Accept.
const (
	Known Accept = iota // only peers from the hosts file, from commands and from look-ups
	Any                 // every node that shows a nonce and is validated
)

// ChecksumRule says over which addresses the TCP and UDP checksums on the wire
// are computed.
type ChecksumRule uint8

// The values of ChecksumRule.
const (
	// RuleIPv6: valid for the addresses on the wire. DEVIATION as the default,
	// see docs/rfc/rfc6741.md: RFC 6744 §3 takes locators for zero.
	RuleIPv6    ChecksumRule = iota
	RuleRFC6741              // locators count as zero (RFC 6741 §4.2)
)

// FoundRule is what a packet shows of its sender's stack.
type FoundRule uint8

// The values of FoundRule.
const (
	NotFound     FoundRule = iota // no TCP or UDP checksum, or one that is wrong under both rules
	FoundIPv6                     // RuleIPv6
	FoundRFC6741                  // RuleRFC6741
	FoundProbe                    // no rule: it asks as Roam does
	FoundOther                    // none for certain: only what goes under the other rule than the session's is answered
)

// SessionKey names a session between two nodes inside this host: the low halves
// of its two session addresses. An alias equals the NID unless two
// correspondents claim one NID.
type SessionKey struct {
	Local, Remote roam.NID
}

// Peer is what is known of a correspondent before any packet: from the hosts
// file, a command or a look-up.
type Peer struct {
	NID      roam.NID
	Locators []RemoteLocator
	Names    []string
	Rule     ChecksumRule
	DraftLU  bool // Locator Updates in the draft form (16-byte entries)

	RuleFixed   bool // Rule is what people said, not a default: it is not sought for
	NonceAlways bool // the option goes on every packet, not only where RFC 6744 §4 wants it
	NonceFixed  bool // NonceAlways is what people said, not to be found from what the peer does
	OldFirst    bool // a Locator Update leaves from a locator that the peer knows, before all others

	// Secret is what this node shares with the peer whose key the user has given: Locator Updates
	// of its sessions need a MAC then.
	Secret nidkey.Secret
	// Public is that key. With it, and with Config.Key, sessions with the peer begin by a proof.
	Public nidkey.Public

	// Guarded says that plain IPv6 must not be used to the peer: what it would be used for fails
	// at once. Optional says that a session may do without the key, until the peer has shown it.
	Guarded, Optional bool

	// Anywhere says that the record's name belongs to the node wherever it is
	// validated, not only at Locators: whoever claims the NID first has it.
	Anywhere bool
}

// RemoteLocator is one locator of a correspondent.
type RemoteLocator struct {
	L64        roam.L64
	Preference uint16        // lower is preferred (RFC 6742 §2.3)
	Lifetime   time.Duration // what is left; Infinite if not limited
}

// Nonce is the value of a Nonce option (RFC 6744 §2): 4 or 12 bytes, or 0
// when not known. It is comparable.
type Nonce = ilnpwire.Nonce

// Trigger says which observation of the data plane an Observation is.
type Trigger uint8

// The observations. BPF makes them; in sim the simulated data plane does.
const (
	SeenMiss       Trigger = iota // a local application sent to a session address without a session: Key
	SeenPending                   // a nonce packet from an unknown correspondent: Key, Remote, Local, Nonce, OwnNonce
	SeenNonce                     // the first nonce of a peer that we contacted: Key, Nonce, Remote
	SeenLocator                   // the right nonce from a locator not in the session: Key, Remote, Local
	SeenSilence                   // we send and nothing has come back for a while: Key
	SeenLife                      // a session marked Dead received an acceptable packet: Key, Remote
	SeenOtherNonce                // a nonce packet with another nonce than the entry's: as SeenPending
	SeenRule                      // a checksum showed that the rule guessed for a session is wrong: Key, Found
	SeenFirst                     // a local application's packet has left by an entry that is Preinstalled: Key
	SeenRefusal                   // the peer refused our current nonce by a Parameter Problem, while the session was Initiated: Key
	SeenPerFlow                   // a probe of the correspondent asks for TCP to be spread by connection: Key
	SeenStall                     // a TCP connection of a session with several paths has had a time-out (Bytes: ports; Packets: delivered), or sends much again: Key
	SeenQueue                     // segments of TCP wait on the way, in a session with several paths: Key
	SeenAcked                     // as SeenPending, of a packet that acknowledges our SYN-ACK, which went to Remote
	SeenExcess                    // a local application's packet exceeds the allowance of a pending peer: as SeenPending, of which nobody may have heard
	SeenStretched                 // windows follow a Stretch that begins, of these connections: Key, Connections
	SeenMore                      // more has come from a locator that is not validated: Key, Remote, Bytes and Packets in all
)

// Observation is one event of the data plane.
type Observation struct {
	Trigger      Trigger
	Key          SessionKey
	Remote       roam.ILV         // the correspondent as it stood on the wire
	Local        roam.LinkLocator // where the packet came in
	LocalNID     roam.NID
	Nonce        Nonce       // of the packet
	OwnNonce     Nonce       // the nonce that the pending peer answers with
	Found        FoundRule   // of a packet that shows it
	Encapsulated bool        // the nonce came in UDP
	Held         bool        // the packet waits until its sender is validated: Admit, or Dismiss
	Bytes        int         // of the packet, from its IPv6 header
	Connections  [][2]uint16 // by our port and that of the peer
	Packets      int         // SeenMore: how many came; SeenPending: how many had gone to the pending peer that is answered there
}

// Activity is what the data plane counted for one pair, read periodically.
type Activity struct {
	Key            SessionKey
	LastRx, LastTx time.Time // zero: never
	LastNonceRx    time.Time // when the session's own remote nonce was last seen
	NonceAt        roam.L64  // where the last packet of TCP or UDP with it came in; 0: none has
	// Packets of TCP and UDP that came since the session began.
	WithNonce, WithoutNonce uint32
	Asks                    bool             // a probe came, as Roam sends them
	AsksPerFlow             bool             // the last one wanted TCP spread by connection
	AsksCounts              bool             // it wanted data counted by path
	AsksAnswers             bool             // it has rules, and wants flows that it marks answered on their paths
	Flows                   *multipath.Flows // sent by TCP connections where Entry.Long has paths; nil: not counted
}

// Spread is how TCP is spread over several paths; all else is spread by packet.
type Spread = multipath.Spread

// The values of Spread.
const (
	ByPacket = multipath.ByPacket
	ByFlow   = multipath.ByFlow   // each connection keeps to one path: something on one of them tracks connections
	ByLength = multipath.ByLength // over the short paths; others take more than twice as long, and serve whole connections
)

// SessionState tells the data plane how to treat an entry.
type SessionState uint8

// The states of an entry.
const (
	Initiated   SessionState = iota // we sent first; the peer has not shown a nonce
	Established                     // both nonces are known and a locator is proven
	Plain                           // fell back: the same locators, plain IPv6, no option
)

// Path is one way to send: a local locator on its link towards a remote one.
type Path struct {
	Local  roam.LinkLocator
	Remote roam.L64
}

// MaxPaths and MaxRemote bound what a data-plane entry holds; the core keeps
// every locator and gives the entry the best ones. MaxAccept bounds the locators
// that it accepts: one full Locator Update, and in grace what that has replaced.
const (
	MaxPaths  = 16
	MaxRemote = 8
	MaxAccept = maxRemotes
)

// Table says which paths the flows of a session take.
type Table = multipath.Table[Path]

// Entry is the desired data-plane entry of a session.
type Entry struct {
	Key                     SessionKey
	State                   SessionState
	LocalNID, RemoteNID     roam.NID
	LocalNonce, RemoteNonce Nonce
	Rule                    ChecksumRule
	ICMPRule                ChecksumRule   // of ICMPv6 messages that bear our nonce
	RuleSought              bool           // Rule is a guess, to be found from what the peer sends
	NonceAlways             bool           // the option goes on every packet
	Narrow                  bool           // a path has no space for the option besides 1280 bytes
	Encap                   bool           // a path drops the option or ICMPv6: data goes without, ICMPv6 in UDP
	NonceUntil              time.Time      // the option goes on every packet until then (and while Initiated)
	Dead                    bool           // liveness says that no path works
	PerFlow                 bool           // each TCP connection keeps to its home, the same at both ends
	Preinstalled            bool           // it is preinstalled: until a packet of ours has used it, it is there for packets of ours only
	Seq                     uint32         // grows with every Upsert; a hint of the data plane is for one Seq
	Paths                   []Path         // to send on, at most MaxPaths, each one equally but for Long and Costs; empty: none usable
	Accept                  []roam.L64     // accepted as sources, usable or in grace; at most MaxAccept
	Unvalidated             []roam.L64     // of those in Paths and Accept, not yet validated
	Given                   []roam.L64     // of those in Unvalidated, named by a file, the user or the DNS, not by the peer alone
	Validated               []roam.L64     // of those in Accept, where the peer was validated: packets without nonce from there are this session's
	Holds                   bool           // a proof is under way: other nonces wait with the daemon
	Unconfirmed             bool           // the peer's nonce is followed nowhere; while Initiated: no plain IPv6
	MACKey                  [16]byte       // of the peer's Locator Updates, which are followed if newer
	MACCounter              uint64         // than this counter; zero: the session is not keyed
	Unrecorded              bool           // no record names the peer: what has no nonce counts only from where it was validated
	Named                   bool           // the session has the peer's NID as its alias besides that of Key
	Long                    []Path         // of those in Paths, those over which TCP is not spread
	Table                   *Table         // where TCP goes; nil: it takes any of Paths
	RuleTables              map[int]*Table // where flows go that a rule matches, by its number; nil: as without a rule
	Costs                   map[Path]uint8 // of those in Paths before which more waits than before others: each step of two halves what a path gets; 0 to 15
	SlowStart               int            // bytes at which the first slow start of TCP ends; 0: unknown
	Reserve                 []Path         // to validated locators that are listed, but less preferred: for what no unvalidated one may get yet
	Counted                 bool           // data are counted by path: Config.PathCounts
	Rules                   RuleUse        // rules of the user for its flows
	Ruled                   []Path         // further paths, for flows with rules only
	Answers                 bool           // flows that the peer marks are answered on the path that they came by,
	Back                    []Path         // also on these further paths, which nothing else takes
	Grace                   time.Duration  // two round trips: how long an unvalidated locator gets the rate before if no validated one is left; 0: unknown
}

// Output is what the core wants done; exactly one of the concrete types below.
type Output interface{ output() }

// Transmit sends a whole IPv6 packet, extension headers and checksum included,
// out of a link. Outputs are executed in order: a Locator Update that
// stands before an Upsert leaves before any data does under the new entry.
type Transmit struct {
	Link   roam.LinkID
	Packet []byte
	Whole  bool     // never in fragments: it is there to see whether its size gets through
	Behind [][]byte // packets of at most 1280 bytes to the same node that leave right behind it, in one go
	Probe  token    // HandleSent is to be told when it has left; zero: it is no probe
}

// Upsert makes or replaces a data-plane entry.
type Upsert struct{ Entry Entry }

// Delete removes a data-plane entry, and what the data plane remembers of a
// correspondent without session under that key.
type Delete struct{ Key SessionKey }

// Release sends the held first packets of an entry again: its entry exists now,
// or has fallen back to plain IPv6.
type Release struct{ Key SessionKey }

// Copy sends the first packet of a session once more, under the other rule of checksums
// than the session's, as nothing shows yet which one the correspondent has: its first
// segment, or its first datagram. The data plane lets it be if an answer has come.
type Copy struct {
	Key      SessionKey
	Datagram bool
}

// Reject answers the held first packets of an entry with ICMPv6 Destination
// Unreachable, code 3, and forgets them: nobody knows that NID.
type Reject struct{ Key SessionKey }

// Pending names one locator of a pending peer: a node is an NID with a nonce
// (RFC 6741 §5.4).
type Pending struct {
	Local  roam.NID
	Remote roam.ILV
	Nonce  Nonce
}

// Admit delivers the packets of a pending peer that were held, in order, under the
// alias of its session: the peer is validated. It stands before the Upsert, so that
// what comes in later does not overtake them. While there is no entry under that alias,
// answers to them must not go to another pending peer.
type Admit struct {
	Pending Pending
	Key     SessionKey
}

// Dismiss drops the held packets of a pending peer that stayed unvalidated, and what
// the data plane remembers of it under Key.
type Dismiss struct {
	Pending Pending
	Key     SessionKey
}

// Abandon destroys the sockets that are connected to an alias: it belongs to another
// node from now on, or to none.
type Abandon struct{ Key SessionKey }

// PathsChanged says what the Upsert before it has made of the paths of a session that
// was there before: its TCP connections may sit in time-outs, or meet firewalls that
// have not seen them begin. One of LocatorsWithdrawn follows no Upsert.
type PathsChanged struct {
	Key SessionKey
	Why roam.PathChange
	RTT time.Duration // 0: unknown
}

// Stretch has the congestion windows of connections follow a change of their round trip; of one that begins,
// SeenStretched is to tell (package tcpassist).
type Stretch struct {
	Key SessionKey
	multipath.Stretch
}

// Notify tells people and traces what happened.
type Notify struct{ Event Event }

func (Transmit) output() {}
func (Upsert) output()   {}
func (Delete) output()   {}
func (Release) output()  {}
func (Copy) output()     {}
func (Reject) output()   {}
func (Admit) output()    {}
func (Dismiss) output()  {}
func (Abandon) output()  {}
func (Notify) output()   {}
func (Stretch) output()  {}

func (PathsChanged) output() {}

// EventKind is what an Event tells.
type EventKind uint8

// The kinds of events.
const (
	LocatorAdded       EventKind = iota // a local locator became VALID
	LocatorRemoved                      // a local locator EXPIRED, was withdrawn or lost its link
	HandoffStarted                      // the active set changes: From, To
	HandoffDone                         // the last correspondent acknowledged, or its exchange was given up: Duration
	UpdateSent                          // a Locator Update left
	UpdateAcked                         // its acknowledgement came: RTT
	UpdateFailed                        // given up
	UpdateReceived                      // a correspondent's Locator Update was applied
	SessionStarted                      // an entry was made
	SessionEstablished                  // both nonces known, a locator validated
	SessionFellBack                     // to plain IPv6
	SessionEnded                        // idle
	SessionReplaced                     // the peer came back without its state
	PeerMoved                           // a packet with the right nonce came from another locator
	PeerDead                            // liveness: no path works
	PeerAlive                           // heard again
	Refused                             // bad input: Reason names it
	ModeChanged
	PathAnswered         // a probe that Check sent was answered: Path, RTT, Form, Size, Relabelled
	EncapsulationChanged // control messages go in UDP from now on, or do not any more: Path, Reason
	SpreadChanged        // TCP is spread otherwise from now on: Reason
	PathNarrowed         // packets of Size bytes vanish on a Path: those of the session are kept to 1280
	SessionNamed         // a node that had only claimed its NID was validated where the record lists it: the name is its
	HandoffReturned      // data went back to a locator that the correspondent knows, as it acknowledged no other: Path, Reason
	PathAvoided          // a path in use answers no probes, or drops data, while others do not: data leave by those: Path
	PathAnswers          // it does again, and is used: Path
	KeyCopied            // two nodes have proven one key: Locators has where, the newer one first
	PlainRefused         // a session with a guarded peer would have fallen back to plain IPv6, and ended: Reason
	PacketsLost          // what was lost on a Path around the time when data left it: Lost
)

// Event is one thing that happened, for `roam monitor` and the event log. It
// never holds a nonce.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Key      SessionKey
	From, To []roam.LinkLocator // active sets before and after
	Locators []roam.L64
	Path     Path
	RTT      time.Duration
	Duration time.Duration
	Reason   string
	Lost     *LostPackets

	Form         ProbeForm // of the probe
	Size         int       // of the probe's packet, of FormFull only; of what vanishes
	Relabelled   bool      // the answer did not bring the probe's flow label back
	Encapsulated bool      // UpdateAcked: the acknowledgement came in UDP
	Moved        bool      // UpdateReceived: data go to other locators of the correspondent than before
}

// RejectedInput counts input that the core refused, by reason.
type RejectedInput map[string]uint64

// LocalState is a local locator as shown to people.
type LocalState struct {
	roam.LinkLocator
	LinkName  string
	State     LocatorState
	Disabled  bool
	Preferred time.Duration
	Since     time.Time
	// Preference is what a Locator Update announces, lower is preferred.
	Preference uint16
}

// LocatorState is the life cycle of RFC 6741 §5.1.
type LocatorState uint8

// The states of a locator, in RFC 6741's naming: EXPIRED is past its lifetime
// but still in use, AGED is past its lifetime and no longer in use.
const (
	Valid LocatorState = iota
	Active
	Expired
	Aged
)

// PeerState is a correspondent as shown to people.
type PeerState struct {
	Key          SessionKey
	NID          roam.NID
	Names        []string
	State        SessionState
	Dead         bool
	Locators     []RemoteState
	Paths        []Path
	Ruled        []Path                 // further ones, for flows with rules
	RuleTables   map[int]*Table         // where flows with rules go, by the number of the rule
	Answers      []Path                 // of flows that a rule of the peer sends: the one that each came by; nil: as all
	RTTs         map[Path]time.Duration // of those of Paths where it is known: the least of the last minute or two
	Shares       map[Path]float64       // of Paths: what part of all that is spread by packet each gets
	Long         []Path                 // of Paths, those that TCP does not take
	RTT          time.Duration          // of the last exchange, 0 if unknown
	Since        time.Time
	LastMove     time.Time
	LastMoveRTT  time.Duration
	Rule         ChecksumRule
	UpdateForm   ilnpwire.Form // of Locator Updates to it
	ICMPRule     string        // of its ICMPv6 checksums: "ipv6", "rfc6741", or "sought" while nothing shows it
	RuleSought   bool          // Rule is a guess so far
	NonceAlways  bool          // every packet to it carries the nonce
	OldFirst     bool          // Locator Updates to it leave from known locators first
	WhyPlain     string        // why State is Plain
	Keyed        bool          // its Locator Updates need a MAC
	Proved       bool          // it has proven at set-up that it has its key
	Listed       bool          // its record names the locators where it may be validated
	Unkeyed      bool          // they do, and its last one had none
	KeyCopy      []roam.L64    // where two nodes with its key were lately; nil: there are none
	OwnKeyCopy   []roam.L64    // where two nodes with this host's key were lately, as it says; nil: it has not
	PlainRefused string        // why plain IPv6 would have been used to it last, and was not; "": it was not called for
	Claims       bool          // it only claims the NID: it was validated at no locator of the record
	Encapsulated []Path        // those on which control messages go in UDP
	Spread       Spread        // how TCP is spread over Paths
	Views        []PathView    // what is known of its paths: those in use first
}

// PathView is one path to a correspondent as shown to people.
type PathView struct {
	Path
	multipath.PathState
	InUse bool        // packets take it, be it those that a rule of either end sends there
	Share float64     // of all that is spread by packet, and that no rule sends; 0: it takes none of that
	Rules []RuleShare // what rules send by it, in their order
	Why   string      // it is in use, or is not
}

// Tally is how many correspondents there are.
type Tally struct {
	Sessions [Plain + 1]uint64 // by their state
	Dead     uint64            // of those, without a path that works
	Silent   uint64            // known, without a session
	Keyed    uint64            // of Sessions, those whose Locator Updates need a MAC,
	Listed   uint64            // and of the others those whose peer was validated at a locator of its record
}

// RemoteState is a correspondent's locator as shown to people.
type RemoteState struct {
	RemoteLocator
	State     LocatorState
	Validated bool
}
