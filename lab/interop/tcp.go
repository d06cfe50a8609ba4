package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Ports of the services that a Peer has, for TCP and UDP, and of its own
// connections.
const (
	EchoPort    = 7
	DiscardPort = 9 // TCP only
	ClientPort  = 20000
)

// Flags of a segment.
const (
	flagFIN, flagSYN, flagRST, flagPSH, flagACK = 1, 2, 4, 8, 16
)

// window is what a peer's TCP offers; it reads at once.
const window = 0xffff

// largest is the largest segment that it sends and asks for, in bytes of
// data.
const largest = 1200

type connKey struct {
	nid        uint64
	plain      bool   // by plain IPv6
	own, their uint16 // ports
}

// segment is one that waits for its acknowledgement.
type segment struct {
	seq   uint32
	flags byte
	data  []byte
}

func (s segment) length() uint32 {
	n := uint32(len(s.data))
	if s.flags&(flagSYN|flagFIN) != 0 {
		n++
	}
	return n
}

// Conn is one TCP connection of a Peer. It has no congestion control and a fixed
// time-out: enough for a path that loses little. Segments that come out of order wait, as
// RFC 9293 §3.10.7.4 wants it: two processors of one path suffice for that.
type Conn struct {
	peer      *Peer
	session   *session
	key       connKey
	next      uint32            // of ours
	wanted    uint32            // of theirs
	synced    bool              // wanted is known
	open      bool              // our SYN was acknowledged
	received  int               // bytes of data
	ahead     map[uint32][]byte // data that came before what is wanted, by sequence number
	unacked   []segment
	finished  bool // their FIN came
	untouched bool // nothing was acknowledged since the last repeat
}

// Dial begins a connection; Opened tells when it stands.
func (p *Peer) Dial(nid uint64, port uint16) (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.begin(nid)
	if s == nil {
		return nil, fmt.Errorf("dial %016x: no session", nid)
	}
	c := &Conn{peer: p, session: s, key: connKey{nid, s.plain, ClientPort + p.dialled, port}, next: 1000}
	p.dialled++
	p.conns[c.key] = c
	c.transmit(flagSYN, nil)
	return c, nil
}

// Opened reports whether the handshake is over.
func (c *Conn) Opened() bool {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	return c.open && c.synced
}

// Received returns how many bytes have come in order.
func (c *Conn) Received() int {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	return c.received
}

// Write sends data of at most one segment.
func (c *Conn) Write(data []byte) {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	c.transmit(flagACK|flagPSH, data)
}

// ReceivedTCP returns the bytes that have come to a service of the host.
func (p *Peer) ReceivedTCP(port uint16) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, c := range p.conns {
		if k.own == port {
			n += c.received
		}
	}
	return n
}

// transmit sends what has to be acknowledged.
func (c *Conn) transmit(flags byte, data []byte) {
	s := segment{c.next, flags, data}
	c.next += s.length()
	c.unacked = append(c.unacked, s)
	c.put(s)
}

func (c *Conn) put(s segment) {
	flags := s.flags
	if c.synced {
		flags |= flagACK
	}
	b := binary.BigEndian.AppendUint16(nil, c.key.own)
	b = binary.BigEndian.AppendUint16(b, c.key.their)
	b = binary.BigEndian.AppendUint32(b, s.seq)
	b = binary.BigEndian.AppendUint32(b, c.wanted)
	b = append(b, 5<<4, flags, window>>8, window&0xff, 0, 0, 0, 0)
	if flags&flagSYN != 0 {
		b[12] = 6 << 4
		b = append(b, 2, 4, largest>>8, largest&0xff) // maximum segment size
	}
	c.peer.send(c.session, protoTCP, append(b, s.data...))
}

// repeat sends the oldest segment again if nothing has moved since last time.
func (c *Conn) repeat() {
	if len(c.unacked) > 0 && c.untouched {
		c.put(c.unacked[0])
	}
	c.untouched = true
}

// handleTCP takes a segment: of a connection, or one that opens one to a
// service.
func (p *Peer) handleTCP(s *session, b []byte) {
	key := connKey{s.nid, s.plain, binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b)}
	head, flags := int(b[12]>>4)*4, b[13]
	if head < 20 || head > len(b) {
		return
	}
	c := p.conns[key]
	if c == nil {
		if flags&(flagSYN|flagACK) != flagSYN || key.own != EchoPort && key.own != DiscardPort {
			p.reset(s, key, flags, b)
			return
		}
		c = &Conn{peer: p, session: s, key: key, next: 5000}
		p.conns[key] = c
	}
	c.session = s
	c.take(binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), flags, b[head:])
}

// reset answers a segment of no connection (RFC 9293 §3.10.7.1).
func (p *Peer) reset(s *session, key connKey, flags byte, b []byte) {
	if flags&flagRST != 0 || flags&flagACK == 0 {
		return
	}
	c := &Conn{peer: p, session: s, key: key}
	c.put(segment{seq: binary.BigEndian.Uint32(b[8:]), flags: flagRST})
}

func (c *Conn) take(seq, ack uint32, flags byte, data []byte) {
	switch {
	case flags&flagRST != 0:
		delete(c.peer.conns, c.key)
		return
	case flags&flagSYN != 0 && !c.synced:
		c.wanted, c.synced = seq+1, true
		if flags&flagACK == 0 {
			c.transmit(flagSYN, nil)
			return
		}
	case flags&flagSYN != 0:
		c.repeat()
	}
	if flags&flagACK != 0 {
		for len(c.unacked) > 0 && int32(ack-c.unacked[0].seq-c.unacked[0].length()) >= 0 {
			c.unacked, c.untouched, c.open = c.unacked[1:], false, true
		}
	}
	c.takeData(seq, flags, data)
}

// takeOrdered takes what is next in order.
func (c *Conn) takeOrdered(data []byte) {
	c.wanted += uint32(len(data))
	c.received += len(data)
	if c.key.own == EchoPort {
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), largest):] {
			c.transmit(flagACK|flagPSH, bytes.Clone(rest[:min(len(rest), largest)]))
		}
	}
}

// takeData takes data, and acknowledges what has come in order.
func (c *Conn) takeData(seq uint32, flags byte, data []byte) {
	if len(data) == 0 && flags&(flagFIN|flagSYN) == 0 {
		return
	}
	switch off := int32(c.wanted - seq); {
	case off >= 0 && int(off) < len(data):
		c.takeOrdered(data[off:])
		for next, held := c.ahead[c.wanted]; held; next, held = c.ahead[c.wanted] {
			delete(c.ahead, c.wanted)
			c.takeOrdered(next)
		}
	case off < 0 && off > -window && len(data) > 0:
		if c.ahead == nil {
			c.ahead = make(map[uint32][]byte)
		}
		c.ahead[seq] = bytes.Clone(data)
	}
	if flags&flagFIN != 0 && seq+uint32(len(data)) == c.wanted && !c.finished {
		c.wanted++
		c.finished = true
		c.transmit(flagFIN|flagACK, nil)
		return
	}
	c.put(segment{seq: c.next, flags: flagACK})
}
