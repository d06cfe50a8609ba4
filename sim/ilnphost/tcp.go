package ilnphost

import (
	"net/netip"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// What a TCP stack of the simulation does, as far as a change of paths matters to it.
const (
	tcpSegmentSize = 1000 // bytes of data
	tcpWindow      = 16   // segments under way
	tcpTimeout     = 200 * time.Millisecond
	tcpMaxBackoff  = 8 // the time-out doubles so often
)

// TCP is a connection between two nodes with Roam. It keeps what comes before its turn,
// and retransmits the oldest segment at each time-out, which doubles, and the rest as soon
// as that is acknowledged; there is neither congestion control nor selective
// acknowledgement.
type TCP struct{ ends [2]*tcpEnd }

// tcpEnd is one end of a connection.
type tcpEnd struct {
	conn          *TCP
	host          *Node
	peer          *tcpEnd
	key           ilnp.SessionKey // the alias that it is bound to
	local, remote netip.AddrPort
	open          bool
	written       uint32 // sequence number behind what the application has written
	next, unacked uint32
	wanted        uint32 // the first byte that has not arrived
	arrived       uint32 // segments
	backoff       int
	recover       uint32 // all before that was lost, perhaps
	sent          time.Time
	timer         uint64            // the last time-out that was set; older ones are void
	ahead         map[uint32]uint32 // sizes of segments that came before their turn
	timed         uint32            // the byte whose acknowledgement is timed; 0: none
	timedAt       time.Time
	srtt, least   time.Duration // round-trip time, smoothed, and its least
}

// segment is a TCP segment on its way, or a conntrack resync in its place.
type segment struct {
	from     *tcpEnd
	seq, ack uint32
	size     uint32
	syn      bool
	again    bool // retransmitted after a time-out
	resync   *ilnpwire.Resync
}

// opens reports whether a firewall tracks the connection from this segment on.
func (s *segment) opens() bool { return s.syn || s.resync != nil }

// Dial connects to another node and writes so many bytes there.
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

// Write has the application at a node write so many bytes.
func (c *TCP) Write(h *Node, bytes int) {
	e := c.at(h)
	e.written += uint32(bytes)
	e.push()
}

// Delivered returns how many bytes of the other end the application at a node has got.
func (c *TCP) Delivered(h *Node) int { return int(c.at(h).wanted - c.at(h).peer.first()) }

// Acked returns whether all that the application at a node has written is there.
func (c *TCP) Acked(h *Node) bool { return c.at(h).unacked == c.at(h).written }

// Backoff returns how often the time-out at a node is doubled at present.
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

// transmit hands a segment to the data plane of its node.
func (e *tcpEnd) transmit(s segment) {
	s.from, s.ack = e, e.wanted
	if s.seq == 0 {
		s.seq = e.next
	}
	e.host.plane.send(e.key, Datagram{Size: 20 + int(s.size), opening: s.syn, segment: &s})
}

// arm sets the retransmission time-out anew, as of now.
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

// sample takes a round-trip time, of a segment that was not retransmitted (RFC 6298 §3).
func (e *tcpEnd) sample(rtt time.Duration) {
	if e.srtt == 0 {
		e.srtt, e.least = rtt, rtt
	}
	e.srtt, e.least, e.timed = e.srtt+(rtt-e.srtt)/8, min(e.least, rtt), 0
}

// isQueued reports whether segments wait on their way, as the programs judge that by what
// the kernel knows of a connection.
func (e *tcpEnd) isQueued() bool {
	return e.next-e.unacked > 8*tcpSegmentSize && e.srtt > e.least+e.least/2+5*time.Millisecond
}

// takeData takes data, and what has waited for it.
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

// unreachable takes a doubling of the time-out back, and retransmits if that is due by
// then (RFC 6069), as the network says so of the oldest segment.
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

// receive takes a segment of the other end.
func (e *tcpEnd) receive(s *segment) {
	e.arrived++
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

// Unsent returns how many bytes the application at a node has written that were not sent.
func (c *TCP) Unsent(h *Node) int { return int(c.at(h).written - c.at(h).next) }
