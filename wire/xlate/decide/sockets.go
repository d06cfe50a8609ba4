package decide

import (
	"encoding/binary"
	"math/bits"

	"roam"
	"roam/wire/ip6"
)

// Socket is the result of a socket look-up.
type Socket struct {
	Local     roam.ILV // the bound address; zero: any
	Listens   bool     // TCP: it is a listener
	Connected bool     // UDP: it is connected
}

// Sockets looks up sockets of this host like the kernel's helpers: an exact match first,
// else a socket that accepts any sender.
type Sockets interface {
	Stream(remote, local roam.ILV, remotePort, localPort uint16) (Socket, bool)
	Datagram(remote, local roam.ILV, remotePort, localPort uint16) (Socket, bool)
}

// tuple is the key of a socket look-up.
type tuple struct {
	remote, local         roam.ILV
	remotePort, localPort uint16
}

// in returns the same ports between session addresses.
func (t tuple) in(prefix roam.L64) tuple {
	t.remote.L64, t.local.L64 = prefix, prefix
	return t
}

func (s *State) stream(t tuple) (Socket, bool) {
	if s.Sockets == nil {
		return Socket{}, false
	}
	return s.Sockets.Stream(t.remote, t.local, t.remotePort, t.localPort)
}

func (s *State) datagram(t tuple) (Socket, bool) {
	if s.Sockets == nil {
		return Socket{}, false
	}
	return s.Sockets.Datagram(t.remote, t.local, t.remotePort, t.localPort)
}

// isConnection reports whether there is a connection between these ends.
func (s *State) isConnection(t tuple) bool {
	sk, ok := s.stream(t)
	return ok && !sk.Listens
}

const fragmentLen = 8

// tupleAt reads the ends of the packet at an offset, which has no extension headers unless it
// is the first fragment of a datagram; for a quoted packet they are swapped. The protocol is 0
// if the packet is too short.
func (t *step) tupleAt(at int, swapped bool) (q tuple, proto uint8) {
	b, ok := t.k.load(at, ip6.HeaderLen)
	if !ok {
		return q, 0
	}
	proto, behind := b[6], at+ip6.HeaderLen
	if proto == ip6.Fragment {
		f, ok := t.k.load(behind, 4)
		if !ok || f[0] != ip6.UDP || f[2] != 0 || f[3]&0xf8 != 0 {
			return q, 0
		}
		proto, behind = ip6.UDP, behind+fragmentLen
	}
	from, to, there := t.k.ports(behind)
	if !there {
		return q, 0
	}
	q = tuple{ilvAt(b[ip6.SrcAt:]), ilvAt(b[ip6.DstAt:]), from, to}
	if swapped {
		q = tuple{q.local, q.remote, to, from}
	}
	return q, proto
}

// realSocket reports whether a socket is bound to the very addresses of the packet at an
// offset.
func (t *step) realSocket(at int, swapped bool) bool {
	q, proto := t.tupleAt(at, swapped)
	switch proto {
	case ip6.TCP:
		sk, ok := t.s.stream(q)
		return ok && sk.Local == q.local && !(sk.Listens && t.s.isConnection(q.in(t.s.Host.SessionPrefix)))
	case ip6.UDP:
		sk, ok := t.s.datagram(q)
		return ok && sk.Local == q.local
	}
	return false
}

// realDatagram reports whether a datagram of a node with a session belongs to a socket of
// plain IPv6.
func (s *State) realDatagram(q tuple) bool {
	sk, ok := s.datagram(q)
	if !ok || sk.Local.NID != q.local.NID {
		return false
	}
	if sk.Connected {
		return true
	}
	_, taken := s.datagram(q.in(s.Host.SessionPrefix))
	return !taken
}

// lacksSession reports whether a segment belongs to a connection between session addresses.
func (t *step) lacksSession() bool {
	q, proto := t.tupleAt(0, false)
	flags, ok := t.k.byteAt(ip6.HeaderLen + tcpFlagsAt)
	return proto == ip6.TCP && ok && flags&(flagSYN|flagACK) != flagSYN && t.s.isConnection(q.in(t.s.Host.SessionPrefix))
}

// notePlain records that a node without a session uses plain IPv6, and reports whether that
// is new.
func (t *step) notePlain() bool {
	key := Key{t.dst.NID, t.src.NID}
	if t.s.Host.RealNIDs || !hasRule(t.c.proto) || t.s.PlainNodes[key] {
		return false
	}
	t.s.PlainNodes[key] = true
	return true
}

// passPlain passes a packet of a node without session unchanged.
func (t *step) passPlain() Verdict {
	if t.notePlain() && t.sessionOf() != nil {
		return t.drop(DropNoNonceYet)
	}
	return PassOn
}

// real is the place of a socket of plain IPv6.
type real struct {
	found bool
	here  bool     // bound to the packet's own addresses
	local roam.L64 // else bound to these
	other roam.L64
}

const mostLookups = 24

// realElsewhere searches a connection on these ports between other locators of the two
// nodes.
func (t *step) realElsewhere(p *Session, q tuple) real {
	owns := 0
	for _, r := range t.s.Host.Reals {
		if r.NID == t.dst.NID {
			owns++
		}
	}
	for i := range p.NRemote {
		if (i+1)*owns > mostLookups {
			break
		}
		for _, r := range t.s.Host.Reals {
			if r.NID != t.dst.NID {
				continue
			}
			if q.remote.L64, q.local.L64 = p.Remote[i], r.L64; t.s.isConnection(q) {
				return real{found: true, local: r.L64, other: p.Remote[i]}
			}
		}
	}
	return real{}
}

// offPath reports whether a packet arrived at another locator than the source of a plain
// session.
func (t *step) offPath(p *Session) bool {
	return p != nil && p.is(Plain) && t.s.uplink(p, 0).L64 != t.dst.L64
}

// Marks say where sockets on real addresses may be.
type Marks struct {
	Valid uint32 // the least mark that counts; 0: all count
	Of    map[uint16]uint32
}

// NodeMark returns the mark of sockets that are connected to a node.
func NodeMark(nid roam.NID) uint16 {
	return uint16(bits.ReverseBytes64(uint64(nid)) * 0x9e3779b97f4a7c15 >> 48)
}

// MayBeReal reports whether a socket on a real address may be for a packet of a node to a
// local port, whose number is the mark of sockets that are not connected.
func (m Marks) MayBeReal(node roam.NID, port uint16) bool {
	return m.Of[NodeMark(node)] >= m.Valid || m.Of[port] >= m.Valid
}

// Fragmented identifies a datagram in fragments.
type Fragmented struct {
	Src, Dst roam.ILV
	ID       uint32
}

const fragmentLife = 60 * second

// realFragment reports whether a fragment without nonce belongs to a datagram of a plain IPv6
// socket, which its first fragment has shown.
func realFragment(t *step) bool {
	id, ok := t.k.load(t.c.at-4, 4)
	if t.c.proto != ip6.UDP || t.c.at != ip6.HeaderLen+fragmentLen || !ok {
		return false
	}
	key := Fragmented{t.src, t.dst, binary.BigEndian.Uint32(id)}
	if t.c.fragment == laterFragment {
		since, ok := t.s.Fragmented[key]
		return ok && t.now-since < fragmentLife
	}
	if _, port, ok := t.k.ports(t.c.at); !ok || !t.s.Marks.MayBeReal(t.src.NID, port) || !t.realSocket(0, false) {
		return false
	}
	t.s.Fragmented[key] = t.now
	return true
}

// findReal searches the plain IPv6 socket of a packet. p is the session of the two nodes,
// or nil.
func (t *step) findReal(p *Session) real {
	from, to, ok := t.k.ports(t.c.at)
	nonce := t.c.nonce.Present()
	if !t.c.isWhole() {
		is := p != nil && !nonce && t.c.proto == ip6.UDP && (t.offPath(p) || realFragment(t))
		return real{found: is, here: is}
	}
	if !ok {
		return real{}
	}
	q := tuple{t.src, t.dst, from, to}
	marked := t.s.Marks.MayBeReal(t.src.NID, to)
	if t.c.proto == ip6.UDP {
		is := nonce && marked && t.s.realDatagram(q) || !nonce && (t.offPath(p) || marked && t.realSocket(0, false))
		return real{found: is, here: is}
	}
	flags, ok := t.c.flags(t.k)
	if t.c.proto != ip6.TCP || !ok {
		return real{}
	}
	if flags&(flagSYN|flagACK) == flagSYN {
		is := !nonce && (p != nil && p.is(Plain) || marked && t.realSocket(0, false))
		return real{found: is, here: is}
	}
	if !marked || t.s.isConnection(q.in(t.s.Host.SessionPrefix)) {
		return real{}
	}
	if nonce && t.s.isConnection(q) || !nonce && t.realSocket(0, false) {
		return real{found: true, here: true}
	}
	if p == nil {
		return real{}
	}
	return t.realElsewhere(p, q)
}

// isForName reports whether a packet of a session with two aliases belongs to the alias
// that is its NID.
func (t *step) isForName() bool {
	if t.c.proto == ip6.ICMPv6 {
		return t.c.kind == 129
	}
	from, to, ok := t.k.ports(t.c.at)
	if !t.c.isWhole() || !ok {
		return false
	}
	q := tuple{t.src, t.dst, from, to}.in(t.s.Host.SessionPrefix)
	switch t.c.proto {
	case ip6.TCP:
		return t.s.isConnection(q)
	case ip6.UDP:
		sk, ok := t.s.datagram(q)
		return ok && sk.Connected
	}
	return false
}

// serve offers a translated first segment without listener on session addresses to the
// servers on real addresses.
func (t *step) serve() {
	if t.out.Action != Delivered || t.c.proto != ip6.TCP || !t.c.isWhole() || !t.hasNonceOnly() {
		return
	}
	from, to, ok := t.k.ports(t.c.at)
	flags, there := t.c.flags(t.k)
	if !ok || !there || flags&(flagSYN|flagACK) != flagSYN {
		return
	}
	q := tuple{t.out.Src, t.out.Dst, from, to}
	if _, ok := t.s.stream(q); ok {
		return
	}
	for _, r := range t.s.Host.Reals {
		q.local = r
		if sk, ok := t.s.stream(q); ok && sk.Listens {
			t.out.Server = r
			t.count(RxListener)
			return
		}
	}
}

// hasNonceOnly reports whether the packet has no extension header beside the nonce's.
func (t *step) hasNonceOnly() bool {
	h, ok := t.k.load(ip6.HeaderLen, t.c.at-ip6.HeaderLen)
	if !ok || t.c.nonceAt != ip6.HeaderLen || 8+8*int(h[1]) != len(h) {
		return false
	}
	list, err := ip6.Options(h, ip6.HeaderLen)
	for _, o := range list {
		if o.Type > ip6.PadN && o.Offset != t.c.optionAt {
			return false
		}
	}
	return err == nil
}
