package slowpath

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

const (
	ourNID  roam.NID = 0x0200_0000_0000_0001
	peerNID roam.NID = 0x0200_0000_0000_0002
	here    roam.L64 = 0x2001_0db8_000a_0000
	there   roam.L64 = 0x2001_0db8_0005_0000
)

var (
	epoch      = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	host       = Host{SessionPrefix: roam.DefaultSessionPrefix, UDPPort: 6740}
	us, them   = roam.ILV{NID: ourNID, L64: here}, roam.ILV{NID: peerNID, L64: there}
	ourNonce   = ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	theirNonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{5, 6, 7, 8}}
	wrongNonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{9}}
	theKey     = ilnp.SessionKey{Local: ourNID, Remote: peerNID}
)

func built(t *testing.T) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// packetFrom is a first packet of a local program, with a mark at its end.
func packetFrom(t *testing.T, proto uint8, mark byte) []byte {
	t.Helper()
	h := ip6.Header{PayloadLen: 24, NextHeader: proto, HopLimit: 64, Src: host.SessionAddr(ourNID).Addr(), Dst: host.SessionAddr(peerNID).Addr()}
	b := append(built(t)(h.AppendTo(nil)), make([]byte, 24)...)
	up := b[ip6.HeaderLen:]
	up[1], up[3], up[5], up[23] = 7, 9, 24, mark
	if proto == ip6.TCP {
		up[12], up[13] = 5<<4, ip6.TCPSyn
	}
	if err := ip6.FinishL4(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func keyOf(i int) ilnp.SessionKey { return ilnp.SessionKey{Local: ourNID, Remote: roam.NID(i)} }

// TestQueue: packets of a session come back in order until they are forgotten, and there
// are no more than fit, of one session and in all.
func TestQueue(t *testing.T) {
	for name, c := range map[string]struct {
		q                 Queue
		perSession, inAll int
	}{"first packets": {NewFirstQueue(), 16, 1024}, "excess": {NewExcessQueue(), 64, 512}} {
		q := c.q
		for i := range c.inAll + 10 {
			if took := q.Add(epoch, keyOf(i/10), []byte{byte(i)}); took != (i < c.inAll) {
				t.Fatalf("%s: packet %d taken: %t", name, i, took)
			}
		}
		if got := q.Packets(keyOf(1)); len(got) != 10 || got[0][0] != 10 || got[9][0] != 19 || q.Len() != c.inAll {
			t.Errorf("%s: %v of %d", name, got, q.Len())
		}
		for _, i := range []int{1, 2, 3, 3, 4, 5, 6, 7} {
			q.Forget(keyOf(i))
		}
		if len(q.Packets(keyOf(1))) != 0 || q.Len() != c.inAll-70 {
			t.Errorf("%s: %d left", name, q.Len())
		}
		for i := range c.perSession + 1 {
			if took := q.Add(epoch, theKey, nil); took != (i < c.perSession) {
				t.Errorf("%s: packet %d of a session taken: %t", name, i, took)
			}
		}
	}
}

// TestQueueIsBoundedInTime: packets that nobody asks for are dropped after their time, and later ones of the same
// session are kept for theirs.
func TestQueueIsBoundedInTime(t *testing.T) {
	q := NewExcessQueue()
	for i := range 512 {
		q.Add(epoch, keyOf(i), []byte{1})
	}
	q.Forget(keyOf(7))
	q.Add(epoch.Add(time.Second), keyOf(7), []byte{2})
	if q.Add(epoch.Add(queueLife-1), theKey, []byte{3}) {
		t.Fatal("a full queue takes one more")
	}
	took := q.Add(epoch.Add(queueLife), theKey, []byte{3})
	if !took || q.Len() != 2 || len(q.Packets(keyOf(7))) != 1 || len(q.order) != 2 {
		t.Errorf("%d packets, %v of the younger session, order of %d", q.Len(), q.Packets(keyOf(7)), len(q.order))
	}
	for i := range 1000 {
		q.Forget(keyOf(i + 100))
		q.Add(epoch.Add(queueLife), keyOf(i+101), nil)
	}
	if q.Len() != 3 || len(q.order) > 2*3+64 {
		t.Errorf("%d packets, order of %d", q.Len(), len(q.order))
	}
}

// TestRetransmitted: the packet with the same ports and sequence number goes, once.
func TestRetransmitted(t *testing.T) {
	q := NewFirstQueue()
	for _, seq := range []byte{1, 2, 2, 3} {
		b := packetFrom(t, ip6.TCP, 0)
		b[ip6.HeaderLen+7] = seq
		q.Add(epoch, theKey, b)
	}
	wire := packetFrom(t, ip6.TCP, 0)
	wire[ip6.HeaderLen+7] = 2
	copy(wire[8:], "other addresses, as on the wire.")
	q.Retransmitted(theKey, wire)
	q.Retransmitted(theKey, wire[:20])
	q.Retransmitted(keyOf(7), wire)
	wire[6] = ip6.UDP
	q.Retransmitted(theKey, wire)
	var left []byte
	for _, p := range q.Packets(theKey) {
		left = append(left, p[ip6.HeaderLen+7])
	}
	if !slices.Equal(left, []byte{1, 2, 3}) || q.Len() != 3 {
		t.Errorf("%v left, %d counted", left, q.Len())
	}
}

// TestCopies: the first segment that begins a connection and the first datagram of a
// session, once each.
func TestCopies(t *testing.T) {
	var c Copies
	later := packetFrom(t, ip6.TCP, 1)
	later[ip6.HeaderLen+13] = ip6.TCPAck
	for _, b := range [][]byte{packetFrom(t, ip6.ICMPv6, 0), later, packetFrom(t, ip6.TCP, 2), packetFrom(t, ip6.TCP, 3),
		packetFrom(t, ip6.UDP, 4), packetFrom(t, ip6.UDP, 5), {1}} {
		c.Add(epoch, theKey, b)
	}
	for _, x := range []struct {
		copy ilnp.Copy
		want byte
	}{{ilnp.Copy{Key: theKey}, 2}, {ilnp.Copy{Key: theKey}, 0}, {ilnp.Copy{Key: theKey, Datagram: true}, 4},
		{ilnp.Copy{Key: theKey, Datagram: true}, 0}, {ilnp.Copy{Key: keyOf(9)}, 0}} {
		b := c.Take(x.copy)
		if x.want == 0 && b != nil || x.want > 0 && (b == nil || b[len(b)-1] != x.want) {
			t.Errorf("%+v: % x", x.copy, b)
		}
	}
}

// TestCopiesAreBounded in number and in time, and end with the session.
func TestCopiesAreBounded(t *testing.T) {
	var c Copies
	packet := packetFrom(t, ip6.UDP, 0)
	for i := range 3 * copiesInAll {
		c.Add(epoch, keyOf(i), packet)
	}
	if len(c.of) > copiesInAll || len(c.order) > copiesInAll {
		t.Errorf("%d sessions kept", len(c.of))
	}
	c.Add(epoch.Add(2*copiesLife), theKey, packet)
	if len(c.of) != 1 || len(c.order) != 1 {
		t.Errorf("%d kept after their time", len(c.of))
	}
	if c.Forget(theKey); len(c.of) != 0 {
		t.Error("kept after the session's end")
	}
}

// pendingPacket is one of a pending peer, which is told by its NID.
func pendingPacket(nid roam.NID, size int) PendingPacket {
	return PendingPacket{Packet: make([]byte, size), Remote: roam.ILV{NID: nid, L64: there}, Local: us, Nonce: theirNonce}
}

// TestPendingQueue: packets of a pending peer come back in order, once; of one peer
// there are no more than fit, and in all the oldest make room, as do those whose time
// is over.
func TestPendingQueue(t *testing.T) {
	var q PendingQueue
	for i := range pendingPackets + 1 {
		if took := q.Add(epoch, pendingPacket(1, 100+i)); took != (i < pendingPackets) {
			t.Errorf("packet %d taken: %t", i, took)
		}
	}
	if q.Add(epoch, pendingPacket(2, pendingBytes)); q.Add(epoch, pendingPacket(2, 1)) {
		t.Error("more bytes of a peer are taken than fit")
	}
	got := q.Take(pendingPacket(1, 0).Peer())
	if len(got) != pendingPackets || len(got[0].Packet) != 100 || len(got[1].Packet) != 101 || q.bytes != pendingBytes {
		t.Errorf("%d packets, %d bytes left", len(got), q.bytes)
	}
	if q.Take(pendingPacket(1, 0).Peer()) != nil {
		t.Error("they are there once more")
	}
	for i := range 2 * pendingInAll / pendingBytes {
		if !q.Add(epoch, pendingPacket(roam.NID(10+i), pendingBytes)) {
			t.Fatalf("peer %d has no room", i)
		}
		if q.bytes > pendingInAll {
			t.Fatalf("%d bytes are held", q.bytes)
		}
	}
	if q.Take(pendingPacket(10, 0).Peer()) != nil {
		t.Error("the oldest one has not made room")
	}
	q.Add(epoch.Add(pendingLife), pendingPacket(3, 10))
	if len(q.of) != 1 || q.bytes != 10 {
		t.Errorf("%d peers, %d bytes after their time", len(q.of), q.bytes)
	}
	if q.Forget(pendingPacket(3, 0).Peer()); q.bytes != 0 {
		t.Errorf("%d bytes of nobody", q.bytes)
	}
}

// ofBothRules is a datagram of the peer as it stands on the wire, by either rule.
func ofBothRules(t *testing.T) map[xlate.Rule][]byte {
	t.Helper()
	packets := map[xlate.Rule][]byte{}
	for _, rule := range []xlate.Rule{xlate.RuleIPv6, xlate.RuleRFC6741} {
		peer := xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, Rule: rule, Nonce: theirNonce,
			LocalAlias: ourNID, LocalNID: peerNID, LocalL64: there, RemoteAlias: peerNID, RemoteNID: ourNID, RemoteL64: here}
		packets[rule] = built(t)(xlate.Outward(packetFrom(t, ip6.UDP, 1), peer))
	}
	return packets
}

// TestRuleOfHeldPackets: a packet that waits for its sender's validation shows its rule,
// with which the session begins. A damaged one, and one without nonce, show none.
func TestRuleOfHeldPackets(t *testing.T) {
	packets := ofBothRules(t)
	damaged := bytes.Clone(packets[xlate.RuleIPv6])
	damaged[len(damaged)-1] ^= 1
	for name, c := range map[string]struct {
		packet      []byte
		nonce       ilnp.Nonce
		found, want ilnp.FoundRule
	}{
		"over the addresses": {packets[xlate.RuleIPv6], theirNonce, ilnp.NotFound, ilnp.FoundIPv6},
		"over the NIDs":      {packets[xlate.RuleRFC6741], theirNonce, ilnp.NotFound, ilnp.FoundRFC6741},
		"damaged":            {damaged, theirNonce, ilnp.NotFound, ilnp.NotFound},
		"without nonce":      {packets[xlate.RuleRFC6741], ilnp.Nonce{}, ilnp.NotFound, ilnp.NotFound},
		"a probe":            {packets[xlate.RuleRFC6741], theirNonce, ilnp.FoundProbe, ilnp.FoundProbe},
	} {
		if got := FoundIn(c.packet, c.nonce, c.found); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestOneRule: of two copies by different rules the first is delivered, whichever it is;
// what shows no rule is delivered, and makes none.
func TestOneRule(t *testing.T) {
	packets := ofBothRules(t)
	damaged := bytes.Clone(packets[xlate.RuleIPv6])
	damaged[len(damaged)-1] ^= 1
	for _, first := range []xlate.Rule{xlate.RuleIPv6, xlate.RuleRFC6741} {
		var r OneRule
		for i, x := range []struct {
			packet []byte
			want   bool
		}{{damaged, true}, {packets[first], true}, {packets[1-first], false}, {packets[first], true}, {damaged, true}} {
			if got := r.Takes(PendingPacket{Packet: x.packet, Nonce: theirNonce}); got != x.want {
				t.Errorf("first by rule %v: packet %d taken: %t", first, i, got)
			}
		}
		if !r.Takes(PendingPacket{Packet: packets[1-first]}) {
			t.Error("one without nonce is not taken")
		}
	}
}

// TestDeliver: our stack gets what the data plane would have made of a packet, by either
// rule, also where a driver was to finish its sum; and nothing that it would not have.
func TestDeliver(t *testing.T) {
	const alias roam.NID = 0x0200_0001_0000_0002
	key := ilnp.SessionKey{Local: ourNID, Remote: alias}
	packets := ofBothRules(t)
	seed := bytes.Clone(packets[xlate.RuleIPv6])
	c, err := ip6.Walk(seed)
	if err != nil {
		t.Fatal(err)
	}
	sum := ^ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.UDP, make([]byte, c.End-c.UpperOffset))
	seed[c.UpperOffset+6], seed[c.UpperOffset+7] = byte(sum>>8), byte(sum)
	for name, packet := range map[string][]byte{"over the addresses": packets[xlate.RuleIPv6], "over the NIDs": packets[xlate.RuleRFC6741], "a seed": seed} {
		got, err := host.Deliver(PendingPacket{Packet: packet, Remote: them, Local: us, Nonce: theirNonce}, key)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := ip6.Walk(got)
		if err != nil || c.Header.Src != host.SessionAddr(alias).Addr() || c.Header.Dst != host.SessionAddr(ourNID).Addr() ||
			ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.UDP, got[c.UpperOffset:c.End]) != 0 || got[len(got)-1] != 1 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := host.Deliver(PendingPacket{Packet: packets[xlate.RuleIPv6], Remote: them, Local: us, Nonce: wrongNonce}, key); err == nil {
		t.Error("one with another nonce is delivered")
	}
}

// TestPathMTUs: our stack is made to forget the path MTU of a session that moves, if it
// may know one: it was told, or was by a predecessor not long ago.
func TestPathMTUs(t *testing.T) {
	var m PathMTUs
	if m.HandlePaths(epoch, theKey, roam.PathsAdded) {
		t.Error("nobody knows one")
	}
	m.Note(theKey, 1400)
	m.Note(theKey, 1300)
	if m.Last(theKey) != 1300 || m.Last(keyOf(1)) != 0 {
		t.Errorf("%d and %d", m.Last(theKey), m.Last(keyOf(1)))
	}
	for _, why := range []roam.PathChange{roam.PathsReturned, roam.PathsDown, roam.FlowsGathered} {
		if m.HandlePaths(epoch, theKey, why) {
			t.Errorf("forgotten as %v: the paths are the same", why)
		}
	}
	if m.HandlePaths(epoch, keyOf(1), roam.PathsAdded) {
		t.Error("forgotten for another session")
	}
	for _, why := range []roam.PathChange{roam.PathsAdded, roam.PathsLost, roam.PathsReordered} {
		m.Note(theKey, 0)
		if !m.HandlePaths(epoch, theKey, why) || m.HandlePaths(epoch, theKey, why) {
			t.Errorf("not forgotten once as %v", why)
		}
	}
	m.Note(theKey, 1300)
	if m.Forget(theKey); m.Last(theKey) != 0 {
		t.Error("remembered behind the session's end")
	}
	m.Inherit(epoch)
	if !m.HandlePaths(epoch.Add(pathMTULife-1), theKey, roam.PathsLost) || m.HandlePaths(epoch.Add(pathMTULife), theKey, roam.PathsLost) {
		t.Error("a predecessor's are not remembered as long as the kernel does")
	}
}
