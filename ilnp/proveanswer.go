package ilnp

import (
	"cmp"
	"slices"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// What comes after the offer of a proof: the answer or a challenge, the confirmation, and what goes
// again where one of them is missing.

// handleAnswer handles an answer or a challenge, of the session whose offer it is for.
func (c handshakes) handleAnswer(now time.Time, key []byte, by Path, p ilnpwire.Packet) string {
	for _, s := range c.between(p.Dst.NID, p.Src.NID) {
		a := s.agreed
		switch {
		case s.crossed != nil && isProof(key, *p.Proof, p.Nonce, s.crossed.nonce):
			return c.answeredCrossed(now, s, by, p)
		case !isProof(key, *p.Proof, p.Nonce, s.localNonce):
		case !c.isListedIn(p) && p.Proof.Step == ilnpwire.ProofAnswer:
			return reasonProofPlace
		case p.Proof.Step == ilnpwire.ProofChallenge && p.Proof.Ephemeral == nidkey.Public{}:
			c.askedToProve(now, s)
			return ""
		case s.hs != nil && p.Proof.Step == ilnpwire.ProofChallenge:
			return c.challenged(now, s, key, by, p)
		case s.hs != nil:
			return c.answeredOffer(now, s, by, p)
		case a != nil && a.initiator && a.theirs == p.Proof.Ephemeral && p.Proof.Step == ilnpwire.ProofAnswer:
			c.sendProof(now, s, by, p.Encapsulated, a.last) // the confirmation was lost
			return ""
		default:
			return reasonProofOld
		}
	}
	return reasonProofForged
}

// pendingProof is how long a pending peer that has to prove itself gets no probe: its offer, or its answer, is right
// behind its own probe.
const pendingProof = 20 * time.Millisecond

// probeAhead sends a pending peer its first probe, unless that has left: its programs hand the answer to an offer over
// only behind another packet with our nonce.
func (ps *pendingPeers) probeAhead(now time.Time, k *pendingPeer) {
	if k != nil && k.tries == 0 {
		ps.probeInTurn(now, k)
	}
}

// askProof asks a pending peer for a proof that has answered probes with a nonce for a while and has offered none: it
// may have a session that this host has lost. Our nonce for it is a function of both ends, so it may be that of the
// session, and the peer notices nothing. A host that has a session has a handshake or a proof.
func (c *Core) askProof(now time.Time, k *pendingPeer, n Nonce) {
	nids, peer := k.nids(), c.known[k.key.Remote.NID]
	if !peer.secret.Present() || peer.retired || c.cfg.isFormer(nids.Local) ||
		c.holder(nids.Local, nids.Remote) != nil || now.Sub(later(k.since, k.asked)) < pendingFirst {
		return
	}
	k.asked = now
	own, _ := c.pending.ownTowards(k)
	s := &session{localNID: nids.Local, remoteNID: nids.Remote, localNonce: own} // for its ends only
	q := sealProof(peer.proofKey(nids.Local, nids.Remote), ilnpwire.Proof{Step: ilnpwire.ProofChallenge}, own, n)
	handshakes{c}.sendProof(now, s, Path{Local: k.at, Remote: k.key.Remote.L64}, k.encap, q)
}

// askedToProve makes an offer within a session, as its peer asks for one. If the peer has the session as well, as
// after a copy of an earlier question, its answer says so, and nothing changes.
func (c handshakes) askedToProve(now time.Time, s *session) {
	if s.state == Established && now.Sub(s.asked) >= askedEvery {
		s.asked = now
		c.renew(now, s)
	}
}

// answeredCrossed takes the answer to the offer that this host gave up as it accepted the peer's: each
// end has answered the other one, and both wait. The offer of the lower NID counts.
func (c handshakes) answeredCrossed(now time.Time, s *session, by Path, p ilnpwire.Packet) string {
	if s.hs != nil || !c.isListedIn(p) {
		return reasonProofOld
	}
	own, x := s.localNonce, s.crossed
	s.hs, s.localNonce = x.handshake, x.nonce
	refused := c.answeredOffer(now, s, by, p)
	if refused != "" {
		s.hs, s.localNonce = nil, own
	}
	return refused
}

// challenged makes an offer that answers a challenge, along the path by which that came. It is as long as the
// challenge, so the allowance of an address that is not validated suffices for it; a probe ahead is not
// needed, as the peer knows the nonce.
func (c handshakes) challenged(now time.Time, s *session, key []byte, by Path, p ilnpwire.Packet) string {
	const most = 1 << 63 // a peer could use up the counters otherwise
	h, q := s.hs, *p.Proof
	if q.Ephemeral != h.ephemeral.Public || q.Token == h.challenge {
		return reasonProofOld
	}
	if now.Sub(h.challenged) < proofFirst {
		return "" // of an offer that left before the one which answers another challenge
	}
	h.challenge, h.challenged, h.inUDP = q.Token, now, Path{}
	c.known[s.remoteNID].follows = true
	if last := maskCounter(key, q); last < most {
		c.prover.counter = max(c.prover.counter, last)
	}
	c.newOffer(now, s)
	c.arm(&s.schedule, timerProve, now, min(proofFirst<<min(h.tries, 6), proofMax))
	c.offerAlong(now, s, by, p.Encapsulated)
	c.arm(&s.schedule, timerSetup, now, s.patience()) // the peer is there and has its key: one more round trip is worth it
	return ""
}

// answeredOffer establishes a session whose peer has accepted our offer, if that has the root.
func (c handshakes) answeredOffer(now time.Time, s *session, by Path, p ilnpwire.Packet) string {
	h, k := s.hs, c.known[s.remoteNID]
	var offer *ilnpwire.Proof
	for i := range h.offers {
		if h.offers[i].Counter == p.Proof.Counter {
			offer = &h.offers[i]
		}
	}
	if offer == nil {
		return reasonProofOld
	}
	root, err := h.answered(transcript{
		initiator: s.localNID, responder: s.remoteNID, initiatorNonce: s.localNonce, responderNonce: p.Nonce,
		offer: *offer, answer: p.Proof.Ephemeral,
	}, c.ownKey, k.public, k.secret)
	if err != nil || !isTokenOf(root, *p.Proof) && !stands(root, *p.Proof) {
		return reasonProofForged
	}
	k.offered, k.follows = 0, true
	if p.Nonce == s.remoteNonce && s.crossed == nil && !h.insists && stands(root, *p.Proof) {
		c.endOffer(now, s) // both have the session that there was
		return ""
	}
	q := ilnpwire.Proof{
		Step: ilnpwire.ProofConfirm, Counter: offer.Counter, Ephemeral: offer.Ephemeral, Locators: offer.Locators,
		Reports: offer.Reports,
	}
	q.Token = tokenOf(root, q)
	q = sealProof(k.proofKey(s.localNID, s.remoteNID), q, s.localNonce, p.Nonce)
	s.agreed = &agreement{
		root: root, theirs: p.Proof.Ephemeral, last: q, went: h.went, initiator: true, confirmed: true,
		reports: p.Proof.Reports, path: by, encap: p.Encapsulated, unsent: true,
	}
	if h.tries == 1 && len(h.offers) == 1 && p.Encapsulated == s.encaps(by) {
		s.noteRTT(now.Sub(h.since), by.Local)
	}
	s.hs, s.renewal, s.crossed = nil, nil, nil
	c.disarm(&s.schedule, timerProve)
	c.pending.admitProven(now, s, p.Nonce) // before the entry: packets that come by that must not overtake it
	c.rest = append(c.rest, func() { c.proved(now, s, by, p) })
	return ""
}

// confirmProof sends the confirmation of an answer, once programs have the session's entry: whoever has it goes on
// without the nonce, and what came without before that would be lost.
func (c handshakes) confirmProof(now time.Time, s *session) {
	if a := s.agreed; a != nil && a.unsent {
		a.unsent = false
		c.sendProof(now, s, a.path, a.encap, a.last)
	}
}

// proved is handleNonce for a peer that has proven itself.
func (c handshakes) proved(now time.Time, s *session, by Path, p ilnpwire.Packet) {
	if s.state == Established { // its peer has lost its half, and what that knew of ours
		c.suspendUpdate(s)
		s.update = exchange{}
	}
	s.lastRx, s.lastNonceRx, s.lastControl = now, now, now
	s.confirmed, s.asks = true, true
	if p.Encapsulated {
		s.restoreEncap(now, []Path{by})
	}
	c.beginAt(now, s, by)
	s.startKnowing(p.Dst.L64)
	c.establish(now, s, p.Nonce, by.Remote)
	c.heard(now, s)
}

// admitProven delivers what was held of a node that has proven that a nonce is its own.
func (ps *pendingPeers) admitProven(now time.Time, s *session, n Nonce) {
	for _, k := range ps.byNIDs[s.nids()] {
		if k.key.Nonce == n {
			sent := k.sent
			k.sent, k.held = nil, true // the answer to our first packet is right behind that to our offer
			ps.admit(now, k, s)
			ps.probes.inherit(s, sent)
			return
		}
	}
}

// handleConfirm handles the confirmation of an answer: its sender has what went there.
func (c handshakes) handleConfirm(now time.Time, key []byte, p ilnpwire.Packet) string {
	s := c.byNonce(p.Dst.NID, p.Src.NID, p.Nonce)
	switch {
	case s == nil || c.waiting(now, s) == nil && (s.agreed == nil || s.agreed.initiator):
		return reasonProofOld
	case !isProof(key, *p.Proof, p.Nonce, s.localNonce):
		return reasonProofForged
	case s.renewal.isConfirmedBy(*p.Proof):
		c.takeRenewal(s)
	case !s.agreed.isConfirmedBy(*p.Proof):
		return reasonProofForged
	}
	if a, seq := s.agreed, s.entry.Seq; !a.confirmed {
		a.confirmed, s.crossed, c.known[p.Src.NID].follows = true, nil, true
		if a.went.are(a.path.Remote) { // else a probe, which is on its way, validates it
			c.validated(now, s, a.path.Remote)
		}
		c.writeConfirmed(now, s, seq)
		if !s.owned {
			c.tellCopied(now, s, c.known[s.remoteNID].copiedAt(now))
		}
	}
	return ""
}

// proveTimeout repeats an offer, or an answer, or gives up.
func (c handshakes) proveTimeout(now time.Time, s *session) {
	switch a := s.agreed; {
	case s.hs != nil && s.hs.inUDP != Path{}:
		c.offerInUDP(now, s)
	case s.hs.demands():
		c.demandAgain(now, s)
	case s.hs != nil && s.state == Established && s.hs.tries >= proofTries:
		// What answered with another nonce was not the peer, or has no key.
		s.noProof = s.noProof || !s.hs.insists
		c.endOffer(now, s)
	case s.hs != nil:
		c.offer(now, s)
	case !a.isOpen():
	case a.tries >= proofTries:
		c.endUnproven(now, s, reasonProofOpen)
	default:
		a.tries++
		path, newest := c.answerPath(now, s), cmp.Or(s.renewal, a)
		c.answerAgain(now, s, newest, path, newest.encap || c.hasUDP(s) && s.encaps(path))
		c.awaitConfirm(now, s)
	}
}

// offerInUDP sends the first offer once more, along the same path in UDP: that may drop options.
func (c handshakes) offerInUDP(now time.Time, s *session) {
	path := s.hs.inUDP
	s.hs.inUDP = Path{}
	c.arm(&s.schedule, timerProve, now, s.hs.since.Add(proofFirst).Sub(now))
	if _, destinations := c.ends(now, s); slices.Contains(destinations, path.Remote) {
		c.offerIn(now, s, path, true)
	}
}

// answerPath returns the path of the next repetition of an answer: that by which the offer came and all
// others by turns, as the peer may not receive where it sends.
func (c handshakes) answerPath(now time.Time, s *session) Path {
	a := s.agreed
	sources, destinations := c.ends(now, s)
	sources = unique(append([]roam.LinkLocator{a.path.Local}, sources...))
	if !slices.Contains(placesOf(c.host.usable(now)), a.path.Local) {
		sources = sources[1:]
	}
	destinations = unique(append([]roam.L64{a.path.Remote}, destinations...))
	path, ok := c.obstructed.nextEnds(s.remoteNID, a.tries, sources, destinations)
	if !ok {
		return a.path
	}
	return path
}
