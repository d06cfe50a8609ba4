package engine

import (
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/wire/ip6"
)

const (
	firstsInAll = 1024
	firstsLife  = 6 * time.Second // longer than the core waits for an answer
)

// firsts keeps the first segment and the first datagram of sessions whose rule of
// checksums is sought, for a copy under the other one. The oldest make room.
type firsts struct {
	of    map[ilnp.SessionKey]*first
	order []*first // the oldest first; some are no more
}

type first struct {
	key               ilnp.SessionKey
	since             time.Time
	segment, datagram []byte
}

// add keeps a packet if it is the first of its kind.
func (f *firsts) add(now time.Time, k ilnp.SessionKey, packet []byte) {
	segment, datagram := kindOf(packet)
	if !segment && !datagram {
		return
	}
	for len(f.order) > 0 && (len(f.order) >= firstsInAll || now.Sub(f.order[0].since) > firstsLife) {
		if old := f.order[0]; f.of[old.key] == old {
			delete(f.of, old.key)
		}
		f.order = f.order[1:]
	}
	if f.of == nil {
		f.of = make(map[ilnp.SessionKey]*first)
	}
	v := f.of[k]
	if v == nil {
		v = &first{key: k, since: now}
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
	const flags, syn = 13, 0x02
	c, err := ip6.Walk(packet)
	if err != nil || !c.Whole() {
		return false, false
	}
	segment = c.Upper == ip6.TCP && c.UpperOffset+flags < c.End && packet[c.UpperOffset+flags]&syn != 0
	return segment, c.Upper == ip6.UDP
}

// take returns the packet that a copy is asked for of, and forgets it.
func (f *firsts) take(o ilnp.Copy) (packet []byte) {
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

func (f *firsts) forget(k ilnp.SessionKey) { delete(f.of, k) }

// copy sends the first packet of a session once more, under the other rule.
func (e *Engine) copy(o ilnp.Copy) {
	packet := e.firsts.take(o)
	if p, made := e.session(o.Key); packet == nil || !made || !p.RuleSought || p.State == ilnp.Plain {
		return
	}
	d := e.cfg.Network.Device()
	err := e.cfg.Sender.ResendMarked(roam.LinkID(d.Index), d.MAC, packet, dataplane.CopyMark)
	e.report("send first packet under the other rule", err)
}
