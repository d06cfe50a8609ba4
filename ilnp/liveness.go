package ilnp

import (
	"slices"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// Timing of probes.
const (
	probeMin     = 200 * time.Millisecond // least time between two rounds
	probeSoon    = 10 * time.Millisecond  // the same, of the first two, where data would have to wait for a reply
	suspectMin   = 300 * time.Millisecond // the same when the correspondent is suspected: 0.3 + 0.6 + 1.2 s
	suspectMax   = time.Second            // first step at most
	suspectTries = 3
	deadFirst    = time.Second // a dead pair is probed once a second at first ...
	probeMax     = 15 * time.Second
	settleMin    = 100 * time.Millisecond // after a first reply, for the other paths' replies
	settleTries  = 3                      // probes without reply after which a path is left, if others answer
	monitorEvery = multipath.Regularly    // while several paths are in use
	monitorOne   = 15 * time.Second       // while one is, and another could be
	unprovedBad  = 3                      // rounds without a reply after which another locator is used
	tokenLife    = 30 * time.Second
)

// watchState is what the probes of a session are for.
type watchState uint8

const (
	quiet    watchState = iota // none are sent
	proving                    // locators that are unvalidated, and paths that were found dead
	suspect                    // the data plane sends and hears nothing
	settling                   // some paths have answered; the others get one more chance
	silent                     // no path works: once a second, ever less often
)

// watch is the liveness of one session's paths.
type watch struct {
	state    watchState
	round    int
	proved   int // quiet: the round at which proving goes on
	since    time.Time
	answered []Path // since then
	regular  bool   // settling: nobody has suspected anything
	silence  bool   // suspect: it was told; settling: it was told meanwhile
}

func (c *sender) probePaths(now time.Time, s *session, paths []Path) {
	c.probes.forget(&s.sent, now.Add(-tokenLife))
	for _, p := range c.obstructed.without(s.remoteNID, paths) {
		s.strayed = s.strayed || s.state == Established && !s.update.lists(p.Local.L64)
		for _, form := range c.formsOf(now, s, p) {
			if h := s.check.find(p); h != nil {
				h.left.note(now)
			}
			c.sendProbe(now, c.ask(now, s), probe{path: p, form: form})
		}
	}
}

// comeBack tells the set again after probes have left from locators that are
// not in it: the correspondent follows the nonce to where it comes from. Where data
// stay on a locator that it knows, it is to be there.
func (c *updates) comeBack(now time.Time, s *session) {
	if s.strayed && s.course != onKnown {
		c.repeatUpdate(now, s)
	}
}

// handleReply takes an echo reply: the token says which probe it answers.
func (c *Core) handleReply(now time.Time, p ilnpwire.Packet) {
	key := SessionKey{p.Dst.NID, p.Src.NID}
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil || len(e.Data) < len(token{}) {
		c.refuse(now, key, reasonMalformed)
		return
	}
	t := token(e.Data[:len(token{})])
	pr, ok := c.probes.answeredBy(t, key, p.Src.L64)
	if !ok {
		if !c.answeredElsewhere(now, t, key, p) {
			c.refuse(now, key, reasonToken)
		}
		return
	}
	if !p.Nonce.Present() {
		c.refuse(now, key, reasonNoNonce)
		return
	}
	c.answered(now, t, pr, p)
}

func (c *Core) sessionReply(now time.Time, s *session, t token, pr probe, p ilnpwire.Packet) {
	other, replied := c.byNonce(s.localNID, s.remoteNID, p.Nonce), p.Type == ilnpwire.TypeEchoReply
	if s.remoteNonce.Present() && p.Nonce != s.remoteNonce || other != nil && other != s {
		c.doubtNonce(now, s, pr, p)
		return
	}
	if s.state != Established && c.proves(s.remoteNID) {
		handshakes{c}.repliedUnproven(now, s, pr)
		return
	}
	c.learnControl(now, s, func(v *control) { v.noteControl(pr, p) })
	if pr.sizing {
		s.noteSize(pr)
	} else if pr.form <= FormUDP && (replied || pr.form == FormOption) {
		c.noteForm(now, s, pr.path, pr.form == FormUDP)
	}
	inRound, back := !pr.lone || s.watch.state != settling, !c.cameElsewhere(pr, p)
	if !pr.lone {
		s.noteRTT(now.Sub(pr.sent), pr.path.Local)
		c.noteLength(now, s, pr)
	}
	if !c.trainAnswered(now, s, pr, p) {
		if back {
			c.checkReply(now, s, pr)
		}
		c.takeReport(now, s, pr, p)
		c.measureRate(now, s, pr.path)
	}
	c.updateAlong(now, s, pr.path)
	c.announceForBorder(now, s, pr)
	s.lastRx, s.lastNonceRx, s.lastControl = now, now, now
	c.noteArrival(now, s, p.Dst.L64)
	if pr.told {
		relabelled := replied && pr.form != FormOption && p.FlowLabel != labelOf(t)
		c.notify(Event{Time: now, Kind: PathAnswered, Key: s.key, Path: pr.path, RTT: s.rtt, Form: pr.form, Size: pr.size, Relabelled: relabelled})
	}
	if s.watch.state != quiet && inRound && back {
		s.watch.answered = append(s.watch.answered, pr.path)
	}
	s.noteReply(pr.path)
	was := s.confirmed
	s.echoes = true
	if s.confirmed = true; !was {
		c.disarm(&s.schedule, timerConfirm)
		c.recordProfile(s)
	}
	if s.state != Established {
		c.beginAt(now, s, pr.path)
		s.startKnowing(p.Dst.L64)
		c.establish(now, s, p.Nonce, p.Src.L64)
	} else if !was {
		c.upsert(now, s, s.entry.Paths)
	}
	wasBad := s.bad[pr.path] && back
	if back {
		s.forgive(now, pr.path)
	} else {
		questions{&c.liveness}.askBack(now, s, pr.path)
	}
	c.validated(now, s, pr.path.Remote)
	if wasBad {
		c.remotesChanged(now, s)
	}
	switch suspects := s.watch.state == suspect || s.watch.state == silent; {
	case suspects && len(s.watch.answered) > 0:
		c.settle(now, s)
	case s.watch.state == settling && inRound && len(s.unansweredPaths()) == 0:
		c.endSettling(now, s)
	}
	c.heard(now, s)
	if early := s.early; early != nil {
		s.early = nil
		c.HandlePacket(now, s.earlyLink, early)
	}
}

// validated marks a locator as validated.
func (c *Core) validated(now time.Time, s *session, l roam.L64) {
	defer c.endProof(now, s, l)
	r := s.remotes.find(l)
	if r == nil || r.validated {
		return
	}
	r.validate()
	c.names.bestow(now, s, l)
	c.remotesChanged(now, s)
}

// liveness asks whether paths and correspondents work, and draws the conclusions: paths
// are left and taken again, other locators validated.
type liveness struct{ steering }

// validate keeps probes going while a preferred locator is unvalidated or a path is
// held for dead, and stops them when there is nothing left to find out.
func (c *liveness) validate(now time.Time, s *session) {
	c.askNewPlace(now, s)
	if s.watch.state != quiet && s.watch.state != proving || s.fallback == withoutILNP || len(c.host.active) == 0 {
		return
	}
	if !c.curious(now, s) {
		s.watch.state = quiet
		c.disarm(&s.schedule, timerProbe)
		c.comeBack(now, s)
		c.measure(now, s)
		return
	}
	if s.watch.state == quiet && !c.asksPlaces(now, s) { // its first probe is under way
		if c.measure(now, s); s.watch.state != quiet {
			return
		}
		s.watch = watch{state: proving, round: 1}
		c.arm(&s.schedule, timerProbe, now, s.backoff(probeMin))
		return
	}
	fresh := s.watch.state == quiet || slices.ContainsFunc(s.remotes.unvalidated(), func(l roam.L64) bool { return !c.probes.askAt(s.sent, l) })
	if !fresh {
		questions{c}.askUntried(now, s)
		return
	}
	again := s.watch.state == quiet && s.watch.proved > 0
	s.watch = watch{state: proving, round: s.watch.proved}
	if left := s.validateNext.Sub(now); again && left > 0 && left <= probeMax {
		c.arm(&s.schedule, timerProbe, now, left) // other questions were in between
		return
	}
	c.validateRound(now, s)
}

func (c *pathChoice) curious(now time.Time, s *session) bool {
	return c.asksPlaces(now, s) || s.isUnconfirmed()
}

// asksPlaces reports whether a locator or a path is to be probed.
func (c *pathChoice) asksPlaces(now time.Time, s *session) bool {
	return len(s.remotes.unvalidated()) > 0 || len(c.missed(now, s)) > 0 || s.fallback == unanswered
}

// validateRound probes each unvalidated locator, from one source after the other,
// and each missed path.
func (c *liveness) validateRound(now time.Time, s *session) {
	sources, targets := c.host.active, s.remotes.unvalidated()
	switch usable := placesOf(c.host.usable(now)); {
	case s.fallback == unanswered: // nothing says whether it is the locator in use that does not work
		sources, targets = usable, s.remotes.all()
	case s.watch.round >= unprovedBad: // nor now: answers may leave, or arrive, by another one
		sources = unique(append(slices.Clone(sources), usable...))
	}
	paths := c.askPlaces(now, s, c.askFrom(now, s, sources), targets[:min(len(targets), MaxRemote)])
	if s.isUnconfirmed() && !slices.Contains(paths, s.entry.Paths[0]) {
		paths = append(paths, s.entry.Paths[0])
	}
	for _, p := range append(c.missed(now, s), s.multipath.Unasked(s.use())...) {
		// How long a path takes is asked once it may be used: so little may go to a
		// locator before it is validated that an acknowledgement would have to wait.
		r := s.remotes.find(p.Remote)
		if !slices.Contains(paths, p) && len(paths) < MaxPaths && (r != nil && (r.validated || r.given) || s.bad[p]) {
			paths = append(paths, p)
		}
	}
	more, in := c.widened(now, s, paths)
	c.probePaths(now, s, append(paths, more...))
	again := s.backoff(probeMin)
	if in > 0 {
		again = min(again, in)
	}
	if s.watch.round == 0 && s.allUnvalidated() {
		// A lost probe is not to stop the session: the rate before lasts for two
		// round trips.
		again = min(again, max(s.rtt, probeSoon))
	}
	c.arm(&s.schedule, timerProbe, now, again)
	s.validateNext = now.Add(again)
	s.watch.round++
}

// backoff is the time to the next round: 3/2 RTT or least, doubled each time.
func (s *session) backoff(least time.Duration) time.Duration {
	return min(max(s.rtt*3/2, least)<<min(s.watch.round, 8), probeMax)
}

// handleSilence suspects all paths of a session that sends and hears nothing.
func (c *liveness) handleSilence(now time.Time, s *session) {
	s.watch.silence = s.watch.state == settling // its end asks for it
	if s.state != Established || len(s.entry.Paths) == 0 || s.watch.state == suspect ||
		s.watch.state == settling || s.watch.state == silent {
		return
	}
	s.watch = watch{state: suspect, since: now, silence: true}
	if s.recall() {
		c.refresh(now, s)
	}
	c.suspectRound(now, s)
}

// suspectRound probes everything known against everything known: the most that
// one round may cost is MaxPaths packets, so large sets take turns. The first
// round stays with sources that the correspondent knows, as it would follow
// the nonce to others; often one lost packet is all that there is.
func (c *liveness) suspectRound(now time.Time, s *session) {
	sources, destinations := c.heardFirst(now, s), s.remotes.all()
	n := len(sources) * len(destinations)
	if n == 0 {
		return
	}
	turn := s.watch.round
	if turn > 0 && n > suspectTries*MaxPaths { // a suspicion may end before all have had their turn
		s.check.turn++
		turn = s.check.turn
	}
	paths := make([]Path, 0, MaxPaths)
	for i := range min(n, MaxPaths) {
		k, m := entryAt((turn*MaxPaths+i)%n, len(sources), len(destinations))
		if s.watch.round > 0 || s.update.lists(sources[k].L64) || s.sendsFrom(sources[k]) {
			paths = append(paths, Path{Local: sources[k], Remote: destinations[m]})
		}
	}
	c.probePaths(now, s, paths)
	c.askLifeByUpdate(now, s)
	questions{c}.askOtherWay(now, s)
	d := min(max(s.rtt*3/2, suspectMin), suspectMax) << min(s.watch.round, suspectTries)
	if s.watch.state == silent {
		d = deadFirst
		for range min(max(s.watch.round-suspectTries, 0), 8) {
			d = min(d*3/2, probeMax)
		}
	}
	s.watch.round++
	c.arm(&s.schedule, timerProbe, now, d)
}

// probeTimeout ends a round.
func (c *liveness) probeTimeout(now time.Time, s *session) {
	if len(c.host.active) == 0 {
		return
	}
	switch s.watch.state {
	case proving:
		c.validateTimeout(now, s)
	case suspect:
		if s.watch.round >= suspectTries && s.heardSince(s.watch.since) {
			s.watch = watch{}
			c.comeBack(now, s)
			c.validate(now, s)
			return
		}
		if s.watch.round >= suspectTries {
			if k := c.recordOf(s); k != nil {
				c.adviseSession(now, s, k) // where it was looked up first
			}
			s.watch.state, s.dead = silent, true
			c.refresh(now, s)
			c.notify(Event{Time: now, Kind: PeerDead, Key: s.key})
		}
		c.leaveKnown(now, s)
		c.suspectRound(now, s)
	case settling:
		c.settleRound(now, s)
	case silent:
		if !c.lookAgain(now, s) {
			c.suspectRound(now, s)
		}
	}
}

// lookAgain brings back the locators of the record that a dead session has lost since, as
// their owner had withdrawn them, and reports whether it has: they are asked then.
func (c *liveness) lookAgain(now time.Time, s *session) bool {
	k := c.recordOf(s)
	if k == nil || !slices.ContainsFunc(k.locators, func(r remote) bool { return s.remotes.find(r.l64) == nil }) {
		return false
	}
	c.adviseSession(now, s, k)
	return true
}

// heardSince reports whether the correspondent has been heard since then. Roam answers
// probes, with its nonce; of other stacks, data that come are all that there may be.
func (s *session) heardSince(t time.Time) bool {
	return s.lastNonceRx.After(t) || !s.asks && s.lastRx.After(t)
}

// validateTimeout gives up the use of locators that stay unvalidated while others
// are to be had, and goes on asking.
func (c *liveness) validateTimeout(now time.Time, s *session) {
	if s.watch.round == unprovedBad && s.state == Established {
		for _, p := range s.entry.Paths {
			if r := s.remotes.find(p.Remote); r != nil && !r.validated && !s.isOnlyThere(r) {
				s.bad[p] = true
			}
		}
		c.refresh(now, s)
	}
	s.remotes.endSending(now)
	if c.curious(now, s) {
		c.validateRound(now, s)
	} else {
		s.watch.state = quiet
		c.comeBack(now, s)
	}
}

// settle gives the paths in use that have not answered one more probe.
func (c *liveness) settle(now time.Time, s *session) {
	s.watch.state, s.watch.round = settling, settleTries-1
	c.settleRound(now, s)
}

// settleRound probes the paths in use that have not answered, if any.
func (c *liveness) settleRound(now time.Time, s *session) {
	paths := s.unansweredPaths()
	if len(paths) == 0 || s.watch.round >= settleTries {
		c.endSettling(now, s)
		return
	}
	s.watch.round++
	c.probePaths(now, s, c.withRoom(now, s, paths))
	c.arm(&s.schedule, timerProbe, now, max(s.rtt*3/2, settleMin))
}

func (s *session) unansweredPaths() []Path {
	return slices.DeleteFunc(s.carriers(), func(p Path) bool { return slices.Contains(s.watch.answered, p) })
}

// endSettling leaves the paths that did not answer, if others did, and asks
// them again later. If none did, it is for silence to tell what that means,
// unless there is another link to take: the correspondent may be heard on that
// one, and silence never be told. All that is known is asked then.
//
// The correspondent is told our set again when a path is left, over those that
// work: it may still send on the dead one, and hears us, so that silence does
// not tell it. An update that comes in elsewhere makes it ask (see doubtPath).
func (c *liveness) endSettling(now time.Time, s *session) {
	again := c.judgeQueues(now, s)
	next, all := watch{proved: s.watch.proved}, len(s.watch.answered) > 0 && len(s.unansweredPaths()) == 0
	for _, p := range s.watch.answered {
		s.forgive(now, p)
	}
	judged := s.watch.regular && c.checks(now, s)
	if judged {
		c.doubt(now, s, s.unansweredPaths())
	} else if len(s.watch.answered) > 0 {
		for _, p := range s.deadPaths() {
			s.strayed = s.strayed || !s.bad[p]
			s.bad[p], next.proved = true, 0
		}
	}
	// Of one that has answered no probe ever, that it leaves these unanswered shows nothing.
	reserve := !s.leavesProbes() &&
		(slices.ContainsFunc(c.host.usable(now), func(l *local) bool { return !s.sendsFrom(l.LinkLocator) }) || s.hasOther())
	if len(s.watch.answered) == 0 && len(s.entry.Paths) > 0 && (s.watch.silence || reserve) && !judged {
		s.watch = watch{state: suspect, since: now, silence: s.watch.silence}
		c.suspectRound(now, s)
		return
	}
	asked, rounds := s.watch.since, s.watch.round
	s.watch = next
	c.disarm(&s.schedule, timerProbe)
	c.refresh(now, s)
	c.comeBack(now, s)
	c.validate(now, s)
	if all {
		c.judgeStall(now, s, asked, rounds)
	}
	if again {
		c.askQueues(now, s)
	}
}

// heard is called when an authentic packet of the correspondent has come.
func (c *liveness) heard(now time.Time, s *session) {
	s.lastRx = later(s.lastRx, now)
	if s.dead {
		s.dead = false
		c.refresh(now, s)
		c.notify(Event{Time: now, Kind: PeerAlive, Key: s.key})
		if s.watch.state == silent {
			// It may have come by a path that is not in use. Before the paths are judged, the
			// correspondent must not be told the present set: that may be what is dead.
			s.watch = watch{state: suspect, since: now}
			c.suspectRound(now, s)
		} else {
			c.comeBack(now, s)
			c.validate(now, s)
		}
	}
	c.urgeUpdate(now, s)
}

// suspendProbes stops probing for want of a locator.
func (c *liveness) suspendProbes(s *session) { c.disarm(&s.schedule, timerProbe) }

// restartProbes begins anew what was under way: our own locators changed.
func (c *liveness) restartProbes(now time.Time, s *session) {
	switch s.watch.state {
	case quiet, proving:
		s.watch = watch{}
		c.validate(now, s)
	default:
		s.watch.round, s.watch.answered = 0, nil
		if s.watch.state == settling {
			s.watch.state = suspect
		}
		c.suspectRound(now, s)
	}
}
