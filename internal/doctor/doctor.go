// Package doctor says in plain words what stands in the way of Roam on a host,
// or towards one correspondent, and what to do about it.
//
// It implements the judgement as pure functions: Examine takes facts and
// returns findings. Gather collects the facts through an interface, so that a
// test gives it another machine. It omits every repair, and whatever needs a
// second host to be seen. Driven by cmd/roam.
package doctor

import (
	"fmt"
	"net/netip"
	"time"

	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"
)

// Level says how much a finding matters.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"      // looked at and found well
	Note    Level = "note"    // worth to know, nothing to do
	Warning Level = "warning" // works, and not as well as it could
	Fault   Level = "fault"   // stands in the way
)

// Finding is the result of one look.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"` // what was looked at: "kernel", "uplinks", ...
	Text  string `json:"text"`  // a sentence
	Do    string `json:"do,omitempty"`
}

// Facts is what the judgement rests on. The zero value of a field means that
// it could not be found out.
type Facts struct {
	Now         time.Time
	Root        bool
	Version     string // of the command
	Config      config.Config
	ConfigFile  string
	ConfigFault string // why the file cannot be read; the defaults are in Config then
	Daemon      *control.Status
	DaemonError string // why Daemon is nil
	Roles       []control.RoleReport
	Locators    []control.Locator
	Sessions    []control.Session
	HostsFaults naming.Errors // lines of the hosts file and of the added peers that cannot be used
	Refused     int           // Parameter Problems that this host has sent; 0: none, or not known
	Kernel      string        // release, such as "6.1.0-18-amd64"
	NoIPv6      bool          // switched off for all links
	Links       []Link
	LinksKnown  bool
	// SessionRoutes are the routes into the session prefix; nil: not known.
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
	MTU        int
	Up         bool           // carrier included
	Tunnel     bool           // between two points, and none of PPP
	Global     []netip.Prefix // global addresses with their prefix lengths
	Routed     bool           // a default route leads there
	Forwarding int            // sysctl values; -1: not known
	AcceptRA   int
}

// Dir is a directory that the daemon writes to.
type Dir struct {
	Path   string
	Exists bool
	Free   uint64 // bytes
	BPF    bool   // a bpffs is mounted at its "bpf"
}

// PeerFacts is what is known of the correspondent in question.
type PeerFacts struct {
	Word        string   // how it was named
	PendingPeer []string // names of those that there are
	Session     *control.Session
	Resolved    []netip.Addr // what the system's resolver says of Word; nil: Word is no name, or nothing
	Asked       bool         // the resolver was asked
	Probed      *control.Probed
	ProbeErr    string
	PathMTU     int // towards its session address; 0: none was learned
	History     []control.Event
	Export      string // the line that makes this host known there; "": not known
}

// Examine judges the host and, where there is one, the correspondent. Every
// look gives at least one finding.
func Examine(f Facts) []Finding {
	var e examination
	lookDaemon(&e, f)
	lookRoles(&e, f)
	for _, look := range hostLooks(f) {
		look(&e, f)
	}
	if f.Peer != nil {
		lookPeer(&e, f)
	}
	return e.findings
}

// Stands reports whether any of the findings stands in the way.
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

// clean reports whether nothing but good was found about something.
func (e *examination) clean(about string) bool {
	for _, f := range e.findings {
		if f.About == about && f.Level != OK {
			return false
		}
	}
	return true
}
