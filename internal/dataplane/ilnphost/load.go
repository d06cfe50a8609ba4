package ilnphost

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"github.com/cilium/ebpf"

	"roam/internal/dataplane"
)

// load loads the programs that every host needs, and opens or makes the maps.
func (p *Plane) load() error {
	spec, err := p.spec()
	if err != nil {
		return err
	}
	delete(spec.Programs, "ilnp_rawlink_egress")
	delete(spec.Programs, "ilnp_rawlink_ingress")
	return p.set.Load(spec, ABI, &p.objs)
}

// loadRaw loads the programs for links without a MAC header, when the first such link
// is there: the kernel takes as long over them as over the others.
func (p *Plane) loadRaw() error {
	if p.raw.IlnpRawlinkIngress != nil {
		return nil
	}
	spec, err := p.spec()
	if err != nil {
		return err
	}
	dataplane.Shorten(spec)
	if err := spec.LoadAndAssign(&p.raw, &ebpf.CollectionOptions{MapReplacements: mapsByName(&p.objs.bpfMaps)}); err != nil {
		return fmt.Errorf("load eBPF programs: %w", err)
	}
	return nil
}

// spec returns maps and programs as this plane wants them.
func (p *Plane) spec() (*ebpf.CollectionSpec, error) {
	spec, err := loadBpf()
	if err != nil {
		return nil, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	sessions := cmp.Or(p.opts.Sessions, DefaultSessions)
	resize(spec, sessions)
	for name, v := range map[string]any{
		"csum_flags": p.csumFlags,
		"summed_at":  p.summed.At, "summed_shift": p.summed.Shift,
		"tick_ns":        uint64(dataplane.TickLength()),
		"silence_after":  uint64(cmp.Or(p.opts.Silence, 2*time.Second)),
		"index_mask":     buckets(sessions) - 1,
		"loads_in_order": runtime.GOARCH == "amd64",
		"label_bit":      p.opts.LabelBit,
		"encap_port":     p.opts.EncapPort<<8 | p.opts.EncapPort>>8, // the bytes as on the wire
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s of eBPF programs: %w", name, err)
		}
	}
	return spec, nil
}
