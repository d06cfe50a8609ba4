package ilnphost

import (
	"cmp"
	"slices"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/wire/xlate/decide"
)

// asDaemon completes a configuration as the daemon does: paths are judged one by one.
func asDaemon(cfg ilnp.Config) ilnp.Config {
	cfg.UDPPort = udpPort
	if cfg.Liveness == nil {
		cfg.Liveness = func(string) multipath.Level { return multipath.Normal }
		cfg.Silence = cmp.Or(cfg.Silence, multipath.Normal.Timing().Silence)
	}
	return cfg
}

// convert converts an entry of the core to one of the data plane, as the daemon does.
func (p *plane) convert(e ilnp.Entry) *decide.Session {
	s := &decide.Session{
		Flags: flagsOf(e), Seq: e.Seq, LocalNID: e.LocalNID, RemoteNID: e.RemoteNID, Alias: decide.Key(e.Key),
		NonceUntil: ns(e.NonceUntil), LocalNonce: e.LocalNonce, RemoteNonce: e.RemoteNonce,
		Grace: uint32(200e6), // of an unknown round trip
	}
	if e.Grace > 0 {
		s.Grace = uint32(min(max(e.Grace, 20e6), 2e9))
	}
	for _, path := range e.Paths {
		if !p.addPath(s, path) {
			continue
		}
		if slices.Contains(e.Long, path) {
			s.Long |= 1 << s.NPaths
		}
		s.Costs |= uint64(e.Costs[path]&15) << (4 * s.NPaths)
		s.NPaths++
	}
	s.Table = p.table(e, s)
	add := func(paths []ilnp.Path) (n int) {
		for _, path := range paths {
			if p.addPath(s, path) {
				n++
			}
		}
		return n
	}
	s.NReserve = add(e.Reserve)
	s.NRuled = add(e.Ruled)
	add(e.Back)
	n := s.NRemote
	for _, l := range e.Accept {
		if n < len(s.Remote) && !slices.Contains(s.Remote[:n], l) {
			s.Remote[n] = l
			n++
		}
	}
	for i, l := range s.Remote[:n] {
		if slices.Contains(e.Unvalidated, l) {
			s.Unvalidated |= 1 << i
		}
		if slices.Contains(e.Given, l) {
			s.Given |= 1 << i
		}
	}
	return s
}

// isPlaced reports whether TCP connections go by a table.
func isPlaced(e ilnp.Entry) bool { return len(e.Long) > 0 && !e.PerFlow }

// table returns the table of connections of an entry whose paths are written, with what the one
// before has counted; nil: it has none.
func (p *plane) table(e ilnp.Entry, s *decide.Session) *decide.FlowTable {
	if !isPlaced(e) {
		return nil
	}
	t := &decide.FlowTable{}
	if old := p.entries[e.Key]; old != nil && old.session.Table != nil {
		t.Bytes = old.session.Table.Bytes
	}
	for b := range t.Paths {
		t.Paths[b] = (1<<s.NPaths - 1) &^ s.Long
		path, placed := e.Placed[uint8(b)]
		for i, at := range s.Paths[:s.NPaths] {
			if placed && p.rows[path.Local] == at.Uplink && s.Remote[at.Remote] == path.Remote {
				t.Paths[b] = 1 << i
			}
		}
	}
	return t
}

// addPath appends a path, and reports whether the entry had a free slot for it.
func (p *plane) addPath(s *decide.Session, path ilnp.Path) bool {
	row, ok := p.rowOf(path.Local)
	if !ok || len(s.Paths) == decide.MaxPaths {
		return false
	}
	remote := slices.Index(s.Remote[:s.NRemote], path.Remote)
	if remote < 0 {
		if remote = s.NRemote; remote == len(s.Remote) {
			return false
		}
		s.Remote[remote] = path.Remote
		s.NRemote++
	}
	s.Paths = append(s.Paths, decide.Path{Uplink: row, Remote: uint8(remote)})
	return true
}

// rowOf returns the row of a locator on a link. If it has none, it gets a new one, or one that
// no entry uses any more. Every row is usable; packets on a link that does not exist are lost.
func (p *plane) rowOf(l roam.LinkLocator) (uint8, bool) {
	if row, ok := p.rows[l]; ok {
		return row, true
	}
	used := make(map[uint8]bool)
	if len(p.rows) == decide.MaxUplinks {
		for _, e := range p.entries {
			for _, path := range e.session.Paths {
				used[path.Uplink] = true
			}
		}
		for old, row := range p.rows {
			if !used[row] {
				delete(p.rows, old)
			}
		}
	}
	for _, row := range p.rows {
		used[row] = true
	}
	for row := range uint8(decide.MaxUplinks) {
		if !used[row] {
			p.rows[l] = row
			p.state.Uplinks[row] = decide.Uplink{L64: l.L64, Link: uint32(l.Link), MTU: 1500, Usable: true}
			return row, true
		}
	}
	return 0, false
}

// flagsOf returns the flags of an entry, without its checksum rule: data has no checksum in
// this simulation.
func flagsOf(e ilnp.Entry) (f decide.Flags) {
	switch e.State {
	case ilnp.Initiated:
		f = decide.Initiated
	case ilnp.Plain:
		f = decide.Plain
	}
	if e.Key != (ilnp.SessionKey{Local: e.LocalNID, Remote: e.RemoteNID}) {
		f |= decide.ByAlias
		if e.Named {
			f |= decide.Named
		}
	}
	if e.Holds {
		f |= decide.ByAlias // and not Named: the programs then hold every other nonce
	}
	for flag, is := range map[decide.Flags]bool{
		decide.Dead: e.Dead, decide.NonceAlways: e.NonceAlways, decide.Encap: e.Encap,
		decide.Unconfirmed: e.Unconfirmed, decide.Unrecorded: e.Unrecorded, decide.Preinstalled: e.Preinstalled, decide.PerFlow: e.PerFlow, decide.Placed: isPlaced(e),
		decide.Counted: e.Counted, decide.Ruled: e.Rules.Mask != 0, decide.Answers: e.Answers,
	} {
		if is {
			f |= flag
		}
	}
	return f
}

// collisionKeys returns the keys that distinguish the packets of a peer from those of others
// with the same NID, if its alias differs from its NID: its nonce, and the locators where it
// was validated.
func collisionKeys(e ilnp.Entry) (ks []decide.CollisionKey) {
	if e.Key == (ilnp.SessionKey{Local: e.LocalNID, Remote: e.RemoteNID}) {
		return nil
	}
	if e.RemoteNonce.Present() {
		ks = append(ks, decide.NonceKey(e.LocalNID, e.RemoteNID, e.RemoteNonce))
	}
	for _, l := range e.Validated {
		ks = append(ks, decide.CollisionKey{Local: e.LocalNID, Remote: roam.ILV{L64: l, NID: e.RemoteNID}})
	}
	return ks
}
