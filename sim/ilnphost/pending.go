package ilnphost

import (
	"slices"

	"roam"
	"roam/ilnp"
	"roam/ilnp/slowpath"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/xlate/decide"
)

var triggers = map[decide.EventKind]ilnp.Trigger{
	decide.PendingShown: ilnp.SeenPending,
	decide.OtherNonce:   ilnp.SeenOtherNonce,
	decide.NonceSeen:    ilnp.SeenNonce,
	decide.LocatorSeen:  ilnp.SeenLocator,
	decide.Silence:      ilnp.SeenSilence,
	decide.Life:         ilnp.SeenLife,
	decide.RuleSeen:     ilnp.SeenRule,
	decide.First:        ilnp.SeenFirst,
	decide.Retried:      ilnp.SeenRefusal,
	decide.PerFlowAsked: ilnp.SeenPerFlow,
	decide.Stall:        ilnp.SeenStall,
	decide.Queue:        ilnp.SeenQueue,
	decide.More:         ilnp.SeenMore,
	decide.Acked:        ilnp.SeenAcked,
}

// tell gives the core an event about a packet, as the daemon's loop does.
func (p *plane) tell(ev decide.Event, about Packet) {
	switch ev.Kind {
	case decide.Control:
		if e := p.named(ilnp.SessionKey(ev.Key)); e != nil && p.host.stack.ignores(e, about) {
			p.drops["update ignored"]++
			return
		}
		p.hand(ev, about)
	case decide.ErrorIn:
		if !p.host.core.HandleError(p.host.net.Now(), about.Control) {
			p.hand(ev, about)
		}
		p.host.Settle()
	case decide.Miss:
		p.miss(ev, about.Data)
	case decide.PendingShown, decide.OtherNonce:
		o := observation(ilnp.SeenPending, ev)
		b, ok := p.slow().AnswerProbe(about.Control, ev.OwnNonce)
		if ok && ev.Whole && !p.host.core.DefersProbe(p.host.net.Now(), o) {
			p.host.transmit(ilnp.Transmit{Link: roam.LinkID(ev.Link), Packet: b})
			ev.Whole = false
		}
		if ev.Whole && about.Control == nil {
			who := ilnp.Pending{Local: ev.Local.NID, Remote: ev.Remote, Nonce: ev.Nonce}
			if len(p.unsure[who]) < maxHeld {
				p.unsure[who] = append(p.unsure[who], about.Data)
			}
		}
		fallthrough
	default:
		if trigger, ok := triggers[ev.Kind]; ok {
			o := observation(trigger, ev)
			o.Held = ev.Whole && ev.Kind != decide.First
			p.host.observe(o)
		}
	}
}

// slow is what the daemon does with packets that the programs hand over.
func (p *plane) slow() slowpath.Host {
	return slowpath.Host{SessionPrefix: roam.DefaultSessionPrefix, UDPPort: udpPort}
}

func observation(trigger ilnp.Trigger, ev decide.Event) ilnp.Observation {
	return ilnp.Observation{
		Trigger: trigger, Key: ilnp.SessionKey(ev.Key), Remote: ev.Remote, LocalNID: ev.Local.NID,
		Local: roam.LinkLocator{Link: roam.LinkID(ev.Link), L64: ev.Local.L64},
		Nonce: ev.Nonce, OwnNonce: ev.OwnNonce, Found: ilnp.FoundRule(ev.Found), Encapsulated: ev.Encapsulated,
		Bytes: ev.Bytes, Packets: ev.Packets,
	}
}

// hand gives a control packet to the core, once the daemon gets to it.
func (p *plane) hand(ev decide.Event, in Packet) {
	h := p.host
	if h.busy == nil {
		h.core.HandlePacket(h.net.Now(), roam.LinkID(ev.Link), in.Control)
		h.Settle()
		return
	}
	h.reads = later(h.reads, h.net.Now().Add(h.busy()))
	h.net.After(h.reads.Sub(h.net.Now()), func() {
		h.core.HandlePacket(h.net.Now(), roam.LinkID(ev.Link), in.Control)
		h.Settle()
	})
}

// miss holds a packet that needs a session, or that exceeds the allowance of a pending
// peer.
func (p *plane) miss(ev decide.Event, d Datagram) {
	key := ilnp.SessionKey(ev.Key)
	queue, o := p.held, ilnp.Observation{Trigger: ilnp.SeenMiss, Key: key, LocalNID: key.Local}
	if ev.OwnNonce.Present() {
		queue, o = p.excess, observation(ilnp.SeenExcess, ev)
	}
	if len(queue[key]) >= maxHeld {
		p.drops["queue full"]++
		return
	}
	queue[key] = append(queue[key], d)
	p.host.observe(o)
}

// admit delivers what was held of a pending peer, in order, whose answers do not go to
// another one with its NID.
func (p *plane) admit(o ilnp.Admit) {
	held := p.unsure[o.Pending]
	delete(p.unsure, o.Pending)
	if p.entries[o.Key] == nil && len(held) > 0 {
		p.dropPending(decide.Key(o.Key))
	}
	for _, d := range held {
		p.host.deliver(o.Key, d)
	}
}

// dismiss drops what was held of a pending peer, and what is remembered of it.
func (p *plane) dismiss(o ilnp.Dismiss) {
	p.drops["dismissed"] += len(p.unsure[o.Pending])
	delete(p.unsure, o.Pending)
	if e := p.state.Pending[decide.Key(o.Key)]; e != nil && e.RemoteNonce == o.Pending.Nonce {
		p.dropPending(decide.Key(o.Key))
	}
}

// keepPending remembers that there is a pending peer, in place of the oldest one where
// there are too many.
func (p *plane) keepPending(key decide.Key) {
	if len(p.order) == maxPending {
		p.dropPending(p.order[0])
	}
	p.order = append(p.order, key)
}

func (p *plane) dropPending(key decide.Key) {
	if p.state.Pending[key] == nil {
		return
	}
	delete(p.state.Pending, key)
	p.order = slices.DeleteFunc(p.order, func(k decide.Key) bool { return k == key })
}

// isElsewhere reports whether a packet has the nonce of a session, and comes from where
// that has no locator.
func (p *plane) isElsewhere(in Packet) bool {
	return p.withNonce(in, func(e *entry) bool { return !slices.Contains(e.Accept, in.Src.L64) })
}

// stay takes back that a session follows its correspondent to where its nonce was seen.
func (p *plane) stay(in Packet) {
	p.withNonce(in, func(e *entry) bool {
		e.session.Live.Hint = 0
		return false
	})
}

// withNonce reports whether a session that a packet has the nonce of is such a one.
func (p *plane) withNonce(in Packet, is func(*entry) bool) bool {
	for _, e := range p.sorted() {
		between := e.RemoteNID == in.Src.NID && e.LocalNID == in.Dst.NID
		if between && in.Nonce.Present() && e.RemoteNonce == in.Nonce && is(e) {
			return true
		}
	}
	return false
}

// messageType returns the ICMPv6 type of a control packet.
func messageType(in Packet) uint8 {
	if in.typed || in.Control == nil {
		return in.typ
	}
	q, err := ilnpwire.ParseControl(in.Control, udpPort)
	if err != nil {
		return 0
	}
	return q.Type
}
