package ilnp

import (
	"fmt"
	"time"

	"roam"
)

// Reasons for which input is refused, as RejectedInput counts them.
const (
	reasonMalformed   = "malformed packet"
	reasonUnexpected  = "unexpected message"
	reasonNoNonce     = "no nonce"
	reasonWrongNonce  = "wrong nonce"
	reasonNoSession   = "no session"
	reasonNoLocators  = "locator update without locators"
	reasonCode        = "unknown code of a locator update"
	reasonLocator     = "locator not usable"
	reasonOlderAck    = "acknowledgement of an older update"
	reasonToken       = "reply to no probe"
	reasonQuote       = "error that quotes nothing of ours"
	reasonAccept      = "correspondent not known"
	reasonTooMany     = "too many pending peers"
	reasonForged      = "other nonce while the right one is in use"
	reasonRandom      = "no randomness"
	reasonElsewhere   = "locator of another session"
	reasonSite        = "too many pending peers of one site"
	reasonNoMAC       = "locator update without mac"
	reasonWrongMAC    = "locator update with a wrong mac"
	reasonReplayed    = "locator update that is old or came before"
	reasonProofNoKey  = "proof of a peer whose key this host lacks"
	reasonProofForged = "proof that is forged"
	reasonProofOld    = "proof that is old or came before"
	reasonProofPlace  = "proof from a locator that it does not list"
	reasonProofMany   = "proof challenged, as too many came"
	reasonProofOpen   = "peer did not confirm its proof"
	reasonVouchNoKey  = "vouch of a peer whose key this host lacks"
	reasonVouchForged = "vouch that is forged"
	reasonVouchOld    = "vouch whose time is over"
	reasonVouchTaken  = "vouch for a node that is known already"
	reasonFormer      = "new session of a node identifier that was replaced"
	reasonUnproven    = "peer with a key has sent no proof"
	reasonMoveNoMAC   = "nonce from a locator that no update with a mac lists"

	reasonReport      = "malformed report"
	reasonReportBack  = "report of less than before"
	reasonReportAbove = "report of more than was sent"
	reasonReportClock = "report from outside of the round trip"

	reasonReportNoMAC    = "report without mac"
	reasonReportWrongMAC = "report with a wrong mac"
)

// suspicious are the reasons that an attack would cause. The others are faults: of a
// message that a session's nonce makes authentic, or of who has none yet.
var suspicious = map[string]bool{
	reasonNoNonce: true, reasonWrongNonce: true, reasonNoSession: true, reasonLocator: true, reasonToken: true, reasonQuote: true,
	reasonTooMany: true, reasonForged: true, reasonElsewhere: true, reasonSite: true,
	reasonProofForged: true, reasonProofOld: true, reasonProofPlace: true, reasonProofOpen: true, reasonUnproven: true,
	reasonVouchForged: true, reasonVouchOld: true, reasonVouchTaken: true,
	reasonNoMAC: true, reasonWrongMAC: true, reasonReplayed: true, reasonMoveNoMAC: true,
	reasonReportNoMAC: true, reasonReportWrongMAC: true,
}

// Suspicious reports whether input that was refused for that reason may have been an
// attacker's (RFC 6741 §11.1).
func Suspicious(reason string) bool { return suspicious[reason] }

// handoff follows a change of the active set until every correspondent has
// acknowledged it.
type handoff struct {
	started  time.Time
	from, to []roam.LinkLocator
	why      string
	waiting  map[SessionKey]struct{}
}

// beginHandoff tells that the active set changed. A handoff that is still
// under way ends here: what its correspondents acknowledge from now on is the
// newer set.
func (c *updates) beginHandoff(now time.Time, from, to []roam.LinkLocator, why string) {
	c.handoff = handoff{started: now, from: from, to: to, why: why, waiting: make(map[SessionKey]struct{})}
	c.notify(Event{Time: now, Kind: HandoffStarted, From: from, To: to, Reason: why})
}

// settleHandoff takes a correspondent off the list of those whose
// acknowledgement is awaited.
func (c *updates) settleHandoff(now time.Time, key SessionKey) {
	if _, ok := c.handoff.waiting[key]; !ok {
		return
	}
	delete(c.handoff.waiting, key)
	c.concludeHandoff(now)
}

// concludeHandoff ends the handoff if nobody's acknowledgement is awaited.
func (c *updates) concludeHandoff(now time.Time) {
	h := c.handoff
	if h.waiting == nil || len(h.waiting) > 0 || len(c.round.queue) > 0 {
		return
	}
	c.handoff = handoff{}
	c.notify(Event{Time: now, Kind: HandoffDone, From: h.from, To: h.to, Duration: now.Sub(h.started), Reason: h.why})
}

// locatorsOf returns the locators of an update, for an event.
func locatorsOf(list []listed) []roam.L64 {
	ls := make([]roam.L64, len(list))
	for i, e := range list {
		ls[i] = e.l64
	}
	return ls
}

func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%d", uint8(v))
}

// String returns the mode as the configuration spells it.
func (m Mode) String() string { return name([]string{"soft", "hard", "duality"}, m) }

// String returns the value as the configuration spells it.
func (a Accept) String() string { return name([]string{"known", "any"}, a) }

// String returns the rule as the configuration spells it.
func (r ChecksumRule) String() string { return name([]string{"ipv6", "rfc6741"}, r) }

// String returns the state in lower case.
func (s SessionState) String() string { return name([]string{"initiated", "established", "plain"}, s) }

// String returns the state of RFC 6741 §5.1 in upper case, as the RFC's
// readers know it.
func (s LocatorState) String() string {
	return name([]string{"VALID", "ACTIVE", "EXPIRED", "AGED"}, s)
}

// String returns the observation in lower case.
func (t Trigger) String() string {
	return name([]string{"miss", "pending", "nonce", "locator", "silence", "life", "other nonce", "rule", "first", "refusal", "per flow", "stall", "queue", "more"}, t)
}

// String returns the kind in lower case.
func (k EventKind) String() string {
	return name([]string{
		"locator added", "locator removed", "handoff started", "handoff done",
		"update sent", "update acked", "update failed", "update received",
		"session started", "session established", "session fell back", "session ended", "session replaced",
		"peer moved", "peer dead", "peer alive", "refused", "mode changed", "path answered", "encapsulation changed", "spread changed", "path narrowed",
		"session named", "handoff returned", "path avoided", "path answers", "packets lost",
	}, k)
}

// String returns the two aliases, the local one first.
func (k SessionKey) String() string { return k.Local.String() + " - " + k.Remote.String() }
