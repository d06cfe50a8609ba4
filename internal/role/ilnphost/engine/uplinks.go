package engine

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
)

// uplinks are the links that sessions may use, the locators on them, and the table of
// both in the data plane.
type uplinks struct {
	*base
	links    map[roam.LinkID]hostnet.Uplink
	locals   map[roam.LinkLocator]uint64 // when each was last wanted, as a count
	wanted   uint64
	rowed    []roam.LinkLocator // those that have rows in the data plane
	crowded  bool               // more locators than the data plane has rows
	disabled map[string]bool    // by name; filled at the start, see inheritDisabled
	// looked is when activity was last read, known when it was read before that: events
	// of the host's network that had happened by then are handled.
	looked, known time.Time
	// serverAddrs are the addresses of the uplinks, as last written.
	serverAddrs []netip.Addr
}

func newUplinks(b *base) uplinks {
	return uplinks{
		base: b, links: make(map[roam.LinkID]hostnet.Uplink), locals: make(map[roam.LinkLocator]uint64),
		disabled: make(map[string]bool),
	}
}

// noteLocal notes that a locator is there or not, and reports whether it was.
func (u *uplinks) noteLocal(l roam.LinkLocator, present bool) (known bool) {
	_, known = u.locals[l]
	if present && !known {
		u.wanted++
		u.locals[l] = u.wanted
	} else if !present {
		delete(u.locals, l)
	}
	return known
}

func (u *uplinks) forgetLocals(link roam.LinkID) {
	for l := range u.locals {
		if l.Link == link {
			delete(u.locals, l)
		}
	}
}

// uplinkRows is how many local locators the data plane has room for.
const uplinkRows = 16

// rows returns the locators that get a row, in a stable order: if there are too
// many, those that came or were used last.
func (u *uplinks) rows() []roam.LinkLocator {
	locals := slices.Collect(maps.Keys(u.locals))
	slices.SortFunc(locals, func(a, b roam.LinkLocator) int { return cmp.Compare(u.locals[b], u.locals[a]) })
	if crowded := len(locals) > uplinkRows; crowded != u.crowded {
		u.crowded = crowded
		if crowded {
			u.cfg.Log.Warn("more locators than can be sent from at once: those that came last are used", "locators", len(locals), "rows", uplinkRows)
		}
	}
	locals = locals[:min(len(locals), uplinkRows)]
	slices.SortFunc(locals, func(a, b roam.LinkLocator) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.L64, b.L64))
	})
	return locals
}

// prefer notes that the locators of paths are used, and reports whether that may be news
// to the table.
func (u *uplinks) prefer(paths []ilnp.Path) bool {
	if !u.crowded {
		return false
	}
	for _, p := range paths {
		if _, present := u.locals[p.Local]; present {
			u.wanted++
			u.locals[p.Local] = u.wanted
		}
	}
	return true
}

// write writes the whole table.
func (u *uplinks) write() {
	if u.adopting {
		return
	}
	locals := u.rows()
	entries := make([]dataplane.UplinkEntry, 0, len(locals))
	for _, l := range locals {
		at, ok := u.links[l.Link]
		if !ok {
			continue
		}
		entry := dataplane.UplinkEntry{Local: l, Usable: at.Up && at.Routed, Physical: at.Physical, MTU: at.MTU}
		if at.NextHopValid {
			entry.NextHop = at.NextHop
			if at.HasMAC {
				entry.MAC, entry.NextHopMAC, entry.KnownAt = at.MAC, at.NextHopMAC, u.known
			}
		}
		entries = append(entries, entry)
	}
	u.report("write table of uplinks", u.cfg.Plane.SetUplinks(entries))
	u.completeEntries(entries)
	u.writeServerAddrs()
}

// confirm writes the table again where it has hardware addresses of routers: the programs
// do not use those after neighbour discovery that contradicts them until they are newer.
func (u *uplinks) confirm(now time.Time) {
	u.looked, u.known = now, u.looked
	for _, at := range u.links {
		if at.HasMAC && at.NextHopValid {
			u.write()
			return
		}
	}
}

// completeEntries writes the sessions again that send from locators which have
// rows only now: those of a predecessor whose data plane could not be taken
// over, or of a locator that had to give its row away. Without a row, a path is
// left out of its entry, and the core does not know.
func (u *uplinks) completeEntries(entries []dataplane.UplinkEntry) {
	var now, late []roam.LinkLocator
	for _, x := range entries {
		now = append(now, x.Local)
		if !slices.Contains(u.rowed, x.Local) {
			late = append(late, x.Local)
		}
	}
	u.rowed = now
	if len(late) == 0 {
		return
	}
	for _, p := range u.entries {
		isLate := func(path ilnp.Path) bool { return slices.Contains(late, path.Local) }
		if slices.ContainsFunc(slices.Concat(p.Paths, p.Ruled, p.Back), isLate) {
			u.report("complete the paths of a session", u.cfg.Plane.Upsert(p))
		}
	}
}

// writeServerAddrs tells the data plane which addresses servers may be bound to.
func (u *uplinks) writeServerAddrs() {
	var addrs []netip.Addr
	for _, link := range slices.Sorted(maps.Keys(u.links)) {
		for _, a := range u.links[link].Addrs {
			if !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	if slices.Equal(addrs, u.serverAddrs) {
		return
	}
	u.serverAddrs = addrs
	u.report("write addresses of servers", u.cfg.Plane.SetServerAddrs(addrs))
}

// LinkByName finds an uplink; use it inside Do only.
func (u *uplinks) LinkByName(name string) (roam.LinkID, bool) {
	for id, l := range u.links {
		if l.Name == name {
			return id, true
		}
	}
	return 0, false
}

// Links returns the uplinks by index; use it inside Do only.
func (u *uplinks) Links() map[roam.LinkID]hostnet.Uplink { return u.links }
