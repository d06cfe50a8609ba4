package engine

import (
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/ilnp/slowpath"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/wire/ip6"
)

var triggers = map[dataplane.EventKind]ilnp.Trigger{
	dataplane.Miss:        ilnp.SeenMiss,
	dataplane.PendingPeer: ilnp.SeenPending,
	dataplane.OtherNonce:  ilnp.SeenOtherNonce,
	dataplane.NonceSeen:   ilnp.SeenNonce,
	dataplane.LocatorSeen: ilnp.SeenLocator,
	dataplane.Silence:     ilnp.SeenSilence,
	dataplane.Life:        ilnp.SeenLife,
	dataplane.RuleSeen:    ilnp.SeenRule,
	dataplane.First:       ilnp.SeenFirst,
	dataplane.Retried:     ilnp.SeenRefusal,
	dataplane.PerFlow:     ilnp.SeenPerFlow,
	dataplane.Stall:       ilnp.SeenStall,
	dataplane.Queue:       ilnp.SeenQueue,
	dataplane.More:        ilnp.SeenMore,
	dataplane.Acked:       ilnp.SeenAcked,
}

func (e *Engine) handlePlane(now time.Time, ev dataplane.Event) {
	switch ev.Kind {
	case dataplane.Control:
		if e.resyncIn(now, ev) {
			return
		}
		e.core.HandlePacket(seenAt(now, ev), ev.Link, ev.Packet)
	case dataplane.ErrorIn:
		e.errorIn(now, ev)
	case dataplane.ErrorOut:
		e.errorOut(ev)
	case dataplane.Miss:
		e.miss(now, ev)
	default:
		switch ev.Kind {
		case dataplane.First:
			e.hold(now, ev)
		case dataplane.Retried:
			e.held.Retransmitted(ev.Key, ev.Packet)
		}
		if ev.Kind == dataplane.PendingPeer || ev.Kind == dataplane.OtherNonce {
			e.holdPending(now, &ev)
		}
		trigger, ok := triggers[ev.Kind]
		if !ok {
			e.refused["unknown event of the data plane"]++
			return
		}
		o := observation(trigger, ev)
		if o.Held = ev.Kind != dataplane.First && len(ev.Packet) > 0; o.Held {
			o.Found = slowpath.FoundIn(ev.Packet, ev.Nonce, ev.Found)
		}
		e.core.HandleObservation(now, o)
	}
}

// seenAt returns when the programs saw an event: round trips are to be without the time that
// it waited for the daemon.
func seenAt(now time.Time, ev dataplane.Event) time.Time {
	if waited := now.Sub(ev.At); waited < 0 || waited > time.Second {
		return now
	}
	return ev.At
}

func observation(trigger ilnp.Trigger, ev dataplane.Event) ilnp.Observation {
	return ilnp.Observation{
		Trigger: trigger, Key: ev.Key, Remote: ev.Remote, LocalNID: ev.Local.NID,
		Local: roam.LinkLocator{Link: ev.Link, L64: ev.Local.L64},
		Nonce: ev.Nonce, OwnNonce: ev.OwnNonce, Found: ev.Found, Encapsulated: ev.Encapsulated,
		Bytes: ev.Bytes, Packets: ev.Packets,
	}
}

// miss holds the first packets of a session until the core has made it.
func (e *Engine) miss(now time.Time, ev dataplane.Event) {
	if len(ev.Packet) == 0 {
		return
	}
	if !e.isSound(ev.Packet) {
		return
	}
	// What exceeds the allowance of a pending peer waits, though an entry may be
	// preinstalled for that peer: retransmitted it would come back.
	excess := ev.OwnNonce.Present()
	if p, made := e.session(ev.Key); made && !(p.Preinstalled && excess) {
		e.resend(ev.Packet) // the session came to be while the packet was on its way here
		return
	}
	queue, o := &e.held, ilnp.Observation{Trigger: ilnp.SeenMiss, Key: ev.Key, LocalNID: ev.Key.Local}
	if excess {
		queue, o = &e.excess, observation(ilnp.SeenExcess, ev)
	}
	if !queue.Add(now, ev.Key, ev.Packet) {
		e.refused["first packet beyond the queue of its session"]++
		return
	}
	if !excess {
		e.copies.Add(now, ev.Key, ev.Packet)
	}
	e.core.HandleObservation(now, o)
}

// hold keeps a packet that has left by a preinstalled entry, in case that falls back
// to plain IPv6.
func (e *Engine) hold(now time.Time, ev dataplane.Event) {
	p, made := e.session(ev.Key)
	if !made || p.State == ilnp.Plain || p.State == ilnp.Established && !p.Encap || len(ev.Packet) == 0 {
		return
	}
	if ip6.FinishL4(ev.Packet) == nil {
		e.held.Add(now, ev.Key, ev.Packet)
		if p.RuleSought {
			e.copies.Add(now, ev.Key, ev.Packet)
		}
	}
}

// noRoom is the reason in Refused for first packets of sessions that the data plane
// has no room for.
const noRoom = "first packet of a session without an entry"

// release sends the held packets; while the session is Initiated they are kept,
// in case it falls back to plain IPv6. Without an entry the data plane would hand
// them over again at once, and so on for ever: their senders will try again.
func (e *Engine) release(now time.Time, k ilnp.SessionKey) {
	entry, made := e.session(k)
	if !made {
		e.refused[noRoom] += uint64(len(e.held.Packets(k)) + len(e.excess.Packets(k)))
		e.held.Forget(k)
		e.excess.Forget(k)
		return
	}
	held, excess := e.held.Packets(k), e.excess.Packets(k)
	if a := e.ahead; a.key == k && a.at.Equal(now) {
		held, excess = held[min(a.held, len(held)):], excess[min(a.excess, len(excess)):]
	}
	e.ahead = ahead{}
	for _, p := range slices.Concat(held, excess) {
		e.resend(p)
	}
	e.excess.Forget(k)
	if entry.State != ilnp.Initiated {
		e.held.Forget(k)
	}
}

// ahead is what was sent of a session while it got its entry.
type ahead struct {
	key          ilnp.SessionKey
	at           time.Time
	held, excess int // packets
}

// sendHeld sends what was held of local programs for a session that gets its entry, once, and what is on its way
// here of it. Meanwhile all that they send to that alias is handed over, so nothing overtakes these packets. It returns
// how many of these it has met.
func (e *Engine) sendHeld(now time.Time, k ilnp.SessionKey) (met int) {
	if a := e.ahead; a.key != k || !a.at.Equal(now) {
		held, excess := e.held.Packets(k), e.excess.Packets(k)
		for _, packet := range slices.Concat(held, excess) {
			e.resend(packet)
		}
		e.ahead = ahead{k, now, len(held), len(excess)}
	}
	takes := func(ev dataplane.Event) bool {
		if ev.Kind != dataplane.Miss || ev.Key != k || len(ev.Packet) == 0 {
			return false
		}
		met += ev.Packets
		if e.isSound(ev.Packet) {
			e.resend(ev.Packet)
		}
		return true
	}
	e.later = slices.DeleteFunc(e.later, takes)
	e.takeLate(e.cfg.Plane.Requests(), takes)
	return met
}

// isSound finishes the checksum of a first packet, which is only a seed where a driver was to finish it. It counts a
// packet that has none.
func (e *Engine) isSound(packet []byte) bool {
	if err := ip6.FinishL4(packet); err != nil {
		e.refused["first packet without a sound transport header"]++
		return false
	}
	return true
}

// reject tells the application at once that nobody knows that identifier.
func (e *Engine) reject(k ilnp.SessionKey) {
	for _, p := range slices.Concat(e.held.Packets(k), e.excess.Packets(k)) {
		b, err := e.host().NoSuchNode(k, p)
		if err != nil {
			e.report("answer packet to unknown identifier", err)
			continue
		}
		e.inject(b)
	}
	e.held.Forget(k)
	e.excess.Forget(k)
}
