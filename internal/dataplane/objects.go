package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/cilium/ebpf"
)

// objects are the maps, and the programs that every host needs.
type objects struct {
	bpfMaps
	IlnpSessionEgress *ebpf.Program `ebpf:"ilnp_session_egress"`
	IlnpSessionSink   *ebpf.Program `ebpf:"ilnp_session_sink"`
	IlnpUplinkEgress  *ebpf.Program `ebpf:"ilnp_uplink_egress"`
	IlnpUplinkIngress *ebpf.Program `ebpf:"ilnp_uplink_ingress"`
}

// Close lets go of all of them.
func (o *objects) Close() error {
	return errors.Join(o.IlnpSessionEgress.Close(), o.IlnpSessionSink.Close(),
		o.IlnpUplinkEgress.Close(), o.IlnpUplinkIngress.Close(), o.bpfMaps.Close())
}

// rawPrograms are for links without a MAC header, which few hosts have.
type rawPrograms struct {
	IlnpRawlinkEgress  *ebpf.Program `ebpf:"ilnp_rawlink_egress"`
	IlnpRawlinkIngress *ebpf.Program `ebpf:"ilnp_rawlink_ingress"`
}

// Close lets go of them, if they were loaded.
func (o *rawPrograms) Close() error {
	return errors.Join(o.IlnpRawlinkEgress.Close(), o.IlnpRawlinkIngress.Close())
}

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
		"carry_port": p.opts.CarryPort<<8 | p.opts.CarryPort>>8, // the octets as on the wire
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s of eBPF programs: %w", name, err)
		}
	}
	return spec, nil
}

// mapsByName returns the maps under their names in C.
func mapsByName(m *bpfMaps) map[string]*ebpf.Map {
	named := make(map[string]*ebpf.Map)
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		named[v.Type().Field(i).Tag.Get("ebpf")] = v.Field(i).Interface().(*ebpf.Map)
	}
	return named
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
