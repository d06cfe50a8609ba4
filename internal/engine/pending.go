package engine

import (
	"time"

	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// Packets of a pending peer whose NID is not known to be where it is wait here until
// it is validated: so many, and so many bytes, of one peer and of all.
const (
	unsurePackets = 16
	unsureBytes   = 24 << 10
	unsureInAll   = 4 << 20
	unsureLife    = 20 * time.Second // longer than the core asks a pending peer
)

// waiting is what is held of one pending peer at one locator.
type waiting struct {
	packets []dataplane.Event
	bytes   int
	since   time.Time
}

// unsure holds packets of pending peers, in order.
type unsure struct {
	of    map[ilnp.Pending]*waiting
	order []ilnp.Pending // the oldest first; some are no more
	bytes int
}

// add holds a packet, unless there are too many of its sender. Of all, the oldest ones
// make room.
func (u *unsure) add(now time.Time, who ilnp.Pending, ev dataplane.Event) bool {
	if u.of == nil {
		u.of = make(map[ilnp.Pending]*waiting)
	}
	for len(u.order) > 0 {
		w := u.of[u.order[0]]
		if w != nil && u.bytes+len(ev.Packet) <= unsureInAll && now.Sub(w.since) < unsureLife {
			break
		}
		u.forget(u.order[0])
		u.order = u.order[1:]
	}
	w := u.of[who]
	if w == nil {
		w = &waiting{since: now}
		u.of[who], u.order = w, append(u.order, who)
	}
	if len(w.packets) >= unsurePackets || w.bytes+len(ev.Packet) > unsureBytes {
		return false
	}
	w.packets, w.bytes = append(w.packets, ev), w.bytes+len(ev.Packet)
	u.bytes += len(ev.Packet)
	return true
}

// take returns what is held of a pending peer, and forgets it.
func (u *unsure) take(who ilnp.Pending) []dataplane.Event {
	w := u.of[who]
	if w == nil {
		return nil
	}
	u.forget(who)
	return w.packets
}

func (u *unsure) forget(who ilnp.Pending) {
	if w := u.of[who]; w != nil {
		u.bytes -= w.bytes
		delete(u.of, who)
	}
}

// holdPending holds the packet of a pending peer that came with an event, if one did.
func (e *Engine) holdPending(ev dataplane.Event) {
	if len(ev.Packet) == 0 {
		return
	}
	who := ilnp.Pending{Local: ev.Local.NID, Remote: ev.Remote, Nonce: ev.Nonce}
	if !e.unsure.add(time.Now(), who, ev) {
		e.refused["packet beyond what is held of a pending peer"]++
	}
}

// admit delivers what was held of a pending peer to our own stack, under an alias, and
// then what is still on its way here: as soon as the session has an entry, packets
// that come after these are delivered by the data plane, and would overtake them.
func (e *Engine) admit(o ilnp.Admit) {
	var rule oneRule
	for _, ev := range e.unsure.take(o.Pending) {
		if rule.takes(ev) {
			e.deliver(ev, o.Key)
		}
	}
	e.gather(o, &rule)
}

// oneRule is the rule of checksums of a pending peer: that of the first packet with its
// nonce. One by the other rule is a copy of a packet that came as well, or may have: it
// would be delivered twice.
type oneRule struct {
	known bool
	rule  xlate.Rule
}

func (r *oneRule) takes(ev dataplane.Event) bool {
	rule, found := xlate.ShownRule(ev.Packet)
	if !found || !ev.Nonce.Present() {
		return true
	}
	if !r.known {
		r.known, r.rule = true, rule
	}
	return rule == r.rule
}

// foundIn returns the rule that a held packet shows, which the data plane has not looked
// for. The session begins with it, so that a copy that comes later is not delivered.
func foundIn(ev dataplane.Event) ilnp.FoundRule {
	rule, found := xlate.ShownRule(ev.Packet)
	switch {
	case !found || !ev.Nonce.Present() || ev.Found != ilnp.NotFound:
		return ev.Found
	case rule == xlate.RuleRFC6741:
		return ilnp.FoundRFC6741
	}
	return ilnp.FoundIPv6
}

// What admit looks at of what is on its way: so many events, so long, and no more than
// so many wait that are of others.
const (
	lateMost   = 256
	lateWithin = 10 * time.Millisecond
	laterMost  = 1024
)

// gather delivers the packets of a pending peer that are on their way here.
func (e *Engine) gather(o ilnp.Admit, rule *oneRule) {
	deadline := time.Now().Add(lateWithin)
	tick := time.NewTicker(lateWithin / 20)
	defer tick.Stop()
	for n := 0; n < lateMost && len(e.later) < laterMost; {
		select {
		case ev, ok := <-e.cfg.Plane.Unvalidated():
			n++
			switch {
			case !ok:
				return // Run notices
			case isOf(o.Pending, ev):
				if rule.takes(ev) {
					e.deliver(ev, o.Key)
				}
			default:
				e.later = append(e.later, ev)
			}
			continue
		default:
		}
		if e.cfg.Plane.Heard() || time.Now().After(deadline) {
			return
		}
		<-tick.C // its reader waits for a processor
	}
}

// isOf reports whether an event brings a packet of a pending peer.
func isOf(who ilnp.Pending, ev dataplane.Event) bool {
	return (ev.Kind == dataplane.PendingPeer || ev.Kind == dataplane.OtherNonce) && len(ev.Packet) > 0 &&
		who == ilnp.Pending{Local: ev.Local.NID, Remote: ev.Remote, Nonce: ev.Nonce}
}

// takeLater handles the events that admit has met and left.
func (e *Engine) takeLater() {
	for range len(e.later) { // those that this adds are for the next pass
		ev := e.later[0]
		e.later = e.later[1:]
		e.handlePlane(ev)
		e.drain()
	}
}

// deliver hands a held packet to our own stack.
func (e *Engine) deliver(ev dataplane.Event, key ilnp.SessionKey) {
	b, err := e.inward(ev, key)
	if err != nil {
		e.refused["held packet that cannot be translated"]++
		e.cfg.Log.Debug("held packet cannot be translated", "err", err)
		return
	}
	e.inject(b)
}

// inward translates a held packet as the data plane would have done. A sum that a
// driver was to finish is finished here.
func (e *Engine) inward(ev dataplane.Event, key ilnp.SessionKey) ([]byte, error) {
	rule, partial := xlate.Shown(ev.Packet)
	entry := xlate.Entry{
		SessionPrefix: e.cfg.SessionPrefix,
		LocalAlias:    key.Local, LocalNID: ev.Local.NID, LocalL64: ev.Local.L64,
		RemoteAlias: key.Remote, RemoteNID: ev.Remote.NID, RemoteL64: ev.Remote.L64,
		Rule: rule, Nonce: ev.Nonce,
	}
	b, err := xlate.Inward(ev.Packet, entry)
	if err == nil && partial {
		err = ip6.FinishL4(b)
	}
	return b, err
}

// abandon destroys the sockets that are connected to an alias.
func (e *Engine) abandon(k ilnp.SessionKey) {
	e.report("destroy sockets of a session that is another node's now", e.cfg.Network.DestroySockets(e.sessionAddr(k.Remote).Addr()))
}

// session returns the session with an alias.
func (e *Engine) session(k ilnp.SessionKey) (ilnp.Entry, bool) {
	p, ok := e.entries[e.sessionKey(k)]
	return p, ok
}

// sessionKey returns the key of the session with an alias.
func (e *Engine) sessionKey(k ilnp.SessionKey) ilnp.SessionKey {
	if key, ok := e.names[k]; ok {
		return key
	}
	return k
}

// keep notes a session that has an entry.
func (e *Engine) keep(p ilnp.Entry) {
	e.entries[p.Key] = p
	name := ilnp.SessionKey{Local: p.LocalNID, Remote: p.RemoteNID}
	if p.Named {
		e.names[name] = p.Key
	} else if e.names[name] == p.Key {
		delete(e.names, name)
	}
}

// drop forgets one.
func (e *Engine) drop(k ilnp.SessionKey) {
	if p, ok := e.entries[k]; ok {
		name := ilnp.SessionKey{Local: p.LocalNID, Remote: p.RemoteNID}
		if e.names[name] == k {
			delete(e.names, name)
		}
	}
	delete(e.entries, k)
}
