package decide

import (
	"roam"
	"roam/wire/ilnp"
)

// Verdict is the return value of a program.
type Verdict int

// The verdicts, with the numbers of the programs.
const (
	PassOn   Verdict = -1 // to the stack, or to the next program
	Consumed Verdict = 0  // accepted at the session device, whose far end drops it
	Shot     Verdict = 2  // dropped
	Redirect Verdict = 7  // it leaves by the link of the Outcome; with the Action Left, it goes nowhere
)

// Verdicts lists all of them.
var Verdicts = []Verdict{PassOn, Consumed, Shot, Redirect}

// Counter is one of enum counter; bpf/lib/drop.h describes each.
type Counter uint8

// The counters, in the order of enum counter.
const (
	TxPackets Counter = iota
	TxPlain
	TxPending
	TxNonce
	TxNonceLeftOut
	TxSegdev
	TxProbeCopy
	TxProbeCopyMoot
	TxEncap
	TxRetried
	RxPackets
	RxNonce
	RxPlain
	RxEncap
	RxStaleLocator
	RxHeld
	RxNotAdmitted
	RxPendingUnreported
	RxEchoReflected
	RxListener
	RxEchoForgotten
	RxRealSocket
	RxUpdateFollowed
	DropNotSession
	DropMissHandedOver
	DropErrorHandedOver
	DropControlHandedOver
	DropMissTooBig
	DropMissRate
	DropRingFull
	DropRingShare
	DropNoPathHeld
	DropNoPathRetry
	DropObstructed
	DropLeak
	DropSessionOutside
	DropOwnNID
	DropSessionLink
	DropForwarded
	DropMalformed
	DropTwoNonces
	DropNonceLength
	DropUnknownLocator
	DropSessionLost
	DropNoNonceYet
	DropWrongNonce
	DropICMPNoNonce
	DropUpdateNoNonce
	DropUpdateNoSession
	DropUnvalidated
	DropNotHeld
	DropKernelHelper
	Counters // number of counters
)

var counterNames = [Counters]string{
	TxPackets:             "tx_packets",
	TxPlain:               "tx_plain",
	TxPending:             "tx_pending",
	TxNonce:               "tx_nonce",
	TxNonceLeftOut:        "tx_nonce_left_out",
	TxSegdev:              "tx_segdev",
	TxProbeCopy:           "tx_probe_copy",
	TxProbeCopyMoot:       "tx_probe_copy_moot",
	TxEncap:               "tx_encap",
	TxRetried:             "tx_retried",
	RxPackets:             "rx_packets",
	RxNonce:               "rx_nonce",
	RxPlain:               "rx_plain",
	RxEncap:               "rx_encap",
	RxStaleLocator:        "rx_stale_locator",
	RxHeld:                "rx_held",
	RxNotAdmitted:         "rx_not_admitted",
	RxPendingUnreported:   "rx_pending_unreported",
	RxEchoReflected:       "rx_echo_reflected",
	RxListener:            "rx_listener",
	RxEchoForgotten:       "rx_echo_forgotten",
	RxRealSocket:          "rx_real_socket",
	RxUpdateFollowed:      "rx_update_followed",
	DropNotSession:        "drop_not_session",
	DropMissHandedOver:    "miss_handed_over",
	DropErrorHandedOver:   "error_handed_over",
	DropControlHandedOver: "control_handed_over",
	DropMissTooBig:        "drop_too_big",
	DropMissRate:          "drop_miss_rate",
	DropRingFull:          "drop_ring_full",
	DropRingShare:         "drop_ring_share",
	DropNoPathHeld:        "drop_no_path",
	DropNoPathRetry:       "drop_no_path_retry",
	DropObstructed:        "drop_obstructed",
	DropLeak:              "drop_leak",
	DropSessionOutside:    "drop_session_outside",
	DropOwnNID:            "drop_own_nid",
	DropSessionLink:       "drop_session_link",
	DropForwarded:         "drop_forwarded",
	DropMalformed:         "drop_malformed",
	DropTwoNonces:         "drop_two_nonces",
	DropNonceLength:       "drop_nonce_length",
	DropUnknownLocator:    "drop_unknown_locator",
	DropSessionLost:       "drop_session_lost",
	DropNoNonceYet:        "drop_no_nonce_yet",
	DropWrongNonce:        "drop_wrong_nonce",
	DropICMPNoNonce:       "drop_icmp_no_nonce",
	DropUpdateNoNonce:     "drop_update_no_nonce",
	DropUpdateNoSession:   "drop_update_no_session",
	DropUnvalidated:       "drop_unvalidated",
	DropNotHeld:           "drop_not_held",
	DropKernelHelper:      "drop_kernel_helper",
}

// String returns the counter's public name.
func (c Counter) String() string { return counterNames[c] }

// EventKind is one of enum event_kind, bpf/lib/records.h.
type EventKind uint8

// The kinds of events, in the order of enum event_kind.
const (
	Miss EventKind = iota
	PendingShown
	OtherNonce
	ErrorIn
	ErrorOut
	Control
	NonceSeen
	LocatorSeen
	Silence
	Life
	RuleSeen
	First
	Retried
	PerFlowAsked
	Stall
	Queue
	More
	Acked
	EventKinds // number of kinds
)

// Ring is one of the ring buffers to the daemon, in the order in which the daemon reads
// them.
type Ring uint8

// The rings.
const (
	Urgent Ring = iota
	Requests
	Unvalidated
)

// Event is a report to the daemon.
type Event struct {
	Kind            EventKind
	Ring            Ring
	Link            uint32
	Key             Key
	Remote, Local   roam.ILV // as on the wire; zero for outgoing packets
	Nonce, OwnNonce ilnp.Nonce
	Found           Found
	Encapsulated    bool
	Bytes, Packets  int
	Whole           bool // the event contains the packet
}

// Action is the treatment of a packet that is not dropped.
type Action uint8

// The values of Action.
const (
	Left      Action = iota // unchanged
	Sent                    // translated, out of an uplink
	Segmented               // untouched, to the segmentation device
	Answered                // turned from an echo request into its reply
	Delivered               // translated, to session addresses
	Rebuilt                 // with the real addresses of a socket of plain IPv6
)

// Outcome is the decision on one packet.
type Outcome struct {
	Verdict  Verdict
	Action   Action
	Counters []Counter // in the order of counting
	Events   []Event   // in order within each ring
	// Refused is the reason for which a security log lists the packet; 0, which is
	// TxPackets and no reason: it is not listed.
	Refused Counter
	// Link is the outgoing link. Path is the index of the path in the session's entry, or
	// -1.
	Link     uint32
	Path     int
	Label    uint32       // flow label by which a packet is marked; 0: it is not
	Src, Dst roam.ILV     // of the packet afterwards
	Nonce    ilnp.Nonce   // the inserted nonce; Len 0: none
	Encap    bool         // encapsulated in UDP
	OverNIDs bool         // locators count as zero in the checksum on the wire
	Report   *ilnp.Report // in an answer to a probe that asks for one,
	// ReportKey is the key of its MAC, if it is to have one.
	ReportKey [ilnp.MACKeyLen]byte
	Withheld  Withheld // which of its blocks of SACK the segment leaves without
	Copied    bool     // a probe copy went to the segmentation device
	Again     bool     // the first segment that an error quotes was retransmitted
	MSS       uint16   // the lowered MSS of a SYN; 0: unchanged
	Forgot    bool     // the echoed time stamp was cleared
	Server    roam.ILV // the server's address that a first segment was assigned to
}

// Counted returns how often a counter was counted.
func (o *Outcome) Counted(c Counter) int {
	n := 0
	for _, x := range o.Counters {
		if x == c {
			n++
		}
	}
	return n
}
