package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
)

// load loads the objects; pinned maps that do not fit this build are unpinned
// first. What is attached stays so, with the programs and maps of the build
// before, until attach replaces it: without any, packets of sessions would reach
// the stack untranslated, and be answered with resets.
func (p *Plane) load() error {
	p.csumFlags = checksumFlags()
	err := p.loadOnce()
	if err == nil && p.pinnedABI() == ABI {
		return nil
	}
	if err != nil && !errors.Is(err, ebpf.ErrMapIncompatible) {
		return err
	}
	p.objs.Close()
	p.remade = true
	if err := removePins(p.opts.PinDir, func(name string) bool { return !strings.HasPrefix(name, linkPrefix) }); err != nil {
		return err
	}
	return p.loadOnce()
}

func (p *Plane) loadOnce() error {
	spec, err := p.spec()
	if err != nil {
		return err
	}
	delete(spec.Programs, "ilnp_rawlink_egress")
	delete(spec.Programs, "ilnp_rawlink_ingress")
	all, err := loadCollection(spec, p.opts.PinDir)
	if err == nil {
		err = all.Assign(&p.objs)
		all.Close() // what was not assigned: the constants, which the programs hold
	}
	if err != nil {
		return fmt.Errorf("load eBPF programs: %w", err)
	}
	return nil
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
		"index_mask": buckets(sessions) - 1,
		"encap_port": p.opts.EncapPort<<8 | p.opts.EncapPort>>8, // the bytes as on the wire
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s of eBPF programs: %w", name, err)
		}
	}
	return spec, nil
}

// pinnedABI returns the number in the host map: 0 for a fresh one counts as
// ours.
func (p *Plane) pinnedABI() uint32 {
	var h bpfHost
	if err := p.objs.Hosts.Lookup(uint32(0), &h); err != nil {
		return 0
	}
	if h.Abi == 0 {
		return ABI
	}
	return h.Abi
}

// loadCollection makes the maps of a collection, or opens those that are pinned
// in a directory, and loads its programs, as many at a time as there are
// processors: nearly all that it takes is the kernel's look at each of them.
func loadCollection(spec *ebpf.CollectionSpec, pins string) (*ebpf.Collection, error) {
	tables := spec.Copy()
	tables.Programs = nil
	all, err := ebpf.NewCollectionWithOptions(tables, ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: pins}})
	if err != nil {
		return nil, err
	}
	// The longest first, lest one is left over at the end.
	names := slices.SortedFunc(maps.Keys(spec.Programs), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(spec.Programs[b].Instructions), len(spec.Programs[a].Instructions)), cmp.Compare(a, b))
	})
	programs, errs := make([]*ebpf.Program, len(names)), make([]error, len(names))
	var workers sync.WaitGroup
	todo := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range todo {
				programs[i], errs[i] = loadProgram(spec.Programs[names[i]], all.Maps)
			}
		})
	}
	for i := range names {
		todo <- i
	}
	close(todo)
	workers.Wait()
	all.Programs = make(map[string]*ebpf.Program, len(names))
	for i, name := range names {
		if programs[i] != nil {
			all.Programs[name] = programs[i]
		}
	}
	if err := errors.Join(errs...); err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// loadProgram loads one program that uses these maps.
func loadProgram(spec *ebpf.ProgramSpec, tables map[string]*ebpf.Map) (*ebpf.Program, error) {
	name := spec.Name
	spec = spec.Copy()
	for i := range spec.Instructions {
		ins := &spec.Instructions[i]
		if !ins.IsLoadFromMap() || ins.Reference() == "" {
			continue
		}
		if err := ins.AssociateMap(tables[ins.Reference()]); err != nil {
			return nil, fmt.Errorf("program %s: map %s: %w", name, ins.Reference(), err)
		}
	}
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", name, err)
	}
	return p, nil
}
