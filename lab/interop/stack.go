package interop

import "time"

// Stack holds the differences between implementations of ILNPv6, independent of each other.
// The zero value follows the RFCs, but does not serve plain IPv6.
type Stack struct {
	// Nonces.
	NonceAlways bool          // every packet carries the nonce, and one without is taken for plain IPv6
	NonceSent   bool          // every packet carries the nonce; it requires none from others
	NonceOnce   bool          // only the first packet of a session carries it, and ICMPv6
	OneNonce    bool          // the answering host uses the other's nonce
	RenewAfter  time.Duration // after that silence of both sides it draws a new nonce and accepts any (0: never)
	Options     Options       // around the nonce

	// Checksums.
	NIDChecksums       bool // TCP and UDP checksums count locators as zero
	ControlOverNIDs    bool // so do those of ICMPv6: updates, acknowledgements, echo and errors, sent and accepted
	OrdinaryControlToo bool // with ControlOverNIDs: accepts ordinary ones too, and answers such an echo alike

	// Plain IPv6.
	Disabled        bool // without ILNP: a nonce is an unknown option, and all its own connections are plain
	BeginsPlain     bool // its own connections are plain IPv6, but it answers ILNP: a stack with ILNP half disabled
	ServesPlain     bool // packets without nonce outside a session are answered without one, under ordinary checksums
	PlainUDPReplies bool // answers UDP with a nonce without one, under the ordinary checksum
	// a SYN without nonce is answered without one, the checksum over NIDs; with ServesPlain or without
	PlainSYNACKOverNIDs bool

	// Locator Updates.
	DraftUpdates bool // Locator Updates have code 7 and entries of 16 bytes
	// they have code 0 and entries of 16 bytes, values of 32 bits, little-endian; the first locator
	// counts
	Code0Entries16LE bool
	KnownSource      bool // accepts a Locator Update only from a known locator
	NeverAcks        bool // neither takes nor acknowledges any Locator Update
	// takes no packet from a locator that it does not know, the right nonce or not, but Locator Updates
	UnknownSourceDropped bool
	OneLocator           bool // sends to one locator of a set, the first best; others take turns
	AckToNewest          bool // acknowledges to the first listed locator, not to the update's source

	// Echo and errors.
	NoEchoAnswer    bool // answers no echo request at all
	FirstPingLost   bool // gives no answer to the first echo request of a session
	PortUnreachable bool // answers datagrams to a port without a service by an ICMPv6 error
}

// disabled returns the stack of the same host without ILNP.
func (s Stack) disabled() Stack {
	return Stack{
		Disabled:        true,
		BeginsPlain:     true,
		ServesPlain:     true,
		PortUnreachable: s.PortUnreachable,
		NoEchoAnswer:    s.NoEchoAnswer,
	}
}

// Counts are the packets of a Peer, and the reasons of its drops.
type Counts struct {
	Received      int // accepted, all kinds
	Nonces        int // of those, the ones with a nonce
	PlainServed   int // accepted as plain IPv6, see Stack.ServesPlain; not in Received; no ICMPv6 errors
	PlainTCP      int // of those, the segments
	PlainUDP      int // and datagrams, except to closed ports, which no application gets
	Echoes        int // echo requests accepted
	Updates       int // Locator Updates accepted
	Acks          int // acknowledgements of its own updates
	Plain         int // without nonce, where one is wanted, except UDPForms
	UDPForms      int // control messages of Roam in UDP, sent when an answer is late: other stacks do not know them
	WrongNonce    int
	BadChecksum   int
	BadICMP       int // of those, ICMPv6 messages: a host may probe under both rules
	Unvalidated   int // from an unknown locator
	StrangeUpdate int // Locator Updates from one
	Unacked       int // Locator Updates dropped, see Stack.NeverAcks
}

// form is the form of its own Locator Updates.
func (s Stack) form() form {
	switch {
	case s.Code0Entries16LE:
		return formLE
	case s.DraftUpdates:
		return formDraft
	}
	return formRFC
}

// nidsOnly reports whether its own packets count locators as zero.
func (s Stack) nidsOnly(proto byte) bool {
	if proto == protoICMP {
		return s.ControlOverNIDs
	}
	return s.NIDChecksums
}

// sound reports whether the stack accepts a packet's checksum, and whether that is over
// NIDs.
func (s Stack) sound(q packet) (ok, nidsOnly bool) {
	if q.sound(s.nidsOnly(q.proto)) {
		return true, s.nidsOnly(q.proto)
	}
	return q.proto == protoICMP && s.OrdinaryControlToo && q.sound(false), false
}
