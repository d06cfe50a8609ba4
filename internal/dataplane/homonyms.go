package dataplane

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
)

// homonymTable is what the map of that name holds: which session a packet belongs to
// that bears an NID which several correspondents claim.
type homonymTable struct {
	of    map[ilnp.PairKey][]bpfHomonymKey
	owner map[bpfHomonymKey]ilnp.PairKey
}

// adoptHomonyms reads the map that an earlier process left.
func (p *Plane) adoptHomonyms() error {
	p.homonyms = homonymTable{of: make(map[ilnp.PairKey][]bpfHomonymKey), owner: make(map[bpfHomonymKey]ilnp.PairKey)}
	var key bpfHomonymKey
	var handle bpfPairKey
	it := p.objs.Homonyms.Iterate()
	for it.Next(&key, &handle) {
		p.homonyms.note(key, handle.key())
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read map of namesakes: %w", err)
	}
	return nil
}

func (t *homonymTable) note(key bpfHomonymKey, k ilnp.PairKey) {
	t.drop(key)
	t.owner[key], t.of[k] = k, append(t.of[k], key)
}

func (t *homonymTable) drop(key bpfHomonymKey) {
	k, ok := t.owner[key]
	if !ok {
		return
	}
	delete(t.owner, key)
	if t.of[k] = slices.DeleteFunc(t.of[k], func(o bpfHomonymKey) bool { return o == key }); len(t.of[k]) == 0 {
		delete(t.of, k)
	}
}

// forget removes what leads to a session.
func (t *homonymTable) forget(m *ebpf.Map, k ilnp.PairKey) {
	for _, key := range slices.Clone(t.of[k]) {
		_ = m.Delete(&key) // nobody asks for it any more
		t.drop(key)
	}
}

// setHomonyms tells correspondents with one NID apart by their nonces, and by the
// locators where they were validated: only sessions whose aliases are not their NIDs
// are listed. What is listed anew comes before what is not listed any more goes: in
// between, packets would be taken for those of the session whose alias is that NID.
// Where the map is full, packets from there need a nonce. DEVIATION from RFC 6741 §5.4,
// see docs/rfc/rfc6741.md: locators that are only announced are not listed.
func (p *Plane) setHomonyms(pair ilnp.Pair, row bpfPair) error {
	old := slices.Clone(p.homonyms.of[pair.Key])
	if !byHandle(row) {
		p.homonyms.forget(p.objs.Homonyms, pair.Key)
		return nil
	}
	if err := p.noteHomonyms(); err != nil {
		return err
	}
	handle, now := pairKey(pair.Key), homonymKeys(row, pair.Proven)
	for _, k := range now {
		if p.homonyms.owner[k] == pair.Key {
			continue
		}
		err := p.objs.Homonyms.Put(&k, &handle)
		if errors.Is(err, unix.E2BIG) {
			break
		}
		if err != nil {
			return fmt.Errorf("note namesake %s: %w", pair.RemoteNID, err)
		}
		p.homonyms.note(k, pair.Key)
	}
	for _, k := range old {
		if slices.Contains(now, k) {
			continue
		}
		if err := p.objs.Homonyms.Delete(&k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget namesake %s: %w", pair.RemoteNID, err)
		}
		p.homonyms.drop(k)
	}
	return nil
}

// nonceKey is NONCE_KEY of types.h.
const nonceKey = 0xff

// homonymKeys returns the keys under which a correspondent is found: one for its
// nonce, and one for each locator where it was validated.
func homonymKeys(row bpfPair, proven []roam.L64) []bpfHomonymKey {
	var ks []bpfHomonymKey
	if row.RemoteNonce.Len > 0 {
		k := bpfHomonymKey{LocalNid: row.LocalNid, Remote: bpfAddr{L64: bpfHalf{B: [8]uint8{nonceKey}}, Nid: row.RemoteNid}}
		copy(k.Remote.L64.B[1:], row.RemoteNonce.B[:])
		ks = append(ks, k)
	}
	for _, l := range proven {
		ks = append(ks, bpfHomonymKey{LocalNid: row.LocalNid, Remote: bpfAddr{L64: half(uint64(l)), Nid: row.RemoteNid}})
	}
	return ks
}
