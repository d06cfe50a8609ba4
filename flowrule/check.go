package flowrule

import "slices"

// Covers reports whether m matches each flow that o matches.
func (m Match) Covers(o Match) bool {
	protocol := m.Protocol == 0 || m.Protocol == o.Protocol
	cgroup := m.Cgroup == "" || o.Cgroup != "" && below(o.Cgroup, m.Cgroup)
	dscp := m.DSCP == 0 || o.DSCP != 0 && o.DSCP&^m.DSCP == 0
	foreign := func(p string) bool { return !slices.Contains(m.Peers, p) }
	peers := m.Peers == nil || o.Peers != nil && !slices.ContainsFunc(o.Peers, foreign)
	return protocol && cgroup && dscp && peers && m.portsCover(o)
}

func (m Match) portsCover(o Match) bool {
	return rangesCover(m.Ports, o.Ports) && rangesCover(m.OwnPorts, o.OwnPorts)
}

// rangesCover reports whether each of b lies within what a names; nil is all.
func rangesCover(a, b []Range) bool {
	if a == nil {
		return true
	}
	a = joined(a)
	return b != nil && !slices.ContainsFunc(b, func(r Range) bool {
		return !slices.ContainsFunc(a, func(x Range) bool { return x.covers(r) })
	})
}

// joined returns the same ports in the fewest ranges.
func joined(list []Range) (out []Range) {
	list = slices.SortedFunc(slices.Values(list), func(a, b Range) int { return int(a.First) - int(b.First) })
	for _, r := range list {
		if n := len(out); n > 0 && int(r.First) <= int(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Hides returns the first rule before i that takes every flow which rule i matches, or -1.
func (s Set) Hides(i int) int {
	return slices.IndexFunc(s[:i], func(r Rule) bool { return r.Covers(s[i].Match) })
}

// Contradicts says why no flow can match; "": some can.
func (m Match) Contradicts() string {
	if m.needsPorts() && m.Protocol != 0 && !hasPorts(int(m.Protocol)) {
		return "its protocol has no ports"
	}
	return ""
}
