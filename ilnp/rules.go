package ilnp

import (
	"slices"
	"time"

	"roam"
	"roam/flowrule"
	"roam/multipath"
)

// Flows that a rule of the user matches leave by the links of that rule, also by links that
// this host holds in reserve: the correspondent has their locators from a Locator Update and
// receives there. The core says which rules there are for a session, and by which further
// paths its flows may leave; the data plane finds the rule of each packet.

// RuleUse is which rules there are for a session. It is comparable.
type RuleUse struct {
	Mask uint64 // bit i: rule i of the set may match flows of the session
	Set  uint32 // number of the set of rules; 0 where Mask is
}

// ruleSet is the rules of the user. Its number grows with every change.
type ruleSet struct {
	flowrule.Set
	number uint32
}

// of returns the rules for a session. A name belongs to the node that owns it.
func (r *ruleSet) of(s *session, k *correspondent) RuleUse {
	if len(r.Set) == 0 || s.state == Plain {
		return RuleUse{}
	}
	var names []string
	if k != nil {
		names = k.names
	}
	use := RuleUse{Mask: r.Set.For(s.remoteNID, names), Set: r.number}
	if use.Mask == 0 {
		use.Set = 0
	}
	return use
}

// SetRules replaces the rules of the user. number differs from that of the set before; the
// data plane has the new rules under it already, and the old ones as long as a session uses
// them.
func (c *Core) SetRules(now time.Time, number uint32, set flowrule.Set) {
	was := c.rules
	c.rules = ruleSet{Set: set, number: number}
	for _, s := range c.byUse() {
		marked := was.marks(s.entry.Rules)
		if c.upsert(now, s, s.entry.Paths); c.rules.marks(s.entry.Rules) != marked && c.checks(now, s) {
			s.check.next = now // the correspondent learns of it by the next probes
			c.stepCheck(now, s)
		}
	}
	c.preinstalled.updateAll(now)
}

// ruledFor returns the paths by which only flows with rules may leave, given those for all
// others: from usable locators that the correspondent has acknowledged, on links that rules may
// use, to validated ones. The hard mode announces no reserve, so there are none.
func (c *pathChoice) ruledFor(now time.Time, s *session, p Entry) []Path {
	if p.Rules.Mask == 0 || s.state != Established || len(p.Paths) == 0 {
		return nil
	}
	sources := slices.DeleteFunc(placesOf(c.host.usable(now)), func(l roam.LinkLocator) bool {
		used := slices.ContainsFunc(p.Paths, func(p Path) bool { return p.Local == l })
		unused := !c.rules.use(p.Rules, c.host.names[l.Link])
		return used || unused || !s.update.lists(l.L64) || !slices.Contains(s.known, l.L64)
	})
	targets := slices.DeleteFunc(s.remotes.targets(), func(l roam.L64) bool { return !s.remotes.find(l).validated })
	sources, targets = sources[:min(len(sources), MaxPaths)], targets[:min(len(targets), MaxRemote)]
	for len(sources) > 0 && len(targets) > 1 && lcm(len(sources), len(targets)) > MaxPaths {
		targets = targets[:len(targets)-1] // cross would leave out a source, and a rule may have only that one
	}
	paths := slices.DeleteFunc(c.obstructed.without(s.remoteNID, cross(sources, targets)), func(p Path) bool {
		return s.bad[p] || s.avoids(p)
	})
	return paths[:max(0, min(len(paths), MaxPaths-len(p.Paths)-len(p.Reserve)))]
}

// use reports whether rules of a session may send flows by a link. One that names no links has all.
func (r *ruleSet) use(of RuleUse, link string) bool {
	for i, rule := range r.Set {
		if links := rule.Uses(); of.Mask>>i&1 != 0 && (len(links) == 0 || slices.Contains(links, link)) {
			return true
		}
	}
	return false
}

// marks reports whether a rule of a session sends each of its flows by one path at a time. The data
// plane marks the packets of such flows, and the correspondent answers them on that path. Flows
// that are divided by packet it answers as it sends by itself.
func (r *ruleSet) marks(use RuleUse) bool {
	for i, rule := range r.Set {
		if use.Mask>>i&1 != 0 && rule.Policy.OnePath() {
			return true
		}
	}
	return false
}

// wishAnswers takes whether the correspondent asks that flows which it marks be answered on their
// paths.
func (c *steering) wishAnswers(now time.Time, s *session, wished bool) {
	if s.reports.answers = wished; s.entry.Seq != 0 && s.entry.Answers != wished {
		c.upsert(now, s, s.entry.Paths)
	}
}

// backFor returns the further paths for answers, given all others of an entry: to validated
// locators that the correspondent holds in reserve, from where its rules may send.
func (c *pathChoice) backFor(s *session, p Entry) []Path {
	var targets []roam.L64
	for _, r := range s.remotes {
		if r.standing == current && r.validated {
			targets = append(targets, r.l64)
		}
	}
	paths := slices.DeleteFunc(c.obstructed.without(s.remoteNID, cross(c.host.active, targets)), func(q Path) bool {
		return slices.Contains(p.Paths, q) || slices.Contains(p.Ruled, q) || s.bad[q] || s.avoids(q)
	})
	return paths[:max(0, min(len(paths), MaxPaths-len(p.Paths)-len(p.Reserve)-len(p.Ruled)))]
}

// carriers returns the paths by which packets of a session may leave.
func (s *session) carriers() []Path { return s.entry.carriers() }

func (e Entry) carriers() []Path { return slices.Concat(e.Paths, e.Ruled, e.Back) }

// isOnly reports whether a path is the only one of all packets that neither rules nor answers to them send elsewhere.
func (e Entry) isOnly(p Path) bool { return len(e.Paths) == 1 && e.Paths[0] == p }

// delayOf returns the round-trip time of a path; false: it is not known.
func (s *session) delayOf(p Path) (time.Duration, bool) {
	if h := s.check.find(p); h != nil && h.Mean() > 0 {
		return h.Mean(), true
	}
	return s.multipath.RTT(p)
}

// shorter reports whether a path is so much shorter than another one that flows change over:
// round trips vary, and each change costs some order.
func (s *session) shorter(a, b Path) bool {
	const least, part = 2 * time.Millisecond, 5
	da, known := s.delayOf(a)
	db, measured := s.delayOf(b)
	return known && (!measured || da < db-max(least, db/part))
}

// shortest returns the shortest of paths. was is the one so far, which stays unless another one is
// shorter by far.
func (s *session) shortest(paths []Path, was Path) Path {
	best := paths[max(slices.Index(paths, was), 0)]
	for _, p := range paths {
		if s.shorter(p, best) {
			best = p
		}
	}
	return best
}

// demandsOf returns what the rules of a session want, by their numbers: which of its paths to validated
// locators, and what part each is to get.
func (c *pathChoice) demandsOf(s *session, p Entry) map[int]multipath.Demand[Path] {
	if p.Rules.Mask == 0 {
		return nil
	}
	isInvalid := func(q Path) bool { return slices.Contains(p.Unvalidated, q.Remote) }
	carriers := slices.DeleteFunc(slices.Concat(p.Paths, p.Ruled), isInvalid)
	links := make([]flowrule.Link, len(carriers))
	for i, q := range carriers {
		links[i] = flowrule.Link{Name: c.host.names[q.Local.Link], Preference: c.host.preferenceOn(q.Local.Link)}
	}
	demands := make(map[int]multipath.Demand[Path])
	for n, rule := range c.rules.Set {
		if p.Rules.Mask>>n&1 == 0 || rule.Policy == flowrule.Adaptive {
			continue
		}
		var d multipath.Demand[Path]
		for _, i := range rule.Order(links) {
			d.Paths = append(d.Paths, carriers[i])
		}
		parts := rule.Parts(links)
		for _, q := range d.Paths {
			d.Shares = append(d.Shares, parts[slices.Index(carriers, q)])
		}
		switch rule.Policy {
		case flowrule.Flow:
			d.Form = multipath.ByHash
		case flowrule.Failover:
			d.Form = multipath.OnBest
		case flowrule.LowDelay:
			if d.Form = multipath.OnBest; len(d.Paths) > 0 {
				var was Path
				if t := s.entry.RuleTables[n]; t != nil {
					was = t.Paths[0]
				}
				d.Paths = []Path{s.shortest(d.Paths, was)}
			}
		}
		demands[n] = d
	}
	return demands
}

// followRules writes the entry again where what rules of either end need may have changed.
func (c *steering) followRules(now time.Time, s *session) {
	if s.entry.Rules.Mask != 0 || s.entry.Answers {
		c.upsert(now, s, s.entry.Paths)
	}
}

// doubtOf returns how long a path in doubt is waited for at least, before it is avoided: other paths
// that carry its data meanwhile give time. Paths that only rules take, or answers to them, carry
// nothing of what the only other path has; their answers keep the data plane from reporting
// its silence, so that the probes alone decide.
func (s *session) doubtOf(h *checkedPath, t multipath.Timing) time.Duration {
	switch {
	case len(s.carriers()) == 1 || h.mute:
		return 0
	case s.entry.isOnly(h.Path):
		return min(t.Doubt, 2*t.Silence)
	}
	return t.Doubt
}
