package ilnphost

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"roam/ilnp"
	"roam/multipath"
)

// pathSets is which paths connections take, by bucket, as bits of the paths of an entry.
type pathSets [multipath.Buckets]uint16

// flowTables is what was written of the tables of connections. A table that cannot be written is
// none: the connections of its session keep to one short path each.
type flowTables struct {
	m       *ebpf.Map
	written map[bpfSlotUser]pathSets
}

// isPlaced reports whether the TCP connections of a session go by a table.
func isPlaced(entry ilnp.Entry) bool { return len(entry.Long) > 0 && !entry.PerFlow }

func userOf(row bpfSessionEntry) bpfSlotUser { return bpfSlotUser{Slot: row.Slot, Birth: row.Birth} }

// adopt takes over the tables of an earlier process, but for those of sessions that are no more.
func (t *flowTables) adopt(m *ebpf.Map, known map[ilnp.SessionKey]bpfSessionEntry) error {
	t.m, t.written = m, make(map[bpfSlotUser]pathSets)
	live := make(map[bpfSlotUser]bool)
	for _, row := range known {
		live[userOf(row)] = row.Flags&bpfEntryFlagsENTRY_PLACED != 0
	}
	var user bpfSlotUser
	var row bpfFlowTable
	var gone []bpfSlotUser
	each := m.Iterate()
	for each.Next(&user, &row) {
		if t.written[user] = row.Paths; !live[user] {
			gone = append(gone, user)
		}
	}
	for _, user := range gone {
		t.forget(user)
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read tables of connections: %w", err)
	}
	return nil
}

// set writes the table of a session whose entry is about to be published. What was counted stays.
func (t *flowTables) set(u *uplinkTable, entry ilnp.Entry, row *bpfSessionEntry) error {
	if !isPlaced(entry) {
		return nil
	}
	sets, user := u.pathSets(entry, row), userOf(*row)
	if was, there := t.written[user]; there && was == sets {
		return nil
	}
	var table bpfFlowTable
	if err := t.m.Lookup(&user, &table); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read table of connections: %w", err)
	}
	table.Paths = sets
	clear(table.Turns.Bytes[:])
	if err := t.m.Put(&user, &table); err != nil {
		return fmt.Errorf("write table of connections: %w", err)
	}
	t.written[user] = sets
	return nil
}

// pathSets returns the table of an entry, whose row has its paths already.
func (t *uplinkTable) pathSets(entry ilnp.Entry, row *bpfSessionEntry) (sets pathSets) {
	short := (uint16(1)<<row.N_paths - 1) &^ row.LongPaths
	for b := range sets {
		sets[b] = short
		path, placed := entry.Placed[uint8(b)]
		for i := range row.N_paths {
			if placed && t.isPath(row, row.Paths[i], path) {
				sets[b] = 1 << i
			}
		}
	}
	return sets
}

// follow removes the table that a session had, unless it has one under the same name now.
func (t *flowTables) follow(old, now bpfSessionEntry) {
	placed := now.Flags&bpfEntryFlagsENTRY_PLACED != 0
	if _, there := t.written[userOf(old)]; there && (!placed || userOf(old) != userOf(now)) {
		t.forget(userOf(old))
	}
}

func (t *flowTables) forget(user bpfSlotUser) {
	delete(t.written, user)
	_ = t.m.Delete(&user) // one that stays has no reader, and the next start removes it
}

// sent returns what the connections of a session have sent; nil: it has no table of them.
func (t *flowTables) sent(row bpfSessionEntry) *multipath.Flows {
	user := userOf(row)
	if _, there := t.written[user]; !there || row.Flags&bpfEntryFlagsENTRY_PLACED == 0 {
		return nil
	}
	var table bpfFlowTable
	if t.m.Lookup(&user, &table) != nil {
		return nil
	}
	f := multipath.Flows(table.Bytes)
	return &f
}
