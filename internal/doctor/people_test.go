package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/internal/control"
	"roam/naming"
)

func TestSkippedLines(t *testing.T) {
	f := well()
	f.HostsFaults = naming.ReadHosts(naming.File{Name: "/etc/roam/hosts", Text: "nid=1:2:3:4 a\nwhat\n"}).Faults
	f.Daemon.Faults = []control.HostsFault{{Place: control.Place{File: "/etc/roam/hosts", Line: 2}, Message: "older"}}
	f.Daemon.Warnings = []string{control.SkippedWarning(f.Daemon.Faults)}
	if b := bad(f); len(b) != 1 || !strings.HasPrefix(b[0], "warning hosts: a line is skipped: /etc/roam/hosts:2: ") {
		t.Errorf("one line: %q", b)
	}
	f.HostsFaults = nil
	if b := bad(f); len(b) != 1 || !strings.Contains(b[0], "by now all lines can be used > roam config reload") {
		t.Errorf("a line that was corrected: %q", b)
	}
	f.Daemon.Faults[0].Line, f.Daemon.Faults[0].Message = 0, "cannot be read"
	f.Daemon.Warnings[0] = control.SkippedWarning(f.Daemon.Faults)
	if b := bad(f); len(b) != 1 || !strings.Contains(b[0], "hosts: /etc/roam/hosts cannot be read > see that") {
		t.Errorf("a file that cannot be read: %q", b)
	}
	f = well()
	for i := range mostLines + 5 {
		f.HostsFaults = append(f.HostsFaults, &naming.Error{File: "h", Line: i + 1, Err: errors.New("bad")})
	}
	if b := bad(f); len(b) != mostLines+1 || !strings.Contains(b[mostLines], "5 more lines") {
		t.Errorf("many lines: %q", b)
	}
}

func TestPlainSessionsAreNamed(t *testing.T) {
	f := well()
	f.Sessions = []control.Session{
		{NID: 8, RemoteAlias: 8, Names: []string{"b"}, State: "established"},
		{NID: 9, RemoteAlias: 9, Names: []string{"c"}, State: "plain", WhyPlain: "no ILNP there"},
	}
	want := "warning session: the session with c is plain IPv6 and does not move: no ILNP there > roam doctor c"
	if b := bad(f); len(b) != 1 || b[0] != want {
		t.Errorf("findings %q, want %q", b, want)
	}
	// Of the peer in question more is said.
	f.Peer = &PeerFacts{Word: "c", Session: &f.Sessions[1]}
	if b := bad(f); slices.Contains(b, want) {
		t.Errorf("told twice: %q", b)
	}
	f = well()
	for i := range mostLines + 3 {
		f.Sessions = append(f.Sessions, control.Session{NID: roam.NID(i), RemoteAlias: roam.NID(i), State: "plain"})
	}
	if b := bad(f); len(b) != mostLines+1 || !strings.Contains(b[mostLines], "3 more sessions") {
		t.Errorf("many sessions: %q", b)
	}
}

// The missing half of an entry is named with the line to run there.
func TestMissingHalf(t *testing.T) {
	f := well()
	s := control.Session{
		NID:         9,
		RemoteAlias: 9,
		Names:       []string{"c"},
		State:       "plain",
		Locators:    []control.RemoteLocator{{L64: 1 << 61}},
	}
	f.Peer = &PeerFacts{
		Word: "c", Session: &s, Export: "roam1:1-2-3-4:2001+db8+1+1:here:00000000",
		Probed: &control.Probed{State: "plain", WhyPlain: "no ILNP there"},
	}
	want := "run there: `roam add 'roam1:1-2-3-4:2001+db8+1+1:here:00000000'`"
	if b := bad(f); len(b) != 1 || !strings.Contains(b[0], "does not know this host: it answered") ||
		!strings.Contains(b[0], want) {
		t.Errorf("findings %q, want %q", b, want)
	}
	f.Peer.Probed.WhyPlain = "answers without a nonce"
	if b := bad(f); len(b) != 1 || strings.Contains(b[0], want) {
		t.Errorf("of another reason: %q", b)
	}
}

// A keyed peer that sends unkeyed updates is named, with the line that it lacks.
func TestLacksKey(t *testing.T) {
	f := well()
	s := control.Session{NID: 9, RemoteAlias: 9, Names: []string{"c"}, State: "established", Proof: "keyed"}
	s.LacksKey = true
	s.Locators = []control.RemoteLocator{{L64: 1 << 61}}
	f.Peer = &PeerFacts{Word: "c", Session: &s, Export: "roam2:here"}
	if b := bad(f); len(b) != 1 || !strings.Contains(b[0], "no MAC") || !strings.Contains(b[0], "add 'roam2:here'") {
		t.Errorf("findings %q", b)
	}
	s.LacksKey = false
	if b := bad(f); len(b) != 0 {
		t.Errorf("a keyed session: %q", b)
	}
}

// Two hosts with one key are named, with where they are.
func TestKeyCopy(t *testing.T) {
	f := well()
	s := control.Session{NID: 9, RemoteAlias: 9, Names: []string{"c"}, State: "established", Proof: "keyed"}
	s.Locators = []control.RemoteLocator{{L64: 1 << 61}}
	s.KeyCopy = []roam.L64{0x2001_0db8_0000_0007, 0x2001_0db8_0000_0008}
	f.Peer = &PeerFacts{Word: "c", Session: &s}
	b := bad(f)
	if len(b) != 1 || !strings.Contains(b[0], "2001:0db8:0000:0007") || !strings.Contains(b[0], "2001:0db8:0000:0008") {
		t.Errorf("findings %q", b)
	}
}

// A copy of a peer's key is named without the question about that peer, and one of this host's own key where a
// peer says so: both hosts that have the key learn of it there.
func TestKeyCopySeenByAll(t *testing.T) {
	f := well()
	f.Sessions = []control.Session{{NID: 9, RemoteAlias: 9, Names: []string{"c"}, State: "established", Proof: "keyed",
		KeyCopy: []roam.L64{0x2001_0db8_0000_0007, 0x2001_0db8_0000_0008}}}
	const both = "the key of c: one at 2001:0db8:0000:0007, and 2001:0db8:0000:0008"
	if b := bad(f); len(b) != 1 || !strings.Contains(b[0], both) {
		t.Errorf("the host that has seen both: %q", b)
	}
	for _, names := range [][]string{{"c"}, nil} {
		f.Sessions = []control.Session{{NID: 9, RemoteAlias: 9, Names: names, State: "established", Proof: "keyed",
			OwnKeyCopy: []roam.L64{0x2001_0db8_0000_0007, 0x2001_0db8_0000_0008}}}
		f.Sessions = append(f.Sessions, f.Sessions[0])
		b := bad(f)
		if len(b) != 1 || !strings.Contains(b[0], "2001:0db8:0000:0007, 2001:0db8:0000:0008; one of them is this host") {
			t.Errorf("one of both: %q", b)
		}
	}
}

// A peer to which plain IPv6 was refused is named with the command that allows it, whether the user asks
// about it or not.
func TestRefusedPlain(t *testing.T) {
	const allow = "roam add 'nid=1:2:3:4 plain=yes c'"
	refused := control.PlainRefusal{Why: control.WhyNoILNP, Allow: allow}
	s := control.Session{NID: 9, RemoteAlias: 9, Names: []string{"c"}, State: control.StateKnown, Proof: "keyed"}
	s.Locators = []control.RemoteLocator{{L64: 1 << 61}}
	asked, all := well(), well()
	asked.Peer = &PeerFacts{Word: "c", Session: &s, Probed: &control.Probed{State: control.StateKnown, Refused: refused}}
	s.Refused = refused
	all.Sessions = []control.Session{s}
	for name, f := range map[string]Facts{"asked": asked, "all": all} {
		b := bad(f)
		if len(b) != 1 || !strings.Contains(b[0], "connections to c fail") || !strings.Contains(b[0], allow) {
			t.Errorf("%s: findings %q", name, b)
		}
	}
}

// TestAnswersWithoutKey: a peer that answers without its key is named with the command that makes it
// optional, not with one for plain IPv6.
func TestAnswersWithoutKey(t *testing.T) {
	f := well()
	f.Sessions = []control.Session{{NID: 9, RemoteAlias: 9, Names: []string{"c"}, Proof: "keyed",
		State:   control.StateKnown,
		Refused: control.PlainRefusal{Why: control.WhyNoProof, Allow: "roam add 'nid=1:2:3:4 key=optional c'"}}}
	b := bad(f)
	if len(b) != 1 || !strings.Contains(b[0], "does not prove that it has its key") ||
		!strings.Contains(b[0], "key=optional") || strings.Contains(b[0], "plain IPv6") {
		t.Errorf("findings %q", b)
	}
}

func TestRefusedUnlisted(t *testing.T) {
	f := well()
	f.Refused = 3
	if b := bad(f); len(b) != 0 {
		t.Errorf("a host that takes anybody: %q", b)
	}
	f.Daemon.Accept = "known"
	if b := bad(f); len(b) != 1 ||
		!strings.HasPrefix(b[0], "note refused: this host has sent 3 ICMPv6 Parameter Problems") {
		t.Errorf("findings %q", b)
	}
	f.Daemon.NotAdmitted = []control.NotAdmitted{{NID: 0x0200_0000_0000_0009, Address: netip.MustParseAddr("2001:db8::9"),
		Last: now.AddDate(0, 0, -3), Seconds: 3}}
	if b := bad(f); len(b) != 1 ||
		!strings.Contains(b[0], "0200:0000:0000:0009 at 2001:db8::9, last at 2026-02-26 12:00:00") {
		t.Errorf("findings %q", b)
	}
	if n := counted(fmt.Sprintf("Ip6InReceives %20d\nIcmp6OutParmProblems %12d\n", 5, 7), "Icmp6OutParmProblems"); n != 7 {
		t.Errorf("counted %d", n)
	}
}
