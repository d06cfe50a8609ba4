package ilnphost

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
)

// collisionTable is what the map of that name holds: which session a packet belongs to
// that bears an NID which several correspondents claim.
type collisionTable struct {
	of    map[ilnp.SessionKey][]bpfCollisionKey
	owner map[bpfCollisionKey]ilnp.SessionKey
}

// adoptCollisions reads the map that an earlier process left.
func (p *Plane) adoptCollisions() error {
	p.collisions = collisionTable{of: make(map[ilnp.SessionKey][]bpfCollisionKey), owner: make(map[bpfCollisionKey]ilnp.SessionKey)}
	var key bpfCollisionKey
	var alias bpfSessionKey
	it := p.objs.NidCollisions.Iterate()
	for it.Next(&key, &alias) {
		p.collisions.note(key, alias.key())
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read map nid_collisions: %w", err)
	}
	return nil
}

func (t *collisionTable) note(key bpfCollisionKey, k ilnp.SessionKey) {
	t.drop(key)
	t.owner[key], t.of[k] = k, append(t.of[k], key)
}

func (t *collisionTable) drop(key bpfCollisionKey) {
	k, ok := t.owner[key]
	if !ok {
		return
	}
	delete(t.owner, key)
	if t.of[k] = slices.DeleteFunc(t.of[k], func(o bpfCollisionKey) bool { return o == key }); len(t.of[k]) == 0 {
		delete(t.of, k)
	}
}

// forget removes what leads to a session.
func (t *collisionTable) forget(m *ebpf.Map, k ilnp.SessionKey) {
	for _, key := range slices.Clone(t.of[k]) {
		_ = m.Delete(&key) // nobody asks for it any more
		t.drop(key)
	}
}

// setCollisions tells correspondents with one NID apart by their nonces, and by the
// locators where they were validated: only sessions whose aliases are not their NIDs
// are listed. What is listed anew comes before what is not listed any more goes: in
// between, packets would be taken for those of the session whose alias is that NID.
// Where the map is full, packets from there need a nonce. DEVIATION from RFC 6741 §5.4,
// see docs/rfc/rfc6741.md: locators that are only announced are not listed.
func (p *Plane) setCollisions(entry ilnp.Entry, row bpfSessionEntry) error {
	old := slices.Clone(p.collisions.of[entry.Key])
	if !byAlias(row) {
		p.collisions.forget(p.objs.NidCollisions, entry.Key)
		return nil
	}
	// The programs ask for such peers, which they do for no packet as long as there never were any.
	if err := p.setHostFlag(bpfHostFlagsHOST_NID_COLLISIONS, true); err != nil {
		return err
	}
	alias, now := sessionKey(entry.Key), collisionKeys(row, entry.Validated)
	for _, k := range now {
		if p.collisions.owner[k] == entry.Key {
			continue
		}
		err := p.objs.NidCollisions.Put(&k, &alias)
		if errors.Is(err, unix.E2BIG) {
			break
		}
		if err != nil {
			return fmt.Errorf("note NID collision %s: %w", entry.RemoteNID, err)
		}
		p.collisions.note(k, entry.Key)
	}
	for _, k := range old {
		if slices.Contains(now, k) {
			continue
		}
		if err := p.objs.NidCollisions.Delete(&k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget NID collision %s: %w", entry.RemoteNID, err)
		}
		p.collisions.drop(k)
	}
	return nil
}

// noLocator is NO_LOCATOR of types.h.
const noLocator = 0xff

// collisionKeys returns the keys under which a correspondent is found: one for its
// nonce, and one for each locator where it was validated.
func collisionKeys(row bpfSessionEntry, validated []roam.L64) []bpfCollisionKey {
	var ks []bpfCollisionKey
	if row.RemoteNonce.Len > 0 {
		k := bpfCollisionKey{LocalNid: row.LocalNid, Remote: bpfAddr{L64: bpfHalf{B: [8]uint8{noLocator}}, Nid: row.RemoteNid}}
		copy(k.Remote.L64.B[1:], row.RemoteNonce.B[:])
		ks = append(ks, k)
	}
	for _, l := range validated {
		ks = append(ks, bpfCollisionKey{LocalNid: row.LocalNid, Remote: bpfAddr{L64: half(uint64(l)), Nid: row.RemoteNid}})
	}
	return ks
}
