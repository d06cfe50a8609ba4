package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// loadCollection makes the maps of a collection, or opens those that are pinned
// in a directory, and loads its programs, as many at a time as there are
// processors: nearly all that it takes is the kernel's look at each of them.
func loadCollection(spec *ebpf.CollectionSpec, pins string) (*ebpf.Collection, error) {
	Shorten(spec)
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
	todo, kernel := make(chan int), takeKernelTypes()
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range todo {
				programs[i], errs[i] = loadProgram(spec.Programs[names[i]], all.Maps, kernel)
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

// loadProgram loads one program that uses these maps. It makes a collection of it, since only those take the kernel's
// types, which a program that calls the kernel's functions needs, from outside.
func loadProgram(spec *ebpf.ProgramSpec, tables map[string]*ebpf.Map, kernel *btf.Cache) (*ebpf.Program, error) {
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
	one, err := ebpf.NewCollectionWithOptions(
		&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{name: spec}}, ebpf.CollectionOptions{Cache: kernel})
	if err != nil {
		return nil, err // it names the program
	}
	return one.DetachProgram(name), nil
}
