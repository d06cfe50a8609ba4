package observer

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/observer"
)

// ABI is the number of the contract with the C side, of bpf/observer/types.h.
const ABI = uint32(bpfAbiNumberABI)

// SetName is the name of the set of objects, and of its directory of pins.
const SetName = "observer"

// Plane is the loaded data plane. Its methods may be called from one goroutine.
type Plane struct {
	set  *dataplane.Set
	objs bpfObjects
}

// Open loads the programs and opens their maps, those that an earlier process pinned where
// they fit: then the counts go on. Options.Name is set here.
func Open(opts dataplane.Options) (*Plane, error) {
	opts.Name = SetName
	set, err := dataplane.Open(opts)
	if err != nil {
		return nil, err
	}
	spec, err := loadBpf()
	if err != nil {
		return nil, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	p := &Plane{set: set}
	if err := set.Load(spec, ABI, &p.objs); err != nil {
		return nil, err
	}
	// No packet depends on these maps: programs of another layout give way at once.
	if err := set.TakeOver(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// TCX reports whether programs are attached through tcx, not through clsact.
func (p *Plane) TCX() bool { return p.set.TCX() }

// Attach observes a link in both directions. It may be called again for the same link.
func (p *Plane) Attach(dev roam.LinkID) error {
	if err := p.set.AttachLink(dev, true, p.objs.ObserverIngress); err != nil {
		return fmt.Errorf("observe ingress of link %d: %w", dev, err)
	}
	if err := p.set.AttachLink(dev, false, p.objs.ObserverEgress); err != nil {
		return fmt.Errorf("observe egress of link %d: %w", dev, err)
	}
	return nil
}

// Attached returns the links that are observed, those of an earlier process too.
func (p *Plane) Attached() ([]roam.LinkID, error) { return p.set.Attached() }

// Detach ends the observation of a link, which may be gone.
func (p *Plane) Detach(dev roam.LinkID) error { return p.set.Detach(dev) }

// Forget removes the counts of a link that is not observed any more.
func (p *Plane) Forget(dev roam.LinkID) error {
	var gone []bpfTrafficClass
	err := p.each(func(k bpfTrafficClass, _ observer.Traffic) {
		if k.Link == uint32(dev) {
			gone = append(gone, k)
		}
	})
	for _, k := range gone {
		if e := p.objs.Traffic.Delete(k); e != nil && !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, fmt.Errorf("forget link %d: %w", dev, e))
		}
	}
	return err
}

// Read returns what was counted on each link, and how many packets were not since the
// table has no space.
func (p *Plane) Read() (counts map[observer.Class]observer.Traffic, unrecorded uint64, err error) {
	counts = make(map[observer.Class]observer.Traffic)
	err = p.each(func(k bpfTrafficClass, t observer.Traffic) {
		flag := func(f bpfClassFlags) bool { return bpfClassFlags(k.Flags)&f != 0 }
		counts[observer.Class{
			Link: roam.LinkID(k.Link), Egress: bpfDirection(k.Direction) == bpfDirectionEGRESS, Next: k.Next,
			Nonce: flag(bpfClassFlagsCLASS_NONCE), LocatorUpdate: flag(bpfClassFlagsCLASS_LOCATOR_UPDATE),
			Unreadable: flag(bpfClassFlagsCLASS_UNREADABLE), Checksum: observer.Checksum(k.Checksum),
		}] = t
	})
	if err != nil {
		return nil, 0, err
	}
	lost, err := dataplane.ReadCounters(p.objs.Unrecorded, []dataplane.Label{{Name: "unrecorded"}})
	if err != nil {
		return nil, 0, err
	}
	return counts, lost[0].Value, nil
}

// each calls do with the sum of each class over all CPUs.
func (p *Plane) each(do func(bpfTrafficClass, observer.Traffic)) error {
	var k bpfTrafficClass
	var perCPU []bpfTraffic
	rows := p.objs.Traffic.Iterate()
	for rows.Next(&k, &perCPU) {
		var sum observer.Traffic
		for _, t := range perCPU {
			sum.Packets, sum.Bytes = sum.Packets+t.Packets, sum.Bytes+t.Bytes
		}
		do(k, sum)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read traffic: %w", err)
	}
	return nil
}

// Close lets go of the plane; what is pinned and attached stays.
func (p *Plane) Close() error { return p.objs.Close() }
