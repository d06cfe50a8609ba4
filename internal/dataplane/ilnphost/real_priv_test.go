package ilnphost

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// realUDP is a socket of plain IPv6, bound to an address and a port, connected
// if there is another end.
func realUDP(t *testing.T, from netip.AddrPort, to netip.AddrPort) {
	t.Helper()
	var peer *net.UDPAddr
	if to.IsValid() {
		peer = net.UDPAddrFromAddrPort(to)
	}
	var c net.Conn
	var err error
	if peer == nil {
		c, err = net.ListenUDP("udp6", net.UDPAddrFromAddrPort(from))
	} else {
		c, err = net.DialUDP("udp6", net.UDPAddrFromAddrPort(from), peer)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
}

// realTCP is a connection of plain IPv6 between two addresses of this host.
func realTCP(t *testing.T, from, to netip.AddrPort) {
	t.Helper()
	l, err := net.ListenTCP("tcp6", net.TCPAddrFromAddrPort(from))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTCP("tcp6", net.TCPAddrFromAddrPort(to), net.TCPAddrFromAddrPort(from))
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // only the connection is left
	t.Cleanup(func() { c.Close(); accepted.Close() })
}

// realEnds is a rig on a host that has the real addresses of both ends of a session.
func realEnds(t *testing.T) (r *rig, mine, other netip.Addr) {
	t.Helper()
	r = newRig(t)
	r.uplink(here)
	mine, other = at(here, ours).Addr(), at(there, theirs).Addr()
	addressed(t, mine, other)
	return r, mine, other
}

// Plain IPv6 between the very addresses of a session goes on, once that pair was
// seen to speak it: what has no nonce, and a socket of its own, is not the
// session's. What has no such socket is, as ever.
func TestRealSockets(t *testing.T) {
	r, mine, other := realEnds(t)
	realUDP(t, netip.AddrPortFrom(mine, 5001), netip.AddrPortFrom(other, 5000))
	realUDP(t, netip.AddrPortFrom(mine, 5002), netip.AddrPort{})
	realUDP(t, netip.AddrPortFrom(netip.IPv6Unspecified(), 5003), netip.AddrPort{})
	realTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40000))
	to := func(port uint16) []byte {
		b := udp(20)
		binary.BigEndian.PutUint16(b[2:], port)
		return b
	}
	tooBig := func(port uint16) []byte { // about a datagram that we sent from there
		b := to(port)
		b[0], b[1], b[2], b[3] = b[2], b[3], b[0], b[1]
		quoted := packet(at(here, ours), at(there, theirs), ip6.UDP, b)
		return packet(at(else1, 1), at(here, ours), ip6.ICMPv6, append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, quoted...))
	}
	p := entryFor(there)
	r.upsert(p)
	r.check([]verdictCase{
		{"never seen plain", fromPeer(there, none, ip6.UDP, udp(20)), passOn, delivered, nil},
	})
	p.State = ilnp.Plain
	r.upsert(p)
	plain, left := counts{"rx_packets": 1, "rx_plain": 1}, counts{"rx_real_socket": 1}
	cases := []verdictCase{
		{"connected socket", fromPeer(there, none, ip6.UDP, udp(20)), passOn, left, nil},
		{"bound socket", fromPeer(there, none, ip6.UDP, to(5002)), passOn, left, nil},
		{"connection", fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), passOn, left, nil},
		{"socket of any address", fromPeer(there, none, ip6.UDP, to(5003)), passOn, plain, nil},
		{"error about such a socket", tooBig(5001), passOn, nil, nil},
		{"error about the session", tooBig(5004), shot, counts{"error_handed_over": 1}, []EventKind{ErrorIn}},
		{"no socket", fromPeer(there, none, ip6.UDP, to(5004)), passOn, plain, nil},
	}
	r.check(cases)
	p.State = ilnp.Established
	r.upsert(p)
	for i := range cases {
		if cases[i].counts["rx_plain"] > 0 {
			cases[i].counts = delivered
		}
	}
	r.check(append(slices.Clone(cases),
		verdictCase{"with nonce", fromPeer(there, theirNonce, ip6.UDP, to(5004)), passOn, deliveredNonce, nil}))
	r.setHost(HostSettings{
		SessionPrefix: roam.DefaultSessionPrefix, NIDs: []roam.NID{ours}, RealNID: true, Device: loopback,
	})
	q := entryFor(else2)
	q.Key.Remote, q.RemoteNID = unlistedPeer(1).NID, unlistedPeer(1).NID
	r.upsert(q)
	r.check([]verdictCase{
		{"identifier of an address that there is",
			packet(at(else2, q.RemoteNID), at(here, ours), ip6.UDP, to(5002)), passOn, left, nil},
	})
}
