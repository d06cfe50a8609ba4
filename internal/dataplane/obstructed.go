package dataplane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"roam"
)

// Obstruction is a path along which the programs must not answer by themselves, since
// a policy of this host takes packets elsewhere. The zero To is every destination.
type Obstruction struct {
	From roam.L64
	To   roam.ILV
}

func (o Obstruction) key() bpfObstructionKey {
	k := bpfObstructionKey{LocalL64: half(uint64(o.From))}
	k.Remote.L64, k.Remote.Nid = half(uint64(o.To.L64)), half(uint64(o.To.NID))
	return k
}

// SetObstructed writes the whole table. What is new comes before what is no more goes.
func (p *Plane) SetObstructed(list []Obstruction) error {
	if err := p.readObstructed(); err != nil {
		return err
	}
	wanted := make(map[Obstruction]bool, len(list))
	var failed error
	for _, o := range list {
		wanted[o] = true
		if p.obstructed[o] {
			continue
		}
		k := o.key()
		if err := p.objs.Obstructed.Put(&k, uint8(1)); err != nil {
			failed = fmt.Errorf("note obstructed path: %w", err)
			continue
		}
		p.obstructed[o] = true
	}
	if err := p.setHostFlag(bpfHostFlagsHOST_OBSTRUCTED, len(wanted) > 0); err != nil {
		return errors.Join(failed, err)
	}
	for o := range p.obstructed {
		if wanted[o] {
			continue
		}
		k := o.key()
		if err := p.objs.Obstructed.Delete(&k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			failed = errors.Join(failed, fmt.Errorf("forget obstructed path: %w", err))
		}
		delete(p.obstructed, o)
	}
	return failed
}

// readObstructed takes over what an earlier process wrote.
func (p *Plane) readObstructed() error {
	if p.obstructed != nil {
		return nil
	}
	found := make(map[Obstruction]bool)
	var k bpfObstructionKey
	var v uint8
	each := p.objs.Obstructed.Iterate()
	for each.Next(&k, &v) {
		to := roam.ILV{L64: roam.L64(k.Remote.L64.uint64()), NID: roam.NID(k.Remote.Nid.uint64())}
		found[Obstruction{From: roam.L64(k.LocalL64.uint64()), To: to}] = true
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read obstructed paths: %w", err)
	}
	p.obstructed = found
	return nil
}

// setHostFlag sets or clears a flag of the host.
func (p *Plane) setHostFlag(flag bpfHostFlags, on bool) error {
	var h bpfHost
	if err := p.objs.Hosts.Lookup(uint32(0), &h); err != nil {
		return fmt.Errorf("read host map: %w", err)
	}
	if on == (h.Flags&flag != 0) {
		return nil
	}
	h.Flags ^= flag
	if err := p.objs.Hosts.Put(uint32(0), &h); err != nil {
		return fmt.Errorf("write host map: %w", err)
	}
	return nil
}
