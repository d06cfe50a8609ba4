package ilnphost

import (
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
)

// Where the map is full, a session goes without a table: that is no error, or its packets would wait
// for ever.
func TestFullTablesOfFlows(t *testing.T) {
	r := newRig(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, Flags: 1, MaxEntries: 1, // BPF_F_NO_PREALLOC
		KeySize: uint32(unsafe.Sizeof(bpfTableKey{})), ValueSize: uint32(unsafe.Sizeof(bpfFlowTable{}))})
	r.must(err)
	defer m.Close()
	var tables flowTables
	r.must(tables.adopt(m, nil))
	row := bpfSessionEntry{Slot: 3, Birth: 4}
	r.must(tables.set(map[uint32]tableSets{0: {}, 1: {}, 2: {}}, bpfSessionEntry{}, row))
	if n := len(tables.written[tableUserOf(row)]); n != 1 {
		t.Errorf("%d tables count as written, of one that there is room for", n)
	}
}
