package doctor

import (
	"cmp"
	"fmt"
	"time"

	"roam/internal/control"
)

// mostLines bounds the findings about single lines or sessions.
const mostLines = 10

// lookHosts lists the skipped lines.
func lookHosts(e *examination, f Facts) {
	for i, fault := range f.HostsFaults {
		if i == mostLines {
			e.add(Warning, "hosts", "`roam config check` names all", "%d more lines are skipped", len(f.HostsFaults)-i)
			break
		}
		e.add(Warning, "hosts", "correct the line, then `roam config reload`; one that was added goes with `roam remove NID`",
			"a line is skipped: %v", fault)
	}
	if f.Daemon == nil {
		return
	}
	for _, fault := range f.Daemon.Faults {
		if fault.Line == 0 {
			e.add(Warning, "hosts", "see that it is a file that root can read, then `roam config reload`", "%v %s",
				fault.Place, fault.Message)
			return
		}
	}
	if n := len(f.Daemon.Faults); n > 0 && len(f.HostsFaults) == 0 {
		e.add(Warning, "hosts", "roam config reload", "%s; by now all lines can be used",
			control.SkippedWarning(f.Daemon.Faults))
	}
}

// lookOwnKey reports that a peer has seen two hosts with the key of this one. It is one finding, however
// many say so.
func lookOwnKey(e *examination, f Facts) {
	for _, s := range f.Sessions {
		if len(s.OwnKeyCopy) == 0 {
			continue
		}
		name := s.NID.String()
		if len(s.Names) > 0 {
			name = s.Names[0]
		}
		e.add(Fault, "key", "if the state directory was copied, remove `key` and `nid` on one of both hosts, run "+
			"`roam key new` there, and add its new line on the peers; else the key of this host was stolen: see the "+
			"how-to about keys",
			"two hosts have proven the key of this one to %s: at %s; one of them is this host", name, places(s.OwnKeyCopy))
		return
	}
}

// lookPlainSessions lists the sessions without ILNP and the reasons, unless the user asked
// about one peer: then lookPeer does, in more detail.
func lookPlainSessions(e *examination, f Facts) {
	n := 0
	for _, s := range f.Sessions {
		if f.Peer == nil && len(s.Names) > 0 {
			lookRefusedPlain(e, s.Names[0], s.Refused)
			if len(s.KeyCopy) > 0 {
				addKeyCopy(e, s.Names[0], s.KeyCopy)
			}
		}
		if s.State != control.StatePlain || f.Peer != nil {
			continue
		}
		if n++; n > mostLines {
			continue
		}
		name := s.NID.String()
		if len(s.Names) > 0 {
			name = s.Names[0]
		}
		e.add(Warning, "session", "roam doctor "+name, "the session with %s is plain IPv6 and does not move: %s", name,
			cmp.Or(s.WhyPlain, "the reason is not known"))
	}
	if n > mostLines {
		e.add(Warning, "session", "`roam session show` lists them", "%d more sessions are plain IPv6", n-mostLines)
	}
}

// mostNamed bounds the refused nodes that a finding names.
const mostNamed = 8

// lookNotAdmitted reports pending peers that this host refused with a Parameter Problem.
func lookNotAdmitted(e *examination, f Facts) {
	if f.Daemon == nil || f.Daemon.Accept != control.AcceptKnown {
		return
	}
	for i, s := range f.Daemon.NotAdmitted {
		if i == mostNamed {
			break
		}
		e.add(Note, "refused", "if it is a peer of yours: `roam export` there, and `roam add LINE` here",
			"an unknown node requests a session: %s at %s, last at %s", s.NID, s.Address,
			s.Last.Format(time.DateTime))
	}
	if f.Refused == 0 || len(f.Daemon.NotAdmitted) > 0 {
		return
	}
	e.add(Note, "refused", "if a peer has only plain IPv6 with this host: `roam export` there, and `roam add LINE` here",
		"this host has sent %d ICMPv6 Parameter Problems since boot: some may refuse an unknown host that requests a "+
			"session; the kernel sends them as well, for malformed packets", f.Refused)
}

// missingHalf says what to do if a peer refuses our nonce: it may run Roam and not know
// this host.
func missingHalf(p *PeerFacts, again string) string {
	if p.Export == "" {
		return again
	}
	return fmt.Sprintf("if Roam runs there, it does not know this host; run there: `roam add '%s'`; if not, %s", p.Export,
		again)
}
