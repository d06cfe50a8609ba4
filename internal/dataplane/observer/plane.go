// Package observer is the data plane of an observer: its programs (bpf/observer) on links,
// and what they have counted. internal/dataplane loads, pins and attaches them.
// docs/maps.md describes each map.
package observer

import (
	"errors"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/observer"
)

//go:generate -command bpf2go go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel
//go:generate bpf2go bpf ../../../bpf/observer/observer.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu

// Plane is the loaded data plane. Its methods may be called from one goroutine.
type Plane struct {
	*dataplane.Set
	objs bpfObjects
}

// Open loads the programs and opens their maps, those that an earlier process pinned where
// they fit: then the counts go on. Options.Name is set here. Close is called also if it fails.
func Open(opts dataplane.Options) (p *Plane, err error) {
	p, opts.Name = &Plane{}, "observer"
	if p.Set, err = dataplane.OpenSet(opts, loadBpf, uint32(bpfAbiNumberABI), &p.objs); err != nil {
		return p, err
	}
	// The entry of all packets whose class finds no space.
	err = p.objs.Traffic.Update(bpfTrafficClass{}, make([]bpfTraffic, ebpf.MustPossibleCPU()), ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return p, err
	}
	return p, p.TakeOver() // at once: no packet depends on the maps of programs of another layout
}

// Attach observes a link in both directions. It may be called again for the same link.
func (p *Plane) Attach(dev roam.LinkID) error {
	return p.AttachBoth(dev, p.objs.ObserverIngress, p.objs.ObserverEgress)
}

// Detach ends the observation of a link, which may be gone, and forgets its counts.
func (p *Plane) Detach(dev roam.LinkID) error {
	counts, err := p.Read()
	for k := range counts {
		if k.Link == dev {
			key := bpfTrafficClass{Link: uint32(k.Link), Next: k.Next, Flags: uint8(k.Flags), Checksum: k.Checksum}
			err = errors.Join(err, p.objs.Traffic.Delete(key))
		}
	}
	return errors.Join(p.Set.Detach(dev), err)
}

// Read returns what was counted so far.
func (p *Plane) Read() (map[observer.Class]observer.Traffic, error) {
	counts := make(map[observer.Class]observer.Traffic)
	var k bpfTrafficClass
	var perCPU []bpfTraffic
	rows := p.objs.Traffic.Iterate()
	for rows.Next(&k, &perCPU) {
		var sum observer.Traffic
		for _, t := range perCPU {
			sum.Packets, sum.Bytes = sum.Packets+t.Packets, sum.Bytes+t.Bytes
		}
		class := observer.Class{Link: roam.LinkID(k.Link), Next: k.Next, Flags: observer.Flags(k.Flags), Checksum: k.Checksum}
		counts[class] = sum
	}
	return counts, rows.Err()
}

// Close lets go of the plane; what is pinned and attached stays.
func (p *Plane) Close() error { return p.objs.Close() }
