package slowpath

import (
	"time"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// Packets of a pending peer whose NID is not known to be where it is wait until it is
// validated: so many, and so many bytes, of one peer and of all.
const (
	pendingPackets = 16
	pendingBytes   = 24 << 10
	pendingInAll   = 4 << 20
	pendingLife    = 20 * time.Second // longer than the core probes a pending peer
)

// PendingPacket is a packet of a pending peer, as it came in.
type PendingPacket struct {
	Packet        []byte
	Remote, Local roam.ILV
	Nonce         ilnp.Nonce
}

// Peer names the sender, at its locator.
func (p PendingPacket) Peer() ilnp.Pending {
	return ilnp.Pending{Local: p.Local.NID, Remote: p.Remote, Nonce: p.Nonce}
}

// waiting is what is held of one pending peer at one locator.
type waiting struct {
	packets []PendingPacket
	bytes   int
	since   time.Time
}

// PendingQueue holds packets of pending peers, in order.
type PendingQueue struct {
	of    map[ilnp.Pending]*waiting
	order []ilnp.Pending // the oldest first; some are no more
	bytes int
}

// Add holds a packet, and reports whether there was room: there may be too many of its
// sender. Of all, the oldest ones make room.
func (q *PendingQueue) Add(now time.Time, p PendingPacket) bool {
	if q.of == nil {
		q.of = make(map[ilnp.Pending]*waiting)
	}
	for len(q.order) > 0 {
		w := q.of[q.order[0]]
		if w != nil && q.bytes+len(p.Packet) <= pendingInAll && now.Sub(w.since) < pendingLife {
			break
		}
		q.Forget(q.order[0])
		q.order = q.order[1:]
	}
	who := p.Peer()
	w := q.of[who]
	if w == nil {
		w = &waiting{since: now}
		q.of[who], q.order = w, append(q.order, who)
	}
	if len(w.packets) >= pendingPackets || w.bytes+len(p.Packet) > pendingBytes {
		return false
	}
	w.packets, w.bytes = append(w.packets, p), w.bytes+len(p.Packet)
	q.bytes += len(p.Packet)
	return true
}

// Take returns what is held of a pending peer, and forgets it.
func (q *PendingQueue) Take(who ilnp.Pending) []PendingPacket {
	w := q.of[who]
	if w == nil {
		return nil
	}
	q.Forget(who)
	return w.packets
}

// Forget drops what is held of a pending peer.
func (q *PendingQueue) Forget(who ilnp.Pending) {
	if w := q.of[who]; w != nil {
		q.bytes -= w.bytes
		delete(q.of, who)
	}
}

// OneRule is the checksum rule of a pending peer: that of the first packet with its
// nonce. One by the other rule is a copy of a packet that came as well, or may have: it
// would be delivered twice.
type OneRule struct {
	known bool
	rule  xlate.Rule
}

// Takes reports whether a packet is to be delivered.
func (r *OneRule) Takes(p PendingPacket) bool {
	rule, found := xlate.ShownRule(p.Packet)
	if !found || !p.Nonce.Present() {
		return true
	}
	if !r.known {
		r.known, r.rule = true, rule
	}
	return rule == r.rule
}

// FoundIn returns the rule that a held packet shows, where the data plane has found
// none, for it has not looked. The session begins with it, so that a copy that comes
// later is not delivered.
func FoundIn(packet []byte, nonce ilnp.Nonce, found ilnp.FoundRule) ilnp.FoundRule {
	rule, shown := xlate.ShownRule(packet)
	switch {
	case !shown || !nonce.Present() || found != ilnp.NotFound:
		return found
	case rule == xlate.RuleRFC6741:
		return ilnp.FoundRFC6741
	}
	return ilnp.FoundIPv6
}

// Deliver translates a held packet as the data plane would have done, for the alias of
// its session. A sum that a driver was to finish is finished here.
func (h Host) Deliver(p PendingPacket, key ilnp.SessionKey) ([]byte, error) {
	rule, partial := xlate.Shown(p.Packet)
	entry := xlate.Entry{
		SessionPrefix: h.SessionPrefix,
		LocalAlias:    key.Local, LocalNID: p.Local.NID, LocalL64: p.Local.L64,
		RemoteAlias: key.Remote, RemoteNID: p.Remote.NID, RemoteL64: p.Remote.L64,
		Rule: rule, Nonce: p.Nonce,
	}
	b, err := xlate.Inward(p.Packet, entry)
	if err == nil && partial {
		err = ip6.FinishL4(b)
	}
	return b, err
}
