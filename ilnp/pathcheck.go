package ilnp

import (
	"slices"
	"time"

	"roam"
	"roam/multipath"
)

// A path is suspected by its own round trips. While traffic flows, each of several paths in
// use is probed every Timing.Every; the only one is probed when the programs report that
// nothing comes back. A probe that stays without an answer for the mean round trip and four
// deviations puts the path in doubt: it is probed several times in a row, and so is whatever
// could take its place. If all of that stays without an answer while another path answers,
// the path is avoided at once: data leave by others, and nobody is told, as it may be but a
// queue. When nothing has come for Timing.Sure, it is left, and the correspondent told by a
// Locator Update. docs/design/liveness.md says why.
//
// The two directions of a path die apart. A probe shows only that both live. So the first
// probe of a doubt has a Locator Update beside it, the set that the correspondent knows: the
// complaint "nothing comes from you here". A correspondent that runs Roam acknowledges it over
// another path too. If that acknowledgement comes, our direction works, and data stay where
// they are. The correspondent in turn doubts its own direction, and keeps preferring the
// locator at which the complaint came.
const (
	checkTraffic  = 1500 * time.Millisecond // since the last packet of an application: the programs are read once a second
	checkAlone    = time.Second             // between the probes of an only path in use, while there is a choice
	checkShown    = 3                       // probes to a peer that is not known to run Roam, one a second
	checkAgain    = 100 * time.Millisecond  // least time between the probes of an avoided path,
	checkSlow     = time.Second             // and most
	checkOthers   = 4                       // paths that are asked whether they could take over
	checkLately   = 5 * time.Second         // an answer of another path shows that it works
	checkGood     = 3                       // answers in a row after which an avoided path may be taken back
	unevenBy      = 4                       // round trips of the path that answers, for one that does not
	checkSureOf   = 6                       // probes without an answer, at least, before a path is left
	checkQuiet    = time.Second             // after a Locator Update an acknowledgement may be that of this one
	complainEvery = 200 * time.Millisecond  // on one path, at least
	complainAgain = 300 * time.Millisecond  // an acknowledgement is waited for if the correspondent has complained
	silenceAll    = 2 * time.Second         // of other correspondents: then all that is known is asked
	checkAll      = 2 * time.Second         // of doubt while no path answers: then all that is known is asked
	checkWaits    = 4                       // as often as an answer of the path is waited for, at least
	checkRate     = 2 * time.Millisecond    // between the probes of all sessions together,
	checkOne      = 15 * time.Millisecond   // and of one: the programs hand over 100 answers a second (SHARE_EACH)
)

// checkedPath is what is known of one path, and what is asked of it.
type checkedPath struct {
	Path
	multipath.Health
	since      time.Time // doubt: first probe without an answer; zero: none is under way
	last       time.Time // when it was probed last
	tries      int       // probes since then
	sampled    bool      // nothing is suspected: its answer shows how long the path takes
	silent     bool      // the data plane has reported silence: the probes that decide need not wait for the first one
	missed     bool      // the first probe was not answered in time
	mute       bool      // the doubt began with a complaint of the correspondent: it gets none back
	complained time.Time // zero: never
	confirmed  time.Time // when a complaint of ours was last acknowledged over another path
	aside      aside
	contested  time.Time // when a complaint of the correspondent last put it in doubt
	said       saying    // the Locator Update that was last repeated along it
	avoided    time.Time // since when; zero: not
	good       int       // avoided: answers in a row
	swallows   bool      // avoided: it answers, and drops data
	inUDP      bool      // it answered in UDP, and not in the form of the RFCs:
	inOption   time.Time // when it last did in that form
	delivery   delivery
	lent       time.Time // when another path's counts were last asked for along it,
	lentUntil  time.Time // and until when such questions are spent, where there are many (see askInTurn)
	own        time.Time // when its own counts were last asked for
	unanswered int       // probes since its last answer
	left       departures
}

// pathCheck is the liveness of one session's paths, each by itself.
type pathCheck struct {
	paths   []*checkedPath
	next    time.Time              // when several paths in use are probed again
	silent  time.Time              // when the data plane reported that nothing comes,
	all     time.Time              // and when all that is known is asked if that lasts; zero: never
	due     time.Time              // when the timer is to run out
	shown   int                    // probes by which we have shown that we run Roam
	mute    time.Time              // when the data plane last reported that nothing comes,
	mutes   int                    // and how often it has, one soon after the other
	counts  time.Time              // when data last seemed not to arrive although probes are answered
	heeded  time.Time              // when a complaint last made us doubt
	heardAt map[roam.L64]time.Time // our locators at which the correspondent's complaints came last
	beside  []askedWay             // the last complaints of complainBeside
	erred   time.Time              // when an answer last showed that queues may be full; zero: never
	turn    int                    // of what suspicions ask, where one of them does not ask all
}

func (k *pathCheck) find(p Path) *checkedPath {
	if i := slices.IndexFunc(k.paths, func(h *checkedPath) bool { return h.Path == p }); i >= 0 {
		return k.paths[i]
	}
	return nil
}

func (k *pathCheck) of(p Path) *checkedPath {
	h := k.find(p)
	if h == nil {
		h = &checkedPath{Path: p}
		k.paths = append(k.paths, h)
	}
	return h
}

// avoids reports whether data keep off a path for now.
func (s *session) avoids(p Path) bool {
	h := s.check.find(p)
	return h != nil && !h.avoided.IsZero()
}

// isAvoiding reports whether data keep off any path.
func (s *session) isAvoiding() bool {
	return slices.ContainsFunc(s.check.paths, func(h *checkedPath) bool { return !h.avoided.IsZero() })
}

// timingOf returns the values of the level of a path's link.
func (c *node) timingOf(p Path) multipath.Timing {
	return c.cfg.Liveness(c.host.names[p.Local.Link]).Timing()
}

// others returns the paths that could take the place of those in use.
func (c *pathChoice) others(now time.Time, s *session) []Path {
	sources := slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool {
		return !s.update.lists(l.L64) && !s.sendsFrom(l)
	})
	paths := slices.DeleteFunc(c.obstructed.without(s.remoteNID, cross(sources, s.remotes.all())), func(p Path) bool {
		r := s.remotes.find(p.Remote)
		return slices.Contains(s.entry.Paths, p) || s.bad[p] || r == nil || r.standing != current
	})
	return paths[:min(len(paths), checkOthers)]
}

// checks reports whether the paths of a session are judged one by one: it has a choice, and
// its correspondent runs Roam, whose programs answer probes at once. Of other stacks nothing
// says how soon they answer, or whether they do.
func (c *liveness) checks(now time.Time, s *session) bool {
	return c.cfg.Liveness != nil && s.state == Established && !s.dead && s.echoes && s.runsRoam() &&
		len(s.entry.Paths) > 0 && s.watch.state != suspect && s.watch.state != silent &&
		(len(s.entry.Paths) > 1 || s.isAvoiding() || len(c.others(now, s)) > 0)
}

// isBusy reports whether the paths in use are to be probed regularly.
func (c *liveness) isBusy(now time.Time, s *session) bool {
	return now.Sub(s.lastTx) < checkTraffic && c.checks(now, s)
}

// watchPaths begins the regular probes of a session that has got traffic. By a first few of
// them the ends learn that the other one runs Roam.
func (c *liveness) watchPaths(now time.Time, s *session) {
	if c.cfg.Liveness != nil && !s.runsRoam() && s.state == Established && !s.dead && len(s.entry.Paths) > 0 &&
		s.check.shown < checkShown && now.Sub(s.lastTx) < checkTraffic &&
		(len(s.entry.Paths) > 1 || len(c.others(now, s)) > 0) {
		s.check.shown++
		c.probeAgain(now, s, s.check.of(s.entry.Paths[0]))
		c.validateOthers(now, s)
		return
	}
	if s.check.due.IsZero() && c.isBusy(now, s) {
		c.stepCheck(now, s)
	}
}

// validateOthers probes locators that the correspondent prefers less and that are not validated,
// so that one is when it is needed.
func (c *liveness) validateOthers(now time.Time, s *session) {
	for _, p := range c.others(now, s) {
		h, r := s.check.of(p), s.remotes.find(p.Remote)
		if !r.validated && h.tries < checkShown {
			c.probeAgain(now, s, h)
		}
	}
}

// noticeSilence takes that a session sends and hears nothing: the paths in use are asked
// first, and all that is known later.
func (c *liveness) noticeSilence(now time.Time, s *session) {
	s.check.silent = now
	c.endSplit(now, s)
	if !c.checks(now, s) {
		if s.check.all = now.Add(silenceAll - c.cfg.Silence); s.check.all.After(now) {
			c.stepCheck(now, s)
			return
		}
		s.check.all = time.Time{}
		c.handleSilence(now, s)
		return
	}
	s.lastTx = later(s.lastTx, now)
	c.complainOfSilence(now, s)
	c.doubt(now, s, s.carriers())
	if paths := s.carriers(); len(paths) == 1 {
		s.check.of(paths[0]).silent = true
		c.stepCheck(now, s)
	}
}

// question sends the first probe of a path.
func (c *liveness) question(now time.Time, s *session, h *checkedPath) {
	h.begin(now)
	c.probeAgain(now, s, h)
}

// begin begins to wait for the answer to a first probe.
func (h *checkedPath) begin(now time.Time) {
	h.since, h.tries, h.mute, h.sampled, h.silent, h.missed = now, 0, false, false, false, false
	h.delivery.reset(h.IsClean())
}

// doubt asks each of paths by itself.
func (c *liveness) doubt(now time.Time, s *session, paths []Path) {
	for _, p := range paths {
		h := s.check.of(p)
		if h.sampled = false; h.since.IsZero() {
			c.question(now, s, h)
		}
	}
	if len(paths) > 0 {
		c.stepCheck(now, s)
	}
}

// stepCheck does what is due now, and arms the timer for what is due next. A host that stood
// still finds no path dead by that: answers that wait to be read are missing on all.
func (c *liveness) stepCheck(now time.Time, s *session) {
	k := &s.check
	k.due = time.Time{}
	if !k.all.IsZero() && !k.all.After(now) {
		k.all = time.Time{}
		if !s.lastRx.After(k.silent) {
			c.handleSilence(now, s)
		}
	}
	next := k.all
	if !c.checks(now, s) {
		c.forgetDoubts(now, s)
		c.armCheck(now, s, next)
		return
	}
	questions{c}.endVanished(now, s)
	if !c.isBusy(now, s) {
		s.restEstimates()
	} else {
		c.endCounting(now, s)
		if !k.next.After(now) {
			k.next = now.Add(c.probeInUse(now, s))
		}
		next = sooner(next, k.next)
	}
	for _, h := range slices.Clone(k.paths) {
		switch {
		case s.check.find(h.Path) != h, s.watch.state == suspect: // another path has had all asked
		case !h.avoided.IsZero():
			next = sooner(next, c.pursueAvoided(now, s, h))
		case !h.since.IsZero():
			next = sooner(next, c.pursue(now, s, h))
		}
	}
	c.armCheck(now, s, next)
}

func (c *liveness) armCheck(now time.Time, s *session, next time.Time) {
	if s.check.due = next; next.IsZero() {
		c.disarm(&s.schedule, timerCheck)
		return
	}
	c.arm(&s.schedule, timerCheck, now, next.Sub(now))
}

// endDoubt ends the doubt about a path, and that data keep off it, with all that was known of either.
func (h *checkedPath) endDoubt() {
	h.since, h.avoided, h.good, h.swallows = time.Time{}, time.Time{}, 0, false
}

// forgetDoubts ends what was asked, for want of a choice or of an answer on any path.
func (c *liveness) forgetDoubts(now time.Time, s *session) {
	avoiding := s.isAvoiding()
	for _, h := range s.check.paths {
		h.endDoubt()
	}
	if avoiding {
		c.refresh(now, s)
	}
}

// probeInUse probes each path in use that is not asked already, and returns when to do so
// again. The more sessions do, and the more paths one uses, the more rarely each does.
func (c *liveness) probeInUse(now time.Time, s *session) time.Duration {
	every, inUse, k := time.Duration(0), s.carriers(), &s.check
	if len(s.entry.Paths) == 1 {
		c.validateOthers(now, s)
	}
	for _, p := range inUse { // first, as such a question may be the probe of the path that it goes along
		c.askAlive(now, s, s.check.of(p))
	}
	for _, p := range inUse {
		t, h := c.timingOf(p), s.check.of(p)
		if every == 0 || t.Every < every {
			every = t.Every
		}
		spell := t.Every
		if len(inUse) == 1 && (h.IsClean() && k.counts.IsZero() || s.isSplit()) {
			every = max(every, checkAlone) // silence is reported sooner; its spread is to be known
			spell = every
		}
		if now.Sub(h.confirmed) < checkAll { // nothing comes back there anyway
			spell = max(4*spell, 3*complainEvery)
		}
		isDue := now.Sub(h.last) >= spell*9/10 || now.Sub(h.own) >= ownLeast*spell*9/10
		if h.since.IsZero() && isDue && c.room(now, s, h) > 0 {
			c.question(now, s, h)
			h.sampled = len(inUse) == 1
		}
	}
	s.check.paths = slices.DeleteFunc(s.check.paths, func(h *checkedPath) bool {
		used := slices.Contains(inUse, h.Path) || !h.avoided.IsZero() || s.bad[h.Path]
		return !used && now.Sub(h.Heard()) > time.Minute && now.Sub(h.last) > alongIn
	})
	return max(every, time.Duration(len(c.sessions))*checkRate, time.Duration(len(inUse))*checkOne)
}

// pursue judges a path that has a probe under way. It returns when to do so again.
func (c *liveness) pursue(now time.Time, s *session, h *checkedPath) time.Time {
	t := c.timingOf(h.Path)
	if h.tries == 0 { // it had no room for a probe: its answer is waited for from the first that leaves
		if h.since = now; !c.probeAgain(now, s, h) {
			return now.Add(checkAgain)
		}
	}
	wait, tries := h.Wait(t, s.rtt), h.Tries()
	first := wait
	if h.silent {
		first = h.Early(t, s.rtt)
	}
	if doubt := h.since.Add(first); now.Before(doubt) && !h.mute {
		return doubt
	}
	if end := (questions{c}).askEarly(now, s, h, first); now.Before(end) {
		return end
	}
	if !h.missed && !h.mute && !now.Before(h.since.Add(wait)) {
		h.missed = true
		if h.confirmed.IsZero() { // else our direction passes all, and no probe can be answered
			h.Met(false)
			questions{c}.askOnly(now, s, h)
			if h.IsLossy() && (questions{c}).losesData(now, s, h) && c.leaveLossy(now, s, h) {
				return now.Add(checkAgain)
			}
		}
		if h.sampled {
			h.since = time.Time{}
			return time.Time{}
		}
	}
	if !now.Before(h.since.Add(wait)) {
		c.leaveLate(now, s, h)
		questions{c}.askDelivery(now, s, h)
	}
	if h.tries < tries {
		step := h.last.Add(max(wait/8, t.Step))
		if now.Before(step) && h.tries > 1 {
			return step
		}
		c.complain(now, s, h)
		c.askOthers(now, s, h)
		c.probeAgain(now, s, h)
		return h.last.Add(max(wait/8, t.Step))
	}
	last := wait
	if h.mute && len(s.carriers()) == 1 { // no acknowledgement of ours is waited for, and no other path carries data
		last = h.Last(t, s.rtt)
	}
	if end := h.last.Add(last); now.Before(end) {
		return end
	}
	if now.Before(h.since.Add(s.doubtOf(h, t))) {
		c.complain(now, s, h)
		c.probeAgain(now, s, h)
		return h.last.Add(wait)
	}
	return c.judge(now, s, h, wait)
}

// askEarly probes a silent path once more when its first answer is late, and returns when to complain and to ask other
// paths: later, or when the second answer is late too. On an uneven path one late answer is no rarity.
func (c questions) askEarly(now time.Time, s *session, h *checkedPath, first time.Duration) time.Time {
	end := h.since.Add(h.EarlyComplaint(c.timingOf(h.Path), s.rtt))
	if !h.silent || h.mute || h.tries > 2 || !now.Before(end) {
		return now
	}
	if h.tries == 1 {
		c.probeAgain(now, s, h)
	}
	return sooner(end, h.last.Add(first))
}

// pursueAvoided probes a path that is avoided, takes it back once it answers steadily, and
// leaves it for good when nothing comes.
func (c *liveness) pursueAvoided(now time.Time, s *session, h *checkedPath) time.Time {
	t := c.timingOf(h.Path)
	wait := max(h.Wait(t, s.rtt), checkAgain)
	next := h.last.Add(min(wait<<min(max(h.tries-h.Tries(), 0)/2, 4), max(wait, checkSlow)))
	if now.Before(next) {
		return next
	}
	hasRoom := c.room(now, s, h) >= len(questions{c}.formsAgain(now, s, h))
	if h.Heard().Before(h.last) {
		h.good = 0
	}
	switch {
	case h.good >= checkGood && h.Ready(now):
		c.useAgain(now, s, h)
		return time.Time{}
	case h.good == 0 && h.tries >= h.Tries()+checkSureOf && now.Sub(later(h.Heard(), h.avoided)) >= max(t.Sure, wait):
		c.leave(now, s, h)
		return time.Time{}
	case h.confirmed.After(h.avoided) && h.isOneWay():
		h.Stay()
		c.useAgain(now, s, h)
		return time.Time{}
	case !hasRoom:
		return now.Add(checkAgain)
	case h.good == 0:
		c.complain(now, s, h) // the last one may have been lost, or its acknowledgement
	}
	c.probeAgain(now, s, h)
	return now.Add(wait)
}

// leave gives a path up. It is probed ever more rarely from now on (see validate). The
// correspondent is told, except where its complaint has come at that locator since: then only
// our direction died.
func (c *liveness) leave(now time.Time, s *session, h *checkedPath) {
	if at := s.check.heardAt[h.Local.L64]; at.Before(h.avoided.Add(-checkAll)) {
		delete(s.check.heardAt, h.Local.L64) // that was before it died
	}
	h.endDoubt() // it is held for dead instead
	s.bad[h.Path] = true
	s.watch.proved = 0
	c.refresh(now, s)
	c.validate(now, s)
}

// forgive lets a path that has answered be used again, unless it flaps.
func (s *session) forgive(now time.Time, p Path) {
	if h := s.check.find(p); h == nil || h.Ready(now) {
		delete(s.bad, p)
	}
}

// checkReply takes the answer to a probe, whoever asked for it.
func (c *liveness) checkReply(now time.Time, s *session, pr probe) {
	if c.cfg.Liveness == nil || pr.form > FormUDP || pr.sizing {
		return
	}
	h := s.check.find(pr.path)
	if h == nil {
		if len(s.check.paths) >= 2*MaxPaths && !s.check.forgetDead(s.bad) {
			return
		}
		h = s.check.of(pr.path)
	}
	wasUntried := slices.Contains(c.untried(now, s), pr.path)
	isFirst := h.avoided.IsZero() && h.tries <= 1 // of a doubt: what is asked because it is missing would count in favour
	if isFirst && now.Sub(pr.sent) <= h.Wait(c.timingOf(pr.path), s.rtt) {
		h.Met(true)
	}
	if (questions{c}).showsQueue(now, s, h, pr.sent) {
		s.check.erred = now
	}
	h.noteAnswer(now, pr.form)
	h.Answer(now, pr.sent)
	h.unanswered = 0
	c.followRules(now, s)
	h.confirmed = time.Time{}
	if h.avoided.IsZero() {
		if h.since = (time.Time{}); wasUntried {
			c.remotesChanged(now, s)
		}
		return
	}
	h.good++
	h.tries = min(h.tries, h.Tries())
}

// forgetDead forgets the answers of the path held for dead that came longest ago, if there is one.
func (k *pathCheck) forgetDead(bad map[Path]bool) bool {
	var oldest *checkedPath
	for _, h := range k.paths {
		if bad[h.Path] && (oldest == nil || h.Heard().Before(oldest.Heard())) {
			oldest = h
		}
	}
	k.paths = slices.DeleteFunc(k.paths, func(h *checkedPath) bool { return h == oldest })
	return oldest != nil
}
