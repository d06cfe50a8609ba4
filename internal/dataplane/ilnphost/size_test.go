package ilnphost

import (
	"math/bits"
	"testing"

	"github.com/cilium/ebpf"
)

// What the kernel takes for an entry of a hash map beside key and value, and its sizes of memory.
const hashElement = 48

var hashSizes = []uint32{8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048}

// entryBytes returns what one entry of a map takes on a 64-bit kernel.
func entryBytes(m *ebpf.MapSpec) uint32 {
	value := (m.ValueSize + 7) &^ 7
	if m.Type == ebpf.Array {
		return value
	}
	need := hashElement + (m.KeySize+7)&^7 + value
	for _, size := range hashSizes {
		if need <= size && m.Flags&bpfNoPrealloc != 0 {
			return size
		}
	}
	return need
}

const bpfNoPrealloc = 1 // BPF_F_NO_PREALLOC

// TestBytesOfCorrespondent: a correspondent to which one path is in use and that no rule names takes at
// most 512 bytes of the maps, the buckets for sources included: without them nobody could have more than 8
// locators. Several paths take a table of flows and counts of paths besides.
func TestBytesOfCorrespondent(t *testing.T) {
	spec, err := loadBpf()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{LeastSessions, 10_000, DefaultSessions, 100_000, MostSessions} {
		resize(spec, n)
		total := uint64(0)
		for _, name := range []string{"session_index", "sessions", "session_lives", "session_details"} {
			m := spec.Maps[name]
			each := uint64(entryBytes(m)) * uint64(m.MaxEntries)
			t.Logf("%d sessions: %s %d bytes x %d: %d for each", n, name, entryBytes(m), m.MaxEntries, each/uint64(n))
			total += each
		}
		buckets := func(name string) uint64 { return 16 << bits.Len32(spec.Maps[name].MaxEntries-1) }
		total += buckets("sources")
		empty := buckets("update_keys") + buckets("known_nids")
		t.Logf("%d sessions: %d for each, %d more of hash maps that may be empty", n, total/uint64(n), empty/uint64(n))
		if n >= 10_000 && total > 512*uint64(n) {
			t.Errorf("of %d correspondents each takes %d bytes, want at most 512", n, total/uint64(n))
		}
	}
	if got := entryBytes(spec.Maps["flow_tables"]); got != 512 {
		t.Errorf("a table of flows takes %d bytes, docs/maps.md says 512", got)
	}
}

// TestNonceUntil: packets have the option until the very time, and no longer than they must; never stays never.
func TestNonceUntil(t *testing.T) {
	const unit = 1 << untilShift
	for ns, want := range map[uint64]uint32{0: 0, 1: 1, unit - 1: 1, unit: 1, unit + 1: 2, 9 * 365 * 86400e9: 4_229_307_175} {
		if got := nonceUntil(ns); got != want {
			t.Errorf("%d ns are %d units, want %d", ns, got, want)
		}
	}
}
