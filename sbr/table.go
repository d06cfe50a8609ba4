package sbr

import (
	"maps"
	"slices"

	"roam"
	"roam/wire/ilnp"
)

// Site is a locator of the site as a provider assigned it, and the link that it leaves by.
type Site struct {
	L64  roam.L64
	Link roam.LinkID
	Up   bool // packets may leave there
}

// Group is the site locators that one internal locator is rewritten to now: those whose
// links are up, the most preferred first.
type Group struct {
	Label   int
	Advice  Advice
	Members []Member
}

// Table is what the data plane needs of a policy and of the state of links. The index of a
// site locator is its place in Sites, which it keeps while policies have it. A place with locator 0 is free.
type Table struct {
	Sites  []Site
	Inside map[roam.L64]Group    // by internal locator
	Behind map[roam.L64]roam.L64 // site locator to internal one, where no flow says which
}

// NewTable joins a policy with the state of links. A site locator without a state is down.
func NewTable(p Policy, states []Site) Table { return tableWithout(p, p.Site(), states, nobody) }

func nobody(roam.L64) bool { return false }

// newTable is NewTable for the core's policy and links, without silent providers.
func (c *Core) newTable() Table { return tableWithout(c.policy, c.indices, c.states, c.watch.silent) }

// indicesOf gives the site locators of a policy indices. One that had an index keeps it, so that what flows have
// announced by it stays valid; there are as many indices as a policy has entries.
func indicesOf(was, site []roam.L64) []roam.L64 {
	now := slices.Clone(was)
	for i, l := range now {
		if !slices.Contains(site, l) || slices.Contains(now[:i], l) {
			now[i] = 0
		}
	}
	for _, l := range site {
		if slices.Contains(now, l) {
			continue
		}
		if i := slices.Index(now, 0); i >= 0 {
			now[i] = l
		} else {
			now = append(now, l)
		}
	}
	return now
}

// renamed has a bit for each index that named a site locator, and does not name that one now.
func renamed(was, now []roam.L64) (bits uint16) {
	for i, l := range was {
		if l != 0 && l != now[i] {
			bits |= 1 << i
		}
	}
	return bits
}

// tableWithout is NewTable by these indices, without the locators of silent providers, as far as a group has others.
func tableWithout(p Policy, indices []roam.L64, states []Site, silent func(roam.L64) bool) Table {
	t := Table{Inside: make(map[roam.L64]Group), Behind: make(map[roam.L64]roam.L64)}
	up := make(map[roam.L64]bool)
	for _, l := range indices {
		s := Site{L64: l}
		if i := slices.IndexFunc(states, func(s Site) bool { return s.L64 == l }); i >= 0 {
			s = states[i]
		}
		t.Sites, up[l] = append(t.Sites, s), s.Up
		if l != 0 {
			t.Behind[l], _ = p.Behind(l)
		}
	}
	for _, e := range p.entries {
		if !e.Internal() {
			continue
		}
		live := slices.DeleteFunc(p.Group(e.Rewrite), func(g Entry) bool { return !up[g.L64] })
		if heard := slices.DeleteFunc(slices.Clone(live), func(g Entry) bool { return silent(g.L64) }); len(heard) > 0 {
			live = heard
		}
		t.Inside[e.L64] = Group{Label: e.Rewrite, Advice: e.Advice, Members: Weights(live)}
	}
	return t
}

// Link returns the link that a site locator leaves by.
func (t Table) Link(l roam.L64) (roam.LinkID, bool) {
	for _, s := range t.Sites {
		if s.L64 == l {
			return s.Link, true
		}
	}
	return 0, false
}

// locators returns the locators of a group, the most preferred first.
func (g Group) locators() []roam.L64 {
	list := make([]roam.L64, len(g.Members))
	for i, m := range g.Members {
		list[i] = m.L64
	}
	return list
}

// Entries lists the locators of the site that each internal one is rewritten to, as the border tells
// its hosts, in order.
func (t Table) Entries() (list []ilnp.SiteEntry) {
	for _, l := range slices.Sorted(maps.Keys(t.Inside)) {
		for _, m := range t.Inside[l].Members {
			if len(list) < ilnp.MaxSiteEntries {
				list = append(list, ilnp.SiteEntry{Internal: l, Site: m.L64})
			}
		}
	}
	return list
}
