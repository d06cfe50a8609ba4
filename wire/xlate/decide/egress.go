package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

const (
	pendingMost = 1600
	repliesMost = 1600
	missesMost  = 100
	firstTold   = 16
)

// outward is an outgoing packet: in the egress program, and an answer of the other
// programs.
type outward struct{ *step }

// Egress is ilnp_session_egress: a packet that leaves by the session device or by an
// uplink, or arrives at the far end of the segmentation device.
func (s *State) Egress(now uint64, k *Packet) Outcome {
	t := newStep(s, now, k)
	h, ok := k.load(0, ip6.HeaderLen)
	if k.Other || !ok {
		return t.end(t.refuseEnds(false))
	}
	t.src, t.dst = ilvAt(h[ip6.SrcAt:]), ilvAt(h[ip6.DstAt:])
	if prefix := s.Host.SessionPrefix; t.src.L64 != prefix || t.dst.L64 != prefix {
		return t.end(t.refuseEnds(t.src.L64 == prefix || t.dst.L64 == prefix))
	}
	if k.Arrived != 0 && (s.onUplink(k) || !k.isSegmented()) {
		t.out.Refused = DropForwarded
		return t.end(t.drop(DropForwarded))
	}
	if t.c.parse(k, ip6.HeaderLen, h[ip6.NextHeaderAt]) != 0 || t.c.refused != 0 {
		return t.end(t.drop(DropMalformed))
	}
	return t.end(outward{t}.egress(h[ip6.NextHeaderAt]))
}

// onUplink reports whether an outgoing packet is at the egress of an uplink.
func (s *State) onUplink(k *Packet) bool {
	return k.Link != s.Host.Device && k.Link != s.Host.SegdevEnd
}

// refuseEnds is the verdict on a packet whose addresses are not both of sessions; one:
// one of them is.
func (t *step) refuseEnds(one bool) Verdict {
	switch {
	case !t.s.onUplink(t.k):
		return t.drop(DropNotSession)
	case one:
		return t.drop(DropLeak)
	}
	return PassOn
}

func (t outward) egress(next uint8) Verdict {
	key := Key{t.src.NID, t.dst.NID}
	p := t.s.find(key)
	var e *Pending
	if p == nil || p.Waits() {
		e = t.s.pendingOf(key)
	}
	switch waits := p == nil || t.waits(p); {
	case e != nil:
		p = nil // the peer contacted this host first
	case waits && t.k.Mark == CopyMark:
		return t.drop(DropNotSession)
	case waits:
		return t.handOverMiss(key, nil, p != nil)
	}
	if t.c.proto == ip6.ICMPv6 && t.c.kind <= errorLast && t.c.isWhole() {
		return t.handOverError(key, e)
	}
	if e != nil {
		return t.sendPending(key, e, next)
	}
	if p.is(PlainFlows) && t.c.proto == ip6.TCP && t.c.isWhole() {
		if v, done := t.sendPlainFlow(p); done {
			return v
		}
	}
	return t.sendInSession(p, next)
}

// waits reports whether a packet is to wait for the daemon, which sends what has waited for the
// session's entry. A GSO packet is cut first, and its segments wait.
func (t outward) waits(p *Session) bool {
	return p.is(Held) && t.k.Mark != HeldMark && (t.k.Mark == CopyMark || t.isCutFirst() || !p.Live.Written)
}

func (t outward) isCutFirst() bool {
	return t.k.GSO != 0 && t.s.Host.Segdev != 0 && !t.k.isSegmented()
}

// handOverMiss hands a packet that needs a session to the daemon; e: its pending peer,
// whose allowance it exceeds; held: it waits for its turn. A GSO packet is cut before.
func (t outward) handOverMiss(key Key, e *Pending, held bool) Verdict {
	if t.isCutFirst() {
		return t.toSegdev()
	}
	about := Event{Key: key}
	if held {
		about.Packets = 1
	}
	if e != nil {
		t.aboutPending(&about, e, key)
	} else if _, known := t.s.Known[key.Remote]; !held && !known && t.s.exceeds(t.now, RateMisses, missesMost) {
		t.count(DropMissRate)
		return t.dropSilently()
	}
	if t.tellPacket(Requests, Miss, about) {
		t.count(DropMissHandedOver)
	}
	return t.dropSilently()
}

// aboutPending sets the place of a pending peer, and the nonce for the answer.
func (t outward) aboutPending(about *Event, e *Pending, key Key) {
	about.Remote = roam.ILV{L64: e.RemoteL64, NID: key.Remote}
	about.Local = roam.ILV{L64: e.LocalL64, NID: key.Local}
	about.Nonce, about.Link, about.Encapsulated, about.Found = e.RemoteNonce, e.Link, e.EncapCame, e.Rule
	about.OwnNonce = t.s.Host.nonceOf(e, key)
}

// handOverError hands an ICMPv6 error of the local stack to the daemon.
func (t outward) handOverError(key Key, e *Pending) Verdict {
	about := Event{Key: key}
	if e != nil {
		t.aboutPending(&about, e, key)
		if t.s.isObstructed(about.Local.L64, about.Remote) {
			t.count(DropObstructed)
			return t.dropSilently()
		}
		if !e.allows(t.k.Len) {
			t.count(DropUnvalidated)
			return t.dropSilently()
		}
	}
	if t.tellPacket(Urgent, ErrorOut, about) {
		t.count(DropErrorHandedOver)
	}
	return t.dropSilently()
}

// nonceDue reports whether the packet needs the Nonce option.
func (t outward) nonceDue(p *Session, l *Live) bool {
	switch {
	case p.is(Plain) || isPlainSoon(p, l):
		return false
	case p.is(Initiated|NonceAlways) || t.c.proto == ip6.ICMPv6 || t.now < p.NonceUntil:
		return true
	case t.c.proto != ip6.TCP || t.c.fragment == laterFragment || t.k.GSO != 0:
		return false
	}
	flags, _ := t.c.flags(t.k)
	return flags&flagSYN != 0
}

// limits bound the packets that have the Nonce option.
type limits struct {
	mtu    uint32
	bears  bool // a GSO packet may have it
	narrow bool // a path has no space for it besides minMTU bytes
}

const minMTU = 1280

// fit reports whether n bytes fit with so many more.
func (l limits) fit(n, more uint32) bool {
	return n+more <= l.mtu && !(l.narrow && n <= minMTU && n+more > minMTU)
}

// nonceFits reports whether the Nonce option fits into this packet.
func (t outward) nonceFits(l limits, next uint8) bool {
	size := uint32(t.out.Nonce.HeaderLen())
	if t.out.Encap {
		size += udpLen
	}
	fits := l.fit(uint32(t.k.Len), size)
	if t.k.GSO != 0 {
		fits = l.bears
	}
	if next != ip6.HopByHop && next != ip6.Routing && fits {
		return true
	}
	t.count(TxNonceLeftOut)
	return false
}

// transmit sends a packet whose addresses are set.
func (t outward) transmit(l limits, next uint8) Verdict {
	if !t.holdsChecksum() {
		return t.drop(DropKernelHelper)
	}
	if t.out.Nonce.Present() {
		switch {
		case !t.nonceFits(l, next):
			t.out.Nonce.Len, t.out.Nonce.Bytes, t.out.Encap = 0, [12]byte{}, false
		case t.out.Encap:
			t.count(TxEncap)
		default:
			t.count(TxNonce)
		}
	}
	t.count(TxPackets)
	t.out.Action = Sent
	return Redirect
}

// noteSent notes that a local application sends, be it that the packet leaves or not, which
// is of 0 bytes then.
func (t outward) noteSent(p *Session, l *Live, n int) {
	h, now := &t.s.Host, moment(t.now)
	l.noteTx(now, n)
	if l.UnansweredTx == 0 {
		if !t.isAcknowledgement(l, now) {
			l.UnansweredTx = now
		}
		return
	}
	if p.is(Initiated|Plain) || now-l.UnansweredTx < tick(h.SilenceAfter) {
		return
	}
	if int32(l.SilenceTold-l.UnansweredTx) > 0 && now-l.SilenceTold < tick(h.SilenceAgain) {
		return
	}
	l.SilenceTold = now
	t.tell(Urgent, Silence, Event{Key: p.Alias})
}

const acknowledged = 250 * millisecond // Linux acknowledges what has come within 200 ms

// isAcknowledgement reports whether a segment acknowledges what has come, and nothing else, so
// that no answer is due. It has no data, SYN or FIN. What leaves later than an acknowledgement
// can is a keepalive, or asks for the window.
func (t outward) isAcknowledgement(l *Live, now uint32) bool {
	b, ok := t.k.load(t.c.at+ip6.TCPDataOffsetAt, 2)
	return t.c.proto == ip6.TCP && t.c.isWhole() && ok && now-l.LastRx <= tick(acknowledged) &&
		b[1]&(flagSYN|flagFIN) == 0 && t.k.Len-t.c.at <= int(b[0]>>4)*4
}

// sendInSession sends a packet of a session.
func (t outward) sendInSession(p *Session, next uint8) Verdict {
	l := p.live()
	if p.is(Dead) && !l.LifeTold {
		t.noteSent(p, l, t.k.Len)
		return t.noPath()
	}
	ruled, way := -1, turn{}
	if p.is(Ruled|Answers) && !isPlainSoon(p, l) {
		ruled, way = t.ruledPath(p)
	}
	i := ruled
	if i < 0 && hasChoice(p, l) && t.c.proto == ip6.TCP && t.c.isWhole() {
		i, way = t.flowPath(p, l)
	}
	if i < 0 {
		i = t.s.defaultPath(p, l)
	}
	if i < 0 {
		return t.noPath()
	}
	nidsOnly, v, done := t.segmentOrSend(p, l, i, ruled >= 0)
	if done {
		return v
	}
	way.count(p, i, t.k.frame())
	hinted := l.Hint != 0 && !t.s.Host.Obstructed
	if !p.is(Initiated|Plain) && (hinted || p.Unvalidated>>p.path(i).Remote&1 != 0) {
		if i, hinted = t.tryPath(p, l, i, hinted); i < 0 {
			t.count(DropUnvalidated)
			t.noteSent(p, l, 0)
			return t.noPath()
		}
	}
	if ruled < 0 && isSpread(p, &t.c) {
		l.PathBytes[i] += t.k.frame() * p.cost(i) / 2
	}
	return t.sendAlong(p, l, i, hinted, nidsOnly, next)
}

// sendAlong sends a packet along path i, or from its source to the hint: the locator where
// the correspondent was seen last.
func (t outward) sendAlong(p *Session, l *Live, i int, hinted, nidsOnly bool, next uint8) Verdict {
	u := t.s.uplink(p, i)
	t.address(p, u, p.Remote[p.path(i).Remote])
	if t.out.Path = i; hinted {
		t.out.Dst.L64 = l.Hint
	}
	if t.out.OverNIDs = nidsOnly; t.c.proto == ip6.ICMPv6 {
		t.out.OverNIDs = p.is(ICMPRFC6741)
	}
	t.countSent(p)
	t.out.Encap = p.is(Encap) && t.isEncapsulated(next)
	if t.out.Encap || !p.is(Encap) && t.nonceDue(p, l) {
		t.out.Nonce = p.LocalNonce
	}
	if p.is(Preinstalled) && !p.is(Plain) && l.TxPackets < firstTold {
		e := Event{Key: p.Alias, Whole: t.k.Len < eventDataLarge}
		t.tell(Requests, First, e)
	}
	if t.out.Nonce.Present() && isRuleSought(p, l) && !t.k.isSegmented() {
		t.sendProbeCopy(p, l)
	}
	if !t.isProbeAnswer() {
		t.noteSent(p, l, t.k.Len)
	}
	if p.is(Plain) {
		t.count(TxPlain)
	}
	return t.transmit(limits{u.MTU, p.is(NonceAlways) && bearsNonce(t.k, p, u), p.is(Narrow)}, next)
}

// isProbeAnswer reports whether our own stack answers a probe, which is no use of the
// session.
func (t outward) isProbeAnswer() bool {
	n := t.k.Len - t.c.at
	isReport := n == 8+ilnp.ReportLen || n == 8+ilnp.SealedReportLen
	return t.c.proto == ip6.ICMPv6 && t.c.kind == 129 && (n == probeLen || n == probePerFlowLen || isReport)
}

// address makes a packet of the session leave by an uplink, to a locator.
func (t outward) address(p *Session, u *Uplink, to roam.L64) {
	t.out.Link = u.Link
	t.out.Src = roam.ILV{L64: u.L64, NID: p.LocalNID}
	t.out.Dst = roam.ILV{L64: to, NID: p.RemoteNID}
}

// isEncapsulated reports whether this ICMPv6 message uses UDP encapsulation on a path that
// requires it.
func (t outward) isEncapsulated(next uint8) bool {
	return t.s.Host.EncapPort != 0 && next == ip6.ICMPv6 && t.c.isWhole()
}

// sendPending sends a packet to a pending peer, which has no session yet.
func (t outward) sendPending(key Key, e *Pending, next uint8) Verdict {
	if t.isCutForPending(e) {
		return t.toSegdev()
	}
	if !e.allows(t.k.Len) {
		return t.handOverMiss(key, e, false)
	}
	t.out.Src = roam.ILV{L64: e.LocalL64, NID: key.Local}
	t.out.Dst = roam.ILV{L64: e.RemoteL64, NID: key.Remote}
	if t.s.isObstructed(e.LocalL64, t.out.Dst) {
		t.count(DropObstructed)
		return t.noPath()
	}
	t.out.Link = e.Link
	t.out.Encap = e.EncapCame && t.isEncapsulated(next)
	if t.out.Encap || !e.EncapCame {
		t.out.Nonce = t.s.Host.nonceOf(e, key)
	}
	t.out.OverNIDs = e.Rule == FoundRFC6741 && t.c.proto != ip6.ICMPv6
	if t.c.proto == ip6.TCP && t.c.isWhole() {
		t.noteSynAck(e)
	}
	t.count(TxPending)
	return t.transmit(limits{mtu: t.s.pendingMTU(e)}, next)
}

// pendingMTU returns the MTU of the uplink by which a pending peer is answered, or 0xffff if
// the host has that locator no more.
func (s *State) pendingMTU(e *Pending) uint32 {
	for i := range s.Uplinks {
		if u := &s.Uplinks[i]; u.Link == e.Link && u.L64 == e.LocalL64 {
			return u.MTU
		}
	}
	return 0xffff
}

// noteSynAck records a SYN-ACK to a pending peer and its locator.
func (t outward) noteSynAck(e *Pending) {
	b, ok := t.k.load(t.c.at, tcpFlagsAt+1)
	if !ok || b[tcpFlagsAt]&(flagSYN|flagACK) != flagSYN|flagACK {
		return
	}
	own, foreign, _ := t.k.ports(t.c.at)
	e.Guesses = 0
	e.SynAck = t.s.Host.synAckHash(e.RemoteL64, foreign, own, binary.BigEndian.Uint32(b[ip6.TCPSeqAt:])+1)
}

// uplinkOf returns the usable uplink of a local locator, or nil.
func (s *State) uplinkOf(l roam.L64) *Uplink {
	for i := range s.Uplinks {
		if u := &s.Uplinks[i]; u.L64 == l && u.Usable {
			return u
		}
	}
	return nil
}

// sendPlainFlow sends a segment of a connection that started as plain IPv6, and reports
// whether it is one.
func (t outward) sendPlainFlow(p *Session) (Verdict, bool) {
	own, foreign, ok := t.k.ports(t.c.at)
	flags, there := t.c.flags(t.k)
	if !ok || !there {
		return 0, false
	}
	key := FlowKey{p.Alias, own, foreign}
	ends, ok := t.s.PlainFlows[key]
	if !ok {
		return 0, false
	}
	if flags&(flagSYN|flagACK) == flagSYN {
		delete(t.s.PlainFlows, key) // it starts another connection
		return 0, false
	}
	l, u := p.live(), t.s.uplinkOf(ends.Local)
	if u == nil {
		return t.noPath(), true
	}
	t.address(p, u, ends.Remote)
	if !t.holdsChecksum() {
		return t.drop(DropKernelHelper), true
	}
	l.noteTx(moment(t.now), t.k.Len)
	t.count(TxPlain)
	t.count(TxPackets)
	t.out.Action = Sent
	return Redirect, true
}
