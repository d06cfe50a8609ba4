package sim

import (
	"cmp"
	"net/netip"
	"slices"

	"roam"
)

// Route is the next link for packets to a prefix.
type Route struct {
	Prefix netip.Prefix
	Link   roam.LinkID
	// Metric selects between routes to the same prefix: the lowest metric wins, then the
	// older route.
	Metric uint64
	// Blackhole drops packets silently.
	Blackhole bool
}

// Routes is a routing table with longest prefix match.
type Routes struct {
	routes  map[netip.Prefix][]Route // by their metrics
	lengths []int                    // of the prefixes in the table, the longest first
	count   [129]int                 // of prefixes, by their length
}

// Add adds a route, and replaces one with the same prefix and link.
func (t *Routes) Add(r Route) {
	r.Prefix = r.Prefix.Masked()
	t.Remove(r.Prefix, r.Link)
	if t.routes == nil {
		t.routes = make(map[netip.Prefix][]Route)
	}
	list := t.routes[r.Prefix]
	if len(list) == 0 {
		t.counted(r.Prefix.Bits(), 1)
	}
	list = append(list, r)
	slices.SortStableFunc(list, func(a, b Route) int { return cmp.Compare(a.Metric, b.Metric) })
	t.routes[r.Prefix] = list
}

// Remove removes the route to a prefix by a link.
func (t *Routes) Remove(prefix netip.Prefix, link roam.LinkID) {
	prefix = prefix.Masked()
	list := t.routes[prefix]
	rest := slices.DeleteFunc(list, func(r Route) bool { return r.Link == link })
	if len(rest) > 0 {
		t.routes[prefix] = rest
	} else if len(list) > 0 {
		delete(t.routes, prefix)
		t.counted(prefix.Bits(), -1)
	}
}

func (t *Routes) counted(bits, more int) {
	t.count[bits] += more
	t.lengths = t.lengths[:0]
	for n := 128; n >= 0; n-- {
		if t.count[n] > 0 {
			t.lengths = append(t.lengths, n)
		}
	}
}

// Lookup returns the route of an address.
func (t *Routes) Lookup(dst netip.Addr) (Route, bool) {
	for _, bits := range t.lengths {
		if prefix, err := dst.Prefix(bits); err == nil {
			if list := t.routes[prefix]; len(list) > 0 {
				return list[0], true
			}
		}
	}
	return Route{}, false
}
