package decide_test

import (
	"slices"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

const (
	prefix = roam.DefaultSessionPrefix
	ours   = roam.NID(0x1c4f_52a9_7be1_0d33)
	theirs = roam.NID(0xa05e_91cc_04f2_b867)
	here   = roam.L64(0x2001_0db8_0001_000a)
	there  = roam.L64(0x2001_0db8_00b2_0002)
	else1  = roam.L64(0x2001_0db8_00b3_0003)
	link   = 7
	now    = uint64(1e12)
)

var (
	ownNonce   = ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	peerNonce  = ilnp.Nonce{Len: 4, Bytes: [12]byte{5, 6, 7, 8}}
	wrongNonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	longNonce  = ilnp.Nonce{Len: 12, Bytes: [12]byte{5, 6, 7, 8, 9}}
	key        = decide.Key{Local: ours, Remote: theirs}
)

// host is one with an uplink and a session, which the caller may change.
func host(change func(*decide.State, *decide.Session)) *decide.State {
	s := decide.NewState()
	s.Host.SessionPrefix, s.Host.NIDs[0], s.Host.NonceLen, s.Host.ProbeID = prefix, ours, 4, 77
	s.Uplinks[0] = decide.Uplink{L64: here, Link: link, MTU: 1500, Usable: true}
	p := &decide.Session{
		Slot: 1, Seq: 1, Birth: 1, LocalNID: ours, RemoteNID: theirs, Alias: key, Remote: [8]roam.L64{there}, NRemote: 1,
		Paths: []decide.Path{{}}, NPaths: 1, LocalNonce: ownNonce, RemoteNonce: peerNonce, Grace: 200e6, Live: &decide.Live{},
	}
	if change != nil {
		change(s, p)
	}
	s.Put(p)
	return s
}

func without(s *decide.State, p *decide.Session) { p.Alias = decide.Key{} }

// packet is one with n bytes behind its header, and a nonce if there is one.
func packet(t testing.TB, src, dst roam.ILV, n ilnp.Nonce, proto uint8, body []byte) *decide.Packet {
	t.Helper()
	first := proto
	if n.Present() {
		b, err := n.AppendHeader(nil, proto)
		if err != nil {
			t.Fatal(err)
		}
		first, body = ip6.DestOpts, append(b, body...)
	}
	h := ip6.Header{PayloadLen: uint16(len(body)), NextHeader: first, HopLimit: 60, Src: src.Addr(), Dst: dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, body...)
	_ = ip6.FinishL4(b) // others than TCP, UDP and ICMPv6 stay as they are
	return decide.NewPacket(b, link)
}

func out(t testing.TB, n int) *decide.Packet {
	return packet(t, roam.ILV{L64: prefix, NID: ours}, roam.ILV{L64: prefix, NID: theirs}, ilnp.Nonce{},
		ip6.UDP, make([]byte, 8+n))
}

func in(t testing.TB, from roam.L64, n ilnp.Nonce, proto uint8, body []byte) *decide.Packet {
	return packet(t, roam.ILV{L64: from, NID: theirs}, roam.ILV{L64: here, NID: ours}, n, proto, body)
}

func kinds(o decide.Outcome) (ks []decide.EventKind) {
	for _, e := range o.Events {
		ks = append(ks, e.Kind)
	}
	return ks
}

func TestIngress(t *testing.T) {
	datagram, segment := make([]byte, 20), make([]byte, 20)
	segment[12], segment[13] = 5<<4, 0x10
	for name, c := range map[string]struct {
		change  func(*decide.State, *decide.Session)
		packet  *decide.Packet
		verdict decide.Verdict
		counter decide.Counter
		events  []decide.EventKind
	}{
		"by locator":     {nil, in(t, there, ilnp.Nonce{}, ip6.UDP, datagram), decide.PassOn, decide.RxPackets, nil},
		"by nonce":       {nil, in(t, there, peerNonce, ip6.UDP, datagram), decide.PassOn, decide.RxNonce, nil},
		"from elsewhere": {nil, in(t, else1, ilnp.Nonce{}, ip6.UDP, datagram), decide.Shot, decide.DropUnknownLocator, nil},
		"moved": {nil, in(t, else1, peerNonce, ip6.UDP, datagram), decide.PassOn, decide.RxNonce,
			[]decide.EventKind{decide.LocatorSeen, decide.More}},
		"another nonce": {nil, in(t, there, wrongNonce, ip6.UDP, datagram), decide.Shot, decide.DropWrongNonce,
			[]decide.EventKind{decide.OtherNonce}},
		"ping, no nonce": {nil, in(t, there, ilnp.Nonce{}, ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 0, 0, 0}), decide.Shot,
			decide.DropICMPNoNonce, nil},
		"ping": {nil, in(t, there, peerNonce, ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 0, 0, 0}), decide.Redirect,
			decide.RxEchoReflected, nil},
		"reply to a probe": {nil, in(t, there, peerNonce, ip6.ICMPv6, []byte{129, 0, 0, 0, 0, 77, 0, 0}), decide.Shot,
			decide.DropControlHandedOver, []decide.EventKind{decide.Control}},
		"unknown node": {without, in(t, there, peerNonce, ip6.TCP, segment), decide.PassOn, decide.RxNotAdmitted, nil},
		"known elsewhere": {func(s *decide.State, p *decide.Session) {
			p.Alias, s.Known[theirs] = decide.Key{}, false
		}, in(t, there, peerNonce, ip6.TCP, segment), decide.Shot, decide.RxHeld, []decide.EventKind{decide.PendingShown}},
		// Its nonce is longer than ours, so the daemon answers it: told of once.
		"probe, known elsewhere": {func(s *decide.State, p *decide.Session) {
			p.Alias, s.Known[theirs] = decide.Key{}, false
		}, in(t, there, longNonce, ip6.ICMPv6, append([]byte{128}, make([]byte, 23)...)),
			decide.Shot, decide.RxHeld, []decide.EventKind{decide.PendingShown}},
		"our own identifier": {without, packet(t, roam.ILV{L64: there, NID: ours}, roam.ILV{L64: here, NID: ours}, ilnp.Nonce{}, ip6.UDP, datagram),
			decide.Shot, decide.DropOwnNID, nil},
		"session prefix": {nil, packet(t, roam.ILV{L64: prefix, NID: theirs}, roam.ILV{L64: here, NID: ours},
			ilnp.Nonce{}, ip6.UDP, datagram),
			decide.Shot, decide.DropSessionOutside, nil},
	} {
		o := host(c.change).Ingress(now, c.packet)
		if o.Verdict != c.verdict || o.Counted(c.counter) != 1 || !slices.Equal(kinds(o), c.events) {
			t.Errorf("%s: verdict %d, counted %v, events %v; want %d, %v, %v", name, o.Verdict, o.Counters, kinds(o),
				c.verdict, c.counter, c.events)
		}
	}
}

// bound is a UDP socket on each port of the host's real address.
type bound struct{}

func (bound) Stream(_, _ roam.ILV, _, _ uint16) (decide.Socket, bool) { return decide.Socket{}, false }

func (bound) Datagram(_, local roam.ILV, _, _ uint16) (decide.Socket, bool) {
	return decide.Socket{Local: local}, local.L64 == here
}

// A datagram finds a socket on a real address only where a mark counts: that of its port, or
// of its sender.
func TestMarks(t *testing.T) {
	const port = 5002
	datagram := []byte{0x13, 0x88, port >> 8, port & 0xff, 0, 9, 0, 0, 1}
	for name, c := range map[string]struct {
		marks decide.Marks
		left  bool
	}{
		"all count":      {decide.Marks{}, true},
		"none is set":    {decide.Marks{Valid: 3}, false},
		"of the port":    {decide.Marks{Valid: 3, Of: map[uint16]uint32{port: 3}}, true},
		"of the sender":  {decide.Marks{Valid: 3, Of: map[uint16]uint32{decide.NodeMark(theirs): 4}}, true},
		"over":           {decide.Marks{Valid: 3, Of: map[uint16]uint32{port: 2, decide.NodeMark(theirs): 2}}, false},
		"of another one": {decide.Marks{Valid: 3, Of: map[uint16]uint32{port + 1: 3}}, false},
	} {
		for _, n := range []ilnp.Nonce{{}, peerNonce} {
			o := host(func(s *decide.State, p *decide.Session) {
				s.Sockets, s.Marks, p.Flags = bound{}, c.marks, decide.RealSockets
			}).Ingress(now, in(t, there, n, ip6.UDP, datagram))
			if left := o.Counted(decide.RxRealSocket) == 1; left != c.left {
				t.Errorf("%s, nonce %v: left to the socket: %v", name, n.Present(), left)
			}
		}
	}
}

// Packets are spread by what each path has carried.
func TestSpread(t *testing.T) {
	s := host(func(s *decide.State, p *decide.Session) {
		p.Remote[1], p.NRemote = else1, 2
		p.Paths, p.NPaths = []decide.Path{{}, {Remote: 1}}, 2
	})
	var to []roam.L64
	for range 4 {
		to = append(to, s.Egress(now, out(t, 100)).Dst.L64)
	}
	if !slices.Equal(to, []roam.L64{there, else1, there, else1}) {
		t.Errorf("went to %v", to)
	}
}

// What our own stack answers to a probe whose nonce is longer is no use of the session, which
// would never end; a user's ping is.
func TestProbeAnswerIsNoUse(t *testing.T) {
	for size, used := range map[int]bool{16: false, 20: false, 56: true} {
		s := host(nil)
		reply := packet(t, roam.ILV{L64: prefix, NID: ours}, roam.ILV{L64: prefix, NID: theirs}, ilnp.Nonce{},
			ip6.ICMPv6, append([]byte{129}, make([]byte, 7+size)...))
		if o := s.Egress(now, reply); o.Action != decide.Sent || (s.Sessions[key].Live.LastTx != 0) != used {
			t.Errorf("%d bytes: action %d, last sent %d", size, o.Action, s.Sessions[key].Live.LastTx)
		}
	}
}

// A segment without data that leaves soon after a packet has come acknowledges it, and needs no
// answer. One that leaves later, as a keepalive does, asks for one, and so does all else.
func TestAcknowledgementNeedsNoAnswer(t *testing.T) {
	const ms = 1_000_000
	for name, c := range map[string]struct {
		proto uint8
		flags uint8
		data  int
		heard uint64 // so long ago; 0: never
		asks  bool
	}{
		"acknowledgement":       {ip6.TCP, 0x10, 0, 200 * ms, false},
		"reset":                 {ip6.TCP, 0x14, 0, 1 * ms, false},
		"keepalive":             {ip6.TCP, 0x10, 0, 260 * ms, true},
		"nothing has come":      {ip6.TCP, 0x10, 0, 0, true},
		"data":                  {ip6.TCP, 0x10, 1, 1 * ms, true},
		"first segment":         {ip6.TCP, 0x12, 0, 1 * ms, true},
		"last segment":          {ip6.TCP, 0x11, 0, 1 * ms, true},
		"datagram without data": {ip6.UDP, 0x10, 0, 1 * ms, true},
		"fragment":              {ip6.Fragment, 0x10, 0, 1 * ms, true},
	} {
		s := host(nil)
		l := s.Sessions[key].Live
		l.Birth, l.Seq = 1, 1
		if c.heard != 0 {
			l.LastRx = uint32((now - c.heard) >> 20)
		}
		body := make([]byte, 32+c.data) // with time stamps
		body[12], body[13] = 8<<4, c.flags
		if c.proto == ip6.Fragment {
			body = append([]byte{ip6.TCP, 0, 0, 1, 0, 0, 0, 1}, body...)
		}
		src, dst := roam.ILV{L64: prefix, NID: ours}, roam.ILV{L64: prefix, NID: theirs}
		s.Egress(now, packet(t, src, dst, ilnp.Nonce{}, c.proto, body))
		if l.LastTx != uint32(now>>20) || (l.UnansweredTx != 0) != c.asks {
			t.Errorf("%s: last sent %d, unanswered since %d", name, l.LastTx, l.UnansweredTx)
		}
	}
}

// An unvalidated locator gets twice what came from it; the rest goes nowhere, from an uplink too.
func TestAllowance(t *testing.T) {
	s := host(func(_ *decide.State, p *decide.Session) { p.Unvalidated, p.Grace = 1, 0 })
	if o := s.Egress(now, out(t, 10)); o.Verdict != decide.Redirect || o.Action != decide.Left {
		t.Errorf("at an uplink: verdict %d, action %d", o.Verdict, o.Action)
	}
	s.Host.Device = link
	if o := s.Egress(now, out(t, 10)); o.Verdict != decide.Consumed || o.Counted(decide.DropUnvalidated) != 1 {
		t.Errorf("before anything came: verdict %d, %v", o.Verdict, o.Counters)
	}
	if l := s.Sessions[key].Live; l.LastTx != uint32(now>>20) || l.TxPackets != 0 {
		t.Errorf("what was dropped: last tried %d, %d packets sent", l.LastTx, l.TxPackets)
	}
	later := now + 3e9
	if ks := kinds(s.Egress(later, out(t, 10))); !slices.Equal(ks, []decide.EventKind{decide.Silence}) {
		t.Errorf("a session that gets nothing out and hears nothing: events %v", ks)
	}
	s.Ingress(now, in(t, there, peerNonce, ip6.UDP, make([]byte, 200)))
	sent := 0
	for range 4 {
		if o := s.Egress(now, out(t, 10)); o.Action == decide.Sent {
			sent++
		}
	}
	if sent != 2 {
		t.Errorf("%d packets for the one that came, want 2", sent)
	}
}

// A pending peer is answered at its first locator as long as it sends from there, and with
// another nonce elsewhere.
func TestPending(t *testing.T) {
	s := host(func(s *decide.State, p *decide.Session) { p.Alias, s.Host.AcceptAny = decide.Key{}, true })
	s.Ingress(now, in(t, there, peerNonce, ip6.UDP, make([]byte, 300)))
	first := s.Egress(now, out(t, 10))
	s.Ingress(now, in(t, else1, peerNonce, ip6.UDP, make([]byte, 300)))
	second := s.Egress(now, out(t, 10))
	if first.Dst.L64 != there || second.Dst.L64 != there || !first.Nonce.Present() || first.Nonce != second.Nonce {
		t.Errorf("answered at %v with %v, then at %v with %v", first.Dst.L64, first.Nonce.Bytes,
			second.Dst.L64, second.Nonce.Bytes)
	}
	s.Ingress(now+1100e6, in(t, else1, peerNonce, ip6.UDP, make([]byte, 300)))
	third := s.Egress(now+1100e6, out(t, 10))
	if third.Dst.L64 != else1 || !third.Nonce.Present() || third.Nonce == first.Nonce {
		t.Errorf("answered at %v with %v, then at %v with %v", first.Dst.L64, first.Nonce.Bytes,
			third.Dst.L64, third.Nonce.Bytes)
	}
}

// Rewrite are those of the outcome: out by one end, in at the other.
func TestRewrite(t *testing.T) {
	s := host(nil)
	k := out(t, 30)
	o := s.Egress(now, k)
	b, err := s.Host.Rewrite(k, &o)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ip6.Walk(b); err != nil ||
		ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, b[c.UpperOffset:c.End]) != 0 {
		t.Errorf("%x: %v", b, err)
	}
	far := decide.NewPacket(b, link)
	peer := host(func(s *decide.State, p *decide.Session) {
		s.Host.NIDs[0], p.LocalNID, p.RemoteNID, p.Alias = theirs, theirs, ours, decide.Key{Local: theirs, Remote: ours}
		p.Remote[0], p.LocalNonce, p.RemoteNonce = here, peerNonce, ownNonce
	})
	o = peer.Ingress(now, far)
	back, err := peer.Host.Rewrite(far, &o)
	if err != nil || !slices.Equal(back[8:], k.Bytes[8:]) {
		t.Errorf("came as %x, want %x: %v", back, k.Bytes, err)
	}
}

// FuzzDecide gives arbitrary packets to a host: it decides on each, and whatever goes on
// has bytes or is refused by the codecs.
func FuzzDecide(f *testing.F) {
	f.Add(out(f, 10).Bytes, true, uint8(0))
	f.Add(in(f, there, peerNonce, ip6.UDP, make([]byte, 9)).Bytes, false, uint8(1))
	f.Add(in(f, there, peerNonce, ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 0, 0, 0}).Bytes, false, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, outward bool, kind uint8) {
		s := host(func(s *decide.State, p *decide.Session) {
			p.Flags = decide.Flags(kind) << 1
			s.Host.EncapPort = 6740
		})
		k := decide.NewPacket(b, link)
		o := s.Ingress(now, k)
		if outward {
			o = s.Egress(now, k)
		}
		if !slices.Contains(decide.Verdicts, o.Verdict) {
			t.Errorf("verdict %d", o.Verdict)
		}
		_, _ = s.Host.Rewrite(k, &o)
	})
}
