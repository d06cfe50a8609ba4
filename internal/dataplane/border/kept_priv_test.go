package border

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// kept are the maps and programs of rigs whose tests have ended, by the flags for checksums: the next rig takes them
// and empties the maps, since nearly all of what a rig takes otherwise is the kernel's look at the programs. Those
// with links open a plane of their own.
var kept = map[uint64]*bpfObjects{}

func (r *rig) load(checksumFlags uint64) {
	r.Helper()
	spec, err := spec(encapPort, maxFlows)
	if err != nil {
		r.Fatal(err)
	}
	if err := spec.Variables["csum_flags"].Set(checksumFlags); err != nil {
		r.Fatal(err)
	}
	for _, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
	}
	if err := spec.LoadAndAssign(&r.objs, nil); err != nil {
		r.Fatalf("%+v", err)
	}
}

// empty makes all maps as they were when they were new.
func (r *rig) empty() {
	r.Helper()
	for _, m := range r.maps() {
		var err error
		switch m.Type() {
		case ebpf.RingBuf:
			err = drain(m)
		case ebpf.Array:
			err = zero(m)
		case ebpf.PerCPUArray:
			for i := range m.MaxEntries() {
				err = errors.Join(err, m.Put(i, []uint64{}))
			}
		default:
			err = deleteAll(m)
		}
		if err != nil {
			r.Fatalf("empty %s: %v", m, err)
		}
	}
}

func (r *rig) maps() (all []*ebpf.Map) {
	v := reflect.ValueOf(r.objs.bpfMaps)
	for i := range v.NumField() {
		all = append(all, v.Field(i).Interface().(*ebpf.Map))
	}
	return all
}

// zero writes a whole array by one call.
func zero(m *ebpf.Map) error {
	keys := make([]uint32, m.MaxEntries())
	for i := range keys {
		keys[i] = uint32(i)
	}
	value := reflect.ArrayOf(int(m.ValueSize()), reflect.TypeFor[byte]())
	values := reflect.MakeSlice(reflect.SliceOf(value), len(keys), len(keys)).Interface()
	_, err := m.BatchUpdate(keys, values, nil)
	return err
}

func deleteAll(m *ebpf.Map) error {
	for {
		k, err := m.NextKeyBytes(nil)
		if k == nil || err != nil {
			return err
		}
		if err := m.Delete(k); err != nil {
			return err
		}
	}
}

func drain(ring *ebpf.Map) error {
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return err
	}
	defer reader.Close()
	reader.SetDeadline(time.Unix(1, 0)) // in the past: never blocks
	for {
		if _, err := reader.Read(); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// A rig on what an earlier one left finds nothing of it.
func TestKeptRigIsEmpty(t *testing.T) {
	left := func(r *rig) (names []string) {
		for _, m := range r.maps() {
			if filled(t, m) {
				names = append(names, m.String())
			}
		}
		return names
	}
	const flags = 1 << 4 // BPF_F_PSEUDO_HDR
	delete(kept, flags)
	var fresh []string
	t.Run("new", func(t *testing.T) { fresh = left(newRigOf(t, flags)) })
	t.Run("used", func(t *testing.T) {
		r := newRigOf(t, flags)
		r.configure(Settings{Fallback: Drop, FlowLabel: true})
		r.confirm(siteA, siteB)
		if len(left(r)) < len(fresh)+3 {
			t.Errorf("the test leaves nothing behind: %v", left(r))
		}
	})
	t.Run("kept", func(t *testing.T) {
		if got := left(newRigOf(t, flags)); len(got) > len(fresh) {
			t.Errorf("has something in %v, a new one in %v", got, fresh)
		}
	})
}

// filled reports whether a map has an event, an entry, or in an array something else than zero.
func filled(t *testing.T, m *ebpf.Map) bool {
	if m.Type() == ebpf.RingBuf {
		reader, err := ringbuf.NewReader(m)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		return reader.AvailableBytes() > 0
	}
	for k, err := m.NextKeyBytes(nil); k != nil; k, err = m.NextKeyBytes(k) {
		var values [][]byte
		if err == nil && m.Type() == ebpf.PerCPUArray {
			err = m.Lookup(k, &values)
		} else if err == nil {
			values = make([][]byte, 1)
			values[0], err = m.LookupBytes(k)
		}
		if err != nil {
			t.Fatal(err)
		}
		array := m.Type() == ebpf.Array || m.Type() == ebpf.PerCPUArray
		if !array || len(bytes.Trim(slices.Concat(values...), "\x00")) > 0 {
			return true
		}
	}
	return false
}
