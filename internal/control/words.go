package control

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/naming"
)

// Mode is what a host does with more than one usable link.
type Mode string

// The modes.
const (
	Soft    Mode = "soft"
	Hard    Mode = "hard"
	Duality Mode = "duality"
)

// ParseMode returns the mode of that name. Its error is an *Error.
func ParseMode(s string) (Mode, error) {
	if m := Mode(s); slices.Contains([]Mode{Soft, Hard, Duality}, m) {
		return m, nil
	}
	return "", Errorf(CodeInvalid, "unknown mode %q", s).WithHint("the modes are soft, hard and duality")
}

// AcceptKnown is the name of the rule that admits known nodes only.
const AcceptKnown = "known"

// States of a session.
const (
	StateKnown = "known" // the correspondent is known and has no session
	StatePlain = "plain"
)

// Reasons of Session.WhyPlain that the commands judge by.
const (
	WhyNoILNP     = "no ILNP there"           // it said so by a Parameter Problem
	WhyRemembered = "no ILNP there before"    // an earlier session was plain
	WhyNoNonce    = "answers without a nonce" // plain packets come back, none with a nonce
	WhyNoProof    = "answers without its key" // with a nonce, and without a proof
)

// What says who the peer of a session is: Session.Proof.
const (
	ProofKeyed  = "keyed"          // a MAC under its key, for Locator Updates
	ProofListed = "listed locator" // it was validated at a locator of its record, or the session's; then its nonce
	ProofNonce  = "nonce"          // no record lists where it is: it is the node that sent the nonce first
	ProofNone   = "none"           // plain IPv6
)

// ChecksumRFC6741 is the rule of checksums that counts locators as zero.
const ChecksumRFC6741 = "rfc6741"

// Kinds of events that the commands judge by; KindNames has them all.
const (
	KindSessionStarted     = "session-started"
	KindSessionEstablished = "session-established"
	KindSessionFellBack    = "session-fell-back"
	KindSessionReplaced    = "session-replaced"
	KindPlainRefused       = "plain-refused"
	KindKeyCopied          = "key-copied"
	KindUpdateSent         = "update-sent"
	KindUpdateAcked        = "update-acked"
	KindUpdateReceived     = "update-received"
	KindUpdateFailed       = "update-failed"
	KindPathAnswered       = "path-answered"
	KindPathNarrowed       = "path-narrowed"
	KindRefused            = "refused"
	KindPacketsLost        = "packets-lost"
	// KindLost stands for the events that a reader missed.
	KindLost = "lost"
)

// KindNames lists the names of the kinds of events, KindLost last.
func KindNames() []string {
	return []string{
		"locator-added", "locator-removed", "handoff-started", "handoff-done", KindUpdateSent, KindUpdateAcked,
		KindUpdateFailed, KindUpdateReceived, KindSessionStarted, KindSessionEstablished, KindSessionFellBack,
		"session-ended", KindSessionReplaced, "peer-moved", "peer-dead", "peer-alive", KindRefused, "mode-changed",
		KindPathAnswered, "encapsulation-changed", "spread-changed", KindPathNarrowed, "session-named",
		"handoff-returned", "path-avoided", "path-answers", KindPlainRefused, KindKeyCopied,
		KindPacketsLost, KindUpdateSeen,
		KindLost,
	}
}

// SessionAddr returns the session address of an alias.
func SessionAddr(prefix roam.L64, handle roam.NID) netip.Addr {
	return roam.ILV{L64: prefix, NID: handle}.Addr()
}

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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
