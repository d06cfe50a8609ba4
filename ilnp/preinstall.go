package ilnp

import (
	"slices"
	"time"

	"roam"
)

// preinstalled holds the sessions whose entry is in the data plane before their first
// packet, which so need not wait for the daemon: it leaves with a nonce, or as plain IPv6
// where the correspondent is remembered to have no ILNP. The host sends nothing for such
// an entry. Until a packet of ours has used it, the data plane ignores it for packets
// that come in: a correspondent that contacts us first becomes a session as any other.
//
// They are known correspondents without a session, at most Config.Preinstall: those that
// were made known first, and later those that an application looked up, or had a session
// with, last. None of them is in the cache.
type preinstalled struct {
	cfg     *Config
	cache   *cache
	entries map[SessionKey]*session // their keys have the first NID of this host
	order   []SessionKey            // the one looked up the longest ago first

	emit  func(Output)
	draw  func(now time.Time) (Nonce, bool)
	write func(now time.Time, s *session) // upserts the entry of s with the paths of now
}

func (p *preinstalled) keyOf(nid roam.NID) SessionKey { return SessionKey{p.cfg.NIDs[0], nid} }

// lookedUp preinstalls an entry for a known correspondent that an application has looked up.
// Where there are too many, the one looked up the longest ago is removed.
func (p *preinstalled) lookedUp(now time.Time, nid roam.NID) {
	key := p.keyOf(nid)
	if i := slices.Index(p.order, key); i >= 0 {
		p.order = append(slices.Delete(p.order, i, i+1), key)
		return
	}
	if len(p.order) > 0 && len(p.order) >= p.cfg.Preinstall && p.can(key) {
		p.remove(p.order[0])
	}
	p.fill(now, nid)
}

// can reports whether a correspondent has locators and no session, and may be contacted without
// asking the core. One that has to prove itself gets no entry ahead: our own proof goes before
// our first packet.
func (p *preinstalled) can(key SessionKey) bool {
	k := p.cache.known[key.Remote]
	return k != nil && len(k.locators) > 0 && k.guard.why == "" && p.cache.sessionOf(key) == nil &&
		!p.cache.proves(key.Remote)
}

// isFull reports whether the data plane has no entry left.
func (p *preinstalled) isFull() bool {
	return p.cfg.MaxSessions > 0 && len(p.cache.sessions)+len(p.order) >= p.cfg.MaxSessions
}

// hasRoom reports whether one more entry may be preinstalled.
func (p *preinstalled) hasRoom() bool { return len(p.order) < p.cfg.Preinstall && !p.isFull() }

// fill preinstalls an entry for a correspondent if there is room.
func (p *preinstalled) fill(now time.Time, nid roam.NID) {
	key := p.keyOf(nid)
	if !p.hasRoom() || p.entries[key] != nil || !p.can(key) {
		return
	}
	n, ok := p.draw(now)
	if !ok {
		return
	}
	p.add(now, p.cache.known[nid].initiated(key, p.cfg.ownNID(key.Local), n))
}

func (p *preinstalled) add(now time.Time, s *session) {
	p.entries[s.key] = s
	p.order = append(p.order, s.key)
	p.update(now, s)
}

// update writes an entry as the record and our locators have it now.
func (p *preinstalled) update(now time.Time, s *session) {
	s.state, s.fallback, s.remembered = Initiated, noFallback, false
	if p.cache.isPlain(now, s) {
		s.state, s.fallback, s.remembered = Plain, withoutILNP, true
	}
	s.remotes.age(now, s.grace())
	p.write(now, s)
}

// updateOf updates the entry of a correspondent, if there is one.
func (p *preinstalled) updateOf(now time.Time, nid roam.NID) {
	if s := p.entries[p.keyOf(nid)]; s != nil {
		p.update(now, s)
	}
}

// updateAll updates all entries, after a change of our own locators.
func (p *preinstalled) updateAll(now time.Time) {
	for _, key := range p.order {
		p.update(now, p.entries[key])
	}
}

// updateAged updates those entries of which a lifetime has ended. A second of delay does
// no harm: when the first packet leaves, the session decides anew.
func (p *preinstalled) updateAged(now time.Time) {
	for _, key := range p.order {
		s := p.entries[key]
		limited := slices.ContainsFunc(s.remotes, func(r remote) bool { return !r.expires.IsZero() })
		if limited || p.cache.isPlain(now, s) != (s.state == Plain) {
			p.update(now, s)
		}
	}
}

// advise applies a changed record to its entry; a new one gets an entry if there is room.
func (p *preinstalled) advise(now time.Time, k *correspondent) {
	s := p.entries[p.keyOf(k.nid)]
	switch {
	case s == nil:
		p.fill(now, k.nid)
	case len(k.locators) == 0, p.cache.proves(k.nid):
		p.remove(s.key)
	default:
		s.profile, s.remotes = k.profile, k.targets()
		p.update(now, s)
	}
}

// has reports whether a session is one of these.
func (p *preinstalled) has(s *session) bool { return p.entries[s.key] == s }

// take returns the session of an entry, which stays in the data plane and is no longer
// one of these; nil: there is none.
func (p *preinstalled) take(key SessionKey) *session {
	s := p.entries[key]
	if s != nil {
		delete(p.entries, key)
		p.order = slices.DeleteFunc(p.order, func(k SessionKey) bool { return k == key })
	}
	return s
}

// remove removes an entry, from the data plane too.
func (p *preinstalled) remove(key SessionKey) {
	if p.take(key) != nil {
		p.emit(Delete{Key: key})
	}
}

// giveWay frees an entry of the data plane for a session that begins under a key, if all
// are in use and some are preinstalled.
func (p *preinstalled) giveWay(key SessionKey) {
	p.take(key) // its entry is replaced
	for len(p.order) > 0 && p.isFull() {
		p.remove(p.order[0])
	}
}

// restore keeps the nonce of a predecessor's entry, as packets may have used it while
// there was no daemon.
func (p *preinstalled) restore(now time.Time, v savedSession) {
	key := SessionKey{v.Local, v.Remote}
	p.take(key) // one that was made since the start has another nonce
	if !p.hasRoom() || v.Remote != v.RemoteNID || !p.can(key) {
		return
	}
	s := p.cache.known[v.RemoteNID].initiated(key, p.cfg.ownNID(key.Local), loadNonce(v.LocalNonce))
	s.entry.Seq = v.Seq
	p.add(now, s)
}

// Preinstall preinstalls an entry for a known correspondent without a session that an
// application has just looked up. Where there are too many, the one looked up the longest
// ago is removed.
func (c *node) Preinstall(now time.Time, nid roam.NID) { c.preinstalled.lookedUp(now, nid) }

// begin makes a session of a preinstalled entry which a packet of ours has used that has
// left already; nil: there is none.
func (c *Core) begin(now time.Time, key SessionKey) *session {
	s := c.preinstalled.take(key)
	if s != nil {
		c.initiate(now, s)
		c.validate(now, s)
	}
	return s
}
