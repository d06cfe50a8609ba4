package ilnphost

import (
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

// A datagram in fragments reaches the socket of plain IPv6 as a whole one does: the first
// fragment shows where the others belong. So does an error about one that we sent.
func TestFragmentsToRealSockets(t *testing.T) {
	r, mine, other := realEnds(t)
	r.change(func(s *HostSettings) { s.RealNID = true })
	realUDP(t, netip.AddrPortFrom(mine, 5001), netip.AddrPortFrom(other, 5000))
	p := entryFor(there)
	p.Accept = []roam.L64{else1}
	r.upsert(p)
	part := func(from roam.L64, id byte, offset uint16, body []byte) []byte {
		b := fragment(ip6.UDP, offset, offset == 0, body)
		b[7] = id
		return packet(at(from, theirs), at(here, ours), ip6.Fragment, b)
	}
	quoting := func(port byte) []byte {
		b := datagram(5000)
		b[0], b[1] = 5001>>8, port
		quoted := packet(at(here, ours), at(there, theirs), ip6.Fragment, fragment(ip6.UDP, 0, true, b))
		return packet(at(else1, 1), at(here, ours), ip6.ICMPv6, append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, quoted...))
	}
	first, later := part(there, 1, 0, datagram(5001)), part(there, 1, 4, make([]byte, 32))
	r.check([]verdictCase{{"before the first one", later, passOn, delivered, nil}})
	r.left("first fragment", first, first)
	r.left("later fragment", later, later)
	r.check([]verdictCase{
		{"of another datagram", part(there, 2, 4, make([]byte, 32)), passOn, delivered, nil},
		{"from another locator", part(else1, 1, 4, make([]byte, 32)), passOn,
			counts{"rx_packets": 1, "rx_stale_locator": 1}, nil},
		{"to no such socket", part(there, 3, 0, datagram(5004)), passOn, delivered, nil},
		{"behind that", part(there, 3, 4, make([]byte, 32)), passOn, delivered, nil},
		{"with a nonce", packet(at(there, theirs), at(here, ours), ip6.DestOpts,
			with(theirNonce, ip6.Fragment, fragment(ip6.UDP, 0, true, datagram(5001)))), passOn, deliveredNonce, nil},
		{"error about a fragment of such a socket", quoting(5001 & 0xff), passOn, nil, nil},
		{"error about one of the session", quoting(5004 & 0xff), shot, counts{"error_handed_over": 1}, []EventKind{ErrorIn}},
	})
	p.State, p.RemoteNonce, p.Seq = ilnp.Plain, ilnp.Nonce{}, p.Seq+1
	r.upsert(p)
	r.left("of a session that fell back", later, later)
	long := dataplane.Monotonic(time.Now()) - uint64(61*time.Second) // below zero on a host that has just started
	for _, k := range keysOf[bpfFragmentKey, uint64](r.objs.RealFragments) {
		r.must(r.objs.RealFragments.Put(&k, long))
	}
	r.check([]verdictCase{{"a minute later", later, passOn, counts{"rx_packets": 1, "rx_plain": 1}, nil}})
}
