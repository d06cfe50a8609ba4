package ilnphost

import (
	"errors"
	"reflect"

	"github.com/cilium/ebpf"
)

// objects are the maps, and the programs that every host needs.
type objects struct {
	bpfMaps
	IlnpSessionEgress *ebpf.Program `ebpf:"ilnp_session_egress"`
	IlnpSessionSink   *ebpf.Program `ebpf:"ilnp_session_sink"`
	IlnpUplinkIngress *ebpf.Program `ebpf:"ilnp_uplink_ingress"`
}

// Close lets go of all of them.
func (o *objects) Close() error {
	return errors.Join(o.IlnpSessionEgress.Close(), o.IlnpSessionSink.Close(),
		o.IlnpUplinkIngress.Close(), o.bpfMaps.Close())
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

// mapsByName returns the maps under their names in C.
func mapsByName(m *bpfMaps) map[string]*ebpf.Map {
	named := make(map[string]*ebpf.Map)
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		named[v.Type().Field(i).Tag.Get("ebpf")] = v.Field(i).Interface().(*ebpf.Map)
	}
	return named
}
