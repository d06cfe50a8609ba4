package engine

import (
	"encoding/binary"
	"net/netip"

	"roam/ilnp"
	"roam/internal/dataplane"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// wake lets TCP connections try again at once: their correspondent is within
// reach again, but each of them may sit in a retransmission time-out that was
// doubled while it was not. One look serves all sessions that have moved.
//
// An ICMPv6 Destination Unreachable (no route) about the oldest segment that is
// not acknowledged makes TCP take one doubling back, and send again when that is
// due by now (RFC 6069, which Linux implements). So each connection is told as
// often as it has doubled.
func (e *Engine) wake() {
	if len(e.back) == 0 {
		return
	}
	addrs := make(map[[2]netip.Addr]ilnp.PairKey, len(e.back))
	for k := range e.back {
		addrs[[2]netip.Addr{e.sessionAddr(k.Local).Addr(), e.sessionAddr(k.Remote).Addr()}] = k
	}
	clear(e.back)
	list, err := e.cfg.Plane.Stalled()
	if err != nil {
		// They try again by themselves, only later.
		e.cfg.Log.Debug("cannot look for stalled connections", "err", err)
		return
	}
	for _, s := range list {
		if k, ok := addrs[[2]netip.Addr{s.Local.Addr(), s.Remote.Addr()}]; ok {
			e.takeBack(k, s)
		}
	}
}

// takeBack tells a connection as often as it has doubled its time-out.
func (e *Engine) takeBack(k ilnp.PairKey, s dataplane.Stall) {
	const unreachable, noRoute = 1, 0
	msg := ilnpwire.ErrorMessage{Type: unreachable, Code: noRoute, Quoted: quote(s)}
	b, err := ilnpwire.BuildError(e.sessionAddr(k.Remote), e.sessionAddr(k.Local), ilnpwire.Nonce{}, msg)
	if err != nil {
		e.report("wake a connection", err)
		return
	}
	for range s.Backoff {
		e.inject(b)
	}
}

// quote makes the beginning of the segment that a stalled connection has sent
// last, as far as TCP looks at it: addresses, ports, sequence number.
func quote(s dataplane.Stall) []byte {
	const tcp, tcpLength = 6, 20
	b := make([]byte, ip6.HeaderLen+tcpLength)
	b[0], b[6], b[7] = 6<<4, tcp, 64
	binary.BigEndian.PutUint16(b[4:], tcpLength)
	put := func(at int, a netip.Addr) {
		octets := a.As16()
		copy(b[at:], octets[:])
	}
	put(8, s.Local.Addr())
	put(24, s.Remote.Addr())
	t := b[ip6.HeaderLen:]
	binary.BigEndian.PutUint16(t, s.Local.Port())
	binary.BigEndian.PutUint16(t[2:], s.Remote.Port())
	binary.BigEndian.PutUint32(t[4:], s.Seq)
	t[12] = tcpLength / 4 << 4
	return b
}
