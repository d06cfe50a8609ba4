package ilnphost

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"roam/wire/xlate/decide"
)

const fragmentID = 7 // of all fragments that are generated

// fragmented makes datagrams whose first fragments have come to sockets on real addresses.
func (g *gen) fragmented(w *world, p bpfSessionEntry) {
	id := binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, fragmentID))
	for _, l := range remoteLocators[:g.IntN(4)] {
		for _, own := range ownLocators[:g.IntN(len(ownLocators)+1)] {
			k := bpfFragmentKey{
				Src: bpfAddr{L64: half(uint64(l)), Nid: p.RemoteNid}, Dst: bpfAddr{L64: half(uint64(own)), Nid: p.LocalNid}, Id: id,
			}
			w.fragmented[k] = g.now - pick[uint64](g, 1, 5, 55, 70)*1e9
		}
	}
}

func (w *world) modelFragments(s *decide.State) {
	for k, v := range w.fragmented {
		id := binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, k.Id))
		s.Fragmented[decide.Fragmented{Src: k.Src.ilv(), Dst: k.Dst.ilv(), ID: id}] = v
	}
}

// fragmentsBetween compares the datagrams in fragments with those of the model, which has
// decided with the clock before and after.
func fragmentsBetween(now, before, after *decide.State) (wrong []string) {
	for k, v := range now.Fragmented {
		was, there := before.Fragmented[k]
		if is := after.Fragmented[k]; !there || v < was || v > is {
			wrong = append(wrong, fmt.Sprintf("datagram in fragments %+v at %d, want %d to %d", k, v, was, is))
		}
	}
	if n, want := len(now.Fragmented), len(before.Fragmented); n != want {
		wrong = append(wrong, fmt.Sprintf("%d datagrams in fragments, want %d", n, want))
	}
	return wrong
}

func rowsBetween[K comparable, V any](name string, now, before, after map[K]*V) (wrong []string) {
	for k := range now {
		if before[k] == nil {
			wrong = append(wrong, fmt.Sprintf("%s %v is there", name, k))
		}
	}
	for k := range before {
		wrong = append(wrong, between(fmt.Sprint(name, " ", k), reflect.ValueOf(now[k]), reflect.ValueOf(before[k]), reflect.ValueOf(after[k]))...)
	}
	return wrong
}
