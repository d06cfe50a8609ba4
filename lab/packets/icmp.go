package packets

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// The types of ICMPv6 messages that are looked into (RFC 4443 §4, RFC 4861 §4.2).
const (
	typeEchoRequest  = 128
	typeEchoReply    = 129
	typeRouterAdvert = 134
)

// FirstAdvert returns when the first Router Advertisement came at or after a moment; false: none
// did. From then on a host can use the network, whatever its daemon says.
func FirstAdvert(list []Packet, from time.Time) (time.Time, bool) {
	for _, p := range list {
		if p.Proto == ICMPv6 && len(p.Data) > 0 && p.Data[0] == typeRouterAdvert && !p.At.Before(from) {
			return p.At, true
		}
	}
	return time.Time{}, false
}

// Echo is an echo request that was answered.
type Echo struct {
	Number uint16 // its sequence number
	Took   time.Duration
}

// Echoes returns the answered echo requests to an address, in order of time; list is the capture
// at the host that sent them.
func Echoes(list []Packet, to netip.Addr) (out []Echo) {
	sent := map[uint32]time.Time{} // by identifier and sequence number
	for _, p := range list {
		if p.Proto != ICMPv6 || len(p.Data) < 8 {
			continue
		}
		key := binary.BigEndian.Uint32(p.Data[4:])
		switch {
		case p.Data[0] == typeEchoRequest && p.Dst == to:
			sent[key] = p.At
		case p.Data[0] == typeEchoReply && p.Src == to:
			if at, ok := sent[key]; ok {
				out = append(out, Echo{Number: uint16(key), Took: p.At.Sub(at)})
				delete(sent, key)
			}
		}
	}
	return out
}
