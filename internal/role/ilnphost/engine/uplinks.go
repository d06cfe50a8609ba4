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

// rows returns the locators that get a row, in a stable order. If there are too many, those that entries and the
// paths of the next one send from come first, then those that were wanted last: an entry names a row by its index,
// so a row that changes hands under it would give its packets the source and the link of another locator.
func (u *uplinks) rows(next []ilnp.Path) []roam.LinkLocator {
	locals := slices.Collect(maps.Keys(u.locals))
	if crowded := len(locals) > uplinkRows; crowded != u.crowded {
		u.crowded = crowded
		if crowded {
			u.cfg.Log.Warn("more locators than can be sent from at once: those in use and those that came last are kept",
				"locators", len(locals), "rows", uplinkRows)
		}
	}
	if u.crowded {
		used := u.used(next)
		slices.SortFunc(locals, func(a, b roam.LinkLocator) int {
			switch {
			case used[a] == used[b]:
				return cmp.Compare(u.locals[b], u.locals[a])
			case used[a]:
				return -1
			}
			return 1
		})
		locals = locals[:uplinkRows]
	}
	slices.SortFunc(locals, func(a, b roam.LinkLocator) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.L64, b.L64))
	})
	return locals
}

// used returns the locators that entries send from, and those of the paths of the next one.
func (u *uplinks) used(next []ilnp.Path) map[roam.LinkLocator]bool {
	used := make(map[roam.LinkLocator]bool)
	note := func(paths []ilnp.Path) {
		for _, p := range paths {
			used[p.Local] = true
		}
	}
	for _, p := range u.entries {
		note(pathsOf(p))
	}
	note(next)
	return used
}

// pathsOf returns all paths of an entry, the most important ones last.
func pathsOf(p ilnp.Entry) []ilnp.Path { return slices.Concat(p.Back, p.Reserve, p.Ruled, p.Paths) }

// prefer notes that the locators of paths are wanted, and reports whether one of them lacks a row and may get it.
func (u *uplinks) prefer(paths []ilnp.Path) (lacks bool) {
	if !u.crowded {
		return false
	}
	for _, p := range paths {
		if _, present := u.locals[p.Local]; present {
			u.wanted++
			u.locals[p.Local] = u.wanted
			lacks = lacks || !slices.Contains(u.rowed, p.Local)
		}
	}
	return lacks
}

// write writes the whole table, before an entry with the paths of next is written.
func (u *uplinks) write(next ...ilnp.Path) {
	if u.adopting {
		return
	}
	locals := u.rows(next)
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

// completeEntries writes the sessions again whose locators have got a row or had to give theirs away. Without a row a
// path is left out of its entry, and the core does not know: so it is for a predecessor whose data plane could not be
// taken over, and where more locators are in use than there are rows. A locator that is gone is left to the core.
func (u *uplinks) completeEntries(entries []dataplane.UplinkEntry) {
	var now []roam.LinkLocator
	changed := make(map[roam.LinkLocator]bool)
	for _, x := range entries {
		now = append(now, x.Local)
		if !slices.Contains(u.rowed, x.Local) {
			changed[x.Local] = true
		}
	}
	for _, l := range u.rowed {
		if _, present := u.locals[l]; present && !slices.Contains(now, l) {
			changed[l] = true
		}
	}
	u.rowed = now
	if len(changed) == 0 {
		return
	}
	for _, p := range u.entries {
		if slices.ContainsFunc(pathsOf(p), func(path ilnp.Path) bool { return changed[path.Local] }) {
			u.report("complete the paths of a session", u.cfg.Plane.Upsert(p, dataplane.Turn{}))
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
