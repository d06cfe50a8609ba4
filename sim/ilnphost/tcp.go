package ilnphost

import (
	"net/netip"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/xlate/decide"
)

// Parameters of the simulated TCP, as far as a change of paths matters to it.
const (
	tcpSegmentSize = 1000 // bytes of data
	tcpWindow      = 16   // segments in flight
	tcpTimeout     = 200 * time.Millisecond
	tcpMaxBackoff  = 8 // how often the RTO doubles at most
)

// TCP is a connection between two nodes with Roam. It stores segments out of order. At each
// RTO, which doubles, it retransmits the oldest segment, and the others as soon as that one is
// acknowledged. It has neither congestion control nor SACK.
type TCP struct{ ends [2]*tcpEnd }

// tcpEnd is one end of a connection.
type tcpEnd struct {
	conn          *TCP
	host          *Node
	peer          *tcpEnd
	key           ilnp.SessionKey // the alias that it is bound to
	local, remote netip.AddrPort
	open          bool
	written       uint32 // sequence number behind the bytes that the application has written
	next, unacked uint32
	wanted        uint32 // sequence number of the next byte expected
	arrived       uint32 // segments received
	backoff       int
	recover       uint32 // bytes before it may be lost
	sent          time.Time
	stirred       time.Time         // when a segment was last sent or received
	timer         uint64            // the last RTO timer that was set; older ones are void
	ahead         map[uint32]uint32 // sizes of segments received out of order
	timed         uint32            // the byte whose acknowledgement is timed; 0: none
	timedAt       time.Time
	srtt, least   time.Duration // smoothed and minimal RTT
	bulk          *Bulk         // the transfer of this end; nil: there is none
}

// segment is a TCP segment in flight, or a conntrack resync.
type segment struct {
	from     *tcpEnd
	seq, ack uint32
	size     uint32
	syn      bool
	again    bool // retransmitted after an RTO
	resync   *ilnpwire.Resync
	arrives  func()          // a segment of a bulk transfer; its other fields say nothing, but for
	block    bool            // it has a block of SACK
	withheld decide.Withheld // what has been taken out of it
}

// withhold has a segment leave without what is withheld of its blocks, if it is one.
func (s *segment) withhold(what decide.Withheld) {
	if s != nil {
		s.withheld = what
	}
}

// opens reports whether this segment makes a firewall track the connection.
func (s *segment) opens() bool { return s.syn || s.resync != nil }

// Dial connects to another node and writes a number of bytes.
func (h *Node) Dial(to *Node, bytes int) *TCP {
	c := &TCP{}
	end := func(at, with *Node, port, peerPort uint16) *tcpEnd {
		address := func(n *Node, port uint16) netip.AddrPort {
			return netip.AddrPortFrom(roam.ILV{L64: roam.DefaultSessionPrefix, NID: n.nid}.Addr(), port)
		}
		const first = 1 << 20
		return &tcpEnd{conn: c, host: at, key: ilnp.SessionKey{Local: at.nid, Remote: with.nid},
			local: address(at, port), remote: address(with, peerPort), written: first, next: first, unacked: first, wanted: first}
	}
	port := uint16(40000 + len(h.connections))
	c.ends = [2]*tcpEnd{end(h, to, port, 80), end(to, h, 80, port)}
	for i, e := range c.ends {
		e.peer = c.ends[1-i]
		e.host.connections = append(e.host.connections, e)
	}
	c.Write(h, bytes)
	c.ends[0].transmit(segment{syn: true})
	c.ends[0].arm()
	return c
}

// at returns the end at a node.
func (c *TCP) at(h *Node) *tcpEnd {
	if c.ends[0].host == h {
		return c.ends[0]
	}
	return c.ends[1]
}

// Write writes a number of bytes at a node.
func (c *TCP) Write(h *Node, bytes int) {
	e := c.at(h)
	e.written += uint32(bytes)
	e.push()
}

// Delivered returns how many bytes of the other end the application at a node has received.
func (c *TCP) Delivered(h *Node) int { return int(c.at(h).wanted - c.at(h).peer.first()) }

// Acked reports whether all bytes that were written at a node are acknowledged.
func (c *TCP) Acked(h *Node) bool { return c.at(h).unacked == c.at(h).written }

// Backoff returns how often the RTO at a node is doubled at present.
func (c *TCP) Backoff(h *Node) int { return c.at(h).backoff }

// first is the sequence number of an end's first byte.
func (e *tcpEnd) first() uint32 { return 1 << 20 }

// push sends what the window permits.
func (e *tcpEnd) push() {
	for e.open && e.next < e.written && e.next-e.unacked < tcpWindow*tcpSegmentSize {
		size := min(e.written-e.next, tcpSegmentSize)
		e.transmit(segment{seq: e.next, size: size})
		if e.next == e.unacked {
			e.arm()
		}
		e.next += size
		if e.timed == 0 {
			e.timed, e.timedAt = e.next, e.host.net.Now()
		}
	}
}

// transmit passes a segment to the data plane of its node.
func (e *tcpEnd) transmit(s segment) {
	s.from, s.ack, e.stirred = e, e.wanted, e.host.net.Now()
	if s.seq == 0 {
		s.seq = e.next
	}
	e.host.plane.send(e.key, Datagram{Size: 20 + int(s.size), opening: s.syn, segment: &s})
}

// arm restarts the RTO timer.
func (e *tcpEnd) arm() {
	e.sent = e.host.net.Now()
	e.armFor(tcpTimeout << e.backoff)
}

func (e *tcpEnd) armFor(d time.Duration) {
	e.timer++
	set := e.timer
	e.host.net.After(d, func() {
		if set == e.timer {
			e.timeout()
		}
	})
}

// timeout retransmits the oldest segment.
func (e *tcpEnd) timeout() {
	e.backoff = min(e.backoff+1, tcpMaxBackoff)
	e.arm()
	if !e.open {
		e.transmit(segment{syn: true})
		return
	}
	e.recover, e.timed = e.next, 0
	e.transmit(segment{seq: e.unacked, size: min(e.next-e.unacked, tcpSegmentSize), again: true})
}

// sample updates the RTT by a sample of a segment that was not retransmitted (RFC 6298 §3).
func (e *tcpEnd) sample(rtt time.Duration) {
	if e.srtt == 0 {
		e.srtt, e.least = rtt, rtt
	}
	e.srtt, e.least, e.timed = e.srtt+(rtt-e.srtt)/8, min(e.least, rtt), 0
}

// isQueued reports whether segments are queued on their path, by the same judgement as the
// programs, which read the kernel's state of a connection.
func (e *tcpEnd) isQueued() bool {
	return e.next-e.unacked > 8*tcpSegmentSize && e.srtt > e.least+e.least/2+5*time.Millisecond
}

// takeData accepts data, and the segments out of order that follow them.
func (e *tcpEnd) takeData(s *segment) {
	if s.size > 0 && s.seq > e.wanted {
		if e.ahead == nil {
			e.ahead = make(map[uint32]uint32)
		}
		e.ahead[s.seq] = s.size
	}
	if s.size > 0 && s.seq == e.wanted {
		e.wanted += s.size
	}
	for size, is := e.ahead[e.wanted]; is; size, is = e.ahead[e.wanted] {
		delete(e.ahead, e.wanted)
		e.wanted += size
	}
}

// unreachable handles an ICMPv6 error about the oldest segment: it reverts one doubling of the
// RTO, and retransmits if the RTO has expired (RFC 6069).
func (e *tcpEnd) unreachable(seq uint32) {
	if e.backoff == 0 || seq != e.unacked {
		return
	}
	e.backoff--
	if left := e.sent.Add(tcpTimeout << e.backoff).Sub(e.host.net.Now()); left > 0 {
		e.armFor(left)
	} else {
		e.timeout()
	}
}

// receive handles a segment of the other end.
func (e *tcpEnd) receive(s *segment) {
	e.arrived++
	e.stirred = e.host.net.Now()
	switch {
	case s.syn && e == e.conn.ends[1]:
		e.open = true
		e.transmit(segment{syn: true})
		return
	case s.syn && !e.open: // the answer to ours
		e.open = true
		e.backoff, e.timer = 0, e.timer+1
		e.push()
		return
	case s.syn:
		e.transmit(segment{})
		return
	}
	e.takeData(s)
	if s.ack > e.unacked && s.ack <= e.next {
		e.unacked, e.backoff = s.ack, 0
		e.timer++
		if e.timed != 0 && s.ack >= e.timed {
			e.sample(e.host.net.Now().Sub(e.timedAt))
		}
		if e.unacked < e.recover {
			e.next, e.recover = e.unacked, 0
		}
		if e.next > e.unacked {
			e.arm()
		}
		e.push()
	}
	if s.size > 0 {
		e.transmit(segment{})
	}
}

// Unsent returns how many bytes that were written at a node have not been sent.
func (c *TCP) Unsent(h *Node) int { return int(c.at(h).written - c.at(h).next) }
