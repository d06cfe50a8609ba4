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
	saved    savedState // but for its sessions, of which it has the preinstalled ones
	sessions map[SessionKey]savedSession
	boot     time.Time
}

// Bytes returns the state as Restore takes it. It holds nonces: only its owner
// may read it. It may be called from another goroutine than the core's.
func (s State) Bytes() []byte {
	s.saved.Sessions = slices.AppendSeq(slices.Clone(s.saved.Sessions), maps.Values(s.sessions))
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
	core  *Core
	left  []SessionKey // of this round
	round int          // its length; twice that, of the first one
	done  map[SessionKey]savedSession
	// again are the sessions that have changed since they were copied, or have gone.
	again map[SessionKey]bool
}

// CopyState begins to copy what a successor needs.
func (c *Core) CopyState() *Copying {
	c.finish()
	return &Copying{
		core: c, left: slices.Collect(maps.Keys(c.sessions)), round: 2 * len(c.sessions),
		done:  make(map[SessionKey]savedSession, len(c.sessions)),
		again: make(map[SessionKey]bool),
	}
}

// Some copies the next n sessions, and reports whether no more are to be copied in this way. Those that
// change meanwhile are copied once more, and again as long as they are at most half as many each time; what
// is left then, State copies.
func (p *Copying) Some(n int) bool {
	n = min(n, len(p.left))
	for _, k := range p.left[:n] {
		p.copy(k)
	}
	if p.left = p.left[n:]; len(p.left) > 0 {
		return false
	}
	if len(p.again) == 0 || len(p.again) > p.round/2 {
		return true
	}
	p.left, p.round = slices.Collect(maps.Keys(p.again)), len(p.again)
	clear(p.again)
	return false
}

func (p *Copying) copy(k SessionKey) {
	if s := p.core.sessions[k]; s != nil {
		p.done[k] = s.save()
	} else {
		delete(p.done, k) // it has another key by now, or has ended
	}
}

// Changed notes that a session has begun, changed or ended since CopyState.
func (p *Copying) Changed(k SessionKey) { p.again[k] = true }

// State copies the rest, and what has changed since. Encoding it takes much more time, and need not hold
// up the core.
func (p *Copying) State() State {
	for _, k := range p.left {
		p.copy(k)
	}
	for k := range p.again {
		p.copy(k)
	}
	c := p.core
	st := savedState{Version: stateVersion, Configured: c.configured, Mode: c.cfg.Mode}
	if c.prover.counter > 0 {
		st.Offers = c.prover.counter + reservedOffers
	}
	st.Disabled, st.Locals = c.host.save()
	st.Links = &DisabledLinks{slices.Clone(c.DisabledLinks.Configured), slices.Clone(c.DisabledLinks.Names)}
	st.Border = c.host.saveBorder()
	for _, nid := range slices.Sorted(maps.Keys(c.known)) {
		k := c.known[nid]
		st.Known = append(st.Known, savedKnown{
			nid, slices.Clone(k.names), saveRemotes(k.locators), k.profile.saved(), k.plainUntil, k.anywhere, k.keyed,
			k.public, k.retired, k.guard.on, c.followed(k),
			k.replaced || slices.ContainsFunc(c.of(nid), func(s *session) bool { return s.hs.demands() }),
		})
	}
	for _, key := range c.preinstalled.order {
		v := c.preinstalled.entries[key].save()
		v.Preinstalled = true
		st.Sessions = append(st.Sessions, v)
	}
	return State{st, p.done, c.cfg.Boot}
}
