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

// handleNetwork takes one event of the host's network. The table of uplinks
// is written before the core hears of it: entries that the core makes name
// rows of that table, and a lost link must not be sent on for a moment longer.
func (e *Engine) handleNetwork(now time.Time, ev hostnet.Event) {
	switch ev := ev.(type) {
	case hostnet.UplinkChanged:
		e.uplinkChanged(now, ev.Uplink)
	case hostnet.LinkGone:
		delete(e.links, ev.Link)
		e.forgetLocals(ev.Link)
		e.writeUplinks()
		e.report("detach from link", e.cfg.Plane.DetachUplink(ev.Link))
		e.readHeard()
		e.core.Detach(now, ev.Link)
	case hostnet.LocatorChanged:
		_, known := e.locals[ev.LinkLocator]
		if ev.Present && !known {
			e.wanted++
			e.locals[ev.LinkLocator] = e.wanted
		} else if !ev.Present {
			delete(e.locals, ev.LinkLocator)
		}
		e.writeUplinks()
		if !ev.Present || !known {
			e.readHeard()
		}
		e.core.HandleLocator(now, ev.PrefixEvent)
	case hostnet.PolicyChanged:
		e.policyChanged(now, ev.Armed)
	case hostnet.LinkSeen:
		if _, uplink := e.links[ev.Link]; !uplink {
			e.report("guard link "+ev.Name, e.cfg.Plane.GuardLink(ev.Link, ev.HasMAC))
		}
	case hostnet.DeviceRemade:
		if e.cfg.OnDevice != nil {
			e.cfg.OnDevice(ev.Device)
		}
	case hostnet.Trouble:
		if ev.L64 == 0 {
			e.cfg.Log.Warn("the host's network is not as it should be", "link", ev.LinkName, "reason", ev.Reason)
		} else {
			e.cfg.Log.Warn("prefix cannot be used", "link", ev.LinkName, "locator", ev.L64, "reason", ev.Reason)
		}
		if e.cfg.OnTrouble != nil {
			e.cfg.OnTrouble(ev.LinkName, ev.Reason)
		}
	}
}

func (e *Engine) uplinkChanged(now time.Time, u hostnet.Uplink) {
	old, known := e.links[u.Link]
	e.links[u.Link] = u
	e.core.SetLinkMTU(u.Link, u.MTU)
	if !known || old.HasMAC != u.HasMAC {
		e.report("attach to link "+u.Name, e.cfg.Plane.AttachUplink(u.Link, u.HasMAC))
	}
	if !known && e.disabled[u.Name] {
		e.core.SetLinkDisabled(now, u.Link, true)
	}
	e.writeUplinks()
}

func (e *Engine) forgetLocals(link roam.LinkID) {
	for l := range e.locals {
		if l.Link == link {
			delete(e.locals, l)
		}
	}
}

// uplinkRows is how many local locators the data plane has room for.
const uplinkRows = 16

// rows returns the locators that get a row, in a stable order: if there are too
// many, those that came or were used last.
func (e *Engine) rows() []roam.LinkLocator {
	locals := slices.Collect(maps.Keys(e.locals))
	slices.SortFunc(locals, func(a, b roam.LinkLocator) int { return cmp.Compare(e.locals[b], e.locals[a]) })
	if crowded := len(locals) > uplinkRows; crowded != e.crowded {
		e.crowded = crowded
		if crowded {
			e.cfg.Log.Warn("more locators than can be sent from at once: those that came last are used", "locators", len(locals), "rows", uplinkRows)
		}
	}
	locals = locals[:min(len(locals), uplinkRows)]
	slices.SortFunc(locals, func(a, b roam.LinkLocator) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.L64, b.L64))
	})
	return locals
}

// want makes sure that the locators of paths have rows.
func (e *Engine) want(paths []ilnp.Path) {
	if !e.crowded {
		return
	}
	for _, p := range paths {
		if _, present := e.locals[p.Local]; present {
			e.wanted++
			e.locals[p.Local] = e.wanted
		}
	}
	e.writeUplinks()
}

// writeUplinks writes the whole table.
func (e *Engine) writeUplinks() {
	e.checkLocals()
	if e.adopting {
		return
	}
	locals := e.rows()
	entries := make([]dataplane.UplinkEntry, 0, len(locals))
	for _, l := range locals {
		u, ok := e.links[l.Link]
		if !ok {
			continue
		}
		entry := dataplane.UplinkEntry{Local: l, Usable: u.Up && u.Routed, Physical: u.Physical, MTU: u.MTU}
		if u.NextHopValid {
			entry.NextHop = u.NextHop
		}
		entries = append(entries, entry)
	}
	e.report("write table of uplinks", e.cfg.Plane.SetUplinks(entries))
	e.completeEntries(entries)
	e.writeServerAddrs()
}

// completeEntries writes the sessions again that send from locators which have
// rows only now: those of a predecessor whose data plane could not be taken
// over, or of a locator that had to give its row away. Without a row, a path is
// left out of its entry, and the core does not know.
func (e *Engine) completeEntries(entries []dataplane.UplinkEntry) {
	var now, late []roam.LinkLocator
	for _, u := range entries {
		now = append(now, u.Local)
		if !slices.Contains(e.rowed, u.Local) {
			late = append(late, u.Local)
		}
	}
	e.rowed = now
	if len(late) == 0 {
		return
	}
	for _, p := range e.entries {
		if slices.ContainsFunc(p.Paths, func(path ilnp.Path) bool { return slices.Contains(late, path.Local) }) {
			e.report("complete the paths of a session", e.cfg.Plane.Upsert(p))
		}
	}
}

// writeServerAddrs tells the data plane which addresses servers may be bound to.
func (e *Engine) writeServerAddrs() {
	var addrs []netip.Addr
	for _, link := range slices.Sorted(maps.Keys(e.links)) {
		for _, a := range e.links[link].Addrs {
			if !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	if slices.Equal(addrs, e.serverAddrs) {
		return
	}
	e.serverAddrs = addrs
	e.report("write addresses of servers", e.cfg.Plane.SetServerAddrs(addrs))
}

// LinkByName finds an uplink; use it inside Do only.
func (e *Engine) LinkByName(name string) (roam.LinkID, bool) {
	for id, u := range e.links {
		if u.Name == name {
			return id, true
		}
	}
	return 0, false
}

// Links returns the uplinks by index; use it inside Do only.
func (e *Engine) Links() map[roam.LinkID]hostnet.Uplink { return e.links }

// SetMode switches the mode. Use it inside Do only.
func (e *Engine) SetMode(now time.Time, m ilnp.Mode) {
	e.readHeard()
	e.core.SetMode(now, m)
}

// SetDisabled takes a link out of use, or back in; a link that is not there
// yet is treated so when it comes. Use it inside Do only.
func (e *Engine) SetDisabled(now time.Time, name string, disabled bool) {
	if disabled {
		e.disabled[name] = true
	} else {
		delete(e.disabled, name)
	}
	if id, ok := e.LinkByName(name); ok {
		e.readHeard()
		e.core.SetLinkDisabled(now, id, disabled)
	}
}

// Traffic returns what was last read of each session; use it inside Do only.
func (e *Engine) Traffic() map[ilnp.SessionKey]dataplane.Traffic { return e.traffic }

// Refused returns what the engine itself refused, by reason; use it inside Do
// only.
func (e *Engine) Refused() map[string]uint64 { return e.refused }

// LastForged returns the last packet that Refused counts as a ForgedError, the zero
// value if there was none; use it inside Do only.
func (e *Engine) LastForged() dataplane.Refusal { return e.lastForged }
