package decide

import (
	"roam"
	"roam/wire/ip6"
)

const (
	others    = 3                    // pending peers of one NID, beside the answered one
	noLocator = roam.L64(0xff) << 56 // NO_LOCATOR of the programs
)

// accepted reports whether a packet without nonce may come from a locator: 0 if not, else
// its index in Remote plus one, or more than MaxRemote for a further source.
func (s *State) accepted(p *Session, l roam.L64) int {
	if l == 0 {
		return 0
	}
	for i, r := range p.Remote {
		if r == l {
			return i + 1
		}
	}
	if p.Sources > 0 && s.Sources[AllowanceKey{l, p.Slot, p.Birth}] {
		return MaxRemote + 1
	}
	return 0
}

// isUnvalidated reports whether this host may send to a locator that is not validated, or
// not listed at all.
func isUnvalidated(p *Session, known int) bool {
	return known == 0 || known <= MaxRemote && p.Unvalidated>>(known-1)&1 != 0
}

// isOwnPlace reports whether the session already sends to that locator.
func isOwnPlace(p *Session, known int) bool {
	if known < 1 || known > MaxRemote {
		return false
	}
	return p.Unvalidated>>(known-1)&1 == 0 || p.Given>>(known-1)&1 != 0
}

// isClaimed reports whether a packet from this locator may be another node's: a node with
// the correspondent's NID has sent its nonce from there; or no record names the
// correspondent, which only announced the locator and receives at another one.
func (t *step) isClaimed(p *Session) bool {
	if p.is(Unrecorded) && (p.NRemote != 1 || p.Remote[0] != t.src.L64) {
		return true
	}
	e := t.s.Pending[Key{p.LocalNID, p.RemoteNID}]
	if e == nil {
		return false
	}
	is := e.RemoteNonce.Present() && e.RemoteL64 == t.src.L64 && e.RemoteNonce != p.RemoteNonce
	id := nonceID(p.RemoteNonce)
	for _, o := range e.Others {
		is = is || o.Nonce != 0 && o.Nonce != id && o.L64 == t.src.L64
	}
	return is
}

type match uint8

const (
	authentic    match = iota // the right nonce
	byLocator                 // no nonce, from a locator of the session
	otherNonce                // never this session (RFC 6741 §5.4)
	notNow                    // no nonce, and none seen yet
	strangePlace              // no nonce, unknown locator
	unconfirmed               // unknown locator, and a nonce that may be forged
)

// matchOf returns the relation of the packet to the session. known is the result of
// accepted.
func (t *step) matchOf(p *Session, l *Live, known int) match {
	seen := l.Hint != 0 && l.Hint == t.src.L64
	switch {
	case !t.c.nonce.Present():
		return t.matchBare(p, l, known, seen)
	case p.is(Plain):
		return otherNonce
	case !p.RemoteNonce.Present():
		if known == 0 {
			return otherNonce
		}
		if !l.Learned.Present() {
			l.Learned = t.c.nonce
			t.tellOf(p, NonceSeen, NotFound)
		}
		if l.Learned == t.c.nonce {
			return authentic
		}
		return otherNonce
	case p.RemoteNonce != t.c.nonce:
		return otherNonce
	}
	if known == 0 && !seen && p.is(Unconfirmed) {
		if takeShare(&l.ToldUntil, t.now, 0) {
			t.tellOf(p, LocatorSeen, NotFound)
		}
		return unconfirmed
	}
	l.LastNonceRx = moment(t.now)
	if known == 0 && !seen {
		if !takeShare(&l.ToldUntil, t.now, 0) {
			t.count(DropRingShare)
			return authentic
		}
		l.Hint = t.src.L64
		t.tellOf(p, LocatorSeen, NotFound)
	}
	return authentic
}

// matchBare is matchOf for a packet without nonce.
func (t *step) matchBare(p *Session, l *Live, known int, seen bool) match {
	switch {
	case known == 0 && !seen:
		return strangePlace
	case !p.is(Plain) && known != 0 && !seen && !isOwnPlace(p, known) &&
		(p.is(Unrecorded) && l.Hint != 0 || t.isClaimed(p)):
		if isUnvalidated(p, known) {
			t.noteMore(p, l, t.src.L64|noLocator)
		}
		return strangePlace
	case p.is(Initiated) && !l.Retried && !l.Learned.Present():
		return notNow
	}
	return byLocator
}

const outage = 250 * millisecond

// noteHeard updates the statistics for a packet of the session.
func (t *step) noteHeard(p *Session, l *Live, known int) {
	l.LastRx = moment(t.now)
	if l.UnansweredTx != 0 && l.LastRx-l.UnansweredTx > tick(outage) {
		l.Returned = l.LastRx
	}
	l.UnansweredTx = 0
	l.RxPackets++
	l.RxBytes += uint64(t.k.Len)
	if p.is(Dead) && !l.LifeTold {
		l.LifeTold = true
		t.tellOf(p, Life, NotFound)
	}
	if isUnvalidated(p, known) {
		t.noteMore(p, l, t.src.L64)
	}
}

// noteMore counts packets from an unvalidated locator, refused ones by themselves, and reports
// each power of two to the daemon.
func (t *step) noteMore(p *Session, l *Live, place roam.L64) {
	a := t.allowance(p, place, false)
	a.RxBytes += uint64(t.k.Len)
	a.RxPackets++
	if a.RxPackets&(a.RxPackets-1) != 0 || !takeShare(&l.ToldUntil, t.now, 0) {
		return
	}
	e := t.about()
	e.Key, e.Bytes, e.Packets = p.Alias, int(min(a.RxBytes, 0xffffffff)), int(a.RxPackets)
	t.tell(Urgent, More, e)
}

// noteAsked records a probe of the correspondent, and its request.
func (t *step) noteAsked(p *Session, l *Live) {
	r, reports := t.reportAsked()
	perFlow := r.PerFlow || t.k.Len-t.c.at == probePerFlowLen
	if perFlow && !l.AskedPerFlow {
		if !takeShare(&l.ToldUntil, t.now, 0) {
			return
		}
		t.tellOf(p, PerFlowAsked, NotFound)
	}
	l.Asked, l.AskedPerFlow = true, perFlow
	if reports { // short probes say nothing of these
		l.AskedCounts, l.AskedAnswers = r.Counted, r.Answers
	}
}

// noteStack learns properties of the sender's stack from a packet.
func (t *step) noteStack(p *Session, l *Live, m match, plain bool) {
	rule := hasRule(t.c.proto)
	switch {
	case rule && t.c.nonce.Present():
		l.WithNonce++
	case rule && !plain && !(p.is(PlainFlows) && t.c.proto == ip6.TCP):
		l.Bare = true
	}
	if m == authentic && rule {
		l.NonceAt = t.dst.L64
	}
	if m != authentic && !p.is(Encap) {
		if isRuleSought(p, l) && !l.Asked && t.c.proto == ip6.UDP && t.c.isWhole() {
			t.noteBare(p, l)
		}
		return
	}
	if t.isProbe() {
		t.noteAsked(p, l)
	}
	t.noteRule(p, l)
}
