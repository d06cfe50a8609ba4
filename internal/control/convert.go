package control

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/naming"
)

var (
	modeNames    = []string{ilnp.Soft: "soft", ilnp.Hard: "hard", ilnp.Duality: "duality"}
	acceptNames  = []string{ilnp.Known: "known", ilnp.Any: "any"}
	sessionNames = []string{ilnp.Initiated: "initiated", ilnp.Established: "established", ilnp.Plain: "plain"}
	locatorNames = []string{ilnp.Valid: "valid", ilnp.Active: "active", ilnp.Expired: "expired", ilnp.Aged: "aged"}
	kindNames    = []string{
		ilnp.LocatorAdded: "locator-added", ilnp.LocatorRemoved: "locator-removed",
		ilnp.HandoffStarted: "handoff-started", ilnp.HandoffDone: "handoff-done",
		ilnp.UpdateSent: "update-sent", ilnp.UpdateAcked: "update-acked",
		ilnp.UpdateFailed: "update-failed", ilnp.UpdateReceived: "update-received",
		ilnp.SessionStarted: "session-started", ilnp.SessionEstablished: "session-established",
		ilnp.SessionFellBack: "session-fell-back", ilnp.SessionEnded: "session-ended",
		ilnp.SessionReplaced: "session-replaced",
		ilnp.PeerMoved:       "peer-moved", ilnp.PeerDead: "peer-dead", ilnp.PeerAlive: "peer-alive",
		ilnp.Refused: "refused", ilnp.ModeChanged: "mode-changed", ilnp.PathAnswered: "path-answered",
		ilnp.EncapsulationChanged: "encapsulation-changed", ilnp.SpreadChanged: "spread-changed", ilnp.PathNarrowed: "path-narrowed",
		ilnp.SessionNamed: "session-named", ilnp.HandoffReturned: "handoff-returned",
	}
	formNames = []string{ilnp.FormOption: "options", ilnp.FormUDP: "udp", ilnp.FormPadded: "padded", ilnp.FormFull: "full"}
)

// StateKnown is the state of a correspondent that is known and has no session.
const StateKnown = "known"

// KindLost is the kind of the event that stands for those that a reader missed.
const KindLost = "lost"

func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("unknown-%d", v)
}

// ModeName returns the name of a mode: "soft", "hard" or "duality".
func ModeName(m ilnp.Mode) string { return nameOf(modeNames, m) }

// AcceptName returns the name of a rule of acceptance: "known" or "any".
func AcceptName(a ilnp.Accept) string { return nameOf(acceptNames, a) }

// SessionStateName returns the name of the state of a session.
func SessionStateName(s ilnp.SessionState) string { return nameOf(sessionNames, s) }

// LocatorStateName returns the name of the state of a locator.
func LocatorStateName(s ilnp.LocatorState) string { return nameOf(locatorNames, s) }

// KindName returns the name of a kind of events.
func KindName(k ilnp.EventKind) string { return nameOf(kindNames, k) }

// KindNames lists the names of the kinds of events: those of the host, of other roles, and
// KindLost last.
func KindNames() []string {
	return append(append([]string(nil), kindNames...), KindUpdateSeen, KindLost)
}

// FormName returns the name of the form of a probe: "options", "udp", "padded" or
// "full".
func FormName(f ilnp.ProbeForm) string { return nameOf(formNames, f) }

// ParseMode returns the mode of that name. Its error is an *Error.
func ParseMode(s string) (ilnp.Mode, error) {
	for m, n := range modeNames {
		if n == s {
			return ilnp.Mode(m), nil
		}
	}
	return 0, Errorf(CodeInvalid, "unknown mode %q", s).WithHint("the modes are soft, hard and duality")
}

// Names gives the names that numbers have for people. A nil field, or an empty
// name, leaves the number.
type Names struct {
	Link func(roam.LinkID) string
	Peer func(ilnp.SessionKey) string
}

func (n Names) link(id roam.LinkID) string {
	if id == 0 {
		return ""
	}
	if n.Link != nil {
		if s := n.Link(id); s != "" {
			return s
		}
	}
	return fmt.Sprintf("if%d", id)
}

// PathFrom returns a path of the core as shown to people.
func PathFrom(p ilnp.Path, names Names) Path {
	return Path{Link: names.link(p.Local.Link), Local: p.Local.L64, Remote: p.Remote}
}

// LocatorFrom returns a locator of the core as shown to people.
func LocatorFrom(s ilnp.LocalState, names Names) Locator {
	link := s.LinkName
	if link == "" {
		link = names.link(s.Link)
	}
	return Locator{
		Link: link, LinkIndex: int(s.Link), L64: s.L64, State: LocatorStateName(s.State),
		Disabled: s.Disabled, PreferredS: seconds(s.Preferred), Since: s.Since,
	}
}

// SessionFrom returns a correspondent of the core as shown to people. Byte and
// packet counts and the path in use are the data plane's: the caller adds them.
func SessionFrom(s ilnp.PeerState, prefix roam.L64, names Names) Session {
	out := Session{
		NID: s.NID, Address: SessionAddr(prefix, s.Key.Remote),
		LocalAlias: s.Key.Local, RemoteAlias: s.Key.Remote,
		Names: append([]string{}, s.Names...), Claims: s.Claims, State: SessionStateName(s.State), Dead: s.Dead,
		Locators: []RemoteLocator{}, Paths: []SessionPath{}, RTTMS: Millis(s.RTT), Since: s.Since,
		LastMove: s.LastMove, LastMoveMS: Millis(s.LastMoveRTT),
		Checksum: s.Rule.String(), ChecksumICMP: s.ICMPRule, UpdateForm: s.UpdateForm.String(), OptionOn: "first", Encapsulation: "options", Spread: s.Spread.String(), WhyPlain: s.WhyPlain,
	}
	if s.NonceAlways {
		out.OptionOn = "always"
	}
	if slices.ContainsFunc(s.Paths, func(p ilnp.Path) bool { return slices.Contains(s.Encapsulated, p) }) {
		out.Encapsulation = "udp"
	}
	if s.Since.IsZero() {
		out.State = StateKnown // the core lists whom it knows of, too
	}
	for _, l := range s.Locators {
		out.Locators = append(out.Locators, RemoteLocator{
			L64: l.L64, Preference: l.Preference, LifetimeS: seconds(l.Lifetime),
			State: LocatorStateName(l.State), Validated: l.Validated,
		})
	}
	for _, p := range s.Paths {
		out.Paths = append(out.Paths, SessionPath{Path: PathFrom(p, names), RTTMS: Millis(s.RTTs[p]), Share: s.Shares[p], Long: slices.Contains(s.Long, p)})
	}
	return out
}

// EventFrom returns an event of the core as shown to people.
func EventFrom(e ilnp.Event, names Names) Event {
	out := Event{
		Time: e.Time, Kind: KindName(e.Kind), Peer: e.Key.Remote,
		From: linkLocators(e.From, names), To: linkLocators(e.To, names),
		Locators: e.Locators, RTTMS: Millis(e.RTT), DurationMS: Millis(e.Duration), Reason: e.Reason,
		Bytes: e.Size, Relabelled: e.Relabelled, Encapsulated: e.Encapsulated,
	}
	if e.Kind == ilnp.PathAnswered {
		out.Form = FormName(e.Form)
	}
	if e.Key != (ilnp.SessionKey{}) && names.Peer != nil {
		out.PeerName = names.Peer(e.Key)
	}
	if e.Path != (ilnp.Path{}) {
		p := PathFrom(e.Path, names)
		out.Path = &p
	}
	return out
}

// SessionAddr returns the session address of an alias.
func SessionAddr(prefix roam.L64, handle roam.NID) netip.Addr {
	return roam.ILV{L64: prefix, NID: handle}.Addr()
}

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func linkLocators(in []roam.LinkLocator, names Names) []LinkLocator {
	var out []LinkLocator
	for _, l := range in {
		out = append(out, LinkLocator{Link: names.link(l.Link), L64: l.L64})
	}
	return out
}

// seconds returns nil for an unlimited duration.
func seconds(d time.Duration) *float64 {
	if d == roam.Infinite {
		return nil
	}
	s := d.Seconds()
	return &s
}

// String returns "file:line", or the file alone.
func (p Place) String() string { return naming.Place(p).String() }

// SkippedWarning is the warning of a status that has faults.
func SkippedWarning(faults []HostsFault) string {
	lines := "1 line of the hosts file or of the added peers is skipped"
	if len(faults) > 1 {
		lines = fmt.Sprintf("%d lines of the hosts file or of the added peers are skipped, the first", len(faults))
	}
	return fmt.Sprintf("%s: %v: %s", lines, faults[0].Place, faults[0].Message)
}
