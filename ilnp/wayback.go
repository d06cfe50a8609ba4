package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// The stack of a peer, unlike its programs, answers a probe where its data go: the answer may come to
// another locator of ours than the probe left from. Then our direction of the path lives, and nothing
// is known of the other one. A path that was left for its silence is not taken back by that, since
// the peer would be told to send where nothing arrives. Its Locator Update is asked for instead, as that
// is acknowledged to where it came from (RFC 6743 §2).

// cameElsewhere reports whether the answer to a probe came to another locator than the only one that the
// mode has chosen, from which the probe left. Where several are chosen the peer may send to any of them.
func (c *node) cameElsewhere(pr probe, p ilnpwire.Packet) bool {
	active := c.host.active
	isChosen := len(active) == 1 && pr.path.Local == active[0]
	return p.Type == ilnpwire.TypeEchoReply && isChosen && p.Dst.L64 != active[0].L64
}

// askBack asks whether the other direction of a path lives that was left, and of which ours does.
func (c questions) askBack(now time.Time, s *session, p Path) {
	if !s.bad[p] || s.update.state != acknowledged || !s.update.lists(p.Local.L64) {
		return
	}
	maps.DeleteFunc(s.askedBack, func(o Path, _ time.Time) bool { return !s.bad[o] })
	if now.Sub(s.askedBack[p]) >= monitorOne {
		if s.askedBack == nil {
			s.askedBack = make(map[Path]time.Time)
		}
		s.askedBack[p] = now
		c.repeatAlong(now, s, p)
	}
}

// cameBack takes the acknowledgement of the present set that came along a path.
func (c questions) cameBack(now time.Time, s *session, by Path) {
	if !s.bad[by] || now.Sub(s.askedBack[by]) >= checkAll {
		return
	}
	s.forgive(now, by)
	c.remotesChanged(now, s)
}

// deadPaths returns what to leave once other paths have answered: the paths in use that have not, and,
// where nothing at all has come to a locator of ours, all paths from it. Another locator of the
// correspondent would only be told to send there again.
func (s *session) deadPaths() []Path {
	dead := s.unansweredPaths()
	for _, p := range slices.Clone(dead) {
		if slices.ContainsFunc(s.watch.answered, func(o Path) bool { return o.Local == p.Local }) {
			continue
		}
		for _, q := range cross([]roam.LinkLocator{p.Local}, s.remotes.all()) {
			if !slices.Contains(dead, q) {
				dead = append(dead, q)
			}
		}
	}
	return dead
}

// keepsNonce reports whether packets along some paths are to keep the nonce. A peer that answers probes where its
// data go shows nothing of the way back to each of our locators. Where that is dead it cannot validate the locator, and
// may take no packet without a nonce from there, although our own direction lives.
func keepsNonce(s *session, paths []Path) bool {
	isSpread := slices.ContainsFunc(paths, func(p Path) bool { return p.Local != paths[0].Local })
	return (isSpread || len(s.arrivals) > 0) && s.state == Established && s.answersElsewhere() &&
		slices.ContainsFunc(paths, func(p Path) bool { return !slices.Contains(s.arrivals, p.Local.L64) })
}

// mayArrive reports whether the peer may know a locator of ours at present: what came there before shows nothing.
func (c *steering) mayArrive(s *session, paths []Path, at roam.L64) bool {
	isUsed := slices.ContainsFunc(paths, func(p Path) bool { return p.Local.L64 == at })
	return isUsed || c.host.isActive(at) || s.update.lists(at)
}

// noteArrival takes that a packet of the peer with its nonce has come to a locator of ours.
func (c *steering) noteArrival(now time.Time, s *session, at roam.L64) {
	if slices.Contains(s.arrivals, at) || !c.mayArrive(s, s.entry.Paths, at) {
		return
	}
	if s.arrivals = append(s.arrivals, at); s.entry.NonceAlways && !s.nonceAlways {
		c.upsert(now, s, s.entry.Paths)
	}
}
