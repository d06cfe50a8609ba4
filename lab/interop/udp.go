package interop

import "encoding/binary"

// handleUDP echoes datagrams, except answers to the host's own.
func (p *Peer) handleUDP(s *session, q packet) {
	from, to := binary.BigEndian.Uint16(q.body), binary.BigEndian.Uint16(q.body[2:])
	switch {
	case to == EchoPort && p.stack.PlainUDPReplies:
		p.sendUDP(&session{nid: s.nid, plain: true, local: q.dst.l64, locators: []uint64{q.src.l64}, best: 1}, to, from,
			q.body[8:])
	case to == EchoPort:
		p.sendUDP(s, to, from, q.body[8:])
	case p.stack.PortUnreachable && !p.serves(q.body):
		p.answerClosedPort(s, q)
		return
	}
	p.datagram[to]++
	if f := p.heard[to]; f != nil {
		f(q.body[8:])
	}
}

// serves reports whether a datagram is for a port with a service.
func (p *Peer) serves(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	to := binary.BigEndian.Uint16(b[2:])
	return to == EchoPort || p.used[to]
}

// OnDatagram makes the peer call f with each UDP payload on a port. f must not call the
// peer.
func (p *Peer) OnDatagram(port uint16, f func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard[port] = f
}

// SendUDP sends a datagram.
func (p *Peer) SendUDP(nid uint64, from, to uint16, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[from] = true
	if s := p.begin(nid); s != nil {
		p.sendUDP(s, from, to, data)
	}
}

// SendUDPFrom sends a datagram from any locator, with the nonce or without.
func (p *Peer) SendUDPFrom(nid, l64 uint64, nonce bool, from, to uint16, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[from] = true
	s := p.sessions[nid]
	p.renew(s)
	p.put(address{l64, p.nid}, s, s.target(p.stack.OneLocator), protoUDP, datagram(from, to, data), nonce)
}

func (p *Peer) sendUDP(s *session, from, to uint16, data []byte) {
	p.send(s, protoUDP, datagram(from, to, data))
}

func datagram(from, to uint16, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	return append(append(b, 0, 0), data...)
}
