package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Intermediate decisions of receiveInSession, not returned to callers.
const (
	forPending   Verdict = -2
	forStack     Verdict = -3
	forStack6741 Verdict = -4
)

// Ingress is ilnp_uplink_ingress, or for a Raw packet ilnp_rawlink_ingress.
func (s *State) Ingress(now uint64, k *Packet) Outcome {
	t := newStep(s, now, k)
	v := t.receive()
	t.out.Refused, t.out.Verdict = t.c.refused, v
	if v == PassOn && t.c.nonce.Present() {
		t.serve()
	}
	return t.out
}

func (t *step) receive() Verdict {
	if v, done := t.readInbound(); done {
		return v
	}
	if t.c.proto == ip6.ICMPv6 && t.c.fragment != laterFragment {
		if kind := t.c.kind; kind >= mldFirst && kind <= ndLast || kind == mldReport {
			return PassOn
		}
		if t.c.kind >= 1 && t.c.kind <= knownErrors {
			return t.receiveError()
		}
	}
	p := t.sessionOf()
	if p == nil && t.s.Host.isOurs(t.src.NID) {
		return t.refuse(DropOwnNID)
	}
	if p != nil && p.RemoteNID != t.src.NID {
		return t.refuse(DropWrongNonce)
	}
	var there real
	if p != nil && p.is(RealSockets) {
		there = t.findReal(p)
	}
	if there.here && !t.c.nonce.Present() {
		t.count(RxRealSocket)
		return PassOn
	}
	if p == nil && t.c.nonce.Present() {
		there = t.findReal(nil)
		t.c.plain = there.found
	}
	v := forPending
	if p != nil {
		v = t.receiveInSession(p)
	}
	if v == forPending {
		switch {
		case p != nil || t.c.nonce.Present() || t.speaksForPending():
			v = t.receivePending(p)
		case t.c.proto == ip6.ICMPv6 && t.c.kind == ilnp.TypeLocatorUpdate:
			return t.refuse(DropUpdateNoNonce)
		case t.c.proto == ip6.TCP && t.lacksSession() && !t.realSocket(0, false):
			return t.drop(DropSessionLost)
		default:
			return t.passPlain()
		}
	}
	if v > forStack {
		return v
	}
	return t.deliver(p, there, v)
}

// readInbound parses the headers of a packet to a local locator, and returns a verdict if
// they decide.
func (t *step) readInbound() (Verdict, bool) {
	h, ok := t.k.load(0, ip6.HeaderLen)
	if t.k.Other || t.k.Astray || !ok {
		return PassOn, true
	}
	t.src, t.dst = ilvAt(h[ip6.SrcAt:]), ilvAt(h[ip6.DstAt:])
	host := &t.s.Host
	if t.dst.L64 == host.SessionPrefix || t.src.L64 == host.SessionPrefix {
		return t.refuse(DropSessionOutside), true
	}
	if !host.isOurs(t.dst.NID) || !onWire(t.dst.L64) {
		return PassOn, true
	}
	why := t.c.parse(t.k, ip6.HeaderLen, h[ip6.NextHeaderAt])
	if why == 0 {
		why = t.c.openEncap(t.k, host.EncapPort, t.count)
	}
	if why == 0 {
		why = t.c.refused
	}
	if why != 0 {
		return t.refuse(why), true
	}
	if !t.c.lengthHolds(t.k) {
		return t.drop(DropMalformed), true
	}
	return 0, false
}

// aliasOf returns the key of the session between two nodes on the wire.
func (s *State) aliasOf(local roam.NID, remote roam.ILV) Key {
	if alias, ok := s.Collisions[CollisionKey{local, remote}]; ok && s.Host.Collisions {
		return alias
	}
	return Key{local, remote.NID}
}

// NonceKey returns the key of a correspondent's nonce in the map of collisions.
func NonceKey(local, remote roam.NID, n ilnp.Nonce) CollisionKey {
	b := [8]byte{0xff}
	copy(b[1:], n.Bytes[:7])
	return CollisionKey{local, roam.ILV{L64: roam.L64(binary.BigEndian.Uint64(b[:])), NID: remote}}
}

// collisionByNonce returns the session that has the packet's nonce, among correspondents
// with one NID, or nil.
func (t *step) collisionByNonce() *Session {
	if !t.s.Host.Collisions {
		return nil
	}
	key := Key{t.dst.NID, t.src.NID}
	if alias, ok := t.s.Collisions[NonceKey(t.dst.NID, t.src.NID, t.c.nonce)]; ok {
		key = alias
	}
	if p := t.s.find(key); p != nil && p.RemoteNonce == t.c.nonce {
		return p
	}
	return nil
}

// sessionOf returns the session of an arriving packet, or nil.
func (t *step) sessionOf() *Session {
	if t.c.nonce.Present() {
		if p := t.collisionByNonce(); p != nil {
			return p
		}
	}
	if p := t.s.find(t.s.aliasOf(t.dst.NID, t.src)); p != nil && !p.Waits() {
		return p
	}
	return nil
}

// receiveInSession returns a verdict, or an intermediate decision.
func (t *step) receiveInSession(p *Session) Verdict {
	l := p.live()
	known := t.s.accepted(p, t.src.L64)
	m := t.matchOf(p, l, known)
	if v, done := t.judge(p, l, m); done {
		return v
	}
	if known > p.NRemote {
		t.count(RxStaleLocator)
	}
	t.noteHeard(p, l, known)
	t.countReceived(p)
	t.noteFlow(p)
	noteDataPath(t, p)
	plain := countsNIDsOnly(p, l) && !t.sumsNIDsOnly()
	t.noteStack(p, l, m, plain)
	if v, done := t.receiveControl(p, l, m, known); done {
		return v
	}
	t.clampMSS(p)
	t.forgetOldEcho(l)
	if p.is(ByAlias) && !(p.is(Named) && t.isForName()) {
		t.src.NID, t.dst.NID = p.Alias.Remote, p.Alias.Local
	}
	if countsNIDsOnly(p, l) && !plain {
		return forStack6741
	}
	return forStack
}

// judge returns the verdict that a packet's match implies, if any.
func (t *step) judge(p *Session, l *Live, m match) (Verdict, bool) {
	isICMP := t.c.proto == ip6.ICMPv6
	switch m {
	case otherNonce:
		return forPending, true
	case strangePlace:
		return t.refuse(DropUnknownLocator), true
	case notNow:
		return t.drop(DropNoNonceYet), true
	case byLocator:
		switch {
		case isICMP && t.c.kind == ilnp.TypeLocatorUpdate:
			return t.refuse(DropUpdateNoNonce), true
		case p.is(Plain):
			t.count(RxPlain)
		case isICMP:
			return t.refuse(DropICMPNoNonce), true
		}
	case unconfirmed:
		// The token of a reply identifies its session, and so may an acknowledged update.
		takes := false
		switch {
		case !isICMP || !t.c.isWhole():
		case t.c.kind == ilnp.TypeLocatorUpdate:
			takes = p.takesUpdate(t, l, true)
		case t.isProbeReply():
			takes = takeShare(&l.ToldUntil, t.now, t.k.Len)
		}
		if takes {
			return t.handOverOwn(p), true
		}
		return t.refuse(DropUnknownLocator), true
	}
	return 0, false
}

// receiveControl processes a control message of the session.
func (t *step) receiveControl(p *Session, l *Live, m match, known int) (Verdict, bool) {
	message := t.c.proto == ip6.ICMPv6 && m == authentic && t.c.isWhole()
	takes := false
	switch {
	case message && t.c.kind == ilnp.TypeLocatorUpdate:
		takes = p.takesUpdate(t, l, false)
	case t.isResync(p.RemoteNonce) || message && t.isProbeReply():
		takes = takeShare(&l.ToldUntil, t.now, t.k.Len)
	case message && t.c.kind == ilnp.TypeEchoRequest:
		if p.Rules != 0 && !t.isProbe() {
			return 0, false // the stack answers, by the rules
		}
		if isUnvalidated(p, known) {
			t.allowance(p, t.src.L64, false).charge(t.k.Len)
		}
		v, done := t.answerEcho(p.LocalNonce)
		if done && t.out.Action == Answered {
			t.out.Report = t.report(p)
		}
		return v, done
	default:
		return 0, false
	}
	if !takes {
		return t.refuse(DropRingShare), true
	}
	return t.handOverOwn(p), true
}

// answerEcho turns an echo request into its reply in place, and reports whether it did: if
// not, the stack answers.
func (t *step) answerEcho(own ilnp.Nonce) (Verdict, bool) {
	if t.s.isObstructed(t.dst.L64, t.src) {
		if t.isProbe() {
			return t.drop(DropObstructed), true
		}
		return 0, false
	}
	if !t.c.isWhole() || own.Len != t.c.nonce.Len {
		return 0, false
	}
	t.count(RxEchoReflected)
	t.out.Action, t.out.Src, t.out.Dst, t.out.Nonce, t.out.Encap = Answered, t.dst, t.src, own, t.c.encap
	return Redirect, true
}

// clampMSS lowers the MSS of a SYN, towards a peer that requires a nonce in every packet.
func (t *step) clampMSS(p *Session) {
	b, ok := t.k.load(t.c.at, 24)
	if !p.is(NonceAlways) || t.c.proto != ip6.TCP || !t.c.isWhole() || !ok {
		return
	}
	u := t.s.uplink(p, 0)
	if b[ip6.TCPFlagsAt]&flagSYN == 0 || b[ip6.TCPDataOffsetAt]>>4 < 6 || b[20] != 2 {
		return
	}
	if most := mostData(p, u); most > 0 && uint32(binary.BigEndian.Uint16(b[22:])) > most {
		t.out.MSS = uint16(most)
	}
}

// mostData returns the largest MSS towards such a peer, or 0.
func mostData(p *Session, u *Uplink) uint32 {
	switch {
	case p.is(Narrow):
		return minMTU - ip6.HeaderLen - 20 - uint32(p.LocalNonce.HeaderLen())
	case u.MTU <= misread:
		return 0
	}
	return u.MTU - misread
}

const (
	echoesOld = 5 * second
	stampsLen = 12
)

// forgetOldEcho clears the echoed time stamp in a segment that arrives soon after an
// outage.
func (t *step) forgetOldEcho(l *Live) {
	if l.Returned == 0 || t.c.proto != ip6.TCP || !t.c.isWhole() {
		return
	}
	if int32(tick(t.now)-l.Returned) > int32(tick(echoesOld)) {
		l.Returned = 0
		return
	}
	b, ok := t.k.load(t.c.at, 20+stampsLen)
	if !ok || int(b[ip6.TCPDataOffsetAt]>>4) < (20+stampsLen)/4 || binary.BigEndian.Uint32(b[20:]) != 0x0101080a ||
		binary.BigEndian.Uint32(b[28:]) == 0 {
		return
	}
	t.count(RxEchoForgotten)
	t.out.Forgot = true
}

// deliver passes a packet to the stack, with its session addresses or those of a socket of
// plain IPv6.
func (t *step) deliver(p *Session, there real, v Verdict) Verdict {
	t.out.OverNIDs = v == forStack6741
	if t.c.proto == ip6.ICMPv6 {
		t.out.OverNIDs = t.isICMPOverNIDs(p)
	}
	if !t.holdsChecksum() || !t.strips() { // a GSO packet may have no length
		return t.drop(DropKernelHelper)
	}
	if there.found {
		t.out.Action = Rebuilt
		t.out.Src, t.out.Dst = ilvAt(t.k.Bytes[ip6.SrcAt:]), ilvAt(t.k.Bytes[ip6.DstAt:])
		if p != nil && !there.here {
			t.out.Src.L64, t.out.Dst.L64 = there.other, there.local
		}
		t.count(RxRealSocket)
		return PassOn
	}
	prefix := t.s.Host.SessionPrefix
	t.out.Action = Delivered
	t.out.Src, t.out.Dst = roam.ILV{L64: prefix, NID: t.src.NID}, roam.ILV{L64: prefix, NID: t.dst.NID}
	if t.c.nonce.Present() {
		t.count(RxNonce)
	}
	t.count(RxPackets)
	return PassOn
}

// strips reports whether the programs can remove the nonce: from an encapsulated message
// only if no header precedes it.
func (t *step) strips() bool {
	return !t.c.encap || t.c.alone != 0 && t.c.nonceAt == ip6.HeaderLen+udpLen
}
