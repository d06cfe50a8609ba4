package interop

import "time"

// Stack is what implementations of ILNPv6 do differently. Each field stands for
// itself; the zero value keeps to the RFCs, but serves no plain IPv6.
type Stack struct {
	// Nonces.
	NonceAlways bool          // every packet carries the nonce, and one without is taken for plain IPv6
	NonceSent   bool          // every packet carries the nonce; those of others need none
	NonceOnce   bool          // only the first packet of a session carries it, and ICMPv6
	OneNonce    bool          // who answers uses the nonce of who asked
	RenewAfter  time.Duration // after that silence of both sides it draws a new nonce and takes any (0: never)
	Options     Options       // around the nonce

	// Checksums.
	NIDChecksums       bool // TCP and UDP checksums count locators as zero
	ControlOverNIDs    bool // so do those of ICMPv6: updates, acknowledgements, echo and errors, sent and taken
	OrdinaryControlToo bool // with ControlOverNIDs: takes ordinary ones too, and answers such an echo in kind

	// Plain IPv6.
	Disabled        bool // it has no ILNP: a nonce is an unknown option, and all that it begins is plain
	BeginsPlain     bool // what it begins is plain IPv6, though it answers ILNP: a stack with ILNP half disabled
	ServesPlain     bool // packets without nonce outside a session are answered without one, under ordinary checksums
	PlainUDPReplies bool // UDP that came with a nonce is answered without one, under the ordinary checksum
	// a SYN without nonce is answered without one, the checksum over NIDs; with ServesPlain or without
	PlainSYNACKOverNIDs bool

	// Locator Updates.
	DraftUpdates bool // Locator Updates have code 7 and entries of 16 bytes
	// they have code 0 and entries of 16 bytes, values of 32 bits, little-endian; the first locator
	// counts
	Code0Entries16LE bool
	KnownSource      bool // takes a Locator Update only from a locator that it knows
	NeverAcks        bool // neither takes nor acknowledges any Locator Update
	// takes no packet from a locator that it does not know, the right nonce or not, but Locator Updates
	UnknownSourceDropped bool
	OneLocator           bool // sends to one locator of a set, the first best; others take turns
	AckToNewest          bool // acknowledges to the first locator listed, not to where the update came from

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

// Counts are what a Peer saw, and why it dropped packets.
type Counts struct {
	Received      int // accepted, all kinds
	Nonces        int // of those, with a nonce
	PlainServed   int // accepted as plain IPv6, see Stack.ServesPlain; not in Received; no ICMPv6 errors
	PlainTCP      int // of those, segments
	PlainUDP      int // and datagrams; those to a closed port are no application's, and not counted
	Echoes        int // echo requests accepted
	Updates       int // Locator Updates accepted
	Acks          int // acknowledgements of its own
	Plain         int // without nonce, where one is wanted
	WrongNonce    int
	BadChecksum   int
	Unvalidated   int // from a locator that it does not know
	StrangeUpdate int // Locator Updates from one
	Unacked       int // Locator Updates dropped, see Stack.NeverAcks
}

// form is that of its own Locator Updates.
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

// sound reports whether a packet's checksum is one that the stack takes, and
// whether it is that over NIDs.
func (s Stack) sound(q packet) (ok, nidsOnly bool) {
	if q.sound(s.nidsOnly(q.proto)) {
		return true, s.nidsOnly(q.proto)
	}
	return q.proto == protoICMP && s.OrdinaryControlToo && q.sound(false), false
}
