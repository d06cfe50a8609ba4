package ilnp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"roam/multipath"
)

// RuleShare is what a rule sends by a path.
type RuleShare struct {
	Rule  int     // its number in the set, from 0
	Share float64 // of what it sends: above 0, at most 1
}

// views returns what is known of a session's paths, by round trips and by reports: those in use
// first, then others that its entry has, and that were probed of late.
func (s *session) views(now time.Time, shares map[Path]float64) []PathView {
	paths := s.carriers()
	others := slices.SortedFunc(maps.Keys(s.reports.estimates), comparePaths)
	paths = append(paths, slices.DeleteFunc(others, func(p Path) bool { return slices.Contains(paths, p) })...)
	views := make([]PathView, 0, len(paths))
	for _, p := range paths {
		views = append(views, viewOf(now, s, p, shares[p]))
	}
	slices.SortStableFunc(views, func(a, b PathView) int {
		switch {
		case a.InUse == b.InUse:
			return 0
		case a.InUse:
			return -1
		}
		return 1
	})
	return views
}

// viewOf returns what is known of a path. One for answers to rules of the peer is in use while packets leave by it:
// which flows the peer sends by its rules, the data plane alone knows.
func viewOf(now time.Time, s *session, p Path, share float64) PathView {
	v := PathView{Path: p, Share: share, Rules: s.entry.rulesOn(p)}
	if e := s.reports.estimates[p]; e != nil {
		v.PathState = e.State(now)
	}
	if rtt, known := s.multipath.RTT(p); known && v.Least == 0 {
		v.Least = rtt
	}
	isAnswering := slices.Contains(s.entry.Back, p) && v.Out.Life != multipath.LifeUnknown
	v.InUse = slices.Contains(s.entry.Paths, p) || len(v.Rules) > 0 || isAnswering
	v.Why = s.whyPath(v)
	return v
}

// rulesOn returns the rules that send flows by a path, in their order.
func (e Entry) rulesOn(p Path) (list []RuleShare) {
	for _, n := range slices.Sorted(maps.Keys(e.RuleTables)) {
		if t := e.RuleTables[n]; t != nil && t.Share(p) > 0 {
			list = append(list, RuleShare{Rule: n, Share: t.Share(p)})
		}
	}
	return list
}

// answerPaths returns the paths by which flows leave that a rule of the peer sends: each by the one that it came by.
// nil: the peer does not ask for that, or there is one path for all packets.
func (e Entry) answerPaths() []Path {
	if !e.Answers {
		return nil
	}
	isInvalid := func(p Path) bool { return slices.Contains(e.Unvalidated, p.Remote) }
	paths := slices.DeleteFunc(slices.Concat(e.Paths, e.Back), isInvalid)
	if len(paths) == 1 && e.isOnly(paths[0]) {
		return nil
	}
	return paths
}

func comparePaths(a, b Path) int {
	return cmp.Or(cmp.Compare(a.Local.Link, b.Local.Link), cmp.Compare(a.Local.L64, b.Local.L64),
		cmp.Compare(a.Remote, b.Remote))
}

// whyPath says why a path is in use, or is not, given the rest of its view.
func (s *session) whyPath(v PathView) string {
	p, h, used := v.Path, s.check.find(v.Path), slices.Contains(s.entry.Paths, v.Path)
	switch {
	case v.InUse && s.dead:
		return "no path answers"
	case used && s.isPlaced(p):
		return "in use, for whole TCP connections"
	case used && s.entry.crosses(p):
		return "in use beside shorter paths"
	case used && s.multipath.IsLate(p):
		return "in use, late: TCP waits for its rate"
	case used && slices.Contains(s.entry.Long, p):
		return "in use, too long for TCP"
	case used && s.entry.Costs[p] > 0:
		return "in use, less: it has a queue"
	case v.InUse && h != nil && !h.since.IsZero() && h.tries > 1:
		return "in doubt: no answers"
	case used && len(v.Rules) > 0:
		return "in use, also for " + rulesText(v.Rules)
	case used:
		return "in use"
	case len(v.Rules) > 0:
		return "in use, only for " + rulesText(v.Rules)
	case v.InUse:
		return "in use, for answers to the peer's rules"
	case s.avoids(p) && h.swallows:
		return "avoided: data do not arrive"
	case s.avoids(p):
		return "avoided: no answers"
	case s.bad[p]:
		return "left: no answers"
	}
	return "others preferred"
}

// rulesText names rules by their numbers from 1, with the share of one that has other paths too.
func rulesText(rules []RuleShare) string {
	const most, whole = 4, 0.995
	var names []string
	for _, r := range rules[:min(len(rules), most)] {
		name := fmt.Sprint(r.Rule + 1)
		if r.Share < whole {
			name += fmt.Sprintf(" (%.0f %%)", 100*r.Share)
		}
		names = append(names, name)
	}
	switch last := len(names) - 1; {
	case len(rules) > most:
		return fmt.Sprintf("rules %s and %d more", strings.Join(names, ", "), len(rules)-most)
	case last == 0:
		return "rule " + names[0]
	default:
		return "rules " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
}
