package ilnphost

import (
	"bytes"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

// held are maps and programs that no rig uses. A rig takes those of an earlier
// test and empties the maps, since nearly all of what a test takes otherwise is
// the kernel's look at the programs. What asks about loading, pins or restart opens
// the plane anew as ever.
type held struct {
	objs objects
	raw  rawPrograms
}

// kept are those for each number of sessions.
var kept = map[int]*held{}

// duplicate gives the maps and programs of a struct descriptors of their own.
func duplicate(t testing.TB, of any) {
	t.Helper()
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Struct || f.IsNil() {
			continue
		}
		var other any
		var err error
		switch x := f.Interface().(type) {
		case *ebpf.Map:
			other, err = x.Clone()
		case *ebpf.Program:
			other, err = x.Clone()
		}
		if err != nil {
			t.Fatalf("keep what was loaded: %v", err)
		}
		f.Set(reflect.ValueOf(other))
	}
}

// begin opens the rig's plane on what an earlier rig of that size loaded, and keeps
// it for the next one. Of two rigs at a time the second one has its own.
func (r *rig) begin() {
	r.t.Helper()
	size := r.size // a test may ask for another one later
	h := kept[size]
	delete(kept, size)
	if h == nil {
		r.open()
		h = &held{objs: r.objs}
		duplicate(r.t, &h.objs)
		duplicate(r.t, &h.objs.bpfMaps)
	} else {
		r.reopen(h)
	}
	first := r.Plane
	r.t.Cleanup(func() {
		if r.Plane == first && h.raw.IlnpRawlinkIngress == nil {
			h.raw = first.raw
			duplicate(r.t, &h.raw)
		}
		r.close()
		kept[size] = h
	})
}

// reopen is open, without the kernel's looking at the programs.
func (r *rig) reopen(h *held) {
	r.t.Helper()
	p := newPlane(r.options())
	p.objs, p.raw, p.csumFlags = h.objs, h.raw, dataplane.ChecksumFlags()
	p.summed, _ = dataplane.ChecksumState()
	duplicate(r.t, &p.objs)
	duplicate(r.t, &p.objs.bpfMaps)
	duplicate(r.t, &p.raw)
	var err error
	p.set, err = dataplane.Open(setOptions(p.opts))
	r.must(err)
	for name, m := range mapsByName(&p.objs.bpfMaps) {
		if m.Type() == ebpf.RingBuf {
			continue
		}
		r.empty(m)
		r.must(m.Pin(filepath.Join(p.set.Dir(), name)))
	}
	r.must(p.objs.Abi.Put(uint32(0), ABI))
	r.must(errors.Join(p.ticks.start(p.changeHost), p.adopt()))
	r.use(p)
	r.events()
}

// empty makes a map as it was when it was new.
func (r *rig) empty(m *ebpf.Map) {
	r.t.Helper()
	switch m.Type() {
	case ebpf.Array:
		if n := m.MaxEntries(); n <= 2*maxRules {
			for i := range n {
				r.must(m.Put(i, make([]byte, m.ValueSize())))
			}
			return
		}
		all, err := m.Memory()
		r.must(err)
		_, err = all.WriteAt(make([]byte, all.Size()), 0)
		r.must(err)
	case ebpf.PerCPUArray:
		for i := range m.MaxEntries() {
			r.must(m.Put(i, []uint64{}))
		}
	default:
		var keys [][]byte
		for k, err := m.NextKeyBytes(nil); k != nil; k, err = m.NextKeyBytes(k) {
			r.must(err)
			keys = append(keys, k)
		}
		for _, k := range keys {
			r.must(m.Delete(k))
		}
	}
}

// filled returns how many entries of a map are there and not zero.
func (r *rig) filled(m *ebpf.Map) (n int) {
	r.t.Helper()
	if m.Type() == ebpf.RingBuf {
		return 0
	}
	for k, err := m.NextKeyBytes(nil); k != nil; k, err = m.NextKeyBytes(k) {
		r.must(err)
		v, err := m.LookupBytes(k)
		r.must(err)
		if m.Type() == ebpf.Hash || m.Type() == ebpf.LRUHash || len(bytes.Trim(v, "\x00")) > 0 {
			n++
		}
	}
	return n
}

// A rig on what an earlier one left finds nothing of it.
func TestKeptRigIsEmpty(t *testing.T) {
	fill := func(r *rig) {
		r.uplink(here)
		for n := range 3 {
			p := numbered(n)
			for i := range 12 {
				p.Accept = append(p.Accept, there+roam.L64(i))
			}
			r.upsert(p)
		}
		r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID}))
		r.ingress(knock(unlistedPeer(1), theirNonce))
		r.ingress(fromPeer(else1, theirNonce, ip6.UDP, udp(9)))
	}
	contents := func(r *rig) map[string]int {
		n := map[string]int{}
		for name, m := range mapsByName(&r.objs.bpfMaps) {
			n[name] = r.filled(m)
		}
		n["events"] = len(r.events())
		return n
	}
	const size = LeastSessions + 1 // of no other test
	var fresh map[string]int
	t.Run("loaded", func(t *testing.T) {
		r := newRigOf(t, size)
		fresh = contents(r)
		fill(r)
		if maps.Equal(fresh, contents(r)) {
			t.Error("the test leaves nothing behind")
		}
	})
	t.Run("kept", func(t *testing.T) {
		if got := contents(newRigOf(t, size)); !maps.Equal(got, fresh) {
			t.Errorf("entries %v, in a new one %v", got, fresh)
		}
	})
}
