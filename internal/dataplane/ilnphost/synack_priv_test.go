package ilnphost

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// segmentAt is a segment with these ports and numbers.
func segmentAt(from, to uint16, flags uint8, seq, ack uint32, n int) []byte {
	b := tcp(flags, n)
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b[8:], ack)
	return b
}

// ofPending is a packet of a pending peer.
func ofPending(from roam.ILV, n ilnp.Nonce, proto uint8, body []byte) []byte {
	if !n.Present() {
		return packet(from, at(here, ours), proto, body)
	}
	return packet(from, at(here, ours), ip6.DestOpts, with(n, proto, body))
}

// handshake begins a connection of a pending peer, as far as our SYN-ACK.
func (r *rig) handshake(from roam.ILV, seq uint32) {
	r.t.Helper()
	r.ingress(ofPending(from, theirNonce, ip6.TCP, segmentAt(40000, 443, flagSYN, 1, 0, 0)))
	v, _ := r.egress(packet(session(ours), session(from.NID), ip6.TCP, segmentAt(443, 40000, flagSYN|flagACK, seq, 2, 0)))
	if v != redirect {
		r.t.Fatalf("SYN-ACK: verdict %d", v)
	}
	r.events()
}

// TestSynAckIsAcknowledged: who acknowledges our SYN-ACK from where it went has received
// it, and is told of. Nothing else proves that.
func TestSynAckIsAcknowledged(t *testing.T) {
	const flagRST = 0x04
	seq := uint32(0xffff_ffff) // the next one is 0
	ack := func(number uint32, n int) []byte { return segmentAt(40000, 443, flagACK, 2, number, n) }
	from, moved := unlistedPeer(1), at(else1, unlistedPeer(1).NID)
	for name, c := range map[string]struct {
		from   roam.ILV
		nonce  ilnp.Nonce
		body   []byte
		before func(*rig)
		want   EventKind
	}{
		"right":              {from, theirNonce, ack(seq+1, 0), nil, Acked},
		"right, with data":   {from, theirNonce, ack(seq+1, 100), nil, Acked},
		"wrong number":       {from, theirNonce, ack(seq, 0), nil, PendingPeer},
		"next number":        {from, theirNonce, ack(seq+2, 0), nil, PendingPeer},
		"other port":         {from, theirNonce, segmentAt(40001, 443, flagACK, 2, seq+1, 0), nil, PendingPeer},
		"other port of ours": {from, theirNonce, segmentAt(40000, 444, flagACK, 2, seq+1, 0), nil, PendingPeer},
		"SYN":                {from, theirNonce, segmentAt(40000, 443, flagSYN|flagACK, 2, seq+1, 0), nil, PendingPeer},
		"reset":              {from, theirNonce, segmentAt(40000, 443, flagRST|flagACK, 2, seq+1, 0), nil, PendingPeer},
		"no acknowledgement": {from, theirNonce, segmentAt(40000, 443, 0, 2, seq+1, 0), nil, PendingPeer},
		"datagram":           {from, theirNonce, udp(30), nil, PendingPeer},
		"other locator":      {moved, theirNonce, ack(seq+1, 0), nil, PendingPeer},
		"other nonce":        {from, wrongNonce, ack(seq+1, 0), nil, PendingPeer},
		"while it sends from two links": {from, theirNonce, ack(seq+1, 0), func(r *rig) {
			r.ingress(ofPending(moved, theirNonce, ip6.UDP, udp(9)))
			r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(9)))
		}, Acked},
		"to where it moved": {moved, theirNonce, ack(seq+1, 0), func(r *rig) {
			r.ingress(ofPending(moved, theirNonce, ip6.UDP, udp(9)))
		}, PendingPeer},
		"of the SYN-ACK before": {from, theirNonce, ack(seq+1, 0), func(r *rig) { r.handshake(from, 77) }, PendingPeer},
		"of the one behind":     {from, theirNonce, ack(78, 0), func(r *rig) { r.handshake(from, 77) }, Acked},
		"after many guesses": {from, theirNonce, ack(seq+1, 0), func(r *rig) {
			for i := range uint32(64) {
				r.ingress(ofPending(from, theirNonce, ip6.TCP, ack(1000+i, 0)))
			}
		}, PendingPeer},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.change(func(s *HostSettings) { s.AcceptAny = true })
			r.handshake(from, seq)
			if c.before != nil {
				c.before(r)
				r.events()
			}
			r.ingress(ofPending(c.from, c.nonce, ip6.TCP, c.body))
			r.wantKinds(name, c.want)
		})
	}
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	r.ingress(ofPending(from, theirNonce, ip6.TCP, segmentAt(40000, 443, flagSYN, 1, 0, 0)))
	r.ingress(ofPending(from, theirNonce, ip6.TCP, ack(1, 0)))
	if ks := r.kinds(); slices.Contains(ks, Acked) {
		t.Error("acknowledged before the SYN-ACK")
	}
}

// TestPendingPeerIsTold: the daemon hears how many packets have gone to a pending peer,
// and its account does not run out however long it is answered.
func TestPendingPeerIsTold(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	key := sessionKey(ilnp.SessionKey{Local: ours, Remote: from.NID})
	echo := func(n int) {
		t.Helper()
		for range n {
			r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(500)))
			if v, _ := r.egress(packet(session(ours), session(from.NID), ip6.UDP, udp(500))); v != redirect {
				t.Fatalf("an answer as long as its question: verdict %d", v)
			}
		}
	}
	echo(100)
	var e bpfPendingPeer
	r.must(r.objs.PendingPeers.Lookup(&key, &e))
	e.RxBytes, e.RxPackets, e.TxBytes, e.TxPackets = 1<<31-1000, 1<<31-10, 1<<31-1000, 1<<31-10
	r.must(r.objs.PendingPeers.Put(&key, &e))
	echo(100)
	evs := r.events()
	for i, ev := range evs[:100] {
		if ev.Packets != i {
			t.Fatalf("event %d: %d packets have gone to the peer", i, ev.Packets)
		}
	}
}

// TestErrorOfOursToAPendingPeer: it is handed over with the nonce and the ends of all
// else that goes there, beside a preinstalled entry too, and within the allowance.
func TestErrorOfOursToAPendingPeer(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	from := at(there, theirs)
	r.must(r.SetRecord(Record{NID: theirs, Locators: []roam.L64{there, else1}}))
	p := entryFor(else1)
	p.State, p.RemoteNonce, p.Preinstalled = ilnp.Initiated, none, true
	r.upsert(p)
	r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(200)))
	evs := r.events()
	if len(evs) != 1 || evs[0].Kind != PendingPeer {
		t.Fatalf("events %+v", evs)
	}
	own := evs[0].OwnNonce
	quoted := packet(session(theirs), session(ours), ip6.UDP, udp(200))
	unreachable := mustPacket(t)(ilnpwire.BuildError(session(ours), session(theirs), none,
		ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: quoted}))
	r.egress(unreachable)
	evs = r.events()
	if len(evs) != 1 || evs[0].Kind != ErrorOut || evs[0].OwnNonce != own || evs[0].Remote != from ||
		evs[0].Local != at(here, ours) || evs[0].Link != loopback {
		t.Fatalf("events %+v, want an error with nonce %x", evs, own.Value())
	}
	if _, out := r.egress(packet(session(ours), session(theirs), ip6.UDP, udp(20))); !slices.Equal(mustParse(t, out).Nonce.Value(), own.Value()) {
		t.Error("a datagram bears another nonce")
	}
	r.must(r.SetRecord(Record{NID: theirs, Anywhere: true}))
	r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(200)))
	r.events()
	told := 0
	for range 20 {
		r.egress(unreachable)
		told += len(r.events())
	}
	if told > 4 {
		t.Errorf("%d errors to where two datagrams came from", told)
	}
}

func mustParse(t *testing.T, b []byte) ilnpwire.Packet {
	t.Helper()
	p, err := ilnpwire.ParsePacket(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPendingPeerGetsEveryNonce: GSO packets to it are cut first, and so is the data
// behind them; the segments bear the nonce.
func TestPendingPeerGetsEveryNonce(t *testing.T) {
	r := segmented(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	for range 3 {
		r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(1400)))
	}
	own := r.events()[0].OwnNonce
	sent := func(n int) []byte { return packet(session(ours), session(from.NID), ip6.TCP, tcp(flagACK, n)) }
	straight := counts{"tx_packets": 1, "tx_pending": 1, "tx_nonce": 1}
	r.wantCounts("before any GSO packet", r.counted(func() { r.egress(sent(10)) }), straight)
	for name, got := range map[string]counts{
		"GSO packet":     r.counted(func() { r.egress(sent(1300), gso) }),
		"data behind it": r.counted(func() { r.egress(sent(10)) }),
	} {
		r.wantCounts(name, got, counts{"tx_segdev": 1})
	}
	r.wantCounts("acknowledgement", r.counted(func() { r.egress(sent(0)) }), straight)
	var v int
	var out []byte
	r.wantCounts("segment", r.counted(func() { v, out = r.egress(sent(1300), arrived(0)) }), straight)
	if p := mustParse(t, out); v != redirect || p.Nonce != own || p.Dst != from {
		t.Errorf("verdict %d, %+v with nonce %x, want %x", v, p, p.Nonce.Value(), own.Value())
	}
	r.must(r.Delete(ilnp.SessionKey{Local: ours, Remote: from.NID}))
	r.wantCounts("forgotten meanwhile", r.counted(func() { r.egress(sent(1300), arrived(0)) }), counts{"miss_handed_over": 1})
}

// TestRightBehindANonce: datagrams and pings without one that follow a pending peer's
// nonce from the same locator are its session's, for a short while.
func TestRightBehindANonce(t *testing.T) {
	from := unlistedPeer(1)
	ping := []byte{128, 0, 0, 0, 0, 9, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8}
	key := sessionKey(ilnp.SessionKey{Local: ours, Remote: from.NID})
	type sent struct {
		from roam.ILV
		next uint8
		body []byte
	}
	taken := counts{"rx_packets": 1}
	var untouched counts
	for name, c := range map[string]struct {
		sent
		before func(*testing.T, *rig)
		v      int
		want   counts
	}{
		"datagram":           {sent{from, ip6.UDP, udp(50)}, nil, passOn, taken},
		"ping":               {sent{from, ip6.ICMPv6, ping}, nil, passOn, taken},
		"from elsewhere":     {sent{at(else1, from.NID), ip6.UDP, udp(50)}, nil, passOn, untouched},
		"Locator Update":     {sent{from, ip6.ICMPv6, append([]byte{156}, make([]byte, 19)...)}, nil, shot, counts{"drop_update_no_nonce": 1}},
		"neighbour":          {sent{from, ip6.ICMPv6, append([]byte{136}, make([]byte, 23)...)}, nil, passOn, untouched},
		"error about nobody": {sent{from, ip6.ICMPv6, append([]byte{1, 4}, make([]byte, 60)...)}, nil, passOn, untouched},
		"first segment":      {sent{from, ip6.TCP, tcp(flagSYN, 0)}, nil, passOn, untouched},
		"of a plain node": {sent{from, ip6.UDP, udp(50)}, func(t *testing.T, r *rig) {
			r.must(r.objs.PendingPeers.Delete(&key))
			r.ingress(ofPending(from, none, ip6.UDP, udp(9)))
			r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(9)))
		}, passOn, untouched},
		"later": {sent{from, ip6.UDP, udp(50)}, func(_ *testing.T, r *rig) { r.age(key, 4*time.Second) }, passOn, untouched},
		"later, behind another nonce": {sent{from, ip6.UDP, udp(50)}, func(_ *testing.T, r *rig) {
			r.age(key, 4*time.Second)
			r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(9)))
			r.ingress(ofPending(from, wrongNonce, ip6.UDP, udp(9)))
		}, passOn, untouched},
		"again after it was given up": {sent{from, ip6.UDP, udp(50)}, func(_ *testing.T, r *rig) {
			r.age(key, 4*time.Second)
			r.ingress(ofPending(from, none, ip6.UDP, udp(9)))
			r.must(r.objs.PendingPeers.Delete(&key))
			r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(9)))
		}, passOn, untouched},
		"for a connected socket": {sent{from, ip6.UDP, udp(50)}, func(t *testing.T, r *rig) {
			own := at(here, ours).Addr()
			addressed(t, own, from.Addr())
			realUDP(t, netip.AddrPortFrom(own, 5001), netip.AddrPortFrom(from.Addr(), 5000))
		}, passOn, untouched},
	} {
		for own, nid := range map[string]bool{"": false, ", identifier of plain IPv6": true} {
			if nid && name == "of a plain node" {
				continue // of plain nodes nothing is kept there: once more for a short while
			}
			t.Run(name+own, func(t *testing.T) {
				r := newRig(t)
				r.change(func(s *HostSettings) { s.AcceptAny, s.RealNID = true, nid })
				r.ingress(ofPending(from, theirNonce, ip6.UDP, udp(50)))
				if c.before != nil {
					c.before(t, r)
				}
				got := r.counted(func() {
					if v, _ := r.ingress(packet(c.from, at(here, ours), c.next, c.body)); v != c.v {
						t.Errorf("verdict %d, want %d", v, c.v)
					}
				})
				r.wantCounts(name, got, c.want)
			})
		}
	}
}

// age makes a pending peer older.
func (r *rig) age(key bpfSessionKey, d time.Duration) {
	r.t.Helper()
	var e bpfPendingPeer
	r.must(r.objs.PendingPeers.Lookup(&key, &e))
	e.Since -= uint64(d)
	r.must(r.objs.PendingPeers.Put(&key, &e))
}
