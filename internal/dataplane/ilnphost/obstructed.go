package ilnphost

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"roam"
)

// Obstruction is a path that a policy of this host may obstruct: then the programs must
// not answer along it by themselves. The zero To stands for all paths from a locator
// that are not listed.
type Obstruction struct {
	From roam.L64
	To   roam.ILV
}

func (o Obstruction) key() bpfObstructionKey {
	k := bpfObstructionKey{LocalL64: half(uint64(o.From))}
	k.Remote.L64, k.Remote.Nid = half(uint64(o.To.L64)), half(uint64(o.To.NID))
	return k
}

// SetObstructed writes the whole table: whether each path is obstructed. What is new
// comes before what is no more goes.
func (p *Plane) SetObstructed(table map[Obstruction]bool) error {
	if err := p.readObstructed(); err != nil {
		return err
	}
	var failed error
	for o, obstructed := range table {
		if was, there := p.obstructed[o]; there && was == obstructed {
			continue
		}
		k, v := o.key(), uint8(0)
		if obstructed {
			v = 1
		}
		if err := p.objs.Obstructed.Put(&k, v); err != nil {
			failed = fmt.Errorf("note obstructed path: %w", err)
			continue
		}
		p.obstructed[o] = obstructed
	}
	if err := p.setHostFlag(bpfHostFlagsHOST_OBSTRUCTED, len(table) > 0); err != nil {
		return errors.Join(failed, err)
	}
	for o := range p.obstructed {
		if _, wanted := table[o]; wanted {
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
		found[Obstruction{From: roam.L64(k.LocalL64.uint64()), To: to}] = v != 0
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read obstructed paths: %w", err)
	}
	p.obstructed = found
	return nil
}

// setHostFlag sets or clears a flag of the host.
func (p *Plane) setHostFlag(flag bpfHostFlags, on bool) error {
	return p.changeHost(func(h *bpfHost) error {
		if h.Flags &^= flag; on {
			h.Flags |= flag
		}
		return nil
	})
}
