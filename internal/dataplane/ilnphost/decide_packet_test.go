package ilnphost

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// The ports of generated segments and datagrams; sockets of decideSockets have some.
var (
	ownPorts    = []uint16{443, 444, 445, 446, 5001, 5002, 5003, 5004, 5005, 7777}
	remotePorts = []uint16{40000, 40001, 40002, 5000, 7778}
)

// talk is what a packet says, and between whom.
type talk struct {
	src, dst roam.ILV
	nonce    ilnp.Nonce
	proto    uint8
	body     []byte
	port     [2]uint16
	datagram bool // it is one of UDP
	stream   bool // of TCP
}

// inward draws a packet that arrives on an uplink.
func (g *gen) inward(w *world) shotAt {
	t := talk{
		src: at(pick(g, remoteLocators[:5]...), pick(g, remoteNIDs...)),
		dst: at(pick(g, ownLocators...), pick(g, ours, ours, ours, ours, ownNIDs[1])),
	}
	if g.in(3) {
		t.nonce = g.nonce()
	}
	t.port = [2]uint16{pick(g, remotePorts...), pick(g, ownPorts...)}
	if s := pick(g, decideSockets...); g.in(3) && s.foreign != 0 {
		t.port = [2]uint16{s.foreign, s.own}
		if g.in(2) {
			t.src, t.dst = at(pick(g, there, there, else1), theirs), at(pick(g, here, here, here+1), ours)
		}
	}
	var local ilnp.Nonce
	if n := len(w.sessions); n > 0 && !g.in(4) {
		local = g.aim(&t, w.sessions[g.IntN(n)], w)
	} else if len(w.pending) > 0 && g.in(2) {
		g.aimAtPending(&t, w)
	}
	if g.in(25) {
		g.stray(&t)
	}
	g.upper(&t, local)
	b := g.assemble(t)
	k := decide.NewPacket(b, uint32(pick(g, loopback, loopback, otherLink)))
	if g.in(40) {
		k.Astray = true
	}
	if g.in(40) && b[6] == ip6.TCP {
		k.GSO = 1200 // the kernel makes no room in one of a test run: its type is not set
	}
	k.Other = g.in(150)
	return shotOf(shotAt{}, k)
}

// answer draws what comes back for the last packet that left: an answer, or an error that
// quotes it.
func (g *gen) answer(w *world) (shotAt, bool) {
	c, err := ip6.Walk(g.last)
	if err != nil || c.Later() || len(g.last) > 1200 {
		return shotAt{}, false
	}
	t := talk{src: roam.ILVFromAddr(c.Header.Dst), dst: roam.ILVFromAddr(c.Header.Src), proto: c.Upper, body: bytes.Clone(g.last[c.UpperOffset:c.End])}
	if !g.in(4) {
		t.nonce = g.nonceOf(w, t)
	}
	switch {
	case g.in(6) || c.Upper == ip6.TCP && len(t.body) > tcpFlags && t.body[tcpFlags] == flagSYN && g.in(2) || c.Upper != ip6.TCP && c.Upper != ip6.UDP || len(t.body) < 8:
		t.proto, t.nonce = ip6.ICMPv6, ilnp.Nonce{}
		t.body = append([]byte{4, 2, 0, 0, 0, 0, 0, 42}, g.last...)
	case c.Upper == ip6.TCP && len(t.body) >= 20:
		seq := binary.BigEndian.Uint32(t.body[4:])
		flags := map[bool]uint8{true: flagACK, false: flagSYN | flagACK}[t.body[tcpFlags]&flagACK != 0]
		t.body = t.body[:20]
		t.body[12], t.body[tcpFlags] = 5<<4, flags
		binary.BigEndian.PutUint32(t.body[8:], seq+1+uint32(g.IntN(8)/7))
		fallthrough
	default:
		t.body[0], t.body[1], t.body[2], t.body[3] = t.body[2], t.body[3], t.body[0], t.body[1]
	}
	g.sum(&t)
	k := decide.NewPacket(plainly(t), uint32(loopback))
	if t.dst.L64 == ownLocators[1] {
		k.Link = uint32(otherLink)
	}
	return shotOf(shotAt{}, k), true
}

// nonceOf is a nonce that the sender of a packet may have.
func (g *gen) nonceOf(w *world, t talk) ilnp.Nonce {
	if e, ok := w.pending[bpfSessionKey{Local: half(uint64(t.dst.NID)), Remote: half(uint64(t.src.NID))}]; ok && g.in(2) {
		return e.RemoteNonce.nonce()
	}
	for _, p := range w.sessions {
		if p.RemoteNid.nid() == t.src.NID {
			return p.RemoteNonce.nonce()
		}
	}
	return g.nonce()
}

// aim makes a packet one of a session, or nearly, and returns our nonce.
func (g *gen) aim(t *talk, p bpfSessionEntry, w *world) ilnp.Nonce {
	t.src.NID, t.dst.NID = p.RemoteNid.nid(), p.LocalNid.nid()
	if !g.in(5) {
		t.src.L64 = p.Remote[g.IntN(int(p.N_remote+p.N_accept))].l64()
	}
	if hint := w.lives[p.Slot].Hint; g.in(5) && hint != (bpfHalf{}) {
		t.src.L64 = hint.l64()
	}
	switch g.IntN(8) {
	case 0, 1, 2:
		t.nonce = ilnp.Nonce{}
	case 3, 4, 5:
		t.nonce = p.RemoteNonce.nonce()
	case 6:
		t.nonce = w.lives[p.Slot].Learned.nonce()
	}
	if l := w.lives[p.Slot]; g.in(3) && l.CopyOpen != 0 { // the answer to a probe copy
		t.port = [2]uint16{hostToNet16(l.CopyPorts[0]), hostToNet16(l.CopyPorts[1])}
		t.nonce, t.datagram = ilnp.Nonce{}, true
	}
	return p.LocalNonce.nonce()
}

// pendingKey draws one of the pending peers.
func (g *gen) pendingKey(w *world) (k bpfSessionKey, ok bool) {
	ks := slices.DeleteFunc(pairs(), func(k bpfSessionKey) bool {
		_, there := w.pending[k]
		return !there
	})
	if len(ks) == 0 {
		return k, false
	}
	return pick(g, ks...), true
}

// aimAtPending makes a packet one of a pending peer.
func (g *gen) aimAtPending(t *talk, w *world) {
	k, _ := g.pendingKey(w)
	e := w.pending[k]
	t.src, t.dst = at(e.RemoteL64.l64(), k.Remote.nid()), at(e.LocalL64.l64(), k.Local.nid())
	if g.in(2) {
		t.nonce = e.RemoteNonce.nonce()
	}
}

// strayLocators are none that routers send packets from.
var strayLocators = []roam.L64{0, 0xff02_0000_0000_0000, 0xfebf_0000_0000_0000, 0xff0e_0000_0000_0001}

// stray changes one end of a packet into one that is refused, or left alone.
func (g *gen) stray(t *talk) {
	switch g.IntN(8) {
	case 0:
		t.src.NID = ours
	case 1:
		t.dst.NID = 9
	case 2:
		t.src.L64 = roam.DefaultSessionPrefix
	case 3:
		t.dst.L64 = roam.DefaultSessionPrefix
	case 4:
		t.dst.L64 = 0xfe80_0000_0000_0000
	case 5:
		t.src.L64 = pick(g, strayLocators...)
	case 6:
		t.src.NID = aliasNIDs[0]
	case 7:
		t.dst.L64 = pick(g, strayLocators...)
	}
}

// outward draws a packet that leaves by the session device, or by an uplink.
func (g *gen) outward(w *world) shotAt {
	t := talk{src: session(pick(g, ours, ours, ours, ownNIDs[1])), dst: session(pick(g, slices.Concat(remoteNIDs, aliasNIDs)...))}
	if n := len(w.sessions); n > 0 && !g.in(5) {
		p := w.sessions[g.IntN(n)]
		t.src, t.dst = session(p.Alias.Local.nid()), session(p.Alias.Remote.nid())
		if p.Flags&bpfEntryFlagsENTRY_NAMED != 0 && g.in(2) {
			t.dst = session(p.RemoteNid.nid())
		}
	}
	t.port = [2]uint16{pick(g, ownPorts...), pick(g, remotePorts...)}
	if len(w.flows) > 0 && g.in(4) {
		f := pick(g, w.flows...)
		t.src, t.dst = session(f.Alias.Local.nid()), session(f.Alias.Remote.nid())
		t.port = [2]uint16{binary.BigEndian.Uint16(f.Ports[:]), binary.BigEndian.Uint16(f.Ports[2:])}
		t.stream = true
	}
	g.upper(&t, ilnp.Nonce{})
	if t.proto == ip6.TCP && len(t.body) > tcpFlags && g.in(4) {
		t.body[tcpFlags] = flagSYN
		t.body = t.body[:min(len(t.body), 20+g.IntN(2)*8)]
		t.body[12] = uint8(len(t.body)/4) << 4
		g.sum(&t)
	}
	if t.proto == ip6.UDP && g.in(3) { // it counts as one to an unvalidated locator, as two or three
		t.body = append(t.body[:min(len(t.body), 8)], make([]byte, pick(g, 1430, 1470, 2930, 2970))...)
		g.sum(&t)
	}
	if k, ok := g.pendingKey(w); ok && g.in(4) {
		t.src, t.dst = session(k.Local.nid()), session(k.Remote.nid())
		if t.proto == ip6.TCP && len(t.body) > tcpFlags && g.in(2) {
			t.body[tcpFlags] = flagSYN | flagACK
		}
	}
	if g.in(40) {
		t.dst.L64 = there
	}
	k := decide.NewPacket(g.assemble(t), uint32(pick(g, loopback, loopback, otherLink)))
	switch g.IntN(20) {
	case 0:
		k.Arrived = uint32(loopback)
	case 1:
		k.Arrived, k.Mark = uint32(loopback), decide.CopyMark
	case 2:
		k.Arrived = uint32(otherLink)
	case 3, 4:
		k.Mark = decide.CopyMark
	case 5, 6:
		k.Mark = decide.HeldMark
	}
	if g.in(10) {
		k.GSO = pick[uint32](g, 1200, 1380, 1400)
	}
	k.Other = g.in(150)
	return shotOf(shotAt{outward: true}, k)
}

// size is how much data a packet has.
func (g *gen) size() int {
	switch g.IntN(12) {
	case 0:
		return 1200 + g.IntN(320)
	case 1:
		return pick(g, 1600, 3000)
	case 2, 3: // of a datagram that just fits with its nonce, or does not
		return pick(g, 1500, 1280) - ip6.HeaderLen - 8 - pick(g, 8, 16) + g.IntN(2)
	}
	return g.IntN(60)
}

// upper draws what a packet carries. local is the nonce of the session's own, which an
// error may quote.
func (g *gen) upper(t *talk, local ilnp.Nonce) {
	kind := g.IntN(12)
	switch {
	case t.datagram:
		kind = 4
	case t.stream:
		kind = 0
	}
	switch kind {
	case 0, 1, 2, 3:
		t.proto, t.body = ip6.TCP, g.segment(t.port, t.nonce)
	case 4, 5, 6:
		t.proto, t.body = ip6.UDP, udp(g.size())
		binary.BigEndian.PutUint16(t.body, t.port[0])
		binary.BigEndian.PutUint16(t.body[2:], t.port[1])
		if g.in(10) {
			binary.BigEndian.PutUint16(t.body[2:], encapPort)
		}
	case 7, 8, 9, 10:
		t.proto, t.body = ip6.ICMPv6, g.message(t, local)
	default:
		t.proto = pick[uint8](g, ip6.UDPLite, ip6.DCCP, 253, ip6.NoNext)
		t.body = udp(g.size())
	}
	g.sum(t)
	if g.in(30) {
		t.body = t.body[:g.IntN(len(t.body)+1)]
	}
}

// segment draws a TCP segment.
func (g *gen) segment(port [2]uint16, n ilnp.Nonce) []byte {
	b := tcp(pick[uint8](g, flagACK, flagACK, flagACK, flagSYN, flagSYN, flagSYN|flagACK, flagFIN|flagACK, flagFIN|flagSYN, 0x14, 0), 0)
	binary.BigEndian.PutUint16(b, port[0])
	binary.BigEndian.PutUint16(b[2:], port[1])
	binary.BigEndian.PutUint32(b[4:], uint32(g.IntN(3)))
	binary.BigEndian.PutUint32(b[8:], uint32(g.IntN(4)))
	if g.in(8) {
		b[tcpFlags] = uint8(g.IntN(32))
	}
	var options []byte
	switch g.IntN(6) {
	case 0:
		options = []byte{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, byte(g.IntN(3))}
		if g.in(2) {
			options = append(options, g.blocks()...)
		}
	case 3:
		options = g.blocks()
	case 1:
		options = []byte{2, 4, byte(g.IntN(8)), byte(g.IntN(256)), 1, 1, 1, 1}
	case 2:
		options = append([]byte{2, 4, 5, 0, 253, 10, 'r', 'o', 'a', 'm'}, n.Bytes[:4]...)
		options = append(options, 1, 1)
		b[tcpFlags] = flagSYN
	}
	b = append(b, options...)
	b[12] = uint8(len(b)/4) << 4
	return append(b, make([]byte, pick(g, 0, 0, g.size()))...)
}

const tcpFlags = 13

// message draws an ICMPv6 message.
func (g *gen) message(t *talk, local ilnp.Nonce) []byte {
	edge := pick(g, 1500, 1280) - ip6.HeaderLen - 8 - pick(g, 8, 16, 24) + g.IntN(2) // of one that just fits with its nonce
	b := make([]byte, 8+pick(g, 0, 7, 16, 16, 16, 20, 20, 300, edge))
	fill(b[8:])
	binary.BigEndian.PutUint16(b[4:], pick[uint16](g, 0x726d, 0x726d, 5))
	switch g.IntN(9) {
	case 0, 1, 2:
		if g.in(3) {
			b = g.reportProbe(t)
		}
		b[0] = 128
	case 3, 4:
		b[0] = 129
	case 5:
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{{L64: else1, Preference: 10, Lifetime: 600}}}
		b, _ = lu.AppendTo(nil)
	case 6:
		b[0] = pick[uint8](g, 0, 100, 130, 134, 137, 138, 143, 157, 200)
	default:
		return g.report(t, local)
	}
	return b
}

// reportProbe draws a probe that asks for a report, or nearly.
func (g *gen) reportProbe(t *talk) []byte {
	r := ilnpwire.Report{Counted: g.in(2), PerFlow: g.in(3), Cost: uint8(t.src.NID) & 15}
	r.Epoch, r.Received.Packets = 77, 1<<40+5 // what a request may hold, and no answer returns
	r.Sealed = g.apart(uint64(t.src.L64) + 3).in(2)
	if r.Other = g.in(2); r.Other {
		r.Near, r.Far = ownLocators[g.IntN(len(ownLocators))], remoteLocators[g.IntN(3)]
	}
	if r.Cross = g.in(3); r.Cross {
		for i := range r.Connections[:g.IntN(len(r.Connections)+1)] {
			r.Connections[i] = [2]uint16{pick(g, 0, remotePorts[g.IntN(2)]), pick(g, 0, ownPorts[g.IntN(3)])}
		}
	}
	b := r.AppendRequest(make([]byte, 8), [16]byte{t.src.Addr().As16()[15], 1, 2, 3})
	if g.in(4) {
		r.MAC = [16]byte{5, 15: 6}
		b = r.AppendReply(make([]byte, 8), [16]byte{9})
	}
	if g.in(5) {
		b[24+g.IntN(8)] ^= 1 << g.IntN(8)
	}
	return b
}

// report draws an ICMPv6 error that quotes a packet of ours, or nearly.
func (g *gen) report(t *talk, local ilnp.Nonce) []byte {
	quoted := talk{src: t.dst, dst: t.src, nonce: local, proto: ip6.TCP, port: [2]uint16{t.port[1], t.port[0]}}
	if g.in(4) {
		quoted.dst = at(pick(g, remoteLocators...), pick(g, remoteNIDs...))
	}
	quoted.body = g.segment(quoted.port, ilnp.Nonce{})
	if g.in(2) {
		quoted.body = append(tcp(flagSYN, 0), 2, 4, 5, 0xa0)
		quoted.body[12] = 6 << 4
	}
	if g.in(3) {
		quoted.proto, quoted.body = ip6.UDP, udp(9)
		binary.BigEndian.PutUint16(quoted.body, quoted.port[0])
		binary.BigEndian.PutUint16(quoted.body[2:], quoted.port[1])
	}
	if quoted.nonce = local; g.in(4) {
		quoted.nonce = g.nonce()
	}
	g.sum(&quoted)
	b := []byte{pick[uint8](g, 1, 2, 3, 4, 4, 4), pick[uint8](g, 2, 2, 2, 0), 0, 0, 0, 0, 0, pick[uint8](g, 42, 42, 42, 40)}
	b = append(b, plainly(quoted)...)
	if g.in(10) {
		b = b[:g.IntN(len(b))+1]
	}
	return b
}

// plainly makes a packet with nothing else than its nonce before the upper layer.
func plainly(t talk) []byte {
	first, body := t.proto, t.body
	if t.nonce.Present() {
		first, body = ip6.DestOpts, with(t.nonce, t.proto, t.body)
	}
	h := ip6.Header{PayloadLen: uint16(len(body)), NextHeader: first, HopLimit: 61, Src: t.src.Addr(), Dst: t.dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return append(b, body...)
}

// sum draws by which rule the checksum of a packet is right, and whether it is finished.
func (g *gen) sum(t *talk) {
	off, n, ok := ip6.ChecksumOffset(t.proto)
	if !ok || len(t.body) < n {
		return
	}
	src, dst := t.src.Addr(), t.dst.Addr()
	if g.in(3) {
		src, dst = nidOf(t.src), nidOf(t.dst)
	}
	field := t.body[off:]
	binary.BigEndian.PutUint16(field, 0)
	check := ip6.Checksum(src, dst, t.proto, t.body)
	switch g.IntN(12) {
	case 0: // only the seed over the pseudo-header
		check = ^ip6.Add(check, ip6.Sum(t.body))
	case 1:
		check ^= 0x0101
	case 2:
		if t.proto == ip6.UDP {
			check = 0
		}
	}
	binary.BigEndian.PutUint16(field, check)
}

func nidOf(v roam.ILV) netip.Addr { return roam.ILV{NID: v.NID}.Addr() }

// assemble puts headers before what a packet carries.
func (g *gen) assemble(t talk) []byte {
	kind := g.IntN(40)
	if t.proto == ip6.UDP && g.in(8) { // of a datagram, perhaps to a socket on a real address
		kind, t.nonce = 0, pick(g, ilnp.Nonce{}, ilnp.Nonce{}, t.nonce)
	}
	b := plainly(t)
	switch kind {
	case 0, 1: // a fragment, with its nonce in front of that
		offset := pick[uint16](g, 1, 8, 800)
		header := []byte{t.proto, 0, byte(offset >> 8), byte(offset), 0, 0, 0, fragmentID}
		t.proto, t.body = ip6.Fragment, append(header, t.body...)
		b = plainly(t)
	case 2: // a header with padding in front of all
		b = before(b, ip6.HopByHop, []byte{b[6], 0, 1, 4, 0, 0, 0, 0})
	case 3:
		b = before(b, ip6.Routing, []byte{b[6], 0, 4, byte(g.IntN(2)), 0, 0, 0, 0})
	case 4: // options beside the nonce
		n := pick(g, []byte{1, 4, 0, 0, 0, 0}, []byte{0x1e, 4, 1, 2, 3, 4}, []byte{0x8b, 4, 1, 1, 1, 1}, []byte{0x8b, 3, 1, 1, 1, 0})
		b = before(b, ip6.DestOpts, append([]byte{b[6], 0}, n...))
	case 5: // padding in the header of the nonce
		if t.nonce.Len == 4 {
			b = before(b[:0:0], 0, nil)
			t.body = append([]byte{t.proto, 1, 0x8b, 4, t.nonce.Bytes[0], t.nonce.Bytes[1], t.nonce.Bytes[2], t.nonce.Bytes[3], 1, 6, 0, 0, 0, 0, 0, 0}, t.body...)
			t.proto, t.nonce = ip6.DestOpts, ilnp.Nonce{}
			b = plainly(t)
		}
	case 6, 7, 8, 9: // in UDP
		if e, err := ilnpwire.Encapsulate(b, encapPort); err == nil {
			b = e
			if g.in(6) {
				b = ilnpwire.Pad(b)
			}
		}
	case 10:
		b = mutate(g.Rand, b)
	case 11:
		if len(b) > 60 {
			binary.BigEndian.PutUint16(b[4:], uint16(g.IntN(len(b))))
		}
	}
	return b
}

// before puts a header in front of all others.
func before(b []byte, proto uint8, header []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	out := append(append(bytes.Clone(b[:ip6.HeaderLen]), header...), b[ip6.HeaderLen:]...)
	out[6] = proto
	binary.BigEndian.PutUint16(out[4:], uint16(len(out)-ip6.HeaderLen))
	return out
}
