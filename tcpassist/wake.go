package tcpassist

import (
	"encoding/binary"
	"net/netip"

	"roam/wire/ip6"
)

// wake lets a TCP connection try again at once: its peer is within reach again, but it
// may sit in a retransmission time-out that was doubled while that was not.
//
// An ICMPv6 Destination Unreachable (no route) about the oldest segment that is not
// acknowledged makes TCP take one doubling back, and retransmit when that is due by
// now (RFC 6069, which Linux implements). So a connection gets as many as it has
// doubled.
//
// After an outage the peer learns what had arrived before it, too: the last
// acknowledgements are lost, and what it would retransmit first is here. TCP takes the
// answer to that as a sign that its time-out was a mistake, and waits another round
// trip before it sends what is missing (F-RTO, RFC 5682). The same holds for connections
// whose acknowledgements went to a path that has died: where only our direction has, their
// peers have no other reason to end a time-out.
func (m *Machine[K]) wake(c Connection, acks repeat) {
	m.takeBack(c)
	if c.Open && (acks == every || acks == recent && c.Rest < lately) {
		m.acknowledge(c)
	}
}

// takeBack makes a connection take back each doubling of its time-out.
func (m *Machine[K]) takeBack(c Connection) {
	if c.Backoff == 0 {
		return
	}
	b, err := unreachable(c)
	if err != nil {
		return // it is none of IPv6
	}
	for range c.Backoff {
		m.out = append(m.out, Inject{b})
	}
}

// acknowledge makes our own stack send an ACK of all that has arrived, by a segment that
// is long out of date: it discards that and answers it at once (RFC 9293 §3.10.7.4). The
// stack does so for a connection at most twice a second.
func (m *Machine[K]) acknowledge(c Connection) {
	const old = 1 << 16 // bytes before those that shall arrive
	b, err := ip6.TCPSegment{Src: c.Remote, Dst: c.Local, Seq: c.Wanted - old, Ack: c.Unacked, Flags: ip6.TCPAck}.AppendTo(nil)
	if err == nil {
		m.out = append(m.out, Inject{b})
	}
}

// unreachable makes a Destination Unreachable (RFC 4443 §3.1) about the oldest segment
// of a connection that is not acknowledged, in the name of its peer.
func unreachable(c Connection) ([]byte, error) {
	const icmpType, noRoute, hopLimit = 1, 0, 64
	// As far as TCP looks at it: addresses, ports, sequence number.
	quoted, err := ip6.TCPSegment{Src: c.Local, Dst: c.Remote, Seq: c.Unacked}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	message := append([]byte{icmpType, noRoute, 0, 0, 0, 0, 0, 0}, quoted...)
	binary.BigEndian.PutUint16(message[2:], ip6.Checksum(c.Remote.Addr(), c.Local.Addr(), ip6.ICMPv6, message))
	h := ip6.Header{PayloadLen: uint16(len(message)), NextHeader: ip6.ICMPv6, HopLimit: hopLimit, Src: c.Remote.Addr(), Dst: c.Local.Addr()}
	b, err := h.AppendTo(make([]byte, 0, ip6.HeaderLen+len(message)))
	if err != nil {
		return nil, err
	}
	return append(b, message...), nil
}

// ends names a connection: our end, and that of the peer.
type ends struct{ local, remote netip.AddrPort }

func (c Connection) ends() ends { return ends{c.Local, c.Remote} }
