package control

import (
	"net/netip"
	"slices"
	"time"

	"roam"
)

// Status is who this host is and how the daemon fares.
type Status struct {
	Version        string        `json:"version"`
	PID            int           `json:"pid"`
	State          string        `json:"state"` // "running"; "degraded" when Warnings says what is missing; "stopping"
	Warnings       []string      `json:"warnings"`
	Notes          []string      `json:"notes"` // what has no effect at present, and may be so
	Started        time.Time     `json:"started"`
	UptimeS        float64       `json:"uptime_s"`
	NID            roam.NID      `json:"nid"`
	Mode           string        `json:"mode"`   // "soft", "hard" or "duality"
	Accept         string        `json:"accept"` // "known" or "any"
	SessionPrefix  netip.Prefix  `json:"session_prefix"`
	SessionAddress netip.Addr    `json:"session_address"`
	Device         string        `json:"device"` // the interface that sessions leave by
	Config         string        `json:"config"` // path of the configuration in force
	Plane          Plane         `json:"plane"`
	DNS            DNS           `json:"dns"`
	Faults         []HostsFault  `json:"faults"`       // lines of the hosts file and of the added peers that are skipped
	NotAdmitted    []NotAdmitted `json:"not_admitted"` // nodes that nobody knows here and that wanted a session, the last first
	Policies       bool          `json:"policies"`     // the host has policies of IPsec or routing that may obstruct links
	Obstructed     []Obstructed  `json:"obstructed"`   // what they do obstruct

	// Roles is absent while the daemon is a host alone, and that runs.
	Roles []RoleStatus `json:"roles,omitempty"`
}

// NotAdmitted is a node that nobody knows here, and that wanted a session.
type NotAdmitted struct {
	NID     roam.NID   `json:"nid"`
	Address netip.Addr `json:"address"` // where it was last seen
	Last    time.Time  `json:"last"`
	Seconds uint64     `json:"seconds"` // in how many its packets came
}

// HostsFault is why a line of the hosts file, or of the file of added peers, is skipped.
type HostsFault struct {
	Place
	Message string `json:"message"`
}

// Place is where something is written.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1; 0: the file as a whole
}

// Obstructed is a locator from which packets to some correspondents, or to all, must
// not leave, since a policy of this host takes them elsewhere.
type Obstructed struct {
	Link  string   `json:"link"`
	L64   roam.L64 `json:"l64"`
	By    string   `json:"by"`              // the policy
	All   bool     `json:"all"`             // whatever the destination
	Peers []string `json:"peers,omitempty"` // the names or NIDs of correspondents, at most 8
	Count int      `json:"count"`           // of all such correspondents; 0 where All holds
}

// Plane is the state of the data plane.
type Plane struct {
	Attach   string   `json:"attach"`   // "tcx", "clsact", or "" when not loaded
	ABI      uint32   `json:"abi"`      // number of the contract with BPF
	Features []string `json:"features"` // kernel features found and in use
	Adopted  bool     `json:"adopted"`  // taken over from an earlier daemon, sessions kept
	Uplinks  []string `json:"uplinks"`  // links with the programs attached
	Pins     string   `json:"pins"`     // directory of the pinned maps and links
}

// DNS is the state of the resolver on loopback.
type DNS struct {
	Listen   string   `json:"listen"`   // address and port, "" when off
	Upstream []string `json:"upstream"` // servers that other questions go to
	Managed  bool     `json:"managed"`  // resolv.conf points to us
}

// Locator is one locator of this host.
type Locator struct {
	Link       string    `json:"link"`
	LinkIndex  int       `json:"link_index"`
	L64        roam.L64  `json:"l64"`
	State      string    `json:"state"` // RFC 6741 §5.1: "valid", "active", "expired", "aged"
	Disabled   bool      `json:"disabled"`
	PreferredS *float64  `json:"preferred_s,omitempty"` // seconds left of the preferred lifetime; absent: no limit
	Since      time.Time `json:"since,omitzero"`        // when it came to that state
	Preference uint16    `json:"preference"`            // what Locator Updates announce; lower is preferred
}

// Session is one correspondent, with a session or without one yet.
type Session struct {
	NID           roam.NID        `json:"nid"`
	Address       netip.Addr      `json:"address"` // its session address, as applications see it
	LocalAlias    roam.NID        `json:"local_alias"`
	RemoteAlias   roam.NID        `json:"remote_alias"`
	Names         []string        `json:"names"`
	Claims        bool            `json:"claims,omitempty"` // it only claims the identifier: no record has it where it was validated
	State         string          `json:"state"`            // "known" (no session yet), "initiated", "established" or "plain"
	Dead          bool            `json:"dead"`             // no path works at present
	Locators      []RemoteLocator `json:"locators"`
	Paths         []SessionPath   `json:"paths"`                // those that it is sent to on
	Views         []PathView      `json:"views,omitempty"`      // all that is known of its paths
	Obstructed    []Obstruction   `json:"obstructed,omitempty"` // those that a policy of this host takes elsewhere
	InUse         *Path           `json:"in_use,omitempty"`     // of the last packets that no rule sent; absent: none yet
	RTTMS         float64         `json:"rtt_ms"`               // of the last exchange; 0: unknown
	Since         time.Time       `json:"since,omitzero"`
	Checksum      string          `json:"checksum"`            // rule of checksums on the wire: "ipv6" or "rfc6741"
	ChecksumICMP  string          `json:"checksum_icmp"`       // the same of ICMPv6, Locator Updates included: "ipv6", "rfc6741", or "sought" while it has shown none
	UpdateForm    string          `json:"update_form"`         // of Locator Updates sent to it: "rfc6743", "draft" or "linux"
	OptionOn      string          `json:"option_on"`           // which packets to it carry the Nonce option: "first" or "always"
	Encapsulation string          `json:"encapsulation"`       // how control messages go: "options", or "udp" where a path in use drops options or ICMPv6
	Spread        string          `json:"spread"`              // how TCP is spread over several paths: by "packet"; by "flow", where something on a path tracks connections; by "length", where some take more than twice as long as others
	Proof         string          `json:"proof"`               // what says who it is: a word like ProofKeyed
	Proved        bool            `json:"proved,omitempty"`    // it has proven its key at set-up
	LacksKey      bool            `json:"lacks_key,omitempty"` // its last update had no MAC: forged, or it lacks our key
	KeyCopy       []roam.L64      `json:"key_copy,omitempty"`  // where two hosts with its key were, the newer one first
	WhyPlain      string          `json:"why_plain,omitempty"` // why the state is "plain"
	Refused       PlainRefusal    `json:"plain_refused,omitzero"`
	LastMove      time.Time       `json:"last_move,omitzero"` // when either side last changed its locators
	LastMoveMS    float64         `json:"last_move_ms"`       // what that cost: Locator Update to acknowledgement; 0: unknown
	TxPackets     uint64          `json:"tx_packets"`
	TxBytes       uint64          `json:"tx_bytes"`
	RxPackets     uint64          `json:"rx_packets"`
	RxBytes       uint64          `json:"rx_bytes"`
	CountsError   string          `json:"counts_error,omitempty"` // why counts and InUse are not known

	// OwnKeyCopy is where two hosts with the key of this host were, as the peer says.
	OwnKeyCopy []roam.L64 `json:"own_key_copy,omitempty"`
}

// Summary is how many correspondents there are, by the state of their session.
type Summary struct {
	Known       uint64 `json:"known"` // without a session
	Initiated   uint64 `json:"initiated"`
	Established uint64 `json:"established"`
	Plain       uint64 `json:"plain"`
	Dead        uint64 `json:"dead"` // of all these: no path works
}

// Count adds a correspondent.
func (s *Summary) Count(one Session) {
	switch one.State {
	case "initiated":
		s.Initiated++
	case "established":
		s.Established++
	case "plain":
		s.Plain++
	default:
		s.Known++
	}
	if one.Dead {
		s.Dead++
	}
}

// All is the number of correspondents.
func (s Summary) All() uint64 { return s.Known + s.Initiated + s.Established + s.Plain }

// PlainRefusal says that plain IPv6 would have been used to a peer whose key is known, and was not.
type PlainRefusal struct {
	Why   string `json:"why"`   // as in Session.WhyPlain
	Allow string `json:"allow"` // the command that allows it
}

// RemoteLocator is one locator of a correspondent.
type RemoteLocator struct {
	L64        roam.L64 `json:"l64"`
	Preference uint16   `json:"preference"`           // lower is preferred (RFC 6742 §2.3)
	LifetimeS  *float64 `json:"lifetime_s,omitempty"` // seconds left; absent: no limit
	State      string   `json:"state"`
	Validated  bool     `json:"validated"` // the correspondent is known to receive there
}

// Obstruction is a path that a policy of this host takes elsewhere: it is not used.
type Obstruction struct {
	Path
	By string `json:"by"` // the policy
}

// SessionPath is one that a session uses.
type SessionPath struct {
	Path
	RTTMS float64 `json:"rtt_ms,omitempty"` // least of the last minute or two; absent: unknown, as of a single path
	Share float64 `json:"share"`            // what part of all that is spread by packet it gets, 0 to 1
	Long  bool    `json:"long,omitempty"`   // TCP is not spread over it, as others are shorter, or it was not probed yet
}

// PathView is what is known of one path of a session: of those in use, and of others that were
// probed of late.
type PathView struct {
	Path
	InUse      bool           `json:"in_use"`                 // packets take it, be it those that a rule of either end sends there
	Why        string         `json:"why"`                    // it is in use, or is not
	Share      float64        `json:"share"`                  // of all that is spread by packet, and that no rule sends
	Rules      []RuleShare    `json:"rules,omitempty"`        // those that send by it
	RTTMS      float64        `json:"rtt_ms,omitempty"`       // of the last probe that was answered; absent: none
	LeastRTTMS float64        `json:"least_rtt_ms,omitempty"` // of the last one to two minutes
	Out        *PathDirection `json:"out,omitempty"`          // absent: the peer reports nothing about the path
	In         *PathDirection `json:"in,omitempty"`
}

// RuleShare is what a rule sends by a path.
type RuleShare struct {
	Rule  int     `json:"rule"`  // from 1, in the order of roam.conf
	Share float64 `json:"share"` // of what it sends
}

// PathDirection is what the reports of both ends say of one direction of a path.
type PathDirection struct {
	SentBPS float64  `json:"sent_bps"`       // rate of data, in bits a second, at which they were sent of late,
	RateBPS float64  `json:"rate_bps"`       // and at which they arrived
	MostBPS float64  `json:"most_bps"`       // greatest rate_bps of the last ten to twenty seconds
	Loss    *float64 `json:"loss,omitempty"` // share of the packets of the last five seconds; absent: too few
	QueueMS float64  `json:"queue_ms"`       // how much longer the last probe took than the fastest of the last minute
	Life    string   `json:"life"`           // whether data get through: "lives", "dead" or "unknown"
}

// Path is one way to a correspondent.
type Path struct {
	Link   string   `json:"link"`
	Local  roam.L64 `json:"local"`
	Remote roam.L64 `json:"remote"`
}

// Counter counts one kind of thing since the data plane was loaded.
type Counter struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
	Value   uint64 `json:"value"`
}

// LinkLocator is a locator of this host together with the name of its link.
type LinkLocator struct {
	Link string   `json:"link"`
	L64  roam.L64 `json:"l64"`
}

// Event is one thing that happened.
type Event struct {
	Time         time.Time     `json:"time"`
	Kind         string        `json:"kind"` // KindNames lists them; "lost": the reader was too slow
	Peer         roam.NID      `json:"peer,omitempty"`
	PeerName     string        `json:"peer_name,omitempty"`
	From         []LinkLocator `json:"from,omitempty"` // the active set before
	To           []LinkLocator `json:"to,omitempty"`   // and after
	Locators     []roam.L64    `json:"locators,omitempty"`
	Path         *Path         `json:"path,omitempty"`
	RTTMS        float64       `json:"rtt_ms,omitempty"`
	DurationMS   float64       `json:"duration_ms,omitempty"`
	Reason       string        `json:"reason,omitempty"`
	Form         string        `json:"form,omitempty"`         // of the probe that was answered: "options", "udp", "padded" or "full"
	Bytes        int           `json:"bytes,omitempty"`        // of the probe's packet, of "full"
	Relabelled   bool          `json:"relabelled,omitempty"`   // the answer had another flow label than the probe
	Encapsulated bool          `json:"encapsulated,omitempty"` // the acknowledgement came in UDP
	Lost         *LostPackets  `json:"lost,omitempty"`         // on the path, around the time when data left it
	Omitted      int           `json:"omitted,omitempty"`      // how many like it, just before it, the history left out
}

// LostPackets are packets that a path has lost: by reports of the peer.
type LostPackets struct {
	Sent     uint64 `json:"sent"`     // by this host
	Received uint64 `json:"received"` // that it should have
}

// Refresh reports whether the event may be one of a refresh of locators, which recurs while
// nothing changes.
func (e Event) Refresh() bool {
	return e.Kind == KindUpdateSent || e.Kind == KindUpdateAcked || e.Kind == KindUpdateReceived
}

// Alike reports whether two events say the same of the same peer, apart from their times and
// paths.
func (e Event) Alike(o Event) bool {
	return e.Kind == o.Kind && e.Peer == o.Peer && e.Reason == o.Reason && slices.Equal(e.Locators, o.Locators)
}

// Peer is a correspondent that was made known.
type Peer struct {
	NID      roam.NID   `json:"nid"`
	Names    []string   `json:"names"`
	Address  netip.Addr `json:"address"` // its session address
	Locators []roam.L64 `json:"locators"`
	Keyed    bool       `json:"keyed"`             // the line had its key, or its key was known before
	Proof    string     `json:"proof"`             // what says who it is, as in Session
	Plain    bool       `json:"plain"`             // plain IPv6 is used to it where nothing else works
	Replaced roam.NID   `json:"replaced,omitzero"` // the NID of which it takes the names, as the older key vouched for it
	Warning  string     `json:"warning,omitempty"` // what does not work with it for now
}

// KnownPeer is what is known of a correspondent apart from the figures of its session.
type KnownPeer struct {
	NID      roam.NID      `json:"nid"`
	Names    []string      `json:"names"`
	Address  netip.Addr    `json:"address"`  // its session address
	Locators []PeerLocator `json:"locators"` // as they are written; the present ones are those of its session
	Options  []string      `json:"options"`  // as they are written, such as "anywhere=yes"
	Written  []Place       `json:"written"`  // none: nobody has written it down, it came by itself
	State    string        `json:"state"`    // as in Session
	Dead     bool          `json:"dead"`     // it has a session, and no path of that works
	WhyPlain string        `json:"why_plain,omitempty"`
}

// PeerLocator is a locator of a correspondent as it is written.
type PeerLocator struct {
	L64        roam.L64 `json:"l64"`
	Preference uint16   `json:"preference"` // lower is preferred (RFC 6742 §2.3)
}

// Removed tells of a correspondent that was removed.
type Removed struct {
	NID     roam.NID `json:"nid"`
	Names   []string `json:"names"`             // that it had
	Written []Place  `json:"written"`           // where it still is, in files that only the user edits
	Warning string   `json:"warning,omitempty"` // it is known all the same, and why
}

// Reloaded tells what a reload changed, as "section.key: old -> new".
type Reloaded struct {
	Applied []string `json:"applied"`
	Restart []string `json:"restart"` // differences that wait for the next start
}

// ProbeRequest asks whether the paths to a correspondent work.
type ProbeRequest struct {
	Peer roam.NID `json:"peer"` // its aliases
}

// Probed is what probes of every path to a correspondent found.
type Probed struct {
	Peer     roam.NID     `json:"peer"`
	State    string       `json:"state"` // of its session afterwards, as in Session
	WhyPlain string       `json:"why_plain,omitempty"`
	Refused  PlainRefusal `json:"plain_refused,omitzero"`
	Paths    []ProbedPath `json:"paths"`
	TooBig   int          `json:"too_big,omitempty"` // bytes that the last Packet Too Big of it named; 0: none came
	Opened   int          `json:"opened,omitempty"`  // TCP connections that stood still after a move until they were shown to firewalls again
	Echo     *PlainEcho   `json:"echo,omitempty"`    // only asked of a session that is plain
}

// ProbedPath is what probes of one path found, in several forms: one path may
// let some through and drop others.
type ProbedPath struct {
	Path
	Answered   bool    `json:"answered"` // an ICMPv6 echo with the Nonce option, as the RFCs have it
	RTTMS      float64 `json:"rtt_ms,omitempty"`
	UDP        bool    `json:"udp"`                  // the same in UDP
	Padded     bool    `json:"padded"`               // in UDP, behind a Destination Options header of padding
	Full       bool    `json:"full"`                 // in UDP, with Bytes bytes, as many as the link takes
	Bytes      int     `json:"bytes,omitempty"`      // 0: not tried
	Relabelled bool    `json:"relabelled,omitempty"` // the flow label came back changed
}

// PlainEcho is what an echo request without a nonce found.
type PlainEcho struct {
	Answered bool    `json:"answered"`
	RTTMS    float64 `json:"rtt_ms,omitempty"`
}

// Exported holds the line of `roam export`.
type Exported struct {
	Line string `json:"line"`
	V1   string `json:"v1,omitempty"` // the line without this host's key, for versions before; absent: it has none
}

// ModeRequest asks for a mode by its name.
type ModeRequest struct {
	Mode string `json:"mode"`
}

// LinkRequest lets the host use a link or takes it out of use.
type LinkRequest struct {
	Link    string `json:"link"`
	Enabled bool   `json:"enabled"`
}

// AddRequest makes a correspondent known.
type AddRequest struct {
	Line    string `json:"line"`
	As      string `json:"as,omitempty"`      // its name, in place of those in the line
	Replace bool   `json:"replace,omitempty"` // names that another correspondent has move to this one
	Force   bool   `json:"force,omitempty"`   // names are taken that mean something else on this host
}

// RemoveRequest forgets a correspondent.
type RemoveRequest struct {
	Peer string `json:"peer"` // a name or a Node Identifier
}

// RenameRequest gives a correspondent another name.
type RenameRequest struct {
	Old     string `json:"old"` // a name, or a Node Identifier: its first name
	New     string `json:"new"`
	Replace bool   `json:"replace,omitempty"` // as in AddRequest
	Force   bool   `json:"force,omitempty"`   // as in AddRequest
}

// ShutdownRequest ends the daemon.
type ShutdownRequest struct {
	RemovePlane bool `json:"remove_plane"`
}
