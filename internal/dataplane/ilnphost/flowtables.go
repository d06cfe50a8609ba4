package ilnphost

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/ilnp"
	"roam/multipath"
)

// tableSets is what the daemon writes of a table of flows, by the paths of an entry.
type tableSets struct {
	alone   uint64
	crossed uint64
	several uint16
	across  uint16
	longs   uint16
	waits   [len(bpfFlowTable{}.Waits)]uint16
	ways    [multipath.Buckets]uint8
	costs   [ilnp.MaxPaths]uint16
	counts  bool // bytes are counted in it
}

// flowTables is what was written of the tables of flows: those of each entry by their numbers. An entry has its own
// ones, as they name its paths by their places there, and programs take an entry and its tables at different moments. A
// table that cannot be written is none: the flows take any path.
type flowTables struct {
	m       *ebpf.Map
	written map[tableUser]map[uint32]tableSets
}

// crossMost is the greatest gap in ms, of a way by two satellites.
const crossMost = 2000

// tableUser is the entry of a session that has used a slot.
type tableUser struct{ slot, birth, seq uint32 }

func tableUserOf(row bpfSessionEntry) tableUser { return tableUser{row.Slot, row.Birth, row.Seq} }

// isPlaced reports whether the TCP connections of a session take the paths of their buckets.
func isPlaced(entry ilnp.Entry) bool { return len(entry.Long) > 0 && !entry.PerFlow }

func userOf(row bpfSessionEntry) bpfSlotUser { return bpfSlotUser{Slot: row.Slot, Birth: row.Birth} }

func tableKey(user tableUser, number uint32) bpfTableKey {
	return bpfTableKey{Slot: user.slot, Birth: user.birth, Seq: user.seq, Table: number}
}

// adopt takes over the tables of an earlier process, but for those of entries that are no more.
func (t *flowTables) adopt(m *ebpf.Map, known map[ilnp.SessionKey]bpfSessionEntry) error {
	t.m, t.written = m, make(map[tableUser]map[uint32]tableSets)
	placed := make(map[tableUser]bool)
	for _, row := range known {
		placed[tableUserOf(row)] = row.Flags&bpfEntryFlagsENTRY_PLACED != 0
	}
	var key bpfTableKey
	var row bpfFlowTable
	var gone []bpfTableKey
	each := m.Iterate()
	for each.Next(&key, &row) {
		user := tableUser{key.Slot, key.Birth, key.Seq}
		counts, live := placed[user]
		if !live {
			gone = append(gone, key)
			continue
		}
		t.note(user, key.Table, setsOf(row, counts && key.Table == 0))
	}
	for _, key := range gone {
		_ = m.Delete(&key) // one that stays has no reader, and the next start removes it
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read tables of flows: %w", err)
	}
	return nil
}

func (t *flowTables) note(user tableUser, number uint32, sets tableSets) {
	if t.written[user] == nil {
		t.written[user] = make(map[uint32]tableSets)
	}
	t.written[user][number] = sets
}

// wanted returns the tables of a session whose row has all its paths.
func (t *flowTables) wanted(u *uplinkTable, entry ilnp.Entry, row *bpfSessionEntry) map[uint32]tableSets {
	wanted := make(map[uint32]tableSets)
	if sets, ok := u.tableSets(entry.Table, row); ok {
		sets.counts = isPlaced(entry)
		wanted[0] = sets
	}
	for i, table := range entry.RuleTables {
		if sets, ok := u.tableSets(table, row); ok {
			wanted[1+entry.Rules.Set&1*maxRules+uint32(i)] = sets
		}
	}
	return wanted
}

// set writes the tables of an entry that is about to be published in place of an old one. What was counted stays.
func (t *flowTables) set(wanted map[uint32]tableSets, old, row bpfSessionEntry) error {
	before, user := tableUserOf(old), tableUserOf(row)
	var errs []error
	for number, sets := range wanted {
		was, there := t.written[before][number]
		if there && was == sets && user == before {
			continue
		}
		from, key := tableKey(before, number), tableKey(user, number)
		var table bpfFlowTable
		if there && was.counts && old.Birth == row.Birth {
			if err := t.m.Lookup(&from, &table); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				errs = append(errs, fmt.Errorf("read table of flows: %w", err))
				continue
			}
		}
		sets.fill(&table)
		clear(table.Turns.Bytes[:])
		if err := t.m.Put(&key, &table); errors.Is(err, unix.E2BIG) {
			continue // without a table its flows take turns, and those of rules go as without one
		} else if err != nil {
			errs = append(errs, fmt.Errorf("write table of flows: %w", err))
			continue
		}
		t.note(user, number, sets)
	}
	return errors.Join(errs...)
}

// cross writes which long paths there are, given the bit of each path of the table.
func (s *tableSets) cross(table *ilnp.Table, at [multipath.TableMost]uint16) {
	for bit := range uint16(ilnp.MaxPaths) { // in this order programs look for them
		k := slices.Index(at[:], 1<<bit)
		if n := bits.OnesCount16(s.longs); k >= 0 && table.Longs>>k&1 != 0 && n < len(s.waits) {
			s.longs |= 1 << bit
			s.waits[n] = uint16(min(table.Waits[k].Milliseconds(), crossMost))
		}
	}
}

// setsOf returns what the daemon has written of a table.
func setsOf(row bpfFlowTable, counts bool) tableSets {
	return tableSets{row.Alone, row.Crossed, row.Several, row.Across, row.Longs, row.Waits, row.Ways,
		row.Costs, counts}
}

func (s tableSets) fill(row *bpfFlowTable) {
	row.Alone, row.Crossed, row.Several, row.Across = s.alone, s.crossed, s.several, s.across
	row.Longs, row.Waits, row.Ways, row.Costs = s.longs, s.waits, s.ways, s.costs
}

// tableSets returns a table by the paths of an entry, whose row has its paths already; false: none of them is
// in the table.
func (t *uplinkTable) tableSets(table *ilnp.Table, row *bpfSessionEntry) (s tableSets, ok bool) {
	if table == nil {
		return s, false
	}
	var at [multipath.TableMost]uint16 // of each path of the table, its bit
	all := uint16(0)
	for k, path := range table.Paths {
		for i := range row.N_paths + row.N_reserve + row.N_ruled {
			if at[k] == 0 && t.isPath(row, row.Paths[i], path) {
				at[k], s.costs[i] = 1<<i, table.Costs[k]
				all |= at[k]
			}
		}
	}
	if all == 0 {
		return s, false
	}
	placed := func(of uint16) (set uint16) {
		for k := range table.Paths {
			set |= of >> k & 1 * at[k]
		}
		return set
	}
	var sets [multipath.Buckets]uint16
	for b, of := range table.Sets {
		switch sets[b] = placed(of); {
		case bits.OnesCount16(sets[b]) < 2:
		case of == table.Across:
			s.crossed |= 1 << b
			s.across |= sets[b]
		default: // all these buckets have the same paths
			s.several |= sets[b]
		}
	}
	s.cross(table, at)
	for b, set := range sets {
		if set == 0 { // its paths are gone: it joins the others, or takes one
			set = cmp.Or(s.several, all&-all)
		}
		only := bits.TrailingZeros16(set)
		if set == 1<<only {
			s.alone |= 1 << b
		}
		home := only // first segments take a path also where none is sure
		if k := int(table.Homes[b]); k < len(table.Paths) && at[k] != 0 {
			home = bits.TrailingZeros16(at[k])
		}
		s.ways[b] = uint8(only<<4 | home)
	}
	return s, true
}

// follow removes the tables of an entry, but those that belong to the present one of its session.
func (t *flowTables) follow(old, now bpfSessionEntry, wanted map[uint32]tableSets) {
	user := tableUserOf(old)
	for number := range t.written[user] {
		if _, stays := wanted[number]; stays && user == tableUserOf(now) {
			continue
		}
		delete(t.written[user], number)
		key := tableKey(user, number)
		_ = t.m.Delete(&key) // as in adopt
	}
	if len(t.written[user]) == 0 {
		delete(t.written, user)
	}
}

// has reports whether an entry has a table.
func (t *flowTables) has(row bpfSessionEntry, number uint32) bool {
	_, has := t.written[tableUserOf(row)][number]
	return has
}

// Flows returns what the TCP connections of a session have sent; nil: that is not counted.
func (p *Plane) Flows(k ilnp.SessionKey) *multipath.Flows { return p.tables.sent(p.known[k]) }

// sent returns what the connections of a session have sent; nil: that is not counted.
func (t *flowTables) sent(row bpfSessionEntry) *multipath.Flows {
	user := tableUserOf(row)
	if !t.written[user][0].counts || row.Flags&bpfEntryFlagsENTRY_PLACED == 0 {
		return nil
	}
	key := tableKey(user, 0)
	var table bpfFlowTable
	if t.m.Lookup(&key, &table) != nil {
		return nil
	}
	f := multipath.Flows(table.Bytes)
	return &f
}
