package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// receivePending takes a nonce that belongs to no session, be it that there is
// none (e is nil), be it that its nonce is another one. Where the session's
// packets go anyway, the answer bears the session's own nonce: that of a host
// that remembers does not change, however often the other end forgets its.
func (p *plane) receivePending(at *attachment, in Packet, e *entry) {
	key, why := ilnp.SessionKey{Local: in.Dst.NID, Remote: in.Src.NID}, ilnp.SeenPending
	old, known := p.pending[key]
	unsure := p.isUnsure(in, e)
	known = known && old.shown == in.Nonce && old.remote == in.Src
	own := old.own
	if !known {
		own = p.pendingNonce(in)
	}
	// Of what the core does not hear of, nothing must stay here either: no packet
	// of ours would be a miss.
	if !unsure && (known || in.Control == nil || messageType(in) == ilnpwire.TypeEchoRequest) {
		p.keepPending(key, pending{remote: in.Src, local: in.Dst, link: at.link, shown: in.Nonce, own: own, encap: in.Encapsulated, sent: old.sentTo(known)})
	}
	if e != nil {
		why = ilnp.SeenOtherNonce
		switch {
		case e.isThere(in.Src.L64):
			own = e.LocalNonce
		case own == e.LocalNonce: // the programs show another one, which hangs on the nonce
			own = p.nonceOf(in.Src, in.Dst, in.Nonce.Value())
		}
	}
	if in.Control != nil {
		switch messageType(in) {
		case ilnpwire.TypeEchoReply:
			p.hand(at, in)
			return
		case ilnpwire.TypeLocatorUpdate:
			if known || unsure {
				p.hand(at, in) // the core keeps it until there is a session
			} else {
				p.drops["update without session"]++
			}
			return
		}
		p.reflect(at, in, own)
	}
	held := unsure && in.Control == nil
	if held {
		who := ilnp.Pending{Local: in.Dst.NID, Remote: in.Src, Nonce: in.Nonce}
		if len(p.unsure[who]) < maxHeld {
			p.unsure[who] = append(p.unsure[who], in.Data)
		}
	}
	p.host.observe(ilnp.Observation{
		Trigger: why, Key: key, Remote: in.Src, Local: roam.LinkLocator{Link: at.link, L64: at.l64},
		LocalNID: in.Dst.NID, Nonce: in.Nonce, OwnNonce: own, Encapsulated: in.Encapsulated, Held: held, Bytes: in.size(), Packets: old.sentTo(known),
	})
	if in.Control == nil && !held && why == ilnp.SeenPending {
		p.host.deliver(key, in.Data)
	}
}

// sentTo returns how many packets have gone to a pending peer: none, if it is another one.
func (e pending) sentTo(known bool) int {
	if !known {
		return 0
	}
	return e.sent
}

// isThere reports whether the correspondent was validated at a locator, or a record has
// it there. Where it only says to be, another node with its NID may be, which must not
// be shown a nonce that the correspondent knows.
func (e *entry) isThere(l roam.L64) bool {
	return slices.Contains(e.Accept, l) && (!slices.Contains(e.Unvalidated, l) || slices.Contains(e.Given, l)) && e.hasRoomFor(l)
}

// hasRoomFor reports whether a locator is one of those that stand in an entry of the
// programs. Of further ones these know only that packets may come from there.
func (e *entry) hasRoomFor(l roam.L64) bool {
	var first [ilnp.MaxRemote]roam.L64
	n := 0
	enter := func(o roam.L64) {
		if n < len(first) && !slices.Contains(first[:n], o) {
			first[n] = o
			n++
		}
	}
	for _, p := range e.Paths {
		enter(p.Remote)
	}
	for _, o := range e.Accept {
		enter(o)
	}
	return slices.Contains(first[:n], l)
}

// keepPending remembers a correspondent without session, in place of the oldest
// one where there are too many.
func (p *plane) keepPending(key ilnp.SessionKey, e pending) {
	p.dropPending(key)
	if len(p.order) == maxPending {
		p.dropPending(p.order[0])
	}
	p.pending[key] = e
	p.order = append(p.order, key)
}

func (p *plane) dropPending(key ilnp.SessionKey) {
	if _, ok := p.pending[key]; ok {
		delete(p.pending, key)
		p.order = slices.DeleteFunc(p.order, func(k ilnp.SessionKey) bool { return k == key })
	}
}

// pendingNonce is the same for the same pair of I-LVs: nothing to be drained. It
// is that of the first packet's for as long as its sender is remembered.
func (p *plane) pendingNonce(in Packet) Nonce { return p.nonceOf(in.Src, in.Dst, nil) }

// nonceOf is a nonce of ours for an entry of I-LVs, and for a nonce of the other's.
func (p *plane) nonceOf(src, dst roam.ILV, theirs []byte) Nonce {
	b := binary.BigEndian.AppendUint64(nil, p.secret)
	for _, v := range []roam.ILV{src, dst} {
		b = binary.BigEndian.AppendUint64(b, uint64(v.NID))
		b = binary.BigEndian.AppendUint64(b, uint64(v.L64))
	}
	b = append(b, theirs...)
	sum := sha256.Sum256(b)
	n := Nonce{Len: max(p.host.cfg.NonceLength, 4)}
	copy(n.Bytes[:n.Len], sum[:])
	return n
}
