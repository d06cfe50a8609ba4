package flowrule

import (
	"cmp"
	"slices"
)

// Link is a link as a rule sees it.
type Link struct {
	Name       string
	Preference uint16 // lower is preferred
}

// Shares returns what links get by their preferences p: those of two of preference 20 and
// 80 are 0.8 and 0.2. Generally, with n links and the sum t of the preferences, the share of
// a link is (t - p) / ((n - 1) t), so that they sum to 1.
func Shares(preferences []uint16) []float64 {
	out, n, t := make([]float64, len(preferences)), float64(len(preferences)), 0.0
	for _, p := range preferences {
		t += float64(p)
	}
	for i, p := range preferences {
		switch {
		case n == 1 || t == 0:
			out[i] = 1 / n
		default:
			out[i] = (t - float64(p)) / ((n - 1) * t)
		}
	}
	return out
}

// Parts returns the share of each of links, 0 if the rule does not use it. A link may stand there
// more than once, with several paths: its share is divided among them.
func (r Rule) Parts(links []Link) []float64 {
	out := r.sharesOf(links)
	for i, l := range links {
		if !r.uses(l.Name) {
			out[i] = 0
		}
	}
	return out
}

// Order returns the indexes of those of links that the rule uses, the best first: as the rule lists
// them, or by their preferences.
func (r Rule) Order(links []Link) (order []int) {
	parts := r.Parts(links)
	for i := range links {
		if parts[i] > 0 {
			order = append(order, i)
		}
	}
	place := func(l Link) int {
		if r.Links != nil {
			return slices.Index(r.Links, l.Name)
		}
		return int(l.Preference)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(place(links[i]), place(links[j])) })
	return order
}

func (r Rule) uses(link string) bool {
	if r.Shares != nil {
		return slices.ContainsFunc(r.Shares, func(s Share) bool { return s.Link == link })
	}
	return r.Links == nil || slices.Contains(r.Links, link)
}

// sharesOf returns the share of each of links, which sum to 1 over those that the rule uses.
// A link may stand there more than once, with several locators: it has its share once.
func (r Rule) sharesOf(links []Link) []float64 {
	var used []Link
	for _, l := range links {
		if r.uses(l.Name) && !slices.ContainsFunc(used, func(u Link) bool { return u.Name == l.Name }) {
			used = append(used, l)
		}
	}
	preferences := make([]uint16, len(used))
	for i, l := range used {
		preferences[i] = l.Preference
	}
	shares := make([]float64, len(used))
	for i := range shares {
		shares[i] = 1 / float64(len(used))
	}
	switch {
	case r.Policy == Weighted && r.Shares == nil:
		shares = Shares(preferences)
	case r.Shares != nil:
		for i, l := range used {
			own := slices.IndexFunc(r.Shares, func(s Share) bool { return s.Link == l.Name })
			shares[i] = float64(r.Shares[own].PerCent) / 100
		}
	}
	out := make([]float64, len(links))
	for i, l := range links {
		if u := slices.IndexFunc(used, func(u Link) bool { return u.Name == l.Name }); u >= 0 {
			out[i] = shares[u] / float64(count(links, l.Name))
		}
	}
	return out
}

func count(links []Link, name string) (n int) {
	for _, l := range links {
		if l.Name == name {
			n++
		}
	}
	return n
}

var policyNames = [...]string{"adaptive", "equal", "weighted", "failover", "flow", "lowdelay"}

// String returns the word of roam.conf.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "unknown"
}

// Policies returns the words of all policies in the order of their values.
func Policies() []string { return slices.Clone(policyNames[:]) }
