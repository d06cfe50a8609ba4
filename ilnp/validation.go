package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Timing of the validation of pending peers.
const (
	pendingFirst = 300 * time.Millisecond // to the second probe, doubled each time
	pendingTries = 6                      // 19 s in all
	deferral     = 2 * pendingFirst       // of probes to another locator of one: two have had no answer at the first
	deferListed  = pendingFirst / 3       // the same, to a locator that is listed, where the first one is not
	pendingAgain = 100 * time.Millisecond // least time between probes that packets of the peer cause
)

// validationState is the state of a pending peer.
type validationState uint8

const (
	unvalidatedPeer validationState = iota // probes are under way
	waiting                                // validated, but its NID has a session: is the old nonce silent?
)

// pendingPeer is a correspondent that has sent a nonce without a session of ours: one that
// opens a session, or one that comes back without its state. It becomes a session only
// when it is validated: when it has proven that it receives at the locator that it claims.
// So a forged first packet costs an entry here and no session.
type pendingPeer struct {
	schedule
	control    // as its answers showed it
	key        Pending
	alias      SessionKey       // that the data plane uses for it
	listed     bool             // a record or a session has its NID at this locator
	held       bool             // packets of it are held
	bare       bool             // of these, some without its nonce, which came from there in UDP
	at, other  roam.LinkLocator // of ours: where its first packet came in, and another one came; zero: none did
	own        Nonce            // that the data plane answers this node with
	nonce      Nonce            // that the node uses: of its first packet, then of the answer that validated it
	found      FoundRule
	runsRoam   bool // some of its packets were probes
	knowsMore  bool // its packets came to several of our locators
	excess     bool // answers to it wait, as they exceed its allowance
	encap      bool // its nonce came in UDP, or its answer did
	state      validationState
	tries      int
	oldProbes  int // probes of the old nonce
	sent       tokens
	since      time.Time
	deferred   time.Time // until when no nonce goes to it: it may be validated at another locator
	validated  time.Time
	lastProbe  time.Time
	life       pendingLife
	acked      bool // a packet acknowledged our SYN-ACK
	proof      lifetimeProof
	quiet      bool // it was validated otherwise than by the reply to a probe
	rtt        time.Duration
	offer      *offered  // its proof, which was accepted; nil: none
	reached    bool      // it has answered a probe, while no proof of it was accepted
	asked      time.Time // when it was asked for one
	early      []byte    // a Locator Update that came before the session, whole
	earlyLink  roam.LinkID
	earlyAcked bool // that update was acknowledged
}

// pendingEffects are the effects that the validation of a pending peer has elsewhere.
type pendingEffects interface {
	emit(Output)
	refuse(now time.Time, key SessionKey, reason string)
	draw(now time.Time, b []byte) bool

	arm(s *schedule, t timer, now time.Time, d time.Duration)
	retire(s *schedule)

	sendProbe(now time.Time, q question, pr probe)
	probePaths(now time.Time, s *session, paths []Path)

	// listingFor returns the locators for a Locator Update to the correspondent of a session.
	listingFor(s *session, paths []Path) []listed
	// disown takes from a session the nonce that another node has proven to be its own.
	disown(now time.Time, s *session)
	// startFrom makes a session of a validated peer; old: the one that it replaces, or nil.
	startFrom(now time.Time, k *pendingPeer, old *session)
	tellCopied(now time.Time, s *session, at []roam.L64)
	// askProof asks a peer for a proof that answers probes with a nonce and offers none.
	askProof(now time.Time, k *pendingPeer, n Nonce)
}

// refusal returns why a nonce packet cannot begin a validation, or "".
func (ps *pendingPeers) refusal(key Pending, o Observation) string {
	switch nid := key.Remote.NID; {
	case !ps.cfg.acceptable(key.Remote.L64) || nid == 0:
		return reasonLocator
	case !o.Nonce.Present() || !o.OwnNonce.Present():
		return reasonNoNonce
	case ps.cfg.Accept == Known && ps.cache.known[nid] == nil && len(ps.cache.between(key.Local, nid)) == 0:
		return reasonAccept
	case ps.cfg.isFormer(key.Local) && !ps.cache.proves(nid): // who may prove hears of the new one
		return reasonFormer
	}
	return ""
}

// open begins the validation of a peer that is new.
func (ps *pendingPeers) open(now time.Time, key Pending, o Observation) {
	if !ps.makeRoom(now, key) {
		ps.turnAway(now, key, o, reasonTooMany)
		return
	}
	k := &pendingPeer{key: key, alias: o.Key, at: o.Local, own: o.OwnNonce, nonce: o.Nonce, since: now, encap: o.Encapsulated}
	ps.add(k)
	ps.accounts.received(now, o.Remote, o.Bytes, min(o.Bytes, 1))
	k.held = o.Held
	k.learn(o.Found)
	k.life.note(now, o)
	if d := ps.defers(k); d > 0 {
		k.deferred = now.Add(d)
		ps.wake(now, k, d)
		return
	}
	if ps.cache.proves(key.Remote.NID) { // an offer is answered behind a probe; behind an answer none is due
		k.lastProbe = now.Add(pendingProof - k.probeInterval()) // nor do further packets have one sent sooner
		ps.wake(now, k, pendingProof)
		return
	}
	ps.probeInTurn(now, k)
}

// defers returns for how long a peer with that nonce gets none of ours at a locator, as it is about to be validated at
// another one, where it gets another nonce; 0: it gets one at once.
//
// Our nonce for a locator is a function of that locator: a node that forges a packet from
// there must not receive the nonce, wherever it sends that packet's own nonce from later.
// So a peer that begins on two links would get two nonces, and may adopt the one that its
// session here does not have: then each drops what the other sends. It gets the second one only if it does not answer
// where it was first seen. Where it is listed it does not wait for long, as a node elsewhere may have overheard the
// nonce: the one that it gets first is the one that it adopts, and answers first. A peer that has to prove itself
// adopts the nonce of the answer to its proof, and its programs
// hand a challenge over only behind a probe.
func (ps *pendingPeers) defers(k *pendingPeer) (d time.Duration) {
	if ps.cache.proves(k.key.Remote.NID) {
		return 0
	}
	own, _ := ps.ownTowards(k)
	for _, o := range ps.byNIDs[k.nids()] {
		if o.key.Nonce != k.key.Nonce || o.key.Remote == k.key.Remote || o.state != unvalidatedPeer {
			continue
		}
		if other, _ := ps.ownTowards(o); other == own {
			continue
		}
		if !k.listed || o.listed {
			return deferral
		}
		d = deferListed
	}
	return d
}

// DefersProbe reports whether a probe of a pending peer must not be answered yet, as the
// answer would have another nonce than those that the peer gets at another locator.
func (c *Core) DefersProbe(now time.Time, o Observation) bool {
	ps := &c.pending
	key := ps.keyOf(o)
	if k := ps.byKey[key]; k != nil {
		return now.Before(k.deferred)
	}
	k := &pendingPeer{key: key, own: o.OwnNonce, listed: ps.isListed(key)}
	return c.byNonce(key.Local, key.Remote.NID, key.Nonce) == nil && ps.defers(k) > 0
}

// turnAway refuses a packet, and drops it if it is held.
func (ps *pendingPeers) turnAway(now time.Time, key Pending, o Observation, reason string) {
	ps.effects.refuse(now, o.Key, reason)
	if o.Held {
		ps.effects.emit(Dismiss{Pending: key, Key: o.Key})
	}
}

// receive handles a further packet of a pending peer.
func (ps *pendingPeers) receive(now time.Time, k *pendingPeer, o Observation) {
	ps.accounts.received(now, o.Remote, o.Bytes, 1)
	k.held = k.held || o.Held
	k.learn(o.Found)
	k.life.note(now, o)
	k.cameTo(o.Local, ps.isUsable(now, k.at))
	ps.probeAgain(now, k)
}

// receiveBare handles a held packet without a nonce: it belongs to the pending peer, or to
// the session, at that locator.
func (ps *pendingPeers) receiveBare(now time.Time, key Pending, o Observation) {
	for _, k := range ps.byNIDs[SessionKey{key.Local, key.Remote.NID}] {
		if k.key.Remote == key.Remote {
			ps.receive(now, k, o)
			k.bare = true
			return
		}
	}
	if s := ps.cache.predecessor(key.Local, key.Remote); s != nil {
		ps.effects.emit(Admit{Pending: key, Key: s.key})
		return
	}
	ps.effects.emit(Dismiss{Pending: key, Key: o.Key})
}

// bareKey names the held packets from the locator of a pending peer that have no nonce.
func (k *pendingPeer) bareKey() Pending { return Pending{Local: k.key.Local, Remote: k.key.Remote} }

// probeAgain probes a pending peer that has sent a further packet: where many packets are
// lost it gets a probe for each of its own, and a forged first packet still causes few.
func (ps *pendingPeers) probeAgain(now time.Time, k *pendingPeer) {
	if k.state == unvalidatedPeer && !now.Before(k.deferred) && now.Sub(k.lastProbe) >= k.probeInterval() {
		ps.probe(now, k)
	}
}

// isUsable reports whether packets can leave from a locator of this host.
func (ps *pendingPeers) isUsable(now time.Time, at roam.LinkLocator) bool {
	return slices.ContainsFunc(ps.host.usable(now), func(l *local) bool { return l.LinkLocator == at })
}

// learn keeps the checksum rule of the peer's packets; probes have none. The first
// one counts: a copy under the other rule may follow it.
func (k *pendingPeer) learn(f FoundRule) {
	if k.nonce != k.key.Nonce {
		return // another node's packets, see answerer
	}
	switch f {
	case FoundProbe:
		k.runsRoam = true
	case FoundIPv6, FoundRFC6741:
		if k.found == NotFound {
			k.found = f
		}
	}
}

// probe probes a pending peer: with the Nonce option at first, unless its own nonce came
// in UDP, then under the other checksum rule, unless it runs Roam, and by turns with
// the option and in UDP when no answer came. A peer where its NID is listed gets both at
// once.
//
// One probe serves all peers that claim to be at one locator: the answer has the nonce of
// the one that is there. So one per pendingAgain is sent, whatever number of nonces comes
// from there.
func (ps *pendingPeers) probe(now time.Time, k *pendingPeer) {
	a := ps.accounts.of(now, k.key.Remote)
	if now.Sub(a.probed) < pendingAgain {
		return
	}
	a.probed, k.lastProbe = now, now
	forms := k.forms(ps.cfg.UDPPort != 0)
	own, at := ps.ownTowards(k)
	if at == k.at && (own == k.own || k.tries >= 2) { // a session's nonce leaves from its own locators first
		at = ps.probeFrom(now, k)
	}
	if k.wantsUpdate(now) && ps.sendUpdate(now, k) && forms[0] == FormOption {
		forms = forms[1:] // the update replaces that one
	}
	for _, form := range forms {
		pr := probe{path: Path{Local: at, Remote: k.key.Remote.L64}, form: form}
		ps.effects.sendProbe(now, ps.question(now, k, own), pr)
	}
}

// forms returns the forms of the next probe; hasPort: this host has a UDP port.
func (k *pendingPeer) forms(hasPort bool) []ProbeForm {
	turn := k.turn()
	udp := k.encap != (turn%2 == 1)
	switch {
	case !hasPort || k.noUDP || turn == 0 && !k.encap:
		return []ProbeForm{FormOption}
	case turn > 0 && k.listed: // the first one was lost, or the path drops it
		return []ProbeForm{FormOption, FormUDP}
	case udp:
		return []ProbeForm{FormUDP}
	}
	return []ProbeForm{FormOption}
}

// turn counts its tries, those under both checksum rules as one as long as it is not known
// to run Roam.
func (k *pendingPeer) turn() int {
	if k.tries > 0 && !k.encap && !k.runsRoam && k.icmp == icmpSought {
		return k.tries - 1
	}
	return k.tries
}

// ownTowards returns our nonce for a pending peer, and the locator to send it from. Where
// the session with its NID sends anyway, that is the session's nonce: it stays the same as
// long as the session lasts, whatever the other end has lost. So two ends that both
// mistake the other one for new end with one nonce each, and do not answer each new nonce
// with a further one. Elsewhere it is that of the pending peer: a node that claims an NID
// must not learn the nonce that the NID's owner accepts from us.
//
// The session's nonce leaves first from a locator that the session sends from: a
// correspondent follows the nonce to every locator that it comes from, and no update would
// call it back from one that it never learned of. From there it is sent only when two
// probes from elsewhere had no answer.
func (ps *pendingPeers) ownTowards(k *pendingPeer) (own Nonce, at roam.LinkLocator) {
	s := ps.cache.sharesNonce(k.key.Local, k.key.Remote)
	if s == nil {
		return k.own, k.at
	}
	if len(s.entry.Paths) > 0 && !s.sendsFrom(k.at) && k.tries < 2 {
		return s.localNonce, s.entry.Paths[0].Local
	}
	return s.localNonce, k.at
}

// probeInTurn probes a pending peer, and arms its timer for the next probe.
func (ps *pendingPeers) probeInTurn(now time.Time, k *pendingPeer) {
	ps.probe(now, k)
	ps.wake(now, k, pendingFirst<<k.tries)
	k.tries++
}

// wake arms the timer of a pending peer.
func (ps *pendingPeers) wake(now time.Time, k *pendingPeer, d time.Duration) {
	ps.effects.arm(&k.schedule, timerProbe, now, d)
}

// timeout probes a pending peer again, gives it up, or ends its waiting.
func (ps *pendingPeers) timeout(now time.Time, k *pendingPeer) {
	switch {
	case k.state == waiting:
		ps.decide(now, k)
	case k.acked && ps.cache.isPlace(k.key.Remote):
		ps.validatedBySynAck(now, k)
	case k.acked && k.tries < echoesFirst:
		ps.sendUpdateAtOnce(now, k)
	case k.tries >= pendingTries && k.life.goesOn(now):
		ps.probeSlowly(now, k)
	case k.tries >= pendingTries:
		ps.giveUp(now, k)
	default:
		ps.probeInTurn(now, k)
	}
}

// giveUp forgets a pending peer that did not answer, in the data plane too: as long as the
// programs answer to its locator, no packet of ours would set up a session with it at
// another one. Other peers with its NID keep what the data plane has of them, by their
// nonces, and what waits for them.
func (ps *pendingPeers) giveUp(now time.Time, k *pendingPeer) {
	if k.offer == nil && ps.cache.proves(k.key.Remote.NID) {
		ps.effects.refuse(now, k.alias, reasonUnproven)
	}
	ps.remove(now, k)
	others := ps.byNIDs[k.nids()]
	if ps.cache.sessionOf(k.alias) != nil || slices.ContainsFunc(others, func(o *pendingPeer) bool { return o.key.Nonce == k.key.Nonce }) {
		return
	}
	ps.effects.emit(Dismiss{Pending: k.key, Key: k.alias})
	if len(others) == 0 {
		ps.letGo(k)
	}
}

// answered handles the answer to a probe, a reply or an error. It proves that its sender
// receives at that locator, and its nonce is the one that the node uses now.
func (ps *pendingPeers) answered(now time.Time, probed *pendingPeer, pr probe, p ilnpwire.Packet) {
	k := ps.answerer(probed, p.Nonce)
	if pr.path.Local == k.other {
		k.at, k.other = k.other, k.at
	}
	k.encap = pr.form == FormUDP && p.Type == ilnpwire.TypeEchoReply
	k.noteControl(pr, p)
	ps.validateByReply(now, k, p, now.Sub(pr.sent))
}

// answerer returns the pending peer that an answer with a nonce comes from: one probe
// serves all that claim to be at one locator. Where no peer has sent that nonce it is the
// one that was probed, of which nothing is known then: its packets, with another nonce,
// may have come from any node.
func (ps *pendingPeers) answerer(k *pendingPeer, n Nonce) *pendingPeer {
	if k.state != unvalidatedPeer || n == k.key.Nonce {
		return k
	}
	if o := ps.byKey[Pending{k.key.Local, k.key.Remote, n}]; o != nil && o.state == unvalidatedPeer {
		return o
	}
	k.control, k.found, k.runsRoam, k.knowsMore, k.early = control{}, NotFound, false, false, nil
	return k
}

func (ps *pendingPeers) validateByReply(now time.Time, k *pendingPeer, p ilnpwire.Packet, rtt time.Duration) {
	if k.state == unvalidatedPeer {
		ps.validate(now, k, p.Nonce, rtt)
	}
}

// validate marks a pending peer as validated at its locator, with the nonce that it uses
// now: it gets a session, or waits until it is known whether the old one is silent.
func (ps *pendingPeers) validate(now time.Time, k *pendingPeer, n Nonce, rtt time.Duration) {
	k.rtt = rtt
	if k.offer == nil && ps.cache.proves(k.key.Remote.NID) {
		k.reached = true
		ps.effects.askProof(now, k, n)
		return // that anybody can who is there
	}
	k.nonce, k.validated = n, now
	s := ps.cache.byNonce(k.key.Local, k.key.Remote.NID, k.nonce)
	old := ps.continued(k)
	if s != nil && !s.confirmed && old != s {
		ps.effects.disown(now, s)
		s, old = nil, ps.continued(k)
	}
	switch {
	case s != nil:
		ps.admit(now, k, s) // another one of its first packets was faster
	case old == nil:
		ps.effects.startFrom(now, k, nil)
	case old.state != Established || old.dead || !old.confirmed, k.offer != nil && old.hs.demands():
		ps.replace(now, k, old)
	default:
		k.state = waiting
		ps.probeOld(now, k, old)
	}
}

// continued returns the session that a validated peer may continue. One that has proven itself
// continues that with the name, wherever it is.
func (ps *pendingPeers) continued(k *pendingPeer) *session {
	if k.offer != nil {
		return ps.cache.holder(k.key.Local, k.key.Remote.NID)
	}
	return ps.cache.predecessor(k.key.Local, k.key.Remote)
}

// admit delivers the held packets of a pending peer, and of others that are the same node
// at other locators: it has a session.
func (ps *pendingPeers) admit(now time.Time, k *pendingPeer, s *session) {
	for _, o := range slices.Clone(ps.byNIDs[k.nids()]) {
		if o != k && o.key.Nonce != k.nonce { // not the one of its first packet: another node may have sent that, too
			continue
		}
		if o.held {
			o.held = false
			ps.effects.emit(Admit{Pending: o.key, Key: s.key})
		}
		if o.bare {
			o.bare = false
			ps.effects.emit(Admit{Pending: o.bareKey(), Key: s.key})
		}
		if o.alias == s.key { // see releaseExcess
			o.excess = false
		}
		ps.drop(now, o)
	}
}
