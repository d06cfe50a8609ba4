package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Bytes of a packet that fit in a record.
const (
	eventDataSmall = 256
	eventDataLarge = 8192
)

// step is the processing of one packet by a program.
type step struct {
	s        *State
	now      uint64
	k        *Packet
	c        chain
	src, dst roam.ILV // as in the packet; later, their translation
	out      Outcome
}

func newStep(s *State, now uint64, k *Packet) *step {
	return &step{s: s, now: now, k: k, out: Outcome{Path: -1, Link: k.Link}}
}

// end returns the outcome with its verdict.
func (t *step) end(v Verdict) Outcome {
	t.out.Verdict = v
	return t.out
}

func (t *step) count(c Counter) { t.out.Counters = append(t.out.Counters, c) }

func (t *step) drop(why Counter) Verdict {
	t.count(why)
	return Shot
}

// refuse drops a packet for a reason that a security log lists.
func (t *step) refuse(why Counter) Verdict {
	t.c.refused = why
	return t.drop(why)
}

// tick is a time for comparison by difference.
func tick(ns uint64) uint32 { return uint32(ns >> 20) }

// moment returns the tick of something that may not have been yet, which is 0.
func moment(ns uint64) uint32 { return max(tick(ns), 1) }

// tickAhead is how far a tick may be ahead of an earlier look at the clock. One beyond that
// is of the past, within 52 days.
const tickAhead = 1 << 16

// TimeOf returns when a tick of Live began, in ns of the clock that is at now. It is 0 for
// tick 0, which stands for never.
func TimeOf(t uint32, now uint64) uint64 {
	if t == 0 {
		return 0
	}
	at := max(now>>20, 1)
	if ahead := t - tick(now); ahead < tickAhead {
		return (at + uint64(ahead)) << 20
	}
	return (at - min(uint64(tick(now)-t), at-1)) << 20
}

func (t *step) tell(ring Ring, kind EventKind, e Event) {
	e.Kind, e.Ring = kind, ring
	if e.Link == 0 {
		e.Link = t.k.Link
	}
	t.out.Events = append(t.out.Events, e)
}

// tellPacket hands the whole packet to the daemon. It reports whether the ring had space.
func (t *step) tellPacket(ring Ring, kind EventKind, e Event) bool {
	if t.k.Len == 0 || t.k.Len >= eventDataLarge {
		t.count(DropMissTooBig)
		return false
	}
	e.Whole = true
	t.tell(ring, kind, e)
	return true
}

// tellOf reports a packet of a session urgently.
func (t *step) tellOf(p *Session, kind EventKind, found Found) {
	e := t.about()
	e.Key, e.Bytes, e.Link, e.Found = p.Alias, t.k.Len, t.k.Link, found
	t.tell(Urgent, kind, e)
}

// about returns the event of an arriving packet.
func (t *step) about() Event {
	return Event{
		Key: Key{t.dst.NID, t.src.NID}, Remote: t.src, Local: t.dst, Nonce: t.c.nonce, Encapsulated: t.c.encap,
	}
}

const (
	shareShift = 16 // the unit of shares is 2^16 ns
	shareEach  = uint32(10*millisecond) >> shareShift
	shareBurst = 64
	shareAhead = 1 << 20 // more than a packet can cost
)

// takeShare subtracts n bytes from a session's share of the ring, and reports whether they
// fit.
func takeShare(full *uint32, now uint64, n int) bool {
	at := uint32(now >> shareShift)
	ahead := *full - at
	if ahead > shareAhead {
		ahead = 0
	}
	if ahead > (shareBurst-1)*shareEach {
		return false
	}
	*full = at + ahead + shareEach*uint32(1+n/eventDataSmall)
	return true
}

// handOver hands a control message to the daemon.
func (t *step) handOver(ring Ring, e Event) Verdict {
	if t.tellPacket(ring, Control, e) {
		t.count(DropControlHandedOver)
	}
	return Shot
}

// handOverOwn hands over a control message of a session.
func (t *step) handOverOwn(p *Session) Verdict {
	e := t.about()
	e.Key = p.Alias
	return t.handOver(Urgent, e)
}

// isProbeReply reports whether an echo reply answers a probe of the daemon.
func (t *step) isProbeReply() bool {
	if t.c.kind != 129 {
		return false
	}
	b, ok := t.k.load(t.c.at+4, 2)
	return ok && binary.BigEndian.Uint16(b) == t.s.Host.ProbeID
}

const (
	probeLen        = 8 + 16 // of the daemon's echo request, from its ICMPv6 header
	probePerFlowLen = 8 + 20
)

// isProbe reports whether the packet is an echo request of a daemon.
func (t *step) isProbe() bool {
	n := t.k.Len - t.c.at
	if t.c.proto != ip6.ICMPv6 || t.c.kind != 128 {
		return false
	}
	_, asked := t.reportAsked()
	return n == probeLen || n == probePerFlowLen || asked
}

var resyncMark = [4]byte{'r', 'o', 'a', 'm'}

const resyncAt = 26

// isResync reports whether a segment is a conntrack resync.
func (t *step) isResync(theirs ilnp.Nonce) bool {
	flags, ok := t.c.flags(t.k)
	if t.c.proto != ip6.TCP || !t.c.isWhole() || !ok || flags&flagSYN == 0 {
		return false
	}
	o, ok := t.k.load(t.c.at+resyncAt, 8)
	return ok && theirs.Present() && [4]byte(o) == resyncMark && [4]byte(o[4:]) == [4]byte(theirs.Bytes[:4])
}

// holdsChecksum reports whether the packet contains the field of the transport checksum.
func (t *step) holdsChecksum() bool {
	off, _, ok := ip6.ChecksumOffset(t.c.proto)
	return !ok || t.c.fragment == laterFragment || t.c.at+off+2 <= t.k.Len
}
