package engine

import (
	"slices"
	"time"

	"roam/ilnp"
	"roam/ilnp/slowpath"
	dataplane "roam/internal/dataplane/ilnphost"
)

// holdPending holds the packet of a pending peer that came with an event, if one did. It
// answers a probe instead, unless the answer could bring the peer a second nonce.
func (e *Engine) holdPending(now time.Time, ev *dataplane.Event) {
	answer, ok := e.host().AnswerProbe(ev.Packet, ev.OwnNonce)
	if ok && !e.core.DefersProbe(now, observation(ilnp.SeenPending, *ev)) {
		e.execute(now, ilnp.Transmit{Link: ev.Link, Packet: answer})
		ev.Packet = nil
	}
	if len(ev.Packet) > 0 && !e.pending.Add(now, packetOf(*ev)) {
		e.refused["packet beyond what is held of a pending peer"]++
	}
}

// packetOf returns the packet of a pending peer that came with an event.
func packetOf(ev dataplane.Event) slowpath.PendingPacket {
	return slowpath.PendingPacket{Packet: ev.Packet, Remote: ev.Remote, Local: ev.Local, Nonce: ev.Nonce}
}

// admit delivers what was held of a pending peer to our own stack, under an alias, and
// then what is still on its way here, the oldest first: as soon as the session has an entry, packets
// that come after these are delivered by the data plane, and would overtake them.
func (e *Engine) admit(o ilnp.Admit) {
	a := &admitted{Admit: o}
	for _, p := range e.pending.Take(o.Pending) {
		if a.rule.Takes(p) {
			e.deliver(p, o.Key)
		}
	}
	e.later = slices.DeleteFunc(e.later, func(ev dataplane.Event) bool { return e.takes(o, &a.rule, ev) })
	e.gather(o, &a.rule)
	e.admitted = a
}

// admitted is a pending peer whose session is about to have an entry.
type admitted struct {
	ilnp.Admit
	rule slowpath.OneRule
}

// lastLook delivers the packets of the pending peer that was admitted under an alias that have come since admit looked:
// right before programs see the entry of that session, as later ones pass by the entry.
func (e *Engine) lastLook(k ilnp.SessionKey) {
	a := e.admitted
	if a == nil || a.Key != k {
		return
	}
	e.admitted = nil
	e.gather(a.Admit, &a.rule)
}

// takes delivers the packet that an event brings of the pending peer that is admitted, and reports whether it brings
// one.
func (e *Engine) takes(o ilnp.Admit, rule *slowpath.OneRule, ev dataplane.Event) bool {
	if !isOf(o.Pending, ev) {
		return false
	}
	if p := packetOf(ev); rule.Takes(p) {
		e.deliver(p, o.Key)
	}
	return true
}

// What is looked at of what is on its way here: so many events, as long as it takes to look
// so often, and no more than so many wait that are of others.
const (
	lateMost  = 256
	lateLooks = 20
	lateEvery = 500 * time.Microsecond
	laterMost = 1024
)

// gather delivers the packets of a pending peer that are on their way here.
func (e *Engine) gather(o ilnp.Admit, rule *slowpath.OneRule) {
	takes := func(ev dataplane.Event) bool { return e.takes(o, rule, ev) }
	e.takeLate(e.cfg.Plane.Unvalidated(), takes)
}

// takeLate has the events that are on their way here by a channel taken, and keeps those that are not for later.
func (e *Engine) takeLate(from <-chan dataplane.Event, takes func(dataplane.Event) bool) {
	if e.cfg.Plane.IsRead(from) {
		return
	}
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for n, looks := 0, 0; n < lateMost && len(e.later) < laterMost && !e.cfg.Plane.IsRead(from); {
		select {
		case ev, ok := <-from:
			n++
			switch {
			case !ok:
				return // Run notices
			case !takes(ev):
				e.later = append(e.later, ev)
			}
		case <-tick.C: // its reader waits for a processor
			if looks++; looks > lateLooks {
				return
			}
		}
	}
}

// isOf reports whether an event brings a packet of a pending peer.
func isOf(who ilnp.Pending, ev dataplane.Event) bool {
	return (ev.Kind == dataplane.PendingPeer || ev.Kind == dataplane.OtherNonce) && len(ev.Packet) > 0 && packetOf(ev).Peer() == who
}

// leftover are the events that admit has met and left.
type leftover struct{ *Engine }

// Len returns how many there are.
func (l leftover) Len() int { return len(l.later) }

// HandleNext handles the first, if there is one: one before it may have had others delivered.
func (l leftover) HandleNext(now time.Time) {
	if len(l.later) == 0 {
		return
	}
	ev := l.later[0]
	l.later = l.later[1:]
	l.handlePlane(now, ev)
}

// deliver hands a held packet to our own stack. The answer must not go to another pending
// peer, which the data plane answers under that alias as long as there is no entry.
func (e *Engine) deliver(p slowpath.PendingPacket, key ilnp.SessionKey) {
	b, err := e.host().Deliver(p, key)
	if err != nil {
		e.refused["held packet that cannot be translated"]++
		e.cfg.Log.Debug("held packet cannot be translated", "err", err)
		return
	}
	if _, made := e.entries[key]; !made {
		e.report("forget another pending peer", e.cfg.Plane.Delete(key))
	}
	e.inject(b)
}

// abandon destroys the sockets that are connected to an alias.
func (e *Engine) abandon(k ilnp.SessionKey) {
	e.report("destroy sockets of a session that is another node's now", e.cfg.Network.DestroySockets(e.sessionAddr(k.Remote).Addr()))
}
