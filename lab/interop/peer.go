package interop

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"roam/lab/topo"
)

// Stack is what implementations of ILNPv6 do differently.
type Stack struct {
	NonceAlways   bool // every packet carries the nonce, and one without is taken for plain IPv6
	NonceOnce     bool // only the first packet of a session carries it, and ICMPv6
	OneNonce      bool // who answers uses the nonce of who asked
	NIDChecksums  bool // TCP and UDP checksums count locators as zero
	DraftUpdates  bool // Locator Updates have code 7 and entries of 16 octets
	KnownSource   bool // takes a Locator Update only from a locator that it knows
	OneLocator    bool // sends to one locator of a set, the first best; others take turns
	AckToNewest   bool // acknowledges to the first locator listed, not to where the update came from
	FirstPingLost bool // gives no answer to the first echo request of a session
}

// Counts are what a Peer saw, and why it dropped packets.
type Counts struct {
	Received      int // accepted, all kinds
	Nonces        int // of those, with a nonce
	Updates       int // Locator Updates accepted
	Acks          int // acknowledgements of its own
	Plain         int // without nonce, where one is wanted
	WrongNonce    int
	BadChecksum   int
	Strangers     int // without nonce, from a locator that it does not know
	StrangeUpdate int // Locator Updates from one
}

// Peer is one scripted host. Its methods may be called from any goroutine.
type Peer struct {
	stack Stack
	nid   uint64
	link  *link
	done  chan struct{}

	mu       sync.Mutex
	locators []uint64 // its own; the first one is sent from
	sessions map[uint64]*session
	conns    map[connKey]*Conn
	counts   Counts
	datagram map[uint16]int // UDP payloads received, by own port
}

// session is what the host knows of one correspondent.
type session struct {
	nid         uint64
	own, theirs string   // nonces
	locators    []uint64 // best first
	best        int      // how many of them share the best preference
	turn        int
	sent        int
	pings       int
	code        byte // of the last update received
}

// Start makes a scripted host with that identifier behind a new device of the
// router. The router must have an address of every locator's network there.
func Start(router *topo.Host, ifname string, nid uint64, locators []uint64, s Stack) (*Peer, error) {
	l, err := openLink(router, ifname)
	if err != nil {
		return nil, err
	}
	p := &Peer{
		stack: s, nid: nid, link: l, done: make(chan struct{}), locators: locators,
		sessions: map[uint64]*session{}, conns: map[connKey]*Conn{}, datagram: map[uint16]int{},
	}
	go p.receive()
	go p.repeat()
	return p, nil
}

// Close ends the host and removes its device.
func (p *Peer) Close() error {
	close(p.done)
	return p.link.file.Close()
}

// Counts returns what it has seen so far.
func (p *Peer) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Locators returns what it knows of a correspondent's, best first, and the code
// of the Locator Update that said so last.
func (p *Peer) Locators(nid uint64) ([]uint64, byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[nid]
	if s == nil {
		return nil, 0
	}
	return slices.Clone(s.locators), s.code
}

// Datagrams returns how many UDP payloads have come to a port.
func (p *Peer) Datagrams(port uint16) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.datagram[port]
}

// Open begins a session with a correspondent whose locator is known.
func (p *Peer) Open(nid, l64 uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[nid] = &session{nid: nid, own: drawNonce(), locators: []uint64{l64}, best: 1}
}

// SendUDP sends a datagram.
func (p *Peer) SendUDP(nid uint64, from, to uint16, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendUDP(p.sessions[nid], from, to, data)
}

// Move changes the host's own locators, and tells all correspondents from a
// locator that they know.
func (p *Peer) Move(locators ...uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.locators[0]
	for _, s := range p.sessions {
		u := locatorUpdate{code: codeRFC, operation: opAdvertise}
		if p.stack.DraftUpdates {
			u.code = codeReplaceSoft
		}
		for i, l := range locators {
			u.entries = append(u.entries, entry{l, uint16(10 * (i + 1)), 600})
		}
		p.sendFrom(address{before, p.nid}, s, s.target(p.stack.OneLocator), protoICMP, u.bytes())
	}
	p.locators = locators
}

func (p *Peer) receive() {
	for {
		b, err := p.link.read()
		if err != nil {
			return
		}
		if q, err := parsePacket(b); err == nil {
			p.mu.Lock()
			p.handle(q)
			p.mu.Unlock()
		}
	}
}

// repeat sends again what TCP has not had acknowledged.
func (p *Peer) repeat() {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
			p.mu.Lock()
			for _, c := range p.conns {
				c.repeat()
			}
			p.mu.Unlock()
		}
	}
}

func drawNonce() string {
	b := make([]byte, 4)
	rand.Read(b)
	return string(b)
}

// target is the locator that the next packet goes to.
func (s *session) target(one bool) uint64 {
	if one || s.best < 2 {
		return s.locators[0]
	}
	s.turn++
	return s.locators[s.turn%s.best]
}

// send sends a message of an upper layer.
func (p *Peer) send(s *session, proto byte, body []byte) {
	p.sendFrom(address{p.locators[0], p.nid}, s, s.target(p.stack.OneLocator), proto, body)
}

func (p *Peer) sendFrom(src address, s *session, l64 uint64, proto byte, body []byte) {
	q := packet{src: src, dst: address{l64, s.nid}, proto: proto, body: body}
	first := 3
	if p.stack.NonceOnce {
		first = 1
	}
	if p.stack.NonceAlways || proto == protoICMP || s.sent < first {
		q.nonce = s.own
	}
	if proto != protoICMP {
		s.sent++
	}
	p.link.write(q.bytes(p.stack.NIDChecksums, otherHops))
}

// handle takes one packet off the wire.
func (p *Peer) handle(q packet) {
	if q.proto == protoICMP && len(q.body) >= 24 && q.body[0] == icmpSolicit {
		p.answerSolicitation(q)
		return
	}
	if q.dst.nid != p.nid || q.src.l64>>48 == 0xfe80 {
		return
	}
	s := p.admit(q)
	if s == nil {
		return
	}
	if !q.sound(p.stack.NIDChecksums) {
		p.counts.BadChecksum++
		return
	}
	p.counts.Received++
	if q.nonce != "" {
		p.counts.Nonces++
	}
	switch {
	case q.proto == protoICMP:
		p.handleICMP(s, q)
	case q.proto == protoUDP && len(q.body) >= 8:
		p.handleUDP(s, q.body)
	case q.proto == protoTCP && len(q.body) >= 20:
		p.handleTCP(s, q.body)
	}
}

// admit finds the session of a packet, and makes one if it is the first (RFC
// 6744 §6). nil: the packet is dropped.
func (p *Peer) admit(q packet) *session {
	s := p.sessions[q.src.nid]
	switch {
	case q.nonce == "" && (s == nil || p.stack.NonceAlways):
		p.counts.Plain++
		return nil
	case s == nil:
		s = &session{nid: q.src.nid, own: drawNonce(), theirs: q.nonce, locators: []uint64{q.src.l64}, best: 1}
		if p.stack.OneNonce {
			s.own = q.nonce
		}
		p.sessions[s.nid] = s
	case q.nonce == "":
		if !slices.Contains(s.locators, q.src.l64) {
			p.counts.Strangers++
			return nil
		}
	case s.theirs == "":
		s.theirs = q.nonce
	case s.theirs != q.nonce:
		p.counts.WrongNonce++
		return nil
	}
	return s
}

func (p *Peer) handleICMP(s *session, q packet) {
	switch q.body[0] {
	case icmpEchoRequest:
		s.pings++
		if p.stack.FirstPingLost && s.pings == 1 {
			return
		}
		reply := slices.Clone(q.body)
		reply[0] = icmpEchoReply
		p.sendFrom(q.dst, s, q.src.l64, protoICMP, reply)
	case icmpUpdate:
		if q.nonce == "" {
			p.counts.WrongNonce++
			return
		}
		p.handleUpdate(s, q)
	}
}

// handleUpdate replaces the set of a correspondent's locators and answers with
// the same body (RFC 6743 §2).
func (p *Peer) handleUpdate(s *session, q packet) {
	u, err := parseUpdate(q.body)
	if err != nil {
		return
	}
	if u.operation == opAcknowledgement {
		p.counts.Acks++
		return
	}
	if p.stack.KnownSource && !slices.Contains(s.locators, q.src.l64) {
		p.counts.StrangeUpdate++
		return
	}
	p.counts.Updates++
	s.code = u.code
	sorted := slices.Clone(u.entries)
	slices.SortStableFunc(sorted, func(a, b entry) int { return int(a.preference) - int(b.preference) })
	s.locators, s.best = nil, 0
	for _, e := range sorted {
		s.locators = append(s.locators, e.l64)
		if e.preference == sorted[0].preference {
			s.best++
		}
	}
	to := q.src.l64
	if p.stack.AckToNewest || !slices.Contains(s.locators, to) {
		to = u.entries[0].l64
	}
	u.operation = opAcknowledgement
	p.sendFrom(address{p.locators[0], p.nid}, s, to, protoICMP, u.bytes())
}

// handleUDP echoes, but for answers to what the host itself sent.
func (p *Peer) handleUDP(s *session, b []byte) {
	from, to := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	p.datagram[to]++
	if to == EchoPort {
		p.sendUDP(s, to, from, b[8:])
	}
}

func (p *Peer) sendUDP(s *session, from, to uint16, data []byte) {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	p.send(s, protoUDP, append(append(b, 0, 0), data...))
}

// answerSolicitation tells the router where the host's addresses are (RFC 4861
// §7.2.4).
func (p *Peer) answerSolicitation(q packet) {
	target := readAddress(q.body[8:])
	if target.nid != p.nid || q.src == (address{}) {
		return
	}
	const solicitedOverride = 0x60
	body := target.append([]byte{icmpAdvert, 0, 0, 0, solicitedOverride, 0, 0, 0})
	body = append(append(body, 2, 1), p.link.mac...)
	a := packet{src: target, dst: q.src, proto: protoICMP, body: body}
	p.link.write(a.bytes(false, fullHops))
}
