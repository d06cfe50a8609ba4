package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// A proof at set-up. Towards a peer whose key the user has given no session begins without one:
// the initiator's offer goes ahead of its first packet, behind a probe that makes the peer's
// programs take it for a pending peer's; what comes from a node without a proof waits with the
// daemon, at both ends, by the mechanism of pending peers. DEVIATION from RFC 6743, whose updates
// only list locators: see docs/rfc/rfc6743.md and docs/design/keys.md.
const (
	proofFirst = 300 * time.Millisecond // to the first repetition, doubled each time
	proofUDP   = 50 * time.Millisecond  // to the first offer in UDP, or 3/2 RTT: an echo each 0.2 s is not to be lost
	proofMax   = 15 * time.Second
	proofTries = 4 // of a responder that is not confirmed, and of an initiator that has a session
	// crossedTries is after how many offers of ours without an answer one of the peer's counts,
	// whoever has the lower NID: ours may go where the peer is not any more.
	crossedTries = 3
	renewalLife  = time.Minute // of an answer within a session that nobody confirms
	answersEach  = 8           // that a known offer gets in a second: by a few paths, in both forms

	// An end that gets no acknowledgement insists so often at once, and then after 15 s, doubled so often at most.
	insistsAtOnce, insistsSlower = 3, 6

	askedEvery = time.Second // a peer that asks for a proof gets an offer at most so often
	offersEach = 500         // that a host accepts in a second, and at once, without a challenge
	offersKept = 4           // an answer to an earlier offer counts

	// reservedOffers is how far ahead of the last one the state reserves counters: an hour, should
	// the clock be set back, and more offers than a host makes between two states.
	reservedOffers = uint64(time.Hour)
)

// proves reports whether a peer must prove that it has its key before it has a session, as this
// node proves its own to it.
func (ca *cache) proves(nid roam.NID) bool {
	k := ca.known[nid]
	return ca.proving && k != nil && k.keyed && !k.guard.optional
}

// prover is what a host needs for the proofs of all its sessions.
type prover struct {
	counter    uint64 // of the last offer
	challenges challenges
	busy       time.Time  // until then the offers that were accepted without a challenge count
	spare      ephemeral  // for the next proof with a peer that has none of its own
	wanted     []roam.NID // of peers that are to get one
}

// exceeds reports whether so many offers came without a challenge that another one must show
// first that its sender receives at its place: what follows costs operations with public keys.
func (p *prover) exceeds(now time.Time) bool {
	if p.busy = later(p.busy, now); p.busy.Sub(now) >= time.Second {
		return true
	}
	p.busy = p.busy.Add(time.Second / offersEach)
	return false
}

// nextCounter returns the counter of an offer: the clock, or one more than any that was used or
// reserved.
func (p *prover) nextCounter(now time.Time) uint64 {
	p.counter = max(p.counter+1, uint64(max(now.UnixNano(), 0)))
	return p.counter
}

// handshakes are the core as the messages of proofs see it.
type handshakes struct{ *Core }

// prove begins a handshake, and reports whether it did.
func (c handshakes) prove(now time.Time, s *session) bool {
	k := c.known[s.remoteNID]
	if !c.proves(s.remoteNID) || !k.secret.Present() || k.retired || s.hs != nil || c.cfg.isFormer(s.localNID) {
		return false
	}
	h, ok := &handshake{nobody: Nonce{Len: 12}}, false
	if h.ephemeral, ok = c.ephemeral(now, k); !ok || !c.draw(now, h.nobody.Bytes[:]) {
		return false
	}
	s.hs = h
	c.arm(&s.schedule, timerShared, now, 0)
	return true
}

// renew begins a handshake for a session whose peer has answered with another nonce: it may have
// lost its state, or somebody forges. Until it has proven itself the session stays as it is. A session that its own
// peer has to confirm ends soon if it does not.
func (c handshakes) renew(now time.Time, s *session) {
	if !s.agreed.isOpen() && c.prove(now, s) {
		c.upsert(now, s, s.entry.Paths)
		c.offer(now, s)
	}
}

// insist is renew for a session whose peer is there and acknowledges no update: both ends may have different keys, as
// one of them goes on from an older state. An answer counts then although the peer's session stands. Where updates
// never pass, and all else does, it insists ever more seldom.
func (c handshakes) insist(now time.Time, s *session) {
	more := s.insists - insistsAtOnce
	if more >= 0 && now.Sub(s.insisted) < updateSlowly<<min(more, insistsSlower) {
		return
	}
	if c.renew(now, s); s.hs != nil {
		s.insists, s.insisted = s.insists+1, now
		s.hs.insists = true
	}
}

// endOffer ends a handshake in a session that goes on as it is.
func (c handshakes) endOffer(now time.Time, s *session) {
	s.hs = nil
	c.disarm(&s.schedule, timerProve)
	c.upsert(now, s, s.entry.Paths)
}

// offerAgain repeats an offer that has had no answer in time along the path by which a packet of the peer has come: it
// can answer there. That packet shows that it knows our nonce, so no probe goes ahead.
func (c handshakes) offerAgain(now time.Time, s *session, by Path, encap bool) {
	h := s.hs
	if h == nil || h.tries < 2 || now.Sub(h.seen) < proofFirst {
		return
	}
	h.seen = now
	c.offerAlong(now, s, by, encap)
}

// offerAlong sends the newest offer along a path to where the session may send, else along the next path.
func (c handshakes) offerAlong(now time.Time, s *session, by Path, encap bool) {
	if _, destinations := c.ends(now, s); !slices.Contains(destinations, by.Remote) {
		c.offer(now, s)
		return
	}
	c.sendOffer(now, s, by, encap)
}

// sendOffer sends the newest offer.
func (c handshakes) sendOffer(now time.Time, s *session, path Path, encap bool) {
	h := s.hs
	h.offered = now
	h.went.add(path.Remote)
	c.sendProof(now, s, path, encap, h.offers[len(h.offers)-1])
}

// repliedUnproven handles a reply to a probe from a peer that has to prove itself. It shows that the node there has
// ILNP, and no proof so far: TCP by plain IPv6 will not work either, as that node answers with a nonce.
func (c handshakes) repliedUnproven(now time.Time, s *session, pr probe) {
	if s.state == Initiated {
		s.noProof = true
	}
	c.offerAgain(now, s, pr.path, pr.form == FormUDP)
}

// newOffer makes an offer that differs from those before.
func (c handshakes) newOffer(now time.Time, s *session) {
	h, k := s.hs, c.known[s.remoteNID]
	p := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: c.prover.nextCounter(now), Ephemeral: h.ephemeral.Public,
		Token: h.challenge, Locators: c.listedInProof(now), Reports: true}
	key := k.proofKey(s.localNID, s.remoteNID)
	p.Counter = maskCounter(key, p)
	h.offers = append(h.offers, sealProof(key, p, s.localNonce, Nonce{}))
	h.offers = h.offers[max(0, len(h.offers)-offersKept):]
}

// listedInProof returns the locators that a proof lists: those that this host announces, and those that it holds in
// reserve, as the proof may leave from each.
func (c *node) listedInProof(now time.Time) (list [ilnpwire.ProofLocators]roam.L64) {
	all := slices.Clone(c.host.told)
	for _, l := range c.host.usable(now) {
		if !slices.ContainsFunc(all, func(e listed) bool { return e.l64 == l.L64 }) {
			all = append(all, listed{l64: l.L64})
		}
	}
	all = c.host.asSeenOutside(all)
	for i, l := range all[:min(len(all), len(list))] {
		list[i] = l.l64
	}
	return list
}

// offer sends the offer of a session, and arms the timer for the next time: at first along the
// path that its packets take, then along all by turns. The programs of the peer hand it over
// only behind a packet with the same nonce, so a probe goes ahead.
func (c handshakes) offer(now time.Time, s *session) {
	h := s.hs
	c.probes.forget(&s.sent, now.Add(-tokenLife))
	c.arm(&s.schedule, timerProve, now, min(proofFirst<<min(h.tries, 6), proofMax))
	sources, destinations := c.ends(now, s)
	k := c.known[s.remoteNID]
	path, ok := c.obstructed.nextEnds(s.remoteNID, k.offered, sources, destinations)
	if k.offered == 0 && len(s.entry.Paths) > 0 {
		path, ok = s.entry.Paths[0], true
	}
	if !ok {
		return
	}
	k.offered++
	if len(h.offers) == 0 {
		c.newOffer(now, s)
		h.since = now
	}
	h.tries++
	if h.tries == 1 && c.vouch(now, s, path) {
		return // the peer has until the next time to learn whose offer that is
	}
	for _, encap := range c.proofForms(s, path, h.tries) {
		c.offerIn(now, s, path, encap)
	}
	if soon := max(proofUDP, s.rtt*3/2); h.tries == 1 && soon < proofFirst && c.hasUDP(s) && !s.encaps(path) {
		h.inUDP = path
		c.arm(&s.schedule, timerProve, now, soon)
	}
}

// offerIn sends the newest offer in one form, behind a probe.
func (c handshakes) offerIn(now time.Time, s *session, path Path, encap bool) {
	form := FormOption
	if encap {
		form = FormUDP
	}
	c.sendProbe(now, c.ask(now, s), probe{path: path, form: form})
	c.sendOffer(now, s, path, encap)
}

// proofForms says in which forms the n-th offer goes: encapsulated in UDP or not.
func (c *sender) proofForms(s *session, p Path, n int) []bool {
	switch {
	case !c.hasUDP(s):
		return []bool{false}
	case s.encaps(p):
		return []bool{true}
	case n > 1:
		return []bool{false, true}
	}
	return []bool{false}
}

// sendProof sends one message of a proof. The body of the Locator Update says nothing more.
func (c handshakes) sendProof(now time.Time, s *session, path Path, encap bool, p ilnpwire.Proof) {
	body := []ilnpwire.LocatorEntry{{L64: path.Local.L64, Lifetime: 1}}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: body}
	if p.Step == ilnpwire.ProofAnswer || p.Step == ilnpwire.ProofChallenge {
		lu.Operation = ilnpwire.Acknowledgement
	}
	src, dst := roam.ILV{NID: s.localNID, L64: path.Local.L64}, roam.ILV{NID: s.remoteNID, L64: path.Remote}
	if b, err := ilnpwire.BuildProof(src, dst, s.localNonce, lu, p); err == nil {
		c.transmitControl(now, s, path, b, encap)
	}
}

// handleProof handles a message of a proof. The first check costs one HMAC.
func (c handshakes) handleProof(now time.Time, link roam.LinkID, p ilnpwire.Packet, bytes int) {
	nids, k := SessionKey{p.Dst.NID, p.Src.NID}, c.known[p.Src.NID]
	by := Path{Local: roam.LinkLocator{Link: link, L64: p.Dst.L64}, Remote: p.Src.L64}
	switch {
	case !p.Nonce.Present():
		c.refuse(now, nids, reasonNoNonce)
		return
	case !c.proves(p.Src.NID) || !k.secret.Present() || k.retired:
		c.refuse(now, nids, reasonProofNoKey)
		return
	}
	c.accounts.received(now, p.Src, bytes, 1)
	if c.cfg.isFormer(p.Dst.NID) {
		c.handleFormerProof(now, by, p)
		return
	}
	key, refused := k.proofKey(p.Src.NID, p.Dst.NID), ""
	switch p.Proof.Step {
	case ilnpwire.ProofOffer:
		refused = c.handleOffer(now, key, by, p)
	case ilnpwire.ProofConfirm:
		refused = c.handleConfirm(now, key, p)
	case ilnpwire.ProofNotice:
		refused = c.handleNotice(now, key, p)
	default:
		refused = c.handleAnswer(now, key, by, p)
	}
	if refused != "" {
		c.refuse(now, nids, refused)
	}
}

// isListedIn reports whether a node that has made a proof is where that came from: the proof
// lists the locator, or a record does. So nobody who has copied it on the path gets an answer at
// another place, and a border that rewrites headers does no harm where a record has its locators.
func (ca *cache) isListedIn(p ilnpwire.Packet) bool {
	return p.Proof.Lists(p.Src.L64) || ca.lists(p.Src)
}

// handleOffer handles an offer. It returns why it is refused, or "".
func (c handshakes) handleOffer(now time.Time, key []byte, by Path, p ilnpwire.Packet) string {
	local, remote := p.Dst.NID, p.Src.NID
	k, offer := c.known[remote], *p.Proof
	s := c.byNonce(local, remote, p.Nonce)
	pending := c.pending.byKey[Pending{Local: local, Remote: p.Src, Nonce: p.Nonce}]
	if !isProof(key, offer, p.Nonce, Nonce{}) {
		return reasonProofForged
	}
	challenge := c.prover.challenges.numberOf(p)
	switch {
	case !c.isListedIn(p):
		return reasonProofPlace
	case s != nil && s.renewal.answers(offer.Ephemeral):
		c.answerAgain(now, s, s.renewal, by, p.Encapsulated) // it was lost
		return ""
	case s != nil && s.agreed.answers(offer.Ephemeral):
		c.answerAgain(now, s, s.agreed, by, p.Encapsulated)
		return ""
	case s == nil && pending == nil:
		return reasonNoSession
	case s == nil && pending.offer != nil && pending.offer.proof.Ephemeral == offer.Ephemeral:
		return "" // it waits until the old nonce is known to be silent
	case c.isCrossed(s, local, remote):
		return "" // the peer answers ours
	}
	c.pending.probeAhead(now, pending)
	switch {
	case challenge == 0 && c.prover.exceeds(now):
		c.challenge(now, s, pending, by, p)
		return reasonProofMany
	case !k.offers.accepts(now, maskCounter(key, offer), challenge):
		c.challenge(now, s, pending, by, p)
		return reasonProofOld
	}
	es, err := c.ownKey.Shared(offer.Ephemeral)
	if err != nil {
		return reasonProofForged
	}
	o := &offered{proof: offer, es: es, path: by, encap: p.Encapsulated, reached: challenge != 0}
	if s != nil {
		c.agreeAnew(now, s, o)
		return ""
	}
	c.pending.proven(now, pending, o)
	return ""
}

// isCrossed reports whether this host has made an offer to the same peer, and its own counts:
// that of the lower NID does, where both ends begin at once. s is the session that the peer's offer is for, or nil. In
// one that stands ours counts until it is given up: nothing is lost by that.
func (c handshakes) isCrossed(s *session, local, remote roam.NID) bool {
	if s != nil {
		return s.hs != nil && local < remote
	}
	s = c.holder(local, remote)
	return s != nil && s.hs != nil && !s.hs.demands() && s.hs.tries < crossedTries && s.state != Plain &&
		local < remote
}

// challenge answers an offer that may be a copy of an earlier one. It tells the peer the
// counter above which its next one has to be.
func (c handshakes) challenge(now time.Time, s *session, k *pendingPeer, by Path, p ilnpwire.Packet) {
	nids, peer := SessionKey{p.Dst.NID, p.Src.NID}, c.known[p.Src.NID]
	if s == nil {
		own, _ := c.pending.ownTowards(k)
		s = &session{localNID: nids.Local, remoteNID: nids.Remote, localNonce: own} // for its ends only
	}
	if c.prover.challenges.made == 0 && !c.draw(now, c.prover.challenges.secret[:]) {
		return
	}
	q := ilnpwire.Proof{Step: ilnpwire.ProofChallenge, Counter: peer.offers.last, Ephemeral: p.Proof.Ephemeral,
		Token: c.prover.challenges.next(askerOf(p))}
	key := peer.proofKey(nids.Local, nids.Remote)
	q.Counter = maskCounter(key, q)
	c.sendProof(now, s, by, p.Encapsulated, sealProof(key, q, s.localNonce, p.Nonce))
}

// proven makes a session of a pending peer that has proven itself, as of one that was validated.
func (ps *pendingPeers) proven(now time.Time, k *pendingPeer, o *offered) {
	k.offer, k.quiet, k.encap = o, !k.reached, o.encap
	ps.validate(now, k, k.key.Nonce, k.rtt)
}

// agree derives the root of a session on the responder's side, and answers; nil: it cannot. stands: the session
// goes on with the keys that it has until the peer confirms these.
func (c handshakes) agree(now time.Time, s *session, o *offered, theirs Nonce, stands bool) *agreement {
	k := c.known[s.remoteNID]
	if k == nil {
		return nil
	}
	own, ok := c.ephemeral(now, k)
	if !ok {
		return nil
	}
	root, err := o.answer(transcript{
		initiator: s.remoteNID, responder: s.localNID, initiatorNonce: theirs, responderNonce: s.localNonce,
		offer: o.proof, answer: own.Public,
	}, &own, k.public, k.secret)
	if err != nil {
		return nil
	}
	p := ilnpwire.Proof{
		Step: ilnpwire.ProofAnswer, Counter: o.proof.Counter, Ephemeral: own.Public, Locators: c.listedInProof(now),
		Reports: true,
	}
	if p.Token = tokenOf(root, p); stands {
		p.Token = tokenStands(root, p)
	}
	p = sealProof(k.proofKey(s.localNID, s.remoteNID), p, s.localNonce, theirs)
	c.sendProof(now, s, o.path, o.encap, p)
	return &agreement{
		root: root, theirs: o.proof.Ephemeral, last: p, path: o.path, went: places{o.path.Remote},
		encap: o.encap, reached: o.reached, since: now, reports: o.proof.Reports,
	}
}

// answerAgain repeats an answer along a path, behind a probe, without which the programs of a peer that has received
// nothing from here on that path drop it.
func (c handshakes) answerAgain(now time.Time, s *session, a *agreement, path Path, encap bool) {
	if now.Sub(a.second) >= time.Second {
		a.second, a.answered = now, 0
	}
	if a.answered++; a.answered > answersEach {
		return // somebody copies the offer
	}
	c.probes.forget(&s.sent, now.Add(-tokenLife))
	form := FormOption
	if encap {
		form = FormUDP
	}
	a.went.add(path.Remote)
	c.sendProbe(now, c.ask(now, s), probe{path: path, form: form})
	c.sendProof(now, s, path, encap, a.last)
}

// agreeAnew answers an offer within a session: its peer doubts that, or somebody has it do so, or has stolen our key.
// Nothing of the session changes before the peer confirms the answer. An end that has offered as well gives way: the
// other one has the lower NID, or it would not come here.
func (c handshakes) agreeAnew(now time.Time, s *session, o *offered) {
	a := c.agree(now, s, o, s.remoteNonce, !s.agreed.isOpen())
	if a == nil {
		return
	}
	s.renewal = a
	if s.hs != nil {
		c.endOffer(now, s)
	}
	c.write(now, s)
}

// waiting returns the waiting root of a session, which nobody can confirm any more after a while: an end that has
// taken it, and has not got through with it, makes another offer. So a confirmation that somebody holds back ends.
func (c handshakes) waiting(now time.Time, s *session) *agreement {
	if s.renewal != nil && now.Sub(s.renewal.since) > renewalLife {
		s.renewal = nil
	}
	return s.renewal
}

// takeRenewal has a session go on with the keys of an answer that the peer has confirmed. The caller writes the entry.
func (handshakes) takeRenewal(s *session) {
	k := keysOf(s, s.renewal.root)
	k.sent = s.renewal.used
	s.agreed, s.renewal, s.keys = s.renewal, nil, &k
	s.update.since = 0 // of the counters before
}

// confirmsBySeal reports whether a message may confirm an answer that waits for that, and takes one with the MAC of the
// keys of a renewal: the peer has its root, and the confirmation is lost.
func (c handshakes) confirmsBySeal(now time.Time, s *session, p ilnpwire.Packet) bool {
	if s == nil || s.keys == nil {
		return false
	}
	if s.keys.in != nil && c.waiting(now, s) != nil {
		if k := keysOf(s, s.renewal.root); k.fault(p.Seal, p.Payload) == "" {
			c.takeRenewal(s)
			s.agreed.confirmed = true
			return true
		}
	}
	return s.agreed.isOpen()
}

// writeConfirmed writes the entry of a session that was confirmed, with the key of its MACs and the counter.
// seq is the number of the entry before.
func (c handshakes) writeConfirmed(now time.Time, s *session, seq uint32) {
	if !s.agreed.isOpen() && c.sessions[s.key] == s {
		c.writeSince(now, s, seq)
	}
}

// write writes the entry of a session also if it is as before: that has the session saved.
func (c handshakes) write(now time.Time, s *session) { c.writeSince(now, s, s.entry.Seq) }

// writeSince is write where the entry with a number may have been followed by others.
func (c handshakes) writeSince(now time.Time, s *session, seq uint32) {
	if c.upsert(now, s, s.entry.Paths); s.entry.Seq == seq {
		c.emit(Upsert{Entry: s.entry})
	}
}

// awaitConfirm has an answer repeated until its peer has shown that it has the root.
func (c handshakes) awaitConfirm(now time.Time, s *session) {
	c.arm(&s.schedule, timerProve, now, proofFirst<<s.agreed.tries)
}
