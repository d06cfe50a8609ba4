// Package doctor finds the faults that keep Roam from working on a host, or towards one
// correspondent, and says in plain words what to do about them.
//
// It implements the judgement as pure functions: Examine takes facts and returns findings.
// Gather collects the facts through an interface, so that a test can pass another machine.
// It omits repairs, and faults that only a second host can see. It is driven by cmd/roam.
package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"
)

// Level is the severity of a finding.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"      // checked and found good
	Note    Level = "note"    // worth knowing, nothing to do
	Warning Level = "warning" // works, but not as well as it could
	Fault   Level = "fault"   // keeps Roam from working
)

// Finding is the result of one check.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"` // the subject: "kernel", "uplinks", ...
	Text  string `json:"text"`  // a sentence
	Do    string `json:"do,omitempty"`
}

// Facts is the input of the judgement. The zero value of a field means unknown.
type Facts struct {
	Now          time.Time
	Root         bool
	Version      string          // of the command
	Config       config.Config   // in force, or that of the file if no daemon answers
	Pending      []config.Change // in the file, and not in force
	ConfigFile   string
	ConfigFault  string // why the file cannot be read; then Config holds the defaults
	Daemon       *control.Status
	DaemonError  string // why Daemon is nil
	Incomplete   string // why Roles, Locators or Sessions are missing although the daemon answers
	Roles        []control.RoleReport
	Locators     []control.Locator
	Sessions     []control.Session
	HostsFaults  naming.Errors // skipped lines of the hosts file and of the added peers
	Refused      int           // Parameter Problems that this host has sent; 0: none, or unknown
	Kernel       string        // release, such as "6.1.0-18-amd64"
	NoIPv6       bool          // switched off for all links, unless one has a setting of its own
	NoForwarding bool          // of IPv6
	Links        []Link
	LinksKnown   bool
	// BehindRoutes is what BehindRoutes returns; a locator without a route is missing.
	BehindRoutes map[roam.L64]string
	// SessionRoutes are the routes into the session prefix; nil: unknown.
	SessionRoutes []SessionRoute
	NFT           string // nft -j list ruleset
	IPTables      string // ip6tables-save
	ResolvConf    string
	RunDir        Dir
	StateDir      Dir
	Peer          *PeerFacts
}

// Link is one network link of the host.
type Link struct {
	Name       string
	Kind       string // of a virtual link, such as "veth"
	Port       bool   // of a bridge, a bond or their like, which takes what arrives on it
	MTU        int
	Up         bool           // carrier included
	Tunnel     bool           // point-to-point, and not PPP
	Global     []netip.Prefix // global addresses with their prefix lengths
	Routed     bool           // a default route for all sources uses it
	BySource   bool           // a default route for packets from some sources uses it
	Forwarding int            // sysctl values; -1: unknown
	AcceptRA   int
}

// Dir is a directory that the daemon writes to.
type Dir struct {
	Path   string
	Exists bool
	Free   uint64 // bytes
	BPF    bool   // a bpffs is mounted at its "bpf"
}

// PeerFacts holds the facts about the correspondent that the user asked about.
type PeerFacts struct {
	Word       string   // the user's word for it
	KnownPeers []string // by their chief names
	Session    *control.Session
	Resolved   []netip.Addr // the system resolver's addresses for Word; nil: none, or Word is no name
	Asked      bool         // the resolver was queried
	Probed     *control.Probed
	ProbeErr   string
	PathMTU    int // towards its session address; 0: unknown
	History    []control.Event
	Export     string // the line that introduces this host to it; "": unknown
}

// Examine judges the host and, if given, the correspondent. Every check yields at least one
// finding.
func Examine(f Facts) []Finding {
	var e examination
	lookDaemon(&e, f)
	lookBorder(&e, f)
	lookRoles(&e, f)
	for _, look := range hostLooks(f) {
		look(&e, f)
	}
	if f.Peer != nil {
		lookPeer(&e, f)
	}
	return e.findings
}

// Stands reports whether the list contains a Fault.
func Stands(list []Finding) bool {
	for _, f := range list {
		if f.Level == Fault {
			return true
		}
	}
	return false
}

// examination collects findings.
type examination struct {
	findings []Finding
}

func (e *examination) add(l Level, about, do, format string, args ...any) {
	e.findings = append(e.findings, Finding{Level: l, About: about, Text: fmt.Sprintf(format, args...), Do: do})
}

func (e *examination) ok(about, format string, args ...any) { e.add(OK, about, "", format, args...) }

// amiss reports whether a finding about a subject is a warning or a fault.
func (e *examination) amiss(about string) bool {
	return slices.ContainsFunc(e.findings, func(f Finding) bool {
		return f.About == about && (f.Level == Warning || f.Level == Fault)
	})
}

// clean reports whether all findings about a subject are good.
func (e *examination) clean(about string) bool {
	for _, f := range e.findings {
		if f.About == about && f.Level != OK {
			return false
		}
	}
	return true
}
