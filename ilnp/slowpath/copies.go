package slowpath

import (
	"time"

	"roam/ilnp"
	"roam/wire/ip6"
)

const (
	copiesInAll = 1024
	copiesLife  = 6 * time.Second // longer than the core waits for an answer
)

// Copies keeps the first segment and the first datagram of sessions whose checksum rule
// is sought, to be retransmitted under the other rule. The oldest make room.
type Copies struct {
	of    map[ilnp.SessionKey]*firstPackets
	order []*firstPackets // the oldest first; some are no more
}

type firstPackets struct {
	key               ilnp.SessionKey
	since             time.Time
	segment, datagram []byte
}

// Add keeps a packet if it is the first of its kind.
func (f *Copies) Add(now time.Time, k ilnp.SessionKey, packet []byte) {
	segment, datagram := kindOf(packet)
	if !segment && !datagram {
		return
	}
	for len(f.order) > 0 && (len(f.order) >= copiesInAll || now.Sub(f.order[0].since) > copiesLife) {
		if old := f.order[0]; f.of[old.key] == old {
			delete(f.of, old.key)
		}
		f.order = f.order[1:]
	}
	if f.of == nil {
		f.of = make(map[ilnp.SessionKey]*firstPackets)
	}
	v := f.of[k]
	if v == nil {
		v = &firstPackets{key: k, since: now}
		f.of[k], f.order = v, append(f.order, v)
	}
	if segment && v.segment == nil {
		v.segment = packet
	}
	if datagram && v.datagram == nil {
		v.datagram = packet
	}
}

// kindOf reports whether a packet is a first segment, and whether it is a datagram.
func kindOf(packet []byte) (segment, datagram bool) {
	const flags = 13
	c, err := ip6.Walk(packet)
	if err != nil || !c.Whole() {
		return false, false
	}
	segment = c.Upper == ip6.TCP && c.UpperOffset+flags < c.End && packet[c.UpperOffset+flags]&ip6.TCPSyn != 0
	return segment, c.Upper == ip6.UDP
}

// Take returns the packet that a copy is asked for of, and forgets it.
func (f *Copies) Take(o ilnp.Copy) (packet []byte) {
	v := f.of[o.Key]
	switch {
	case v == nil:
	case o.Datagram:
		packet, v.datagram = v.datagram, nil
	default:
		packet, v.segment = v.segment, nil
	}
	return packet
}

// Forget drops what is kept of a session.
func (f *Copies) Forget(k ilnp.SessionKey) { delete(f.of, k) }
