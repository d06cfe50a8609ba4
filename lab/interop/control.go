package interop

import (
	"bytes"
	"slices"
)

// sentUpdate is a Locator Update that waits for its acknowledgement.
type sentUpdate struct {
	locatorUpdate
	from  address
	tries int
}

// maxTries is how often a Locator Update is sent in all.
const maxTries = 6

// Move changes the host's own locators, and announces them to all correspondents from a
// locator that they know. The first one is preferred.
func (p *Peer) Move(locators ...uint64) {
	var entries []entry
	for i, l := range locators {
		entries = append(entries, entry{l, uint16(10 * (i + 1)), 600})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.announce(address{p.locators[0], p.nid}, entries)
	p.locators = locators
}

// MoveHard replaces the host's locators by another one, from which it announces the change.
func (p *Peer) MoveHard(locator uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locators, p.hard = []uint64{locator}, true
	p.announce(address{locator, p.nid}, []entry{{locator, 10, 600}})
}

// Advertise announces preferences of the locators to all correspondents. The host's source
// locator stays the same.
func (p *Peer) Advertise(locators []uint64, preferences []uint16) {
	var entries []entry
	for i, l := range locators {
		entries = append(entries, entry{l, preferences[i], 600})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.announce(address{p.locators[0], p.nid}, entries)
}

func (p *Peer) announce(from address, entries []entry) {
	for _, s := range p.sessions {
		s.update = &sentUpdate{newUpdate(p.stack.form(), entries), from, 0}
		if !p.stack.NonceOnce {
			s.sent = 0 // a new locator's first packets have the nonce (RFC 6744 §6)
		}
		p.repeatUpdate(s)
	}
}

func (p *Peer) repeatUpdate(s *session) {
	if s.update == nil || s.update.tries == maxTries {
		return
	}
	s.update.tries++
	p.sendFrom(s.update.from, s, s.target(p.stack.OneLocator), protoICMP, s.update.bytes())
}

func (p *Peer) handleICMP(s *session, q packet, nidsOnly bool) {
	switch q.body[0] {
	case icmpEchoRequest:
		p.counts.Echoes++
		s.pings++
		if p.stack.NoEchoAnswer || p.stack.FirstPingLost && s.pings == 1 {
			return
		}
		p.answerEcho(s, q, nidsOnly)
	case icmpEchoReply:
		p.pongs++
	case icmpUpdate:
		switch {
		case q.nonce == "":
			p.counts.WrongNonce++
		case p.stack.NeverAcks:
			p.counts.Unacked++
		default:
			p.handleUpdate(s, q)
		}
	}
}

// Ping sends an echo request to a correspondent.
func (p *Peer) Ping(nid uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.begin(nid); s != nil {
		p.send(s, protoICMP, []byte{icmpEchoRequest, 0, 0, 0, 0x70, 0, 0, byte(p.pongs)})
	}
}

// Pongs returns the number of echo replies received.
func (p *Peer) Pongs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pongs
}

// answerEcho answers under the checksum rule of the request.
func (p *Peer) answerEcho(s *session, q packet, nidsOnly bool) {
	p.renew(s)
	a := packet{
		src:    q.dst,
		dst:    q.src,
		proto:  protoICMP,
		body:   slices.Clone(q.body),
		nonce:  s.own,
		beside: p.stack.Options,
	}
	a.body[0] = icmpEchoReply
	p.link.write(a.bytes(nidsOnly, otherHops))
}

// handleUpdate replaces the set of a correspondent's locators and answers with
// the same body (RFC 6743 §2).
func (p *Peer) handleUpdate(s *session, q packet) {
	u, err := parseUpdate(q.body, p.stack.Code0Entries16LE)
	if err != nil {
		return
	}
	if u.operation == opAcknowledgement {
		p.handleAck(s, u)
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
	p.sendFrom(p.source(s), s, to, protoICMP, u.bytes())
}

// handleAck processes the acknowledgement of the outstanding update.
func (p *Peer) handleAck(s *session, u locatorUpdate) {
	if s.update == nil || u.entries[0].l64 != s.update.entries[0].l64 {
		return
	}
	p.counts.Acks++
	s.update = nil
}

// refuseOption sends the Parameter Problem of a host that does not know the Nonce
// option (RFC 8200 §4.2).
func (p *Peer) refuseOption(q packet) {
	const icmpParameter, codeOption, at, leastMTU, headers = 4, 2, ipLen + 2, 1280, 8 + ipLen
	body := append([]byte{icmpParameter, codeOption, 0, 0, 0, 0, 0, at},
		bytes.Clone(q.raw[:min(len(q.raw), leastMTU-headers)])...)
	a := packet{src: q.dst, dst: q.src, proto: protoICMP, body: body}
	p.link.write(a.bytes(false, otherHops))
}

// answerClosedPort sends the error of RFC 4443 §3.1 about a datagram.
func (p *Peer) answerClosedPort(s *session, q packet) {
	const codePort, leastMTU, headers = 4, 1280, 8 + ipLen + 24
	body := append([]byte{icmpUnreachable, codePort, 0, 0, 0, 0, 0, 0},
		bytes.Clone(q.raw[:min(len(q.raw), leastMTU-headers)])...)
	p.sendFrom(q.dst, s, q.src.l64, protoICMP, body)
}
