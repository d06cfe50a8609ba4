package ilnphost

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/ilnp"
)

// acceptedKey names one of the places that a session's packets may come from
// besides those that its entry has room for.
func acceptedKey(row bpfSessionEntry, l bpfHalf) bpfAllowanceKey {
	return bpfAllowanceKey{L64: l, Slot: row.Slot, Birth: row.Birth}
}

// addAccepted lists further places before the entry says that there are any, and returns
// which are listed. When the table is full the others are left out: packets from there
// need a nonce.
func (p *Plane) addAccepted(k ilnp.SessionKey, old, row bpfSessionEntry, more []bpfHalf) ([]bpfHalf, error) {
	there := make(map[bpfHalf]bool)
	if old.Slot == row.Slot && old.Birth == row.Birth {
		for _, l := range p.more[k] {
			there[l] = true
		}
	}
	listed := make([]bpfHalf, 0, len(more))
	for _, l := range more {
		if !there[l] {
			key := acceptedKey(row, l)
			err := p.objs.Sources.Put(&key, uint8(1))
			if errors.Is(err, unix.E2BIG) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("note further locator: %w", err)
			}
		}
		listed = append(listed, l)
	}
	return listed, nil
}

// keepAccepted forgets those of the entry before that the present one has not,
// and remembers the present ones.
func (p *Plane) keepAccepted(k ilnp.SessionKey, old, row bpfSessionEntry, more []bpfHalf) {
	keep := make(map[bpfHalf]bool, len(more))
	for _, l := range more {
		keep[l] = true
	}
	for _, l := range p.more[k] {
		if old.Slot != row.Slot || old.Birth != row.Birth || !keep[l] {
			key := acceptedKey(old, l)
			_ = p.objs.Sources.Delete(&key) // nobody asks for it any more
		}
	}
	if len(more) == 0 {
		delete(p.more, k)
		return
	}
	p.more[k] = more
}

// adoptAccepted gives the sessions of an earlier process their further places,
// and forgets those of sessions that are no more.
func (p *Plane) adoptAccepted() error {
	owner := make(map[[2]uint32]ilnp.SessionKey, len(p.known))
	for k, row := range p.known {
		owner[[2]uint32{row.Slot, row.Birth}] = k
	}
	var key bpfAllowanceKey
	var val uint8
	var orphans []bpfAllowanceKey
	it := p.objs.Sources.Iterate()
	for it.Next(&key, &val) {
		if k, ok := owner[[2]uint32{key.Slot, key.Birth}]; ok {
			p.more[k] = append(p.more[k], key.L64)
		} else {
			orphans = append(orphans, key)
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read map of further locators: %w", err)
	}
	for _, o := range orphans {
		if err := p.objs.Sources.Delete(&o); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget further locator: %w", err)
		}
	}
	return nil
}
