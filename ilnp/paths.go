package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
)

// pathChoice says which paths a session may take, and which of our locators its
// correspondent is to know. It changes nothing.
type pathChoice struct{ node }

// entryAt is the i-th of the n*m combinations of n sources and m destinations,
// in an order in which every prefix whose length is a multiple of the least
// common multiple of n and m has each source equally often and each
// destination equally often, and in which neighbours differ in both where they
// can. Paths are cut off and retransmissions alternate along it.
func entryAt(i, n, m int) (source, destination int) {
	return i % n, (i + i/lcm(n, m)) % m
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int) int { return a / gcd(a, b) * b }

// cross combines sources and destinations to at most MaxPaths paths on which
// each source stands equally often, and each destination too. Where the
// numbers do not allow that, the last of the longer list are left out.
func cross(sources []roam.LinkLocator, destinations []roam.L64) []Path {
	n, m := min(len(sources), MaxPaths), min(len(destinations), MaxRemote)
	if n == 0 || m == 0 {
		return nil
	}
	for lcm(n, m) > MaxPaths {
		if n > m {
			n--
		} else {
			m--
		}
	}
	block := lcm(n, m)
	paths := make([]Path, min(n*m, MaxPaths/block*block))
	for i := range paths {
		s, d := entryAt(i, n, m)
		paths[i] = Path{Local: sources[s], Remote: destinations[d]}
	}
	return paths
}

// pairs combines all sources with all destinations, in the order of entryAt.
func pairs(sources []roam.LinkLocator, destinations []roam.L64) []Path {
	n, m := len(sources), len(destinations)
	paths := make([]Path, n*m)
	for i := range paths {
		s, d := entryAt(i, n, m)
		paths[i] = Path{Local: sources[s], Remote: destinations[d]}
	}
	return paths
}

// placesOf strips locals of everything but link and locator.
func placesOf(ls []*local) []roam.LinkLocator {
	places := make([]roam.LinkLocator, len(ls))
	for i, l := range ls {
		places[i] = l.LinkLocator
	}
	return places
}

// pathsFor returns the paths to send on: active locators towards preferred
// ones. Paths that liveness found dead are left out, in favour of ever less
// preferred ones, those first that have answered of late, as long as anything
// else is there; obstructed ones always. Locators that the correspondent has
// withdrawn are the last resort, however late something has come from there.
func (c *pathChoice) pathsFor(now time.Time, s *session) []Path {
	if s.isAvoiding() {
		unfit := func(p Path) bool { return s.bad[p] || s.avoids(p) }
		if paths := c.pathsBut(now, s, unfit); !slices.ContainsFunc(paths, unfit) {
			return paths
		}
	}
	return c.pathsKept(now, s)
}

// pathsKept is pathsFor, with the paths that are but avoided: what the correspondent is told.
func (c *pathChoice) pathsKept(now time.Time, s *session) []Path {
	return c.pathsBut(now, s, func(p Path) bool { return s.bad[p] })
}

func (c *pathChoice) pathsBut(now time.Time, s *session, unfit func(Path) bool) []Path {
	if s.state == Plain && len(s.entry.Paths) == 1 {
		p := s.entry.Paths[0]
		usable := slices.ContainsFunc(c.host.usable(now), func(l *local) bool { return l.LinkLocator == p.Local })
		if usable && !c.obstructed.has(s.remoteNID, p) {
			return s.entry.Paths
		}
	}
	active, targets := c.host.active, s.remotes.targets()
	if s.state != Established {
		// Nobody has answered yet: spreading would only add a dead locator's loss.
		targets = targets[:min(len(targets), 1)]
	}
	best := c.obstructed.without(s.remoteNID, cross(active, targets))
	switch {
	case s.state == Plain && len(best) > 0:
		return best[:1]
	case len(active) == 0, len(best) > 0 && !slices.ContainsFunc(best, unfit):
		return best
	}
	there, withdrawn := s.remotes.there()
	reserve := placesOf(c.host.usable(now))
	lists := [][]Path{best, cross(active, there), cross(reserve, targets), cross(reserve, there), pairs(reserve, there)}
	living := len(lists)
	lists = append(lists, cross(active, withdrawn), pairs(reserve, withdrawn))
	for i, paths := range lists {
		lists[i] = c.obstructed.without(s.remoteNID, slices.DeleteFunc(slices.Clone(paths), unfit))
	}
	lives := func(p Path) bool { return c.isLiving(now, s, p) || s.avoids(p) }
	if s.state != Plain && (!slices.ContainsFunc(lists[0], lives) || s.check.hasManyDead(now, s.bad)) {
		for _, good := range lists[:living] {
			if good = slices.DeleteFunc(slices.Clone(good), func(p Path) bool { return !lives(p) }); len(good) > 0 {
				return s.equalised(good[:min(len(good), MaxPaths)])
			}
		}
	}
	for _, good := range lists {
		switch {
		case len(good) == 0:
		case s.state == Plain:
			return good[:1]
		default:
			return s.equalised(good[:min(len(good), MaxPaths)])
		}
	}
	return best
}

// missed returns the paths that would be in use again if they worked.
func (c *pathChoice) missed(now time.Time, s *session) []Path {
	if len(s.bad) == 0 && !s.isAvoiding() {
		return nil
	}
	sources := c.host.active
	if s.entry.Rules.Mask != 0 {
		for _, l := range c.host.locals {
			if !c.host.disabled[l.Link] && !slices.Contains(sources, l.LinkLocator) {
				sources = append(slices.Clip(sources), l.LinkLocator)
			}
		}
	}
	dead := slices.DeleteFunc(pairs(sources, s.remotes.all()), func(p Path) bool { return !s.bad[p] })
	if n := len(dead); n > MaxPaths { // a round asks no more of them
		first := s.watch.round * MaxPaths % n
		dead = slices.Concat(dead[first:], dead[:first])
	}
	return append(c.untried(now, s), dead...)
}

// untried returns the preferred paths in whose place data take living ones that are preferred less (see pathsBut):
// nothing else shows that they work.
func (c *pathChoice) untried(now time.Time, s *session) []Path {
	if c.cfg.Liveness == nil || s.state != Established {
		return nil
	}
	best := c.obstructed.without(s.remoteNID, cross(c.host.active, s.remotes.targets()))
	isUsed := func(p Path) bool { return slices.Contains(s.entry.Paths, p) }
	if slices.ContainsFunc(best, isUsed) && !s.check.hasManyDead(now, s.bad) {
		return nil
	}
	return slices.DeleteFunc(best, func(p Path) bool { return s.bad[p] || s.avoids(p) || isUsed(p) })
}

// isLiving reports whether a path has answered of late, or is in use and not known to be dead, so far as paths are
// judged one by one.
func (c *pathChoice) isLiving(now time.Time, s *session, p Path) bool {
	h := s.check.find(p)
	return c.cfg.Liveness != nil && (slices.Contains(s.entry.Paths, p) ||
		h != nil && (now.Sub(h.Heard()) < checkLately || !h.confirmed.IsZero()))
}

// equalised cuts paths down to those towards the best locator among them,
// unless they are equally preferred.
func (s *session) equalised(paths []Path) []Path {
	first := s.remotes.find(paths[0].Remote)
	return slices.DeleteFunc(paths, func(p Path) bool {
		r := s.remotes.find(p.Remote)
		return r.standing != first.standing || r.preference != first.preference
	})
}

// unnamedAccept is MaxAccept for a node that owns no name of a record: there may be
// as many of those as anybody likes, and what they all list together is bounded.
const unnamedAccept = 8 * MaxRemote

// acceptFor returns the locators accepted as sources, the best first: all but
// those whose lifetime and grace are over and which are not sent to.
func (s *session) acceptFor(now time.Time, paths []Path) []roam.L64 {
	var ls []roam.L64
	most := MaxAccept
	if s.unnamed {
		most = unnamedAccept
	}
	for _, r := range s.remotes {
		sentTo := slices.ContainsFunc(paths, func(p Path) bool { return p.Remote == r.l64 })
		if (r.standing == current || r.until.After(now) || sentTo) && len(ls) < most {
			ls = append(ls, r.l64)
		}
	}
	return ls
}

// unvalidatedIn returns those locators of an entry that are not validated, its
// destinations first, and which of them a record named.
func (s *session) unvalidatedIn(p Entry) (all, given []roam.L64) {
	ls := make([]roam.L64, 0, len(p.Paths)+2*MaxRemote)
	for _, path := range p.Paths {
		ls = append(ls, path.Remote)
	}
	// An entry has no room for more than these.
	for _, l := range append(ls, p.Accept[:min(len(p.Accept), 2*MaxRemote)]...) {
		r := s.remotes.find(l)
		if r == nil || r.validated || slices.Contains(all, l) {
			continue
		}
		all = append(all, l)
		if r.given {
			given = append(given, l)
		}
	}
	return all, given
}

// validatedOf returns those of the accepted locators from which a packet without a
// nonce is this session's, and of no other with its NID: those where its
// correspondent was validated.
func (c *pathChoice) validatedOf(s *session, accept []roam.L64) []roam.L64 {
	if s.key.Remote == s.remoteNID {
		return nil // what is no other session's is its anyway
	}
	var ls []roam.L64
	for _, l := range accept[:min(len(accept), 2*MaxRemote)] {
		if r := s.remotes.find(l); r != nil && r.validated {
			ls = append(ls, l)
		}
	}
	return ls
}

// allUnvalidated says whether every path in use goes to an unvalidated locator.
func (s *session) allUnvalidated() bool {
	return !slices.ContainsFunc(s.entry.Paths, func(p Path) bool { return !slices.Contains(s.entry.Unvalidated, p.Remote) })
}

// reserveFor returns paths to validated locators that the correspondent lists, but
// prefers less, when none of those in use is proven: more than an unvalidated
// locator may get has a way to go until the proof is there.
func (c *pathChoice) reserveFor(s *session, p Entry) []Path {
	var validated []roam.L64
	for _, r := range s.remotes {
		used := slices.ContainsFunc(p.Paths, func(p Path) bool { return p.Remote == r.l64 })
		switch {
		case used && r.validated:
			return nil
		case !used && r.validated && r.standing == current:
			validated = append(validated, r.l64)
		}
	}
	if len(p.Paths) == 0 {
		return nil
	}
	reserve := c.obstructed.without(s.remoteNID, cross(c.host.active, validated))
	return reserve[:min(len(reserve), MaxPaths-len(p.Paths))]
}

// sameEntry reports whether two entries ask the data plane for the same.
func sameEntry(a, b Entry) bool {
	return a.Key == b.Key && a.State == b.State && a.LocalNID == b.LocalNID && a.RemoteNID == b.RemoteNID &&
		a.LocalNonce == b.LocalNonce && a.RemoteNonce == b.RemoteNonce && a.Holds == b.Holds && a.Rule == b.Rule &&
		a.RuleSought == b.RuleSought && a.NonceAlways == b.NonceAlways && a.Encap == b.Encap &&
		a.NonceUntil.Equal(b.NonceUntil) && a.Dead == b.Dead && a.Preinstalled == b.Preinstalled &&
		a.PerFlow == b.PerFlow && a.Narrow == b.Narrow && a.Counted == b.Counted &&
		slices.Equal(a.Paths, b.Paths) && slices.Equal(a.Long, b.Long) &&
		maps.Equal(a.Costs, b.Costs) && a.Table.Equal(b.Table) &&
		maps.EqualFunc(a.RuleTables, b.RuleTables, (*Table).Equal) &&
		slices.Equal(a.Reserve, b.Reserve) && slices.Equal(a.Accept, b.Accept) &&
		slices.Equal(a.Unvalidated, b.Unvalidated) && slices.Equal(a.Given, b.Given) &&
		slices.Equal(a.Validated, b.Validated) && a.Named == b.Named && a.Unrecorded == b.Unrecorded &&
		a.Unconfirmed == b.Unconfirmed && a.MACKey == b.MACKey && a.ICMPRule == b.ICMPRule && a.Rules == b.Rules &&
		slices.Equal(a.Ruled, b.Ruled) && a.SlowStart == b.SlowStart &&
		a.Answers == b.Answers && slices.Equal(a.Back, b.Back)
}
