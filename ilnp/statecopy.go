package ilnp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// State is what a successor needs to keep the sessions, as it was at one moment.
type State struct {
	saved   savedState
	changed []savedSession      // while the others were copied: in their place
	again   map[SessionKey]bool // their keys, and those of sessions that have gone since
	boot    time.Time
}

// Bytes returns the state as Restore takes it. It holds nonces: only its owner
// may read it. It may be called from another goroutine than the core's.
func (s State) Bytes() []byte {
	kept := slices.DeleteFunc(s.saved.Sessions, func(v savedSession) bool {
		return !v.Preinstalled && s.again[SessionKey{v.Local, v.Remote}]
	})
	s.saved.Sessions = append(kept, s.changed...)
	slices.SortStableFunc(s.saved.Sessions, func(a, b savedSession) int {
		switch {
		case a.Preinstalled && b.Preinstalled: // in the order in which they give way
			return 0
		case a.Preinstalled || b.Preinstalled:
			return cmp.Compare(boolRank(a.Preinstalled), boolRank(b.Preinstalled))
		}
		return compareKey(SessionKey{a.Local, a.Remote}, SessionKey{b.Local, b.Remote})
	})
	s.saved.rebase(s.boot, s.boot)
	s.saved.Boot = s.boot
	// Nothing in savedState can fail to be encoded.
	b, _ := json.Marshal(s.saved)
	return b
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Export returns the state in bytes.
func (c *Core) Export() []byte { return c.CopyState().State().Bytes() }

// Copying is a State under way: to copy many sessions at once would hold up the core.
type Copying struct {
	core *Core
	left []SessionKey
	done []savedSession
	// again are the sessions that have changed since, or have gone.
	again map[SessionKey]bool
}

// CopyState begins to copy what a successor needs.
func (c *Core) CopyState() *Copying {
	return &Copying{
		core: c, left: slices.Collect(maps.Keys(c.sessions)),
		done:  make([]savedSession, 0, len(c.sessions)+c.cfg.Preinstall),
		again: make(map[SessionKey]bool),
	}
}

// Some copies the next n sessions, and reports whether all are.
func (p *Copying) Some(n int) bool {
	n = min(n, len(p.left))
	for _, k := range p.left[:n] {
		if s := p.core.sessions[k]; s != nil {
			p.done = append(p.done, s.save())
		} else {
			p.again[k] = true // it has another key by now, or has ended
		}
	}
	p.left = p.left[n:]
	return len(p.left) == 0
}

// Changed notes that a session has begun, changed or ended since CopyState.
func (p *Copying) Changed(k SessionKey) { p.again[k] = true }

// State copies the rest, and all that has changed. Encoding it takes much more time, and need not hold
// up the core.
func (p *Copying) State() State {
	p.Some(len(p.left))
	c := p.core
	st := savedState{Version: stateVersion, Configured: c.configured, Mode: c.cfg.Mode, Sessions: p.done}
	if c.prover.counter > 0 {
		st.Offers = c.prover.counter + reservedOffers
	}
	st.Disabled, st.Locals = c.host.save()
	st.Border = c.host.saveBorder()
	for _, nid := range slices.Sorted(maps.Keys(c.known)) {
		k := c.known[nid]
		st.Known = append(st.Known, savedKnown{
			nid, slices.Clone(k.names), saveRemotes(k.locators), k.profile.saved(), k.plainUntil, k.anywhere, k.keyed,
			k.public, k.retired,
		})
	}
	for _, key := range c.preinstalled.order {
		v := c.preinstalled.entries[key].save()
		v.Preinstalled = true
		st.Sessions = append(st.Sessions, v)
	}
	var changed []savedSession
	for k := range p.again {
		if s := c.sessions[k]; s != nil {
			changed = append(changed, s.save())
		}
	}
	return State{st, changed, p.again, c.cfg.Boot}
}
