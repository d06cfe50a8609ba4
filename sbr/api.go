package sbr

import (
	"time"

	"roam"
	"roam/wire/ilnp"
)

// FlowKey names a flow: what two nodes exchange, one of them inside the site.
type FlowKey struct{ Inside, Outside roam.NID }

// FlowSeen is a flow for which both nodes have sent their nonces, as the data plane saw it.
type FlowSeen struct {
	FlowKey
	Internal roam.L64    // of the inside node
	Link     roam.LinkID // to it
	Remote   roam.L64    // of the outside node, where the inside node sent its latest nonce
	Inward   ilnp.Nonce  // that packets from outside bear
	Outward  ilnp.Nonce  // that packets from inside bear
	Rule     Rule        // of its TCP and UDP checksums, as far as it is known
	Sent     time.Time   // the latest packet from inside, as far as it is known
	Sealed   bool        // its updates have MACs, so that the border makes none
}

// Fallback is what the data plane does with packets of no flow.
type Fallback uint8

// The fallbacks, as the data plane has them.
const (
	Translate Fallback = iota // to and from the most preferred locator
	Forward                   // as they are
	Drop
)

// Packet is a packet that the data plane handed over instead of forwarding it.
type Packet struct {
	Bytes  []byte
	Inside bool        // it came from inside
	Link   roam.LinkID // it came by
	Came   roam.L64    // site locator to which the flow's latest packet from outside came; 0: unknown

	pieces
}

// pieces is whether a message came in fragments, and their identification.
type pieces struct {
	fragmented bool
	id         uint32
}

// Refusal is why a packet that was handed over is not forwarded.
type Refusal uint8

// The refusals.
const (
	Malformed       Refusal = iota // headers, checksum or message that cannot be read
	WrongNonce                     // an acknowledgement or answer to the border itself: not its flow's nonce
	ForeignLocators                // an update from outside that lists locators of this site or none at all
	UnknownLocators                // an update from inside without any locator that the policy knows
	NoLink                         // no link of the group is up
	UnknownAck                     // acknowledges nothing that passed
	SealedInternal                 // an update from inside with a MAC that lists internal locators
	Incomplete                     // in fragments that did not all come, or for which there was no space
	NoFlow                         // an error about a packet of no flow, and such packets are dropped
	OtherNonces                    // an update or acknowledgement with another nonce than its flow's, beyond their rate
	Refusals                       // how many there are
)

// Output is one thing to do: Transmit, Announced, Sealed, Renewed, Forget, Install, Look or Refused.
type Output interface{ output() }

// Routed in place of a link is the one to the inside by which the host routes the packet: it is of no flow.
const Routed roam.LinkID = 0

// Transmit wants a packet sent on a link, or Routed.
type Transmit struct {
	Link   roam.LinkID
	Packet []byte
}

// Announced reports which site locators the outside node of a flow has acknowledged: from
// these the flow's packets may come.
type Announced struct {
	FlowKey
	Locators []roam.L64
}

// Sealed reports whether the updates of a flow have MACs, for the core of the next daemon.
type Sealed struct {
	FlowKey
	Sealed bool
}

// Renewed reports that a node of a flow has lost its state: the flow has these nonces, nothing is announced, and its
// updates have no MACs as far as is known.
type Renewed struct {
	FlowKey
	Inward, Outward ilnp.Nonce
}

// Forget wants what the data plane has of a flow removed.
type Forget struct{ FlowKey }

// Install wants Core.Table in the data plane. Renamed has a bit for each index that names another site locator than
// before, or none any more: what was announced by these has to be removed from all flows first.
type Install struct{ Renamed uint16 }

// Look wants HandleSeen called with the time of the flow's latest packet from inside.
type Look struct{ FlowKey }

// Refused reports a packet that is not forwarded.
type Refused struct {
	Packet
	Why Refusal
}

func (Transmit) output()  {}
func (Announced) output() {}
func (Sealed) output()    {}
func (Renewed) output()   {}
func (Forget) output()    {}
func (Install) output()   {}
func (Look) output()      {}
func (Refused) output()   {}
