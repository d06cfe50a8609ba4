package ilnp

import (
	"bytes"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Pending peers that answer no echo request. Such a peer may be an ILNP node behind a
// filter, so its entry lives while it talks with a local program, its Locator Updates
// are acknowledged, and it is validated by what an acknowledgement shows: that of our
// SYN-ACK, at a locator that a record names, or those of Locator Updates of ours.
const (
	pendingSilence = 30 * time.Second      // an entry lives on if packets went both ways within this time
	pendingSlowly  = 15 * time.Second      // between probes then
	ackPatience    = 50 * time.Millisecond // after the acknowledgement, and no longer than that took: the reply
	ackPatienceMin = 5 * time.Millisecond  // to a probe shows more, and comes at the same time
)

// pendingLife tells whether packets go both ways between a pending peer and this host.
type pendingLife struct {
	heard, answered time.Time
	sent            int // packets that had gone to it, as the data plane counts
}

// note takes a packet of the peer: sent is how many had gone there before it. The count
// starts anew where the peer moves.
func (l *pendingLife) note(now time.Time, sent int) {
	if l.heard = now; sent > 0 && sent != l.sent {
		l.answered = now
	}
	l.sent = sent
}

// goesOn reports whether packets still go both ways.
func (l *pendingLife) goesOn(now time.Time) bool {
	return now.Sub(l.heard) < pendingSilence && now.Sub(l.answered) < pendingSilence
}

// askSlowly asks a pending peer that has not answered for long, but talks.
func (c *Core) askSlowly(now time.Time, k *pendingPeer) {
	c.forgetProbes(&k.sent, now.Add(-pendingSlowly))
	c.probePendingPeer(now, k)
	k.tries++ // the other form the next time
	c.arm(&k.schedule, timerProbe, now, pendingSlowly)
}

// asksAgain returns how long after a probe a further packet of the peer causes one.
func (k *pendingPeer) asksAgain() time.Duration {
	if k.tries > pendingTries {
		return pendingSlowly
	}
	return pendingAgain
}

// handleExcess takes a packet of a local program that exceeds the allowance of a pending
// peer. It waits until the peer is validated. The data plane tells of both by different
// ways, so that the peer may not be known here yet; and the session must not begin with
// another nonce than it was shown.
func (c *Core) handleExcess(now time.Time, o Observation) {
	if c.sessionOf(o.Key) == nil && !c.isPending(o.Key) {
		c.handlePending(now, o)
	}
	switch {
	case c.sessionOf(o.Key) != nil:
		c.emit(Release{Key: o.Key})
	case !c.isPending(o.Key):
		c.emit(Reject{Key: o.Key})
	}
}

// handleAcked takes a packet of a pending peer that acknowledges our SYN-ACK.
//
// The sequence number of that is the kernel's, which derives it from addresses, ports
// and the time. So it is a proof where a record names the locator: under its NID nothing
// was ever answered elsewhere. Where none does, whoever connects from its own locator
// first, under any NID, can tell which number the same connection has from a victim's.
// There it only shows that the peer is worth an update at once.
func (c *Core) handleAcked(now time.Time, o Observation) {
	c.handlePending(now, o)
	k := c.pendingPeers[Pending{Local: c.cfg.ownNID(o.LocalNID), Remote: o.Remote, Nonce: o.Nonce}]
	if k == nil || o.Held || k.state != unvalidatedPeer || k.acked || !c.isPlace(o.Remote) && k.tries >= echoesFirst {
		return
	}
	k.acked = true
	c.arm(&k.schedule, timerProbe, now, min(max(now.Sub(k.since), ackPatienceMin), ackPatience))
}

// askInstead asks a pending peer by a Locator Update before its time.
func (c *Core) askInstead(now time.Time, k *pendingPeer) {
	k.tries = echoesFirst
	c.askByUpdate(now, k)
	c.arm(&k.schedule, timerProbe, now, pendingFirst<<(k.tries-1))
}

// validatedBySynAck validates a pending peer where it received our SYN-ACK. How long the
// path is stays unknown: the SYN-ACK may have been retransmitted.
func (c *Core) validatedBySynAck(now time.Time, k *pendingPeer) { c.validatedOtherwise(now, k, 0) }

// validatedOtherwise validates a pending peer of which no reply to a probe has come. One
// that comes yet counts for its session. Until it does, or the peer probes itself, it is
// no Roam peer, but one that may want what it does: a nonce with every packet.
func (c *Core) validatedOtherwise(now time.Time, k *pendingPeer, rtt time.Duration) {
	sent := k.sent
	k.sent, k.quiet = nil, true
	c.pendingValidated(now, k, k.key.Nonce, rtt)
	s := c.byNonce(k.key.Local, k.key.Remote.NID, k.key.Nonce)
	if s == nil {
		k.sent = sent
		return
	}
	for _, t := range sent {
		if pr, ok := c.probes[t]; ok {
			pr.from = s
			c.probes[t] = pr
			s.sent = append(s.sent, t)
		}
	}
}

// letGo lets packets of local programs go that waited for the validation of a pending
// peer which was given up: to a known node by its preinstalled entry.
func (c *Core) letGo(key SessionKey) {
	if c.preinstalled.entries[key] != nil {
		c.emit(Release{Key: key})
		return
	}
	c.emit(Reject{Key: key})
}

// keepEarly keeps the Locator Update of a pending peer until it is a session, and
// acknowledges it at once (RFC 6743 §2): a peer that contacts us has its session, and
// may have moved, a round trip before; and one that answers no echo request would
// repeat it for ever.
func (c *Core) keepEarly(now time.Time, link roam.LinkID, p ilnpwire.Packet, packet []byte) bool {
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if k := c.pendingPeers[Pending{Local: p.Dst.NID, Remote: p.Src, Nonce: p.Nonce}]; k != nil && err == nil && lu.Operation == ilnpwire.Acknowledgement {
		c.accounts.received(now, p.Src, len(packet), 1)
		c.pendingAcked(now, k, p, lu)
		return true
	}
	var kept *pendingPeer
	for _, k := range c.pending[SessionKey{p.Dst.NID, p.Src.NID}] {
		if k.key.Nonce == p.Nonce && (kept == nil || k.key.Remote == p.Src) {
			kept = k
		}
	}
	if kept == nil {
		return false
	}
	c.accounts.received(now, p.Src, len(packet), 1)
	answered := c.acknowledgePending(now, link, p, kept)
	for _, k := range c.pending[SessionKey{p.Dst.NID, p.Src.NID}] {
		if k.key.Nonce == p.Nonce && k.nonce == p.Nonce { // else the answer to a probe has shown whose that is not
			k.early, k.earlyLink, k.earlyAnswered = bytes.Clone(packet), link, answered
			k.sum(p.OverNIDs)
		}
	}
	return true
}

// acknowledgePending answers the Locator Update of a pending peer to where it came
// from, with the nonce that all else bears which this host sends to the peer, in the
// form received, and as far as the allowance of that address lets it.
func (c *Core) acknowledgePending(now time.Time, link roam.LinkID, p ilnpwire.Packet, k *pendingPeer) bool {
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if c.faultOf(lu, err, p.Payload) != "" || lu.Operation != ilnpwire.Advertisement {
		return false
	}
	from := roam.LinkLocator{Link: link, L64: p.Dst.L64}
	if !slices.Contains(placesOf(c.host.usable(now)), from) || c.obstructed.has(p.Src.NID, Path{Local: from, Remote: p.Src.L64}) {
		return false
	}
	if s := c.sharesNonce(k.key.Local, k.key.Remote); s != nil && s.state == Established && s.confirmed && !s.dead {
		// Its correspondent is there, which would take the acknowledgement, its form and
		// its rule for that of an update of its own. This one waits for the validation.
		return false
	}
	if k.key.Remote != p.Src {
		// The nonce that a locator is shown is that of whoever turns out to be there. One
		// who has forged a packet from there, and sends this from its own, is not to get it.
		return false
	}
	own, _ := c.ownTowards(k)
	b, err := ilnpwire.BuildUpdate(p.Dst, p.Src, own, lu.Ack())
	if err == nil && p.OverNIDs {
		err = ilnpwire.FinishOverNIDs(b)
	}
	if err == nil && p.Encapsulated {
		b, err = ilnpwire.Encapsulate(b, c.cfg.UDPPort)
	}
	if err != nil || !c.accounts.allows(now, p.Src, len(b), c.lists(p.Src)) {
		return false
	}
	c.emit(Transmit{Link: link, Packet: b})
	return true
}
