package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// left checks that a packet gets to the sockets of plain IPv6 as want, and is of
// no session.
func (r *rig) left(what string, in, want []byte, events ...EventKind) {
	r.t.Helper()
	var v int
	var out []byte
	got := r.counted(func() { v, out = r.ingress(in) })
	r.wantCounts(what, got, counts{"rx_real_socket": 1})
	r.wantKinds(what, events...)
	if v != passOn || !bytes.Equal(out, want) {
		r.t.Errorf("%s: verdict %d, %s", what, v, difference(out, want))
	}
}

// datagram is one to another port than that which udp names.
func datagram(port uint16) []byte {
	b := udp(20)
	binary.BigEndian.PutUint16(b[2:], port)
	return b
}

// Connections that began before there was a session go on beside it: their packets
// come with the nonce, and from all locators that the correspondent sends from,
// and reach the sockets on the addresses of before.
func TestConnectionsOfBefore(t *testing.T) {
	r, mine, other := realEnds(t)
	r.change(func(s *HostSettings) { s.RealNID = true })
	r.must(r.SetRecord(Record{NID: theirs}))
	realTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40000))
	realUDP(t, netip.AddrPortFrom(mine, 5001), netip.AddrPortFrom(other, 5000))
	realUDP(t, netip.AddrPortFrom(mine, 5002), netip.AddrPort{})
	realUDP(t, netip.AddrPortFrom(netip.IPv6Unspecified(), 5003), netip.AddrPort{})
	listener(t, netip.AddrPortFrom(mine, 444))
	r.must(r.SetServerAddrs([]netip.Addr{at(else1, 5).Addr(), mine}))
	segment := fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))

	r.left("a pending peer's", fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)), segment, PendingPeer)
	p := entryFor(there, else1)
	r.upsert(p)
	r.left("as it was", segment, segment)
	r.left("with nonce", fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)), segment)
	r.left("from another locator", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 9)), segment)
	r.left("with both", fromPeer(else1, theirNonce, ip6.TCP, tcp(flagACK, 9)), segment)
	r.left("connected datagrams", fromPeer(there, theirNonce, ip6.UDP, datagram(5001)), fromPeer(there, none, ip6.UDP, datagram(5001)))
	r.left("a server of datagrams on that address only", fromPeer(there, theirNonce, ip6.UDP, datagram(5002)), fromPeer(there, none, ip6.UDP, datagram(5002)))
	r.check([]verdictCase{
		{"another connection", fromPeer(there, theirNonce, ip6.TCP, segmentOf(40001, 443, flagACK)), passOn, deliveredNonce, nil},
		{"a new one", fromPeer(there, theirNonce, ip6.TCP, segmentTo(444, flagSYN)), passOn, deliveredNonce, nil},
		{"datagrams to any address", fromPeer(there, theirNonce, ip6.UDP, datagram(5003)), passOn, deliveredNonce, nil},
		{"wrong nonce", fromPeer(there, wrongNonce, ip6.TCP, tcp(flagACK, 9)), shot, counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
		{"unknown locator", fromPeer(else2, none, ip6.TCP, tcp(flagACK, 9)), shot, counts{"drop_unknown_locator": 1}, nil},
	})

	p.Rule = ilnp.RuleRFC6741
	r.upsert(p)
	sum := fromPeer(else1, none, ip6.TCP, tcp(flagACK, 9))
	field := sum[ip6.HeaderLen+16:]
	locators := ip6.Add(ip6.Sum64(else1), ip6.Sum64(here))
	binary.BigEndian.PutUint16(field, ip6.Add(binary.BigEndian.Uint16(field), locators))
	r.left("summed over identifiers", sum, segment)

	q := entryFor(else1)
	q.Accept, q.Seq = p.Accept, p.Seq+1
	r.upsert(q)
	r.check([]verdictCase{
		{"the correspondent has moved", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
	})
}

// A connection is looked for between no more than 24 pairs of addresses: a segment
// of none costs as many look-ups, and anybody can send those.
func TestMostAddressesOfBefore(t *testing.T) {
	r, mine, _ := realEnds(t)
	r.change(func(s *HostSettings) { s.RealNID = true })
	remote := []roam.L64{there, else1, else2, else1 + 1}
	for i, l := range remote[2:] {
		other := at(l, theirs).Addr()
		addressed(t, other)
		realTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40002+uint16(i)))
	}
	own := []netip.Addr{mine}
	for i := range roam.L64(8) {
		own = append(own, at(here+i, ours).Addr())
	}
	segment := func(from roam.L64, i uint16) []byte {
		return fromPeer(from, none, ip6.TCP, segmentOf(40000+i, 443, flagACK))
	}
	r.upsert(entryFor(remote...))
	r.must(r.SetServerAddrs(own[1:7])) // 6 of ours and 4 of theirs
	r.left("the last pair", segment(there, 3), segment(remote[3], 3))
	r.must(r.SetServerAddrs(own[1:])) // 8, with 3 of theirs
	r.left("the third of theirs", segment(there, 2), segment(remote[2], 2))
	r.check([]verdictCase{{"the fourth", segment(there, 3), passOn, delivered, nil}})
}

// Whoever has spoken plain IPv6 to an identifier that is Roam's alone may have
// such connections as well; nobody else's sockets are looked for.
func TestSpokePlain(t *testing.T) {
	r, mine, other := realEnds(t)
	realTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40000))
	segment := fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))
	p := entryFor(there)
	r.upsert(p)
	r.check([]verdictCase{{"never heard before", segment, passOn, delivered, nil}})
	r.must(r.Delete(p.Key))
	r.check([]verdictCase{
		{"without a session", segment, passOn, nil, nil},
		{"a ping", packet(at(there, unlistedPeer(1).NID), at(here, ours), ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 0, 0, 0}), passOn, nil, nil},
	})
	r.upsert(p)
	r.left("heard before", segment, segment)
	r.left("with nonce", fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)), segment)
	r.must(r.Delete(p.Key))
	r.close()
	r.open()
	r.upsert(p)
	r.left("by a predecessor", segment, segment)
	q := entryFor(there)
	q.Key.Remote, q.RemoteNID = unlistedPeer(1).NID, unlistedPeer(1).NID
	r.upsert(q)
	r.check([]verdictCase{
		{"somebody else", packet(at(there, q.RemoteNID), at(here, ours), ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
	})
}

// A session that is only expected is none yet: its correspondent speaks plain IPv6
// until we have sent something.
func TestSpokePlainToPreinstalled(t *testing.T) {
	r, mine, other := realEnds(t)
	realTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40000))
	segment := fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))
	p := entryFor(there)
	p.Preinstalled = true
	r.upsert(p)
	r.check([]verdictCase{{"without a session", segment, passOn, nil, nil}})
	r.egress(toPeer(ip6.UDP, udp(20)))
	r.events()
	r.left("the session is in use", segment, segment)
	p.Preinstalled, p.Seq = false, p.Seq+1
	r.upsert(p)
	r.left("and confirmed", segment, segment)
	q := entryFor(there)
	q.Key.Remote, q.RemoteNID, q.Preinstalled = unlistedPeer(1).NID, unlistedPeer(1).NID, true
	r.upsert(q)
	q.Preinstalled, q.Seq = false, q.Seq+1
	r.upsert(q)
	r.check([]verdictCase{
		{"somebody else", packet(at(there, q.RemoteNID), at(here, ours), ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
	})
}

// halfTCP is a connection of plain IPv6 whose third segment is yet to come, to a
// server on any address.
func halfTCP(t *testing.T, server, client netip.AddrPort) {
	t.Helper()
	defers := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		const seconds = 60
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, seconds)
		}), err)
	}}
	l, err := defers.Listen(t.Context(), "tcp6", netip.AddrPortFrom(netip.IPv6Unspecified(), server.Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := net.DialTCP("tcp6", net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
}

// Half of a connection is one: its first segment, which came again, and its third
// are those of plain IPv6 when its correspondent has shown a nonce since, and when it
// has a session.
func TestHalfConnectionOfBefore(t *testing.T) {
	r, mine, other := realEnds(t)
	r.must(r.SetRecord(Record{NID: theirs, Locators: []roam.L64{there}}))
	halfTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40000))
	first, third := fromPeer(there, none, ip6.TCP, tcp(flagSYN, 0)), fromPeer(there, none, ip6.TCP, tcp(flagACK, 0))
	r.check([]verdictCase{
		{"a nonce", fromPeer(there, theirNonce, ip6.UDP, udp(9)), passOn, deliveredNonce, []EventKind{PendingPeer}},
		{"first segment", first, passOn, nil, nil},
		{"third segment", third, passOn, nil, nil},
		{"third segment of none", fromPeer(there, none, ip6.TCP, segmentTo(444, flagACK)), passOn, delivered, nil},
	})
	r.upsert(entryFor(there))
	r.left("first segment again, with a session", first, first)
	r.left("third segment, with a session", third, third)
}
