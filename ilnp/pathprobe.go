package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Check sends probes on every path to the correspondent with this handle, in
// every form that skip does not name, because somebody asks what the paths let
// through; nil skips none. The one of FormFull is as long as its link
// takes. It returns all of these paths, at most MaxPaths; each answer is told by an
// event PathAnswered. A correspondent that is known and has no session gets one, as
// by the first packet of an application; of an unknown one, and where there is
// no locator to send from, no path is returned.
//
// As long as the correspondent has shown no nonce, one call sends on one path,
// the next call on the next one: it answers each pair of locators with another
// nonce, and two at once would leave the two ends with different ones.
func (c *Core) Check(now time.Time, remote roam.NID, skip func(Path, ProbeForm) bool) []Path {
	key := SessionKey{Local: c.cfg.NIDs[0], Remote: remote}
	s := c.sessionOf(key)
	if s == nil {
		if k := c.known[remote]; k == nil || len(k.locators) == 0 || len(c.host.active) == 0 {
			return nil
		} else {
			k.guard.until = time.Time{} // somebody asks
		}
		c.handleMiss(now, key)
		if s = c.sessions[key]; s == nil {
			return nil
		}
	}
	paths := cross(c.checkedFrom(now, s), s.remotes.all())
	open := slices.DeleteFunc(slices.Clone(paths), func(p Path) bool {
		return skip != nil && skip(p, FormOption) && skip(p, FormUDP) && skip(p, FormPadded) && skip(p, FormFull)
	})
	forms := c.checkedForms(s)
	if !s.remoteNonce.Present() && len(open) > 0 {
		open = []Path{open[s.checks%len(open)]}
		s.checks++
	}
	c.probes.forget(&s.sent, now.Add(-tokenLife))
	for _, p := range open {
		for _, form := range forms {
			if skip != nil && skip(p, form) {
				continue
			}
			pr := probe{path: p, form: form, told: true}
			if form == FormFull {
				pr.size = c.host.mtus[p.Local.Link]
			}
			c.sendProbe(now, c.ask(now, s), pr)
		}
	}
	return paths
}

// checkedForms returns the forms that are asked for: the one of the RFCs alone at
// first, as long as there is no session.
func (c *sender) checkedForms(s *session) []ProbeForm {
	switch {
	case !c.hasUDP(s), !s.remoteNonce.Present() && s.checks == 0:
		return []ProbeForm{FormOption}
	case !s.remoteNonce.Present():
		return []ProbeForm{FormOption, FormUDP}
	}
	return []ProbeForm{FormOption, FormUDP, FormPadded, FormFull}
}

// checkedFrom returns the locators that can be asked from without moving the
// session: a correspondent follows the nonce to a locator that it was not told.
func (c *pathChoice) checkedFrom(now time.Time, s *session) []roam.LinkLocator {
	return slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool {
		return s.state == Established && !s.update.lists(l.L64)
	})
}

// askUntried probes the untried paths that none of the rounds has asked yet, as the correspondent now prefers them, and
// begins the rounds anew.
func (c questions) askUntried(now time.Time, s *session) {
	paths := slices.DeleteFunc(c.untried(now, s), func(p Path) bool {
		return c.isLiving(now, s, p) || c.probes.askAlong(s.sent, p)
	})
	if len(paths) == 0 {
		return
	}
	c.probePaths(now, s, paths)
	s.watch.round = s.watch.proved
	again := s.backoff(probeMin)
	c.arm(&s.schedule, timerProbe, now, again)
	s.validateNext = now.Add(again)
	s.watch.round++
}

// answeredElsewhere takes a session's answer from a validated locator to a probe that went to another
// one, as of a peer whose stack answers by the path that its data take: nonces of another length
// than ours keep its programs from doing so. Only who receives at a locator knows the token, so the
// locator is validated (RFC 9000 §8.2.2 has the same rule), and our direction of the path lives, which
// is what data there need. Of the way back along that path it says nothing.
func (c *Core) answeredElsewhere(now time.Time, t token, key SessionKey, p ilnpwire.Packet) bool {
	pr, ok := c.probes.to(t, key)
	if !ok {
		return false
	}
	s, ok := pr.from.(*session)
	if !ok || s.state != Established || !s.remoteNonce.Present() || p.Nonce != s.remoteNonce {
		return false
	}
	if pr.sizing {
		s.noteSize(pr)
	}
	if from := s.remotes.find(p.Src.L64); from == nil || !from.validated {
		return false
	}
	delete(c.probes, t)
	s.lastRx, s.lastNonceRx, s.lastControl = now, now, now
	c.noteArrival(now, s, p.Dst.L64)
	c.validated(now, s, pr.path.Remote)
	if !c.cameElsewhere(pr, p) {
		c.pathLives(now, s, pr)
	}
	c.heard(now, s)
	return true
}
