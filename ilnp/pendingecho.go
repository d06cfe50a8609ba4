package ilnp

import (
	"bytes"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Pending peers that answer no echo request. Such a peer may be an ILNP node behind a
// filter, so its entry lives while it exchanges packets with a local program, its Locator
// Updates are acknowledged, and it is validated by acknowledgements: of our SYN-ACK, at a
// locator that a record names, or of Locator Updates of ours.
const (
	pendingSilence = 30 * time.Second      // an entry lives on if packets went both ways within this time
	pendingSlowly  = 15 * time.Second      // between probes then
	ackPatience    = 50 * time.Millisecond // after the acknowledgement, and no longer than that took: the reply
	ackPatienceMin = 5 * time.Millisecond  // to a probe proves more, and comes at the same time
)

// pendingLife records whether packets go both ways between a pending peer and this host.
type pendingLife struct {
	received, answered time.Time
	sent               int // packets that had gone to it, as the data plane counts
}

// note records a packet of the peer: the observation has the number of packets that had
// gone there before it. The count starts anew where the peer moves. The data plane itself
// answers a probe, which shows nothing of a local program.
func (l *pendingLife) note(now time.Time, o Observation) {
	if l.received = now; o.Packets > 0 && o.Packets != l.sent {
		l.answered = now
	}
	if l.sent = o.Packets; o.Found == FoundProbe {
		l.sent++
	}
}

// goesOn reports whether packets still go both ways.
func (l *pendingLife) goesOn(now time.Time) bool {
	return now.Sub(l.received) < pendingSilence && now.Sub(l.answered) < pendingSilence
}

// probeSlowly probes a pending peer that has not answered for long, but exchanges packets.
func (ps *pendingPeers) probeSlowly(now time.Time, k *pendingPeer) {
	ps.probes.forget(&k.sent, now.Add(-pendingSlowly))
	ps.probe(now, k)
	k.tries++ // the other form the next time
	ps.wake(now, k, pendingSlowly)
}

// probeInterval returns how long after a probe a further packet of the peer causes one.
func (k *pendingPeer) probeInterval() time.Duration {
	if k.tries > pendingTries {
		return pendingSlowly
	}
	return pendingAgain
}

// handleExcess handles a packet of a local program that exceeds the allowance of a pending
// peer. The packet waits until the peer is validated. The data plane reports the two by
// different ways, so that the peer may not be known here yet; and the session must not
// begin with another nonce than the one that the peer has received.
func (c *Core) handleExcess(now time.Time, o Observation) {
	if c.sessionOf(o.Key) == nil && !c.pending.isPending(o.Key) {
		c.handlePending(now, o)
	}
	if k := c.pending.byKey[c.pending.keyOf(o)]; k != nil {
		k.excess = true
	}
	switch {
	case c.sessionOf(o.Key) != nil:
		c.emit(Release{Key: o.Key})
	case !c.pending.isPending(o.Key):
		c.emit(Reject{Key: o.Key})
	}
}

// synAcked handles a packet of a pending peer that acknowledges our SYN-ACK.
//
// The sequence number of the SYN-ACK is the kernel's, which derives it from addresses,
// ports and the time. So it is a proof where a record names the locator: under its NID
// no packet was ever answered elsewhere. Where none does, a node that connects from its
// own locator first, under any NID, can infer the number of the same connection from a
// victim's. There it proves nothing, and only makes an update at once worth its cost.
func (ps *pendingPeers) synAcked(now time.Time, o Observation) {
	k := ps.byKey[ps.keyOf(o)]
	if k == nil || o.Held || k.state != unvalidatedPeer || k.acked || !ps.cache.isPlace(o.Remote) && k.tries >= echoesFirst {
		return
	}
	k.acked = true
	ps.wake(now, k, min(max(now.Sub(k.since), ackPatienceMin), ackPatience))
}

// sendUpdateAtOnce sends a pending peer a Locator Update before its time.
func (ps *pendingPeers) sendUpdateAtOnce(now time.Time, k *pendingPeer) {
	k.tries = echoesFirst
	ps.sendUpdate(now, k)
	ps.wake(now, k, pendingFirst<<(k.tries-1))
}

// validatedBySynAck validates a pending peer where it received our SYN-ACK. The length of
// the path stays unknown: the SYN-ACK may have been retransmitted.
func (ps *pendingPeers) validatedBySynAck(now time.Time, k *pendingPeer) {
	ps.validateOtherwise(now, k, 0)
}

// validateOtherwise validates a pending peer of which no reply to a probe has come. One
// that still comes counts for its session. Until it does, or the peer probes itself, it is
// treated as a peer without Roam that may expect a nonce with every packet, as it sends.
func (ps *pendingPeers) validateOtherwise(now time.Time, k *pendingPeer, rtt time.Duration) {
	sent := k.sent
	k.sent, k.quiet = nil, true
	ps.validate(now, k, k.key.Nonce, rtt)
	if s := ps.cache.byNonce(k.key.Local, k.key.Remote.NID, k.key.Nonce); s != nil {
		ps.probes.inherit(s, sent)
	} else {
		k.sent = sent
	}
}

// inherit has the answers to probes of a pending peer count for its session.
func (ps probes) inherit(s *session, sent tokens) {
	for _, t := range sent {
		if pr, ok := ps[t]; ok {
			pr.from = s
			s.sent = append(s.sent, t)
		}
	}
}

// keepEarly keeps the Locator Update of a pending peer until it is a session, and
// acknowledges it at once (RFC 6743 §2): a peer that contacts us has its session, and
// may have moved, a round trip before; and one that answers no echo request would
// retransmit it for ever. It reports whether the packet is a pending peer's.
func (ps *pendingPeers) keepEarly(now time.Time, link roam.LinkID, p ilnpwire.Packet, packet []byte) bool {
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if k := ps.byKey[Pending{Local: p.Dst.NID, Remote: p.Src, Nonce: p.Nonce}]; k != nil && err == nil && lu.Operation == ilnpwire.Acknowledgement {
		ps.accounts.received(now, p.Src, len(packet), 1)
		ps.acked(now, k, p, lu)
		return true
	}
	var kept *pendingPeer
	for _, k := range ps.byNIDs[SessionKey{p.Dst.NID, p.Src.NID}] {
		if k.key.Nonce == p.Nonce && (kept == nil || k.key.Remote == p.Src) {
			kept = k
		}
	}
	if kept == nil {
		return false
	}
	ps.accounts.received(now, p.Src, len(packet), 1)
	acked := ps.acknowledge(now, link, p, kept)
	for _, k := range ps.byNIDs[SessionKey{p.Dst.NID, p.Src.NID}] {
		if k.key.Nonce == p.Nonce && k.nonce == p.Nonce { // else the answer to a probe has proven that it is another node's
			k.early, k.earlyLink, k.earlyAcked = bytes.Clone(packet), link, acked
			k.sum(p.OverNIDs)
		}
	}
	return true
}

// acknowledge answers the Locator Update of a pending peer to its source, with the nonce
// of all other packets of this host to the peer, in the form received, and within the
// allowance of that address.
func (ps *pendingPeers) acknowledge(now time.Time, link roam.LinkID, p ilnpwire.Packet, k *pendingPeer) bool {
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if ps.cfg.faultOf(lu, err, p.Payload) != "" || lu.Operation != ilnpwire.Advertisement {
		return false
	}
	from := roam.LinkLocator{Link: link, L64: p.Dst.L64}
	if !ps.isUsable(now, from) || ps.obstructed.has(p.Src.NID, Path{Local: from, Remote: p.Src.L64}) {
		return false
	}
	if s := ps.cache.sharesNonce(k.key.Local, k.key.Remote); s != nil && s.state == Established && s.confirmed && !s.dead {
		// Its correspondent is there, which would mistake the acknowledgement, its form and
		// its rule for that of an update of its own. This one waits for the validation.
		return false
	}
	if k.key.Remote != p.Src || now.Before(k.deferred) {
		// The nonce sent to a locator is for the node there. A node that has forged a packet
		// from there, and sends this from its own locator, must not receive it.
		return false
	}
	if ps.cache.isKeyed(p.Src.NID) {
		return false // it takes no acknowledgement without a MAC: it gets one when it has a session
	}
	own, _ := ps.ownTowards(k)
	b, err := ilnpwire.BuildUpdate(p.Dst, p.Src, own, lu.Ack())
	if err == nil && p.OverNIDs {
		err = ilnpwire.FinishOverNIDs(b)
	}
	if err == nil && p.Encapsulated {
		b, err = ilnpwire.Encapsulate(b, ps.cfg.UDPPort)
	}
	if err != nil || !ps.accounts.allows(now, p.Src, len(b), ps.cache.lists(p.Src)) {
		return false
	}
	ps.effects.emit(Transmit{Link: link, Packet: b})
	return true
}
