package decide

import (
	"encoding/binary"
	"slices"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

func (t *step) nids() Key { return Key{t.dst.NID, t.src.NID} }

// isInPlace reports whether the NID is known to be where the packet comes from.
func (t *step) isInPlace(p *Session) bool {
	if p != nil {
		return (!p.is(ByAlias) || p.is(Named)) && t.s.accepted(p, t.src.L64) != 0
	}
	anywhere, known := t.s.Known[t.src.NID]
	return !known || anywhere || t.s.Places[t.src]
}

// isTold reports whether the daemon hears of a pending peer by this packet.
func (t *step) isTold() bool {
	return t.c.proto != ip6.ICMPv6 || t.c.kind != ilnp.TypeLocatorUpdate && !t.isProbeReply()
}

// entryOf returns the entry of an NID, made if make says so.
func (s *State) entryOf(key Key, make bool) *Pending {
	e := s.Pending[key]
	if e != nil || !make {
		return e
	}
	e = &Pending{}
	s.Pending[key] = e
	if s.Forget != nil {
		s.Forget(key)
	}
	return e
}

// noteOther notes a pending peer that is not answered under its NID, and reports whether
// it was known, and whether it was seen elsewhere first.
func (t *step) noteOther() (known, elsewhere bool) {
	id, e := nonceID(t.c.nonce), t.s.entryOf(t.nids(), t.isTold())
	if e == nil {
		return false, false
	}
	elsewhere = e.RemoteNonce == t.c.nonce && e.RemoteL64 != t.src.L64
	for i := range e.Others {
		if o := &e.Others[i]; o.Nonce == id {
			o.Encap = o.Encap || t.c.encap
			return true, elsewhere || o.L64 != t.src.L64
		}
	}
	i := e.Next
	if i >= others {
		i = 0
	}
	e.Next = i + 1
	e.Others[i] = Other{Nonce: id, L64: t.src.L64, Encap: t.c.encap}
	return false, elsewhere
}

// noteReceived counts a packet of the pending peer that is answered.
func (t *step) noteReceived(e *Pending) {
	e.RxBytes += uint64(t.k.Len)
	e.RxPackets++
	if e.Rule == NotFound && (t.c.nonce.Present() || e.EncapCame || e.EncapSpoke) && hasRule(t.c.proto) {
		e.Rule = t.ruleShown()
	}
}

// stays is how long a pending peer is answered where it was first seen, after its last
// packet from there, though it sends from elsewhere as well.
const stays = second

// notePending brings the entry up to date with what a packet shows of a pending peer that
// is in its place, and reports whether that node was known, and whether it is answered here though it began elsewhere.
func (t *step) notePending(e *Pending) (known, began bool) {
	there := e.RemoteNonce.Present()
	known = there && e.RemoteNonce == t.c.nonce
	here := there && e.RemoteL64 == t.src.L64
	samePlace := here && e.LocalL64 == t.dst.L64
	given := t.s.Places[t.src]
	if there && !known {
		if samePlace {
			t.noteReceived(e)
		}
		known, _ = t.noteOther()
		return known, false
	}
	if known && !here && !(e.Given && given) && t.now-e.Heard < stays {
		e.Also = t.src.L64
		return true, false
	}
	if !here {
		e.Also = e.RemoteL64
	}
	e.Heard = t.now
	if !known {
		e.Epoch = uint16(t.s.Host.Epoch)
		e.EncapCame, e.EncapSpoke, e.Cuts = false, false, false
		e.Rule, e.Since = NotFound, t.now
	}
	if !samePlace {
		e.SynAck = 0
		e.RemoteL64, e.LocalL64, e.Link = t.src.L64, t.dst.L64, t.k.Link
		e.RxBytes, e.RxPackets, e.TxBytes, e.TxPackets = 0, 0, 0, 0
	}
	e.EncapCame = t.c.encap
	e.EncapSpoke = e.EncapSpoke || t.c.encap
	e.Given = given
	t.noteReceived(e)
	e.RemoteNonce = t.c.nonce
	return known, e.hasBegunElsewhere(t.c.nonce, t.src.L64)
}

// hasBegunElsewhere reports whether the node of a nonce has been seen elsewhere than at l, out of its place.
func (e *Pending) hasBegunElsewhere(n ilnp.Nonce, l roam.L64) bool {
	return slices.ContainsFunc(e.Others[:], func(o Other) bool { return o.Nonce == nonceID(n) && o.L64 != l })
}

// isSecond reports whether another pending peer is answered under the NID, elsewhere.
func (t *step) isSecond() bool {
	e := t.s.pendingOf(t.nids())
	return e != nil && e.RemoteL64 != t.src.L64 && e.RemoteNonce != t.c.nonce
}

const fresh = 3 * second

// isRightBehind reports whether a datagram or an ICMPv6 message without nonce comes right
// behind the nonces of a pending peer.
func (t *step) isRightBehind(e *Pending, key Key) bool {
	isDatagram := t.c.proto == ip6.UDP
	if !isDatagram && (t.c.proto != ip6.ICMPv6 || t.c.kind == ilnp.TypeLocatorUpdate ||
		t.c.isWhole() && t.isProbeReply()) {
		return false
	}
	if t.s.PlainNodes[key] {
		return false
	}
	if t.now-e.Since < fresh {
		if !isDatagram || !t.c.isWhole() {
			return true
		}
		q, proto := t.tupleAt(0, false)
		return proto != ip6.UDP || !t.s.realDatagram(q)
	}
	t.s.PlainNodes[key] = true
	return false
}

// speaksForPending reports whether a packet without nonce is a pending peer's by its place.
func (t *step) speaksForPending() bool {
	key := t.nids()
	e := t.s.Pending[key]
	if e == nil {
		return false
	}
	if !e.RemoteNonce.Present() || e.RemoteL64 != t.src.L64 && e.Also != t.src.L64 {
		if t.c.proto == ip6.ICMPv6 {
			return false
		}
		for _, o := range e.Others {
			if o.Encap && o.L64 == t.src.L64 {
				return true
			}
		}
		return false
	}
	if e.EncapCame || e.EncapSpoke {
		return t.c.proto != ip6.ICMPv6
	}
	if t.c.proto != ip6.TCP {
		return t.isRightBehind(e, key)
	}
	flags, ok := t.c.flags(t.k)
	if t.c.fragment == laterFragment || !ok || flags&flagSYN != 0 {
		return false
	}
	return !t.realSocket(0, false)
}

// isUntold reports whether this first packet of a pending peer is one of too many.
func (t *step) isUntold() bool {
	if !t.s.exceeds(t.now, RatePending, pendingMost) {
		return false
	}
	t.count(RxPendingUnreported)
	return true
}

func pendingKind(p *Session) EventKind {
	if p != nil {
		return OtherNonce
	}
	return PendingShown
}

// hold hands a packet of a pending peer over, which waits for its sender's validation.
func (t *step) hold(p *Session, about Event, known bool) Verdict {
	if !known && t.isUntold() || !t.tellPacket(Unvalidated, pendingKind(p), about) {
		return t.refuse(DropNotHeld)
	}
	t.count(RxHeld)
	return Shot
}

func toStack(rule Found) Verdict {
	if rule == FoundRFC6741 {
		return forStack6741
	}
	return forStack
}

// receiveByPlace takes a packet without nonce that is a pending peer's by its place.
func (t *step) receiveByPlace(about Event) Verdict {
	e := t.s.pendingOf(about.Key)
	if e == nil || e.RemoteL64 != t.src.L64 && e.Also != t.src.L64 {
		return t.hold(nil, about, true)
	}
	if e.RemoteL64 == t.src.L64 {
		t.noteReceived(e)
	}
	rule := t.ruleShown()
	if rule == NotFound {
		rule = e.Rule
	}
	return toStack(rule)
}

// takePending says what becomes of a packet with a nonce, of a pending peer in its place.
func (t *step) takePending(p *Session, rule Found) Verdict {
	if p != nil {
		known := t.s.accepted(p, t.src.L64) != 0
		byStack := t.c.isWhole() && t.isProbe() && t.c.nonce.Len != p.LocalNonce.Len
		if !known || !p.is(Plain) && !byStack {
			return t.refuse(DropWrongNonce)
		}
		t.src.NID, t.dst.NID = p.Alias.Remote, p.Alias.Local
	}
	return toStack(rule)
}

// receivePendingMessage takes an ICMPv6 message with the nonce of a pending peer.
func (t *step) receivePendingMessage(p *Session, about Event, known, waits, elsewhere bool) Verdict {
	if t.isProbeReply() {
		if t.s.exceeds(t.now, RateReplies, repliesMost) {
			return t.refuse(DropRingFull)
		}
		return t.handOver(Unvalidated, about)
	}
	request := t.c.kind == ilnp.TypeEchoRequest
	if t.c.kind == ilnp.TypeLocatorUpdate {
		if known {
			return t.handOver(Unvalidated, about)
		}
		return t.refuse(DropUpdateNoSession)
	}
	v, done := Verdict(0), false
	if request && elsewhere {
		waits = true
	} else if request {
		if e := t.s.pendingOf(t.nids()); e != nil && e.RemoteL64 == t.src.L64 {
			e.TxPackets++
			e.TxBytes += uint64(t.k.Len)
		}
		v, done = t.answerEcho(about.OwnNonce)
	}
	if !done && (waits || p != nil && p.is(Plain) && t.isProbe()) {
		return t.hold(p, about, known)
	}
	if known || !t.isUntold() {
		t.tell(Unvalidated, pendingKind(p), about)
	}
	if done {
		return v
	}
	return t.takePending(p, NotFound)
}

// place returns what the nonce for a pending peer depends on: its locator, or 0 for all that
// a record lists.
func (t *step) place() roam.L64 {
	if t.s.Places[t.src] {
		return 0
	}
	return t.src.L64
}

// receivePending takes a nonce from someone without a session (p is nil), or another
// nonce than the session's.
func (t *step) receivePending(p *Session) Verdict {
	host, key := &t.s.Host, t.nids()
	if !onWire(t.src.L64) {
		return t.drop(DropMalformed)
	}
	if _, known := t.s.Known[t.src.NID]; p == nil && !host.AcceptAny && !known {
		t.c.refused = RxNotAdmitted
		t.count(RxNotAdmitted)
		return PassOn
	}
	about := t.about()
	about.Bytes = t.k.Len
	if !t.c.nonce.Present() {
		return t.receiveByPlace(about)
	}
	waits := !t.c.plain && (!t.isInPlace(p) || t.isSecond())
	var e *Pending
	if !waits {
		e = t.s.entryOf(key, t.isTold())
	}
	known, rule, elsewhere, began := false, NotFound, false, false
	if e != nil {
		known, began = t.notePending(e)
		elsewhere = known && e.RemoteL64 != t.src.L64
		rule, about.OwnNonce = e.Rule, host.placeNonce(key, t.place(), e.Epoch)
		if !elsewhere {
			about.Packets = int(e.TxPackets)
		}
	} else {
		known, elsewhere = t.noteOther()
		about.OwnNonce = host.unlistedNonce(key, nonceID(t.c.nonce), t.src.L64)
	}
	if about.Found = rule; t.isProbe() {
		about.Found = IsProbe
	}
	if p != nil && isOwnPlace(p, t.s.accepted(p, t.src.L64)) {
		about.OwnNonce, elsewhere, began = p.LocalNonce, false, false
	}
	if t.c.proto == ip6.ICMPv6 {
		return t.receivePendingMessage(p, about, known, waits, elsewhere || began)
	}
	if waits {
		return t.hold(p, about, known)
	}
	if known || !t.isUntold() {
		kind := pendingKind(p)
		if e != nil && !elsewhere && t.acksSynAck(e) {
			kind = Acked
		}
		t.tell(Unvalidated, kind, about)
	}
	return t.takePending(p, rule)
}

const guesses = 64

// acksSynAck reports whether this packet acknowledges the SYN-ACK that went to where it
// comes from.
func (t *step) acksSynAck(e *Pending) bool {
	b, ok := t.k.load(t.c.at, tcpFlagsAt+1)
	if e.SynAck == 0 || t.c.proto != ip6.TCP || !t.c.isWhole() || e.RemoteNonce != t.c.nonce || !ok ||
		b[tcpFlagsAt]&(flagSYN|flagRST|flagACK) != flagACK {
		return false
	}
	foreign, own, _ := t.k.ports(t.c.at)
	if e.SynAck == t.s.Host.synAckHash(t.src.L64, foreign, own, binary.BigEndian.Uint32(b[ip6.TCPAckAt:])) {
		return true
	}
	if e.Guesses++; e.Guesses >= guesses {
		e.SynAck = 0
	}
	return false
}
