package decide

import (
	"encoding/binary"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// receiveError processes an ICMPv6 error about a packet of this host.
func (t *step) receiveError() Verdict {
	b, ok := t.k.load(t.c.at+8+8, 32)
	if !ok {
		return PassOn
	}
	from, to := ilvAt(b), ilvAt(b[16:])
	key := t.s.aliasOf(from.NID, to)
	p := t.s.find(key)
	if (p == nil || p.Waits()) && t.s.pendingOf(key) == nil && !(t.c.nonce.Present() && t.s.Pending[key] != nil) {
		return PassOn // about a packet without session
	}
	if p != nil && p.is(RealSockets) && t.realSocket(t.c.at+8, true) {
		return PassOn // about a packet of a plain IPv6 socket
	}
	e := t.about()
	e.Key = key
	if p != nil && t.c.kind == ilnp.TypeParameterProblem && t.retryWithoutNonce(p) {
		t.tellPacket(Requests, Retried, e)
		t.count(DropErrorHandedOver)
		return Shot
	}
	if t.tellPacket(Unvalidated, ErrorIn, e) {
		t.count(DropErrorHandedOver)
	}
	return Shot
}

const ourOptionAt = ip6.HeaderLen + 2 // offset, in a packet whose first header holds the nonce

// retryWithoutNonce retransmits a first segment that the peer refused because of its nonce, and reports
// whether it did.
func (t *step) retryWithoutNonce(p *Session) bool {
	l, u := p.live(), t.s.uplink(p, 0)
	if p.Flags&(Initiated|Plain|Dead|RFC6741|Encap|Unconfirmed) != Initiated || l.Learned.Present() || l.Retried ||
		!u.Usable || u.L64 != t.dst.L64 || u.Link != t.k.Link || !t.isRefusedFirst(p) {
		return false
	}
	l.Retried = true
	t.out.Again = true
	t.count(TxRetried)
	return true
}

// isRefusedFirst reports whether the error quotes a first segment that may be
// retransmitted: completely, and nothing behind it.
func (t *step) isRefusedFirst(p *Session) bool {
	const quotedAt = ip6.HeaderLen + 8
	if t.k.Raw || t.c.at != ip6.HeaderLen {
		return false
	}
	e, ok := t.k.load(ip6.HeaderLen, 8+ip6.HeaderLen+16)
	if !ok {
		return false
	}
	quoted := e[8:]
	shown := ilnp.Nonce{Len: quoted[ip6.HeaderLen+3]}
	switch shown.Len {
	case 12:
		copy(shown.Bytes[:], quoted[ip6.HeaderLen+4:])
	default:
		copy(shown.Bytes[:4], quoted[ip6.HeaderLen+4:])
	}
	more := uint8(0)
	if shown.Len == 12 {
		more = 1
	}
	if e[ip6.ICMPTypeAt] != ilnp.TypeParameterProblem || e[ip6.ICMPCodeAt] != ilnp.CodeUnknownOption ||
		binary.BigEndian.Uint32(e[4:]) != ourOptionAt ||
		quoted[ip6.NextHeaderAt] != ip6.DestOpts || quoted[ip6.HeaderLen] != ip6.TCP || quoted[ip6.HeaderLen+1] != more ||
		quoted[ip6.HeaderLen+2] != ilnp.OptionNonce || shown != p.LocalNonce ||
		ilvAt(quoted[ip6.SrcAt:]) != t.dst || ilvAt(quoted[ip6.DstAt:]) != t.src {
		return false
	}
	header := int(shown.Len) + 4
	at := quotedAt + ip6.HeaderLen + header
	b, ok := t.k.load(at, t.k.Len-at)
	if !ok || len(b) < 20 || len(b) > 60 || len(b) != int(b[ip6.TCPDataOffsetAt]>>4)*4 || quoted[4] != 0 ||
		int(quoted[5]) != len(b)+header ||
		b[tcpFlagsAt]&(flagFIN|flagSYN|flagRST|flagACK) != flagSYN {
		return false
	}
	return isSummed(quoted, b)
}

// isSummed reports whether the checksum of a quoted segment is right, or a seed.
func isSummed(quoted, b []byte) bool {
	pseudo := ip6.Add(ip6.Sum(quoted[ip6.SrcAt:ip6.HeaderLen]), ip6.Add(uint16(len(b)), uint16(ip6.TCP)))
	return ip6.Add(pseudo, ip6.Sum(b)) == 0xffff || binary.BigEndian.Uint16(b[ip6.TCPChecksumAt:]) == pseudo
}
