package interop

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"roam/lab/topo"
)

// Peer is one scripted host. Its methods may be called from any goroutine.
type Peer struct {
	stack Stack
	nid   uint64
	link  *link
	done  chan struct{}

	mu       sync.Mutex
	locators []uint64 // its own; the first one is the source
	sessions map[uint64]*session
	plain    map[plainKey]*session // conversations by plain IPv6
	conns    map[connKey]*Conn
	counts   Counts
	datagram map[uint16]int  // UDP payloads received, by own port
	used     map[uint16]bool // own UDP ports with sent datagrams
	heard    map[uint16]func([]byte)
	hard     bool // it uses its own locators only, not those that it left
	pongs    int
	dialled  uint16 // connections opened, including those before a reboot
}

// plainKey is the addresses of a conversation by plain IPv6.
type plainKey struct{ own, their address }

// session is the host's state of one correspondent.
type session struct {
	nid         uint64
	plain       bool     // it is one by plain IPv6
	own, theirs string   // nonces
	local       uint64   // own locator to send from; 0: the first one
	locators    []uint64 // best first
	best        int      // how many of them share the best preference
	turn        int
	sent        int
	pings       int
	last        time.Time // of the last packet either way
	code        byte      // of the last update received
	update      *sentUpdate
}

// Start makes a scripted host with that identifier behind a new device of the router. The
// router must have an address in every locator's network there.
func Start(router *topo.Host, ifname string, nid uint64, locators []uint64, s Stack) (*Peer, error) {
	l, err := openLink(router, ifname)
	if err != nil {
		return nil, err
	}
	p := &Peer{
		stack:    s,
		nid:      nid,
		link:     l,
		done:     make(chan struct{}),
		locators: locators,
		datagram: map[uint16]int{},
		heard:    map[uint16]func([]byte){},
	}
	p.forget()
	go p.receive()
	go p.repeat()
	return p, nil
}

// Reboot makes the host forget its sessions and connections. Its services, its
// locators and its counts stay.
func (p *Peer) Reboot() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
}

func (p *Peer) forget() {
	p.sessions, p.plain = map[uint64]*session{}, map[plainKey]*session{}
	p.conns, p.used = map[connKey]*Conn{}, map[uint16]bool{}
}

// Close stops the host and removes its device.
func (p *Peer) Close() error {
	close(p.done)
	return p.link.file.Close()
}

// Counts returns the counts so far.
func (p *Peer) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Locators returns the locators of a correspondent that the host knows, best first, and the
// code of the last Locator Update.
func (p *Peer) Locators(nid uint64) ([]uint64, byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[nid]
	if s == nil {
		return nil, 0
	}
	return slices.Clone(s.locators), s.code
}

// Boot makes the host forget its sessions, as Reboot does, and go on with another
// stack.
func (p *Peer) Boot(s Stack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	p.stack = s
}

// Enable makes the host continue as another stack with its open connections. A segment of a
// connection that started as plain IPv6 belongs to none if it arrives in a session.
func (p *Peer) Enable(s Stack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stack = s
}

// Datagrams returns the number of UDP payloads received on a port.
func (p *Peer) Datagrams(port uint16) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.datagram[port]
}

// Open opens a session with a correspondent whose locator is known.
func (p *Peer) Open(nid, l64 uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[nid] = &session{nid: nid, own: p.drawNonce(), locators: []uint64{l64}, best: 1, last: time.Now()}
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

// repeat retransmits unacknowledged TCP segments and Locator Updates.
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
			for _, s := range p.sessions {
				p.repeatUpdate(s)
			}
			p.mu.Unlock()
		}
	}
}

func (p *Peer) drawNonce() string {
	b := make([]byte, 4)
	if p.stack.Options.LongNonce {
		b = make([]byte, 12)
	}
	rand.Read(b)
	return string(b)
}

// target is the destination locator of the next packet.
func (s *session) target(one bool) uint64 {
	if one || s.best < 2 {
		return s.locators[0]
	}
	s.turn++
	return s.locators[s.turn%s.best]
}

// source is the address that packets of a session leave from.
func (p *Peer) source(s *session) address {
	if s.local != 0 {
		return address{s.local, p.nid}
	}
	return address{p.locators[0], p.nid}
}

// send sends a message of an upper layer.
func (p *Peer) send(s *session, proto byte, body []byte) {
	p.sendFrom(p.source(s), s, s.target(p.stack.OneLocator), proto, body)
}

func (p *Peer) sendFrom(src address, s *session, l64 uint64, proto byte, body []byte) {
	first := 3
	if p.stack.NonceOnce {
		first = 1
	}
	p.renew(s)
	nonce := p.stack.NonceAlways || p.stack.NonceSent || proto == protoICMP || s.sent < first
	if proto != protoICMP {
		s.sent++
	}
	p.put(src, s, l64, proto, body, nonce)
}

// put sends a packet with the nonce of a session or without one.
func (p *Peer) put(src address, s *session, l64 uint64, proto byte, body []byte, nonce bool) {
	q := packet{src: src, dst: address{l64, s.nid}, proto: proto, body: body, beside: p.stack.Options}
	if nonce && !s.plain {
		q.nonce = s.own
	}
	nidsOnly := p.stack.nidsOnly(proto)
	if s.plain {
		nidsOnly = proto == protoTCP && body[13] == flagSYN|flagACK && p.stack.PlainSYNACKOverNIDs
	}
	p.link.write(q.bytes(nidsOnly, otherHops))
}

// renew draws a new nonce, and is ready for one, when a session was silent for
// long.
func (p *Peer) renew(s *session) {
	now := time.Now()
	if d := p.stack.RenewAfter; d > 0 && !s.plain && now.Sub(s.last) > d {
		s.own, s.theirs, s.sent = p.drawNonce(), "", 0
	}
	s.last = now
}

// handle takes one packet off the wire.
func (p *Peer) handle(q packet) {
	if q.proto == protoICMP && len(q.body) >= 24 && q.body[0] == icmpSolicit {
		p.answerSolicitation(q)
		return
	}
	if q.dst.nid != p.nid || q.src.l64>>48 == 0xfe80 || p.hard && !slices.Contains(p.locators, q.dst.l64) {
		return
	}
	if p.stack.Disabled && q.nonce != "" {
		p.refuseOption(q)
		return
	}
	s := p.admit(q)
	if s == nil {
		return
	}
	ok, nidsOnly := p.stack.sound(q)
	if s.plain {
		ok, nidsOnly = q.sound(false), false
	}
	if !ok {
		p.counts.BadChecksum++
		if q.proto == protoICMP {
			p.counts.BadICMP++
		}
		return
	}
	p.count(s, q)
	if q.nonce != "" {
		p.counts.Nonces++
	}
	switch {
	case q.proto == protoICMP && len(q.body) >= 8:
		p.handleICMP(s, q, nidsOnly)
	case q.proto == protoUDP && len(q.body) >= 8:
		p.handleUDP(s, q)
	case q.proto == protoTCP && len(q.body) >= 20:
		p.handleTCP(s, q.body)
	}
}

// count counts a packet that was accepted.
func (p *Peer) count(s *session, q packet) {
	if !s.plain {
		p.counts.Received++
		return
	}
	const firstInformational = 128 // of ICMPv6 types (RFC 4443 §2.1)
	switch {
	case q.proto == protoTCP:
		p.counts.PlainTCP++
	case q.proto == protoUDP && p.serves(q.body):
		p.counts.PlainUDP++
	case q.proto == protoUDP || q.body[0] < firstInformational:
		return // an error, as of a host on which Roam is about to start
	}
	p.counts.PlainServed++
}

// admit finds or creates the session of a packet (RFC 6744 §6). nil: the packet is dropped.
func (p *Peer) admit(q packet) *session {
	s := p.sessions[q.src.nid]
	begun := p.plain[plainKey{q.dst, q.src}] != nil && p.stack.BeginsPlain
	if q.nonce == "" && (s == nil || begun || p.stack.NonceAlways || p.stack.Disabled) {
		return p.admitPlain(q)
	}
	if s == nil {
		s = &session{nid: q.src.nid, own: p.drawNonce(), locators: []uint64{q.src.l64}, best: 1, last: time.Now()}
		if p.stack.OneNonce {
			s.own = q.nonce
		}
		p.sessions[s.nid] = s
	}
	p.renew(s)
	known := slices.Contains(s.locators, q.src.l64)
	update := q.proto == protoICMP && len(q.body) > 0 && q.body[0] == icmpUpdate
	switch {
	case q.nonce != "" && s.theirs == "":
		s.theirs = q.nonce
	case q.nonce != "" && s.theirs != q.nonce:
		p.counts.WrongNonce++
		return nil
	}
	if !known && (q.nonce == "" || p.stack.UnknownSourceDropped && !update) {
		p.counts.Unvalidated++
		return nil
	}
	return s
}

// admitPlain finds the conversation of a packet by plain IPv6.
func (p *Peer) admitPlain(q packet) *session {
	if !p.stack.ServesPlain && !(p.stack.PlainSYNACKOverNIDs && q.proto == protoTCP) {
		if q.isUDPForm() {
			p.counts.UDPForms++
		} else {
			p.counts.Plain++
		}
		return nil
	}
	return p.plainWith(plainKey{q.dst, q.src})
}

// plainWith returns the conversation between two addresses by plain IPv6.
func (p *Peer) plainWith(k plainKey) *session {
	if p.plain[k] == nil {
		p.plain[k] = &session{nid: k.their.nid, plain: true, local: k.own.l64, locators: []uint64{k.their.l64}, best: 1}
	}
	return p.plain[k]
}

// begin returns the session to use for an own connection; nil if none is open.
func (p *Peer) begin(nid uint64) *session {
	s := p.sessions[nid]
	if s != nil && p.stack.BeginsPlain {
		return p.plainWith(plainKey{address{p.locators[0], p.nid}, address{s.locators[0], nid}})
	}
	return s
}

// answerSolicitation answers the router's Neighbor Solicitation (RFC 4861 §7.2.4).
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
