package ilnphost

import (
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	"roam/multipath"
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
		ilnp.PathAvoided: "path-avoided", ilnp.PathAnswers: "path-answers", ilnp.PacketsLost: control.KindPacketsLost,
		ilnp.PlainRefused: control.KindPlainRefused, ilnp.KeyCopied: control.KindKeyCopied,
	}
	formNames = []string{ilnp.FormOption: "options", ilnp.FormUDP: "udp", ilnp.FormPadded: "padded", ilnp.FormFull: "full"}
)

// The core's values of those in roam.conf.
var (
	coreLevel = []multipath.Level{
		config.LivenessNormal: multipath.Normal, config.LivenessFast: multipath.Fast,
		config.LivenessRelaxed: multipath.Relaxed,
	}
	coreMode   = []ilnp.Mode{config.Soft: ilnp.Soft, config.Hard: ilnp.Hard, config.Duality: ilnp.Duality}
	coreAccept = []ilnp.Accept{config.AcceptKnown: ilnp.Known, config.AcceptAny: ilnp.Any}
	coreRule   = []ilnp.ChecksumRule{config.ChecksumIPv6: ilnp.RuleIPv6, config.ChecksumRFC6741: ilnp.RuleRFC6741}
)

func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("unknown-%d", v)
}

// modeName returns the name of a mode: "soft", "hard" or "duality".
func modeName(m ilnp.Mode) string { return nameOf(modeNames, m) }

// acceptName returns the name of a rule of acceptance: "known" or "any".
func acceptName(a ilnp.Accept) string { return nameOf(acceptNames, a) }

// sessionStateName returns the name of the state of a session.
func sessionStateName(s ilnp.SessionState) string { return nameOf(sessionNames, s) }

// locatorStateName returns the name of the state of a locator.
func locatorStateName(s ilnp.LocatorState) string { return nameOf(locatorNames, s) }

// kindName returns the name of a kind of events.
func kindName(k ilnp.EventKind) string { return nameOf(kindNames, k) }

// formName returns the name of the form of a probe: "options", "udp", "padded" or
// "full".
func formName(f ilnp.ProbeForm) string { return nameOf(formNames, f) }

// shownNames gives the names that numbers have for people. A nil field, or an empty
// name, leaves the number.
type shownNames struct {
	Link func(roam.LinkID) string
	Peer func(ilnp.SessionKey) string
}

func (n shownNames) link(id roam.LinkID) string {
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

// pathFrom returns a path of the core as shown to people.
func pathFrom(p ilnp.Path, names shownNames) control.Path {
	return control.Path{Link: names.link(p.Local.Link), Local: p.Local.L64, Remote: p.Remote}
}

// locatorFrom returns a locator of the core as shown to people.
func locatorFrom(s ilnp.LocalState, names shownNames) control.Locator {
	link := s.LinkName
	if link == "" {
		link = names.link(s.Link)
	}
	return control.Locator{
		Link: link, LinkIndex: int(s.Link), L64: s.L64, State: locatorStateName(s.State),
		Disabled: s.Disabled, PreferredS: seconds(s.Preferred), Since: s.Since, Preference: s.Preference,
	}
}

// sessionFrom returns a correspondent of the core as shown to people. Byte and
// packet counts and the path in use are the data plane's: the caller adds them.
func sessionFrom(s ilnp.PeerState, prefix roam.L64, names shownNames) control.Session {
	out := control.Session{
		NID: s.NID, Address: control.SessionAddr(prefix, s.Key.Remote),
		LocalAlias: s.Key.Local, RemoteAlias: s.Key.Remote,
		Names: append([]string{}, s.Names...), Claims: s.Claims, State: sessionStateName(s.State), Dead: s.Dead,
		Locators: []control.RemoteLocator{}, Paths: []control.SessionPath{}, RTTMS: control.Millis(s.RTT), Since: s.Since,
		LastMove: s.LastMove, LastMoveMS: control.Millis(s.LastMoveRTT),
		Checksum: s.Rule.String(), ChecksumICMP: s.ICMPRule, UpdateForm: s.UpdateForm.String(), OptionOn: "first", Encapsulation: "options", Spread: s.Spread.String(), WhyPlain: s.WhyPlain,
	}
	out.Proof, out.Proved, out.LacksKey = proofOf(s.Keyed, s.Listed), s.Proved, s.Unkeyed
	out.Refused.Why, out.KeyCopy, out.OwnKeyCopy = s.PlainRefused, s.KeyCopy, s.OwnKeyCopy
	if s.State == ilnp.Plain {
		out.Proof = control.ProofNone
	}
	if s.NonceAlways {
		out.OptionOn = "always"
	}
	if slices.ContainsFunc(s.Paths, func(p ilnp.Path) bool { return slices.Contains(s.Encapsulated, p) }) {
		out.Encapsulation = "udp"
	}
	if s.Since.IsZero() {
		out.State = control.StateKnown // the core lists whom it knows of, too
	}
	for _, l := range s.Locators {
		out.Locators = append(out.Locators, control.RemoteLocator{
			L64: l.L64, Preference: l.Preference, LifetimeS: seconds(l.Lifetime),
			State: locatorStateName(l.State), Validated: l.Validated,
		})
	}
	for _, p := range s.Paths {
		out.Paths = append(out.Paths, control.SessionPath{Path: pathFrom(p, names), RTTMS: control.Millis(s.RTTs[p]), Share: s.Shares[p], Long: slices.Contains(s.Long, p)})
	}
	for _, v := range s.Views {
		out.Views = append(out.Views, viewFrom(v, names))
	}
	return out
}

// proofOf returns what says who a peer is.
func proofOf(keyed, listed bool) string {
	switch {
	case keyed:
		return control.ProofKeyed
	case listed:
		return control.ProofListed
	}
	return control.ProofNonce
}

// viewFrom returns what is known of a path as shown to people.
func viewFrom(v ilnp.PathView, names shownNames) control.PathView {
	out := control.PathView{
		Path: pathFrom(v.Path, names), InUse: v.InUse, Why: v.Why, Share: v.Share,
		RTTMS: control.Millis(v.RTT), LeastRTTMS: control.Millis(v.Least),
	}
	for _, r := range v.Rules {
		out.Rules = append(out.Rules, control.RuleShare{Rule: r.Rule + 1, Share: r.Share})
	}
	if !v.Out.At.IsZero() {
		out.Out, out.In = directionFrom(v.Out), directionFrom(v.In)
	}
	return out
}

func directionFrom(d multipath.Direction) *control.PathDirection {
	out := &control.PathDirection{
		SentBPS: 8 * d.Sent, RateBPS: 8 * d.Rate, MostBPS: 8 * d.Most, QueueMS: control.Millis(d.Queue), Life: d.Life.String(),
	}
	if d.LossKnown {
		out.Loss = &d.Loss
	}
	return out
}

// eventFrom returns an event of the core as shown to people.
func eventFrom(e ilnp.Event, names shownNames) control.Event {
	out := control.Event{
		Time: e.Time, Kind: kindName(e.Kind), Peer: e.Key.Remote,
		From: linkLocators(e.From, names), To: linkLocators(e.To, names),
		Locators: e.Locators, RTTMS: control.Millis(e.RTT), DurationMS: control.Millis(e.Duration), Reason: e.Reason,
		Bytes: e.Size, Relabelled: e.Relabelled, Encapsulated: e.Encapsulated,
	}
	if e.Kind == ilnp.PathAnswered {
		out.Form = formName(e.Form)
	}
	if e.Key != (ilnp.SessionKey{}) && names.Peer != nil {
		out.PeerName = names.Peer(e.Key)
	}
	if e.Lost != nil {
		out.Lost = &control.LostPackets{Sent: e.Lost.Sent, Received: e.Lost.Received}
	}
	if e.Path != (ilnp.Path{}) {
		p := pathFrom(e.Path, names)
		out.Path = &p
	}
	return out
}

func linkLocators(in []roam.LinkLocator, names shownNames) []control.LinkLocator {
	var out []control.LinkLocator
	for _, l := range in {
		out = append(out, control.LinkLocator{Link: names.link(l.Link), L64: l.L64})
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
