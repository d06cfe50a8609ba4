package ilnphost

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"

	"roam/ilnp"
)

// updateKeys is which keys of MACs were written. A key that cannot be written is none: then only
// the daemon checks the updates of its session.
type updateKeys struct {
	m       *ebpf.Map
	written map[bpfSlotUser][2]uint64
}

// adopt takes over the keys of an earlier process, but for those of sessions that are no more.
func (t *updateKeys) adopt(m *ebpf.Map, known map[ilnp.SessionKey]bpfSessionEntry) error {
	t.m, t.written = m, make(map[bpfSlotUser][2]uint64)
	live := make(map[bpfSlotUser]bool)
	for _, row := range known {
		live[userOf(row)] = true
	}
	var user bpfSlotUser
	var row bpfUpdateKey
	var gone []bpfSlotUser
	each := m.Iterate()
	for each.Next(&user, &row) {
		if t.written[user] = row.Key; !live[user] {
			gone = append(gone, user)
		}
	}
	for _, user := range gone {
		t.forget(user)
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read keys of updates: %w", err)
	}
	return nil
}

// set writes the key of a session, with the counter of the newest update that the daemon has
// accepted. What the programs have noted for the same key stays.
func (t *updateKeys) set(entry ilnp.Entry, row bpfSessionEntry) error {
	user, key := userOf(row), macWords(entry.MACKey)
	was, there := t.written[user]
	switch {
	case key == [2]uint64{}:
		if there {
			t.forget(user)
		}
		return nil
	case there && was == key:
		return nil
	}
	if err := t.m.Put(&user, &bpfUpdateKey{Key: key, Counter: entry.MACCounter}); err != nil {
		return fmt.Errorf("write key of updates: %w", err)
	}
	t.written[user] = key
	return nil
}

// macWords returns a key as the programs load it.
func macWords(key [16]byte) [2]uint64 {
	return [2]uint64{binary.NativeEndian.Uint64(key[:]), binary.NativeEndian.Uint64(key[8:])}
}

// follow removes the key that a session had under another name.
func (t *updateKeys) follow(old, now bpfSessionEntry) {
	if _, there := t.written[userOf(old)]; there && userOf(old) != userOf(now) {
		t.forget(userOf(old))
	}
}

func (t *updateKeys) forget(user bpfSlotUser) {
	delete(t.written, user)
	_ = t.m.Delete(&user) // one that stays has no reader, and the next start removes it
}
