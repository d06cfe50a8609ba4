package ilnphost

import (
	"cmp"
	"math/bits"
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
		s.Costs |= uint64(e.Costs[path]&15) << (4 * s.NPaths)
		s.NPaths++
	}
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
	p.tables(e, s)
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

// isPlaced reports whether TCP connections take the paths of their buckets.
func isPlaced(e ilnp.Entry) bool { return len(e.Long) > 0 && !e.PerFlow }

// tables gives a session whose paths are written its tables. What was counted stays, and so does whose turn
// it is in a table that says the same as before.
func (p *plane) tables(e ilnp.Entry, s *decide.Session) {
	var old *decide.Session
	if was := p.entries[e.Key]; was != nil {
		old = was.session
	}
	if s.Table = p.table(e.Table, s); s.Table != nil && old != nil && old.Table != nil {
		if keepTurns(s.Table, old.Table); isPlaced(e) && old.Flags&decide.Placed != 0 {
			s.Table.Bytes = old.Table.Bytes
		}
	}
	s.Rules, s.RuleTables = uint32(e.Rules.Mask), make(map[int]*decide.FlowTable)
	for i, t := range e.RuleTables {
		if s.RuleTables[i] = p.table(t, s); old != nil && s.RuleTables[i] != nil && old.RuleTables[i] != nil {
			keepTurns(s.RuleTables[i], old.RuleTables[i])
		}
	}
}

// table converts a table, as the daemon does; nil: none of its paths is there.
func (p *plane) table(table *ilnp.Table, s *decide.Session) *decide.FlowTable {
	if table == nil {
		return nil
	}
	t, at, all := &decide.FlowTable{}, make([]uint16, len(table.Paths)), uint16(0)
	for k, path := range table.Paths {
		row, known := p.rows[path.Local]
		for i, there := range s.Paths[:s.NPaths+s.NReserve+s.NRuled] {
			if known && at[k] == 0 && row == there.Uplink && s.Remote[there.Remote] == path.Remote {
				at[k], t.Costs[i] = 1<<i, table.Costs[k]
				all |= at[k]
			}
		}
	}
	if all == 0 {
		return nil
	}
	placed := func(of uint16) (set uint16) {
		for k := range at {
			set |= of >> k & 1 * at[k]
		}
		return set
	}
	cross(t, table, at)
	for b, of := range table.Sets {
		set := placed(of)
		if set == 0 {
			set = all
		}
		only := bits.TrailingZeros16(set)
		switch {
		case set == 1<<only:
			t.Alone |= 1 << b
		case of == table.Across:
			t.Crossed |= 1 << b
			t.Across |= set
		default:
			t.Several |= set
		}
		home := only
		if k := int(table.Homes[b]); k < len(at) && at[k] != 0 {
			home = bits.TrailingZeros16(at[k])
		}
		t.Ways[b] = uint8(only<<4 | home)
	}
	return t
}

// cross writes which long paths there are, given the bit of each path of the table.
func cross(t *decide.FlowTable, table *ilnp.Table, at []uint16) {
	for bit := range decide.MaxPaths {
		k := slices.Index(at, 1<<bit)
		if n := bits.OnesCount16(t.Longs); k >= 0 && table.Longs>>k&1 != 0 && n < len(t.Waits) {
			t.Longs |= 1 << bit
			t.Waits[n] = uint16(table.Waits[k].Milliseconds())
		}
	}
}

func keepTurns(t, old *decide.FlowTable) {
	same := t.Alone == old.Alone && t.Several == old.Several && t.Crossed == old.Crossed && t.Across == old.Across
	if same && t.Ways == old.Ways && t.Costs == old.Costs {
		t.Turns = old.Turns
	}
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
	for _, flag := range [...]struct {
		is   bool
		flag decide.Flags
	}{
		{e.Dead, decide.Dead}, {e.NonceAlways, decide.NonceAlways}, {e.Encap, decide.Encap},
		{e.Unconfirmed, decide.Unconfirmed}, {e.Unrecorded, decide.Unrecorded}, {e.Preinstalled, decide.Preinstalled},
		{e.PerFlow, decide.PerFlow}, {isPlaced(e), decide.Placed}, {e.IsCut(), decide.Cut},
		{e.Counted, decide.Counted},
		{e.Rules.Mask != 0, decide.Ruled}, {e.Answers, decide.Answers},
	} {
		if flag.is {
			f |= flag.flag
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
