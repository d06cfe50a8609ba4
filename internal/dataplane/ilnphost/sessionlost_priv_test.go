package ilnphost

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"roam"
	"roam/wire/ip6"
)

// listener is a server on one address.
func listener(t *testing.T, at netip.AddrPort) {
	t.Helper()
	l, err := net.ListenTCP("tcp6", net.TCPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// segmentTo is a segment to another port than the one that tcp names.
func segmentTo(port uint16, flags uint8) []byte { return segmentOf(40000, port, flags) }

func segmentOf(from, to uint16, flags uint8) []byte {
	b := tcp(flags, 9)
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	return b
}

// A segment of a connection between session addresses never reaches the stack
// untranslated, whose reset would end it at the other end: not before its session
// is there, not after that was forgotten, and not from where its pending peer was not
// seen. What may be plain IPv6 passes as ever.
func TestSegmentsWithoutTheirSession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(Record{NID: theirs, Locators: []roam.L64{else1}}))
	mine, other := at(here, ours).Addr(), at(there, theirs).Addr()
	ownEnd, theirEnd := session(ours).Addr(), session(theirs).Addr()
	addressed(t, mine, other, ownEnd, theirEnd)
	realTCP(t, netip.AddrPortFrom(ownEnd, 443), netip.AddrPortFrom(theirEnd, 40000))
	listener(t, netip.AddrPortFrom(ownEnd, 444))
	realTCP(t, netip.AddrPortFrom(ownEnd, 445), netip.AddrPortFrom(theirEnd, 40001))
	realTCP(t, netip.AddrPortFrom(mine, 445), netip.AddrPortFrom(other, 40001))
	lost := counts{"drop_session_lost": 1}
	from := func(flags uint8) []byte { return fromPeer(there, none, ip6.TCP, tcp(flags, 9)) }
	stray := []verdictCase{
		{"data", from(flagACK), shot, lost, nil},
		{"end", from(flagACK | flagFIN), shot, lost, nil},
		{"answer to a first segment", from(flagACK | flagSYN), shot, lost, nil},
		{"from elsewhere", fromPeer(else2, none, ip6.TCP, tcp(flagACK, 9)), shot, lost, nil},
		{"first segment", from(flagSYN), passOn, nil, nil},
		{"connection that there is not", fromPeer(there, none, ip6.TCP, segmentTo(446, flagACK)), passOn, nil, nil},
		{"server only", fromPeer(there, none, ip6.TCP, segmentTo(444, flagACK)), passOn, nil, nil},
		{"both kinds on the same ports", fromPeer(there, none, ip6.TCP, segmentOf(40001, 445, flagACK)), passOn, nil, nil},
		{"datagram", fromPeer(there, none, ip6.UDP, udp(9)), passOn, nil, nil},
		{"of another node", packet(at(there, unlistedPeer(1).NID), at(here, ours), ip6.TCP, tcp(flagACK, 9)), passOn, nil, nil},
	}
	r.check(stray)
	r.check([]verdictCase{
		{"a pending peer", fromPeer(else1, theirNonce, ip6.TCP, tcp(flagACK, 9)), passOn, deliveredNonce, []EventKind{PendingPeer}},
		{"where it was seen", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
	})
	r.check(stray[:4])
	p := entryFor(there)
	r.upsert(p)
	r.check([]verdictCase{{"with its session", from(flagACK), passOn, delivered, nil}})
	r.must(r.Delete(p.Key))
	r.check(stray)
}

// A server that is bound to the one address which is also the Node Identifier's
// has connections of both kinds: each segment goes to its own.
func TestServerOnTheRealAddress(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.RealNID = true })
	r.uplink(here)
	r.upsert(entryFor(there))
	mine, other := at(here, ours).Addr(), at(there, theirs).Addr()
	ownEnd, theirEnd := session(ours).Addr(), session(theirs).Addr()
	addressed(t, mine, other, ownEnd, theirEnd)
	for _, port := range []uint16{443, 444} {
		listener(t, netip.AddrPortFrom(mine, port))
	}
	realTCP(t, netip.AddrPortFrom(ownEnd, 443), netip.AddrPortFrom(theirEnd, 40000))
	left := counts{"rx_real_socket": 1}
	tooBig := func(port uint16) []byte { // about a segment of that server
		b := segmentTo(port, flagACK)
		b[0], b[1], b[2], b[3] = b[2], b[3], b[0], b[1]
		quoted := packet(at(here, ours), at(there, theirs), ip6.TCP, b)
		return packet(at(else1, 1), at(here, ours), ip6.ICMPv6, append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, quoted...))
	}
	r.check([]verdictCase{
		{"data of a session", fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
		{"first segment of plain IPv6", fromPeer(there, none, ip6.TCP, segmentTo(444, flagSYN)), passOn, left, nil},
		{"its third", fromPeer(there, none, ip6.TCP, segmentTo(444, flagACK)), passOn, left, nil},
		{"error about the session", tooBig(443), shot, counts{"error_handed_over": 1}, []EventKind{ErrorIn}},
		{"error about plain IPv6", tooBig(444), passOn, nil, nil},
	})
}
