package ilnphost

import (
	"roam"
	ilnpwire "roam/wire/ilnp"
)

// udpPort is that of control messages in UDP, on all nodes.
const udpPort = 6740

// Filter says what an access network drops, both ways.
type Filter uint8

// What networks drop; a Filter is any sum of these.
const (
	DropOptions      Filter = 1 << iota // every packet with a Destination Options header
	DropUpdates                         // ICMPv6 type 156
	DropICMP                            // all ICMPv6 between hosts
	DropUDP                             // control messages in UDP
	TrackConnections                    // TCP of connections that began elsewhere, without a conntrack resync
	OnlyAnswers                         // what asks comes in only in UDP, and only from whom the node has sent to in UDP
)

// open notes that control in UDP has left for somebody, whose answers come in.
func (at *attachment) open(to roam.ILV) {
	if at.opened == nil {
		at.opened = map[roam.ILV]bool{}
	}
	at.opened[to] = true
}

// keepsOut reports whether a firewall in front of a node drops what comes for it.
func (at *attachment) keepsOut(p Packet) bool {
	if at.access.Filter&OnlyAnswers == 0 || p.Control == nil {
		return at.losesTrack(p)
	}
	switch messageType(p) {
	case ilnpwire.TypeEchoRequest, ilnpwire.TypeLocatorUpdate:
		return !p.Encapsulated || !at.opened[p.Src]
	}
	return false
}

// drops reports whether a packet does not get through.
func (f Filter) drops(p Packet) bool {
	switch {
	case p.Encapsulated:
		return f&DropUDP != 0
	case f&DropOptions != 0 && p.Nonce.Present():
		return true
	case p.Control == nil:
		return false
	}
	return f&DropICMP != 0 || f&DropUpdates != 0 && messageType(p) == ilnpwire.TypeLocatorUpdate
}
