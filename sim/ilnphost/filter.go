package ilnphost

import (
	"roam"
	ilnpwire "roam/wire/ilnp"
)

// udpPort is the UDP encapsulation port of all nodes.
const udpPort = 6740

// Filter is the set of packets that an access network drops, in both directions.
type Filter uint8

// The bits of a Filter.
const (
	DropOptions      Filter = 1 << iota // every packet with a Destination Options header
	DropUpdates                         // ICMPv6 type 156
	DropICMP                            // all ICMPv6 between hosts
	DropUDP                             // control messages in UDP
	TrackConnections                    // TCP of connections that began elsewhere, without a conntrack resync
	// Inbound requests, except in UDP from a destination of the node's UDP, and TCP of connections that the node
	// has not opened there, by a SYN or a conntrack resync that was answered there.
	OnlyAnswers
)

// open records a destination of control in UDP, from which the firewall then admits UDP.
func (at *attachment) open(to roam.ILV) {
	if at.opened == nil {
		at.opened = map[roam.ILV]bool{}
	}
	at.opened[to] = true
}

// asksFor records a SYN or a conntrack resync of the node, whose answer a firewall then admits.
func (at *attachment) asksFor(p Packet) {
	s := p.Data.segment
	if at.access.Filter&OnlyAnswers == 0 || s == nil || !s.opens() {
		return
	}
	if at.asked == nil {
		at.asked = make(map[*TCP]bool)
	}
	at.asked[s.from.conn] = true
}

// keepsOut reports whether a firewall in front of a node drops a packet to it.
func (at *attachment) keepsOut(p Packet) bool {
	if at.access.Filter&OnlyAnswers == 0 {
		return at.losesTrack(p)
	}
	if s := p.Data.segment; s != nil {
		if s.opens() && at.asked[s.from.conn] {
			at.track(s.from.conn)
		}
		return !at.tracked[s.from.conn]
	}
	if p.Control == nil {
		return false
	}
	switch messageType(p) {
	case ilnpwire.TypeEchoRequest, ilnpwire.TypeLocatorUpdate:
		return !p.Encapsulated || !at.opened[p.Src]
	}
	return false
}

// drops reports whether the access network drops a packet.
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
