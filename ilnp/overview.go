package ilnp

import (
	"slices"
	"time"

	"roam"
)

// Correspondents returns the keys of all sessions, and of known correspondents without one, in no
// order. Who shows or counts many takes them a few at a time (Show, Overview.Count), as the core does
// nothing else meanwhile.
func (c *node) Correspondents() []SessionKey {
	keys := make([]SessionKey, 0, len(c.sessions))
	for k := range c.sessions {
		keys = append(keys, k)
	}
	for _, k := range c.known {
		if key := silentKey(c, k); isWithoutSession(c, k) && c.sessions[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// silentKey is the key by which a known correspondent without a session is shown.
func silentKey(c *node, k *correspondent) SessionKey { return SessionKey{c.cfg.NIDs[0], k.nid} }

// isWithoutSession reports whether a known correspondent is to be shown as such.
func isWithoutSession(c *node, k *correspondent) bool {
	return !k.retired && !slices.ContainsFunc(c.cfg.NIDs, func(local roam.NID) bool {
		s := c.holder(local, k.nid)
		return s != nil && s.owned
	})
}

// silentAt returns the known correspondent without a session of a key; nil: there is none.
func silentAt(c *node, key SessionKey) *correspondent {
	if k := c.known[key.Remote]; k != nil && key == silentKey(c, k) && isWithoutSession(c, k) {
		return k
	}
	return nil
}

// Show returns the correspondents of a key: none if it has gone, and two if another node claims the
// identifier of a known one. One without a session has the state Initiated and no Since.
func (c *node) Show(now time.Time, key SessionKey) (list []PeerState) {
	if k := silentAt(c, key); k != nil {
		list = append(list, c.showKnown(now, k))
	}
	if s := c.sessions[key]; s != nil {
		list = append(list, c.showSession(now, s))
	}
	return list
}

// Peers returns all correspondents, in the order of their keys.
func (c *node) Peers(now time.Time) (states []PeerState) {
	keys := c.Correspondents()
	slices.SortFunc(keys, compareKey)
	for _, k := range keys {
		states = append(states, c.Show(now, k)...)
	}
	return states
}

// PeersWith returns those with an identifier, in the order of their keys.
func (c *node) PeersWith(now time.Time, nid roam.NID) (states []PeerState) {
	if k := c.known[nid]; k != nil && isWithoutSession(c, k) {
		states = append(states, c.showKnown(now, k))
	}
	for _, s := range c.of(nid) {
		states = append(states, c.showSession(now, s))
	}
	slices.SortStableFunc(states, func(a, b PeerState) int { return compareKey(a.Key, b.Key) })
	return states
}

// KnownPeers returns those of Peers of which somebody told, in the order of
// their keys: however many pending peers there are, few.
func (c *node) KnownPeers(now time.Time) []PeerState {
	var states []PeerState
	for _, k := range c.known {
		if isWithoutSession(c, k) {
			states = append(states, c.showKnown(now, k))
			continue
		}
		for _, local := range c.cfg.NIDs {
			if s := c.holder(local, k.nid); s != nil && s.owned {
				states = append(states, c.showSession(now, s))
			}
		}
	}
	slices.SortFunc(states, func(a, b PeerState) int { return compareKey(a.Key, b.Key) })
	return states
}

// Overview is what is known of many correspondents together. Its zero value is that of none.
type Overview struct {
	Tally
	links map[string]*linkSum
}

type linkSum struct {
	LinkPaths
	measured int // paths in use whose round trip is in RTT
}

// Overview returns that of all correspondents.
func (c *node) Overview(now time.Time) (o Overview) {
	c.Count(now, &o, c.Correspondents())
	return o
}

// Count adds correspondents to an overview. One that has gone is left out.
func (c *node) Count(now time.Time, o *Overview, keys []SessionKey) {
	for _, key := range keys {
		if silentAt(c, key) != nil {
			o.Silent++
		}
		if s := c.sessions[key]; s != nil {
			o.Tally.add(c, s)
			o.addPaths(c, now, s)
		}
	}
}

func (t *Tally) add(c *node, s *session) {
	t.Sessions[s.state]++
	if s.dead {
		t.Dead++
	}
	switch {
	case s.keys != nil:
		t.Keyed++
	case c.isListed(s):
		t.Listed++
	}
}

// LinkPaths is what is known of all paths over one link of this host together.
type LinkPaths struct {
	InUse, Avoided, Left int
	RTT, Least           time.Duration // of those in use: the mean of the last ones, and the least of all; 0: unknown
	OutRate, InRate      float64       // data that arrive, bytes a second, as far as they are reported
	OutLost, InLost      float64       // and that do not
}

func (o *Overview) addPaths(c *node, now time.Time, s *session) {
	for _, v := range s.views(now, nil) {
		name := c.host.names[v.Local.Link]
		t := o.links[name]
		if t == nil {
			if t = new(linkSum); o.links == nil {
				o.links = make(map[string]*linkSum)
			}
			o.links[name] = t
		}
		switch {
		case v.InUse:
			t.InUse++
		case s.avoids(v.Path):
			t.Avoided++
		case s.bad[v.Path]:
			t.Left++
		}
		if v.InUse && v.RTT > 0 {
			t.measured++
			t.RTT += v.RTT
			if t.Least == 0 || v.Least < t.Least {
				t.Least = v.Least
			}
		}
		t.OutRate, t.OutLost = t.OutRate+v.Out.Rate, t.OutLost+v.Out.Sent*v.Out.Loss
		t.InRate, t.InLost = t.InRate+v.In.Rate, t.InLost+v.In.Sent*v.In.Loss
	}
}

// Links returns what is known of paths over each link, by its name.
func (o *Overview) Links() map[string]LinkPaths {
	by := make(map[string]LinkPaths)
	for name, t := range o.links {
		p := t.LinkPaths
		p.RTT /= time.Duration(max(t.measured, 1))
		by[name] = p
	}
	return by
}
