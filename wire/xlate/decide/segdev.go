package decide

import "roam/wire/ip6"

// CopyMark is the mark of a packet that goes under the other checksum rule.
const CopyMark = 0x726f616d

// HeldMark is the mark of a packet that the daemon has held.
const HeldMark = 0x726f616c

const (
	copyAfter  = 200   // ms without an answer, at least
	copyUntil  = 30000 // ms; a receiver that has not answered by then never will
	misread    = ip6.HeaderLen + 60
	mssOptions = 24
)

func ms(ns uint64) uint32 { return uint32(ns / millisecond) }

// bearsNonce reports whether the nonce fits into a GSO packet.
func bearsNonce(k *Packet, p *Session, u *Uplink) bool {
	longest := k.GSO + misread
	return !u.Physical && !p.is(Narrow) && longest <= u.MTU && longest+mssOptions >= u.MTU
}

// goesInOrder reports whether this is a GSO packet, or a packet that must follow one.
func (t outward) goesInOrder() bool {
	if t.k.GSO != 0 {
		return true
	}
	b, ok := t.k.load(t.c.at+tcpFlagsAt-1, 2)
	if t.c.proto != ip6.TCP || !t.c.isWhole() || !ok {
		return false
	}
	return b[1]&flagSYN == 0 && (b[1]&flagFIN != 0 || t.k.Len > t.c.at+int(b[0]>>4)*4)
}

// wantsSegdev reports whether a packet must be segmented before its translation; ruled: a rule chose its path.
func (t outward) wantsSegdev(p *Session, l *Live, i int, ruled bool) bool {
	if p.is(Plain) || !t.goesInOrder() {
		return false
	}
	u := t.s.uplink(p, i)
	switch {
	case p.is(Cut) && t.c.proto == ip6.TCP && !ruled:
		return true
	case !p.is(NonceAlways):
		return countsNIDsOnly(p, l) && u.Physical
	case t.k.GSO == 0:
		return l.Cuts
	case bearsNonce(t.k, p, u):
		return false
	}
	l.Cuts = true
	return true
}

// isCutForPending is wantsSegdev for a packet to a pending peer.
func (t outward) isCutForPending(e *Pending) bool {
	if e.EncapCame || t.k.isSegmented() || !t.goesInOrder() || t.s.Host.Segdev == 0 {
		return false
	}
	if t.k.GSO == 0 {
		return e.Cuts
	}
	e.Cuts = true
	return true
}

// toSegdev sends a packet unchanged to the segmentation device.
func (t outward) toSegdev() Verdict {
	t.count(TxSegdev)
	t.out.Action, t.out.Link = Segmented, t.s.Host.Segdev
	return Redirect
}

func (p *Session) copyAfter() uint32 { return max(copyAfter, p.Grace/uint32(millisecond)) }

// noteCopy records a packet sent under the other rule, and which datagrams answer it.
func (t outward) noteCopy(l *Live) {
	l.CopySent, l.CopyOpen = ms(t.now), false
	from, to, ok := t.k.ports(t.c.at)
	if t.c.proto != ip6.UDP || !ok {
		return
	}
	l.CopyPorts, l.CopyOpen = [2]uint16{to, from}, true
}

// sendProbeCopy sends a copy of the packet under the other rule, if the correspondent's
// rule is unknown and it has not answered for a while.
func (t outward) sendProbeCopy(p *Session, l *Live) {
	if t.s.Host.Segdev == 0 || l.Asked || !hasRule(t.c.proto) || !t.c.isWhole() || t.k.GSO != 0 {
		return
	}
	if flags, ok := t.c.flags(t.k); t.c.proto == ip6.TCP && (!ok || flags&flagSYN == 0) {
		return
	}
	now, after := ms(t.now), p.copyAfter()
	if l.SoughtSince == 0 {
		l.SoughtSince = now
	}
	if now-l.SoughtSince < after || now-l.SoughtSince > copyUntil || now-l.CopySent < after {
		return
	}
	t.noteCopy(l)
	t.out.Copied = true
	t.count(TxProbeCopy)
}

// isMoot reports whether a copy of a first packet is no longer needed.
func (t outward) isMoot(p *Session, l *Live) bool {
	if !isRuleSought(p, l) || p.is(Encap) || l.Retried || l.Asked || l.WithNonce != 0 || l.Bare {
		t.count(TxProbeCopyMoot)
		return true
	}
	t.noteCopy(l)
	t.count(TxProbeCopy)
	return false
}

// segmentOrSend returns the rule for a packet, and whether it is already sent.
func (t outward) segmentOrSend(p *Session, l *Live, i int, ruled bool) (nidsOnly bool, v Verdict, done bool) {
	// Without its nonce the packet is plain IPv6 already, whatever was learned since.
	nidsOnly = !isPlainSoon(p, l) && countsNIDsOnly(p, l)
	round := t.k.isSegmented()
	if t.k.Mark == CopyMark {
		return !nidsOnly, t.dropSilently(), !round && t.isMoot(p, l)
	}
	if round || t.s.Host.Segdev == 0 || !t.wantsSegdev(p, l, i, ruled) {
		return nidsOnly, 0, false
	}
	return nidsOnly, t.toSegdev(), true
}
