package engine

import (
	"maps"
	"slices"
	"time"

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
		e.noteAttached(ev.Link, false)
		e.forgetLocals(ev.Link)
		e.writeUplinks()
		e.report("detach from link", e.cfg.Plane.DetachUplink(ev.Link))
		e.readHeard()
		e.core.Detach(now, ev.Link)
	case hostnet.LocatorChanged:
		known := e.noteLocal(ev.LinkLocator, ev.Present)
		e.writeUplinks()
		if !ev.Present || !known {
			e.readHeard()
		}
		e.core.HandleLocator(now, ev.PrefixEvent)
	case hostnet.PolicyChanged:
		e.policyChanged(now, ev.Armed)
		e.chooseDirect()
	case hostnet.LinkSeen:
		if _, uplink := e.links[ev.Link]; !uplink {
			e.report("guard link "+ev.Name, e.cfg.Plane.GuardLink(ev.Link, ev.HasMAC))
		}
	case hostnet.Candidate:
		e.candidateChanged(ev)
	case hostnet.DeviceRemade:
		if e.cfg.OnDevice != nil {
			e.cfg.OnDevice(ev.Device)
		}
	case hostnet.Trouble:
		if ev.L64 == 0 {
			e.cfg.Log.Warn("the host's network is not as it should be", "link", ev.LinkName, "reason", ev.Reason)
		} else {
			e.cfg.Log.Warn("prefix cannot be used", "link", ev.LinkName, "locator", ev.L64.Prefix(), "reason", ev.Reason)
		}
		if e.cfg.OnTrouble != nil {
			e.cfg.OnTrouble(ev.LinkName, ev.Reason)
		}
	}
}

func (e *Engine) uplinkChanged(now time.Time, u hostnet.Uplink) {
	old, known := e.links[u.Link]
	e.links[u.Link] = u
	e.becameUplink(u.Link)
	e.core.SetLinkMTU(u.Link, u.MTU)
	if !known || old.HasMAC != u.HasMAC {
		err := e.cfg.Plane.AttachUplink(u.Link, u.HasMAC)
		e.report("attach to link "+u.Name, err)
		e.noteAttached(u.Link, err == nil && u.HasMAC)
	}
	if known && old.Name != u.Name && e.disabled[old.Name] {
		// A link stays out of use under another name; so does the next one of a name that is configured.
		e.disabled[u.Name] = true
		if !slices.Contains(e.cfg.Disabled, old.Name) {
			delete(e.disabled, old.Name)
		}
		e.keepDisabled(now)
	}
	if !known || old.Name != u.Name {
		// A predecessor may have had another configuration, or another link of that index.
		e.core.SetLinkDisabled(now, u.Link, e.disabled[u.Name])
	}
	e.writeUplinks()
}

// want makes sure that the locators of paths have rows.
func (e *Engine) want(paths []ilnp.Path) {
	if e.prefer(paths) {
		e.writeUplinks(paths...)
	}
}

// writeUplinks writes the whole table of uplinks, when policies were asked about them. Next are the paths of an entry
// that is about to be written.
func (e *Engine) writeUplinks(next ...ilnp.Path) {
	e.checkLocals()
	e.uplinks.write(next...)
}

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
	e.keepDisabled(now)
	if id, ok := e.LinkByName(name); ok {
		e.readHeard()
		e.core.SetLinkDisabled(now, id, disabled)
	}
}

// keepDisabled saves which links are out of use.
func (e *Engine) keepDisabled(now time.Time) {
	names := slices.Sorted(maps.Keys(e.disabled))
	e.core.DisabledLinks = ilnp.DisabledLinks{Configured: e.cfg.Disabled, Names: names}
	e.sessionsChanged(now)
}

// ConfigureDisabled follows a new Config.Disabled. A command about a link lasts unless the link joins the list or
// leaves it. Use it inside Do only.
func (e *Engine) ConfigureDisabled(now time.Time, names []string) {
	old := e.cfg.Disabled
	e.cfg.Disabled = names
	for _, name := range old {
		if !slices.Contains(names, name) {
			e.SetDisabled(now, name, false)
		}
	}
	for _, name := range names {
		if !slices.Contains(old, name) {
			e.SetDisabled(now, name, true)
		}
	}
}

// inheritDisabled goes on with the links that a predecessor had out of use, as far as the configuration is the same.
func (e *Engine) inheritDisabled(now time.Time) {
	left, names := e.core.DisabledLinks, e.cfg.Disabled
	for _, name := range left.Names {
		e.disabled[name] = true
	}
	e.cfg.Disabled = left.Configured
	e.ConfigureDisabled(now, names)
}

// Refused returns what the engine itself refused, by reason; use it inside Do
// only.
func (e *Engine) Refused() map[string]uint64 { return e.refused }

// LastForged returns the last packet that Refused counts as a ForgedError, the zero
// value if there was none; use it inside Do only.
func (e *Engine) LastForged() dataplane.Refusal { return e.lastForged }
