package border

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/sbr"
	"roam/wire/ilnp"
)

// setCount is how many sets of places there are for flows: five places for three flows, so that
// fourteen in fifteen flows of a table that fills up find one, and six in seven once many have come and gone.
func setCount(maxFlows int) uint32 { return uint32(maxFlows*5/(3*setFlows)) + 1 }

// setFlows is SET_FLOWS of bpf/sbr/types.h.
const setFlows = len(bpfFlowSet{}.Flow)

// setOf is the number of the set of a flow; set_of in bpf/sbr/table.h is the same.
func setOf(k bpfFlowKey, sets uint32) uint32 {
	const odd = 0xd6e8_feb8_6659_fd93
	x := binary.NativeEndian.Uint64(k.Inside.B[:])
	x = (x^x>>32)*odd ^ binary.NativeEndian.Uint64(k.Outside.B[:])
	x = (x ^ x>>32) * odd
	x = (x ^ x>>32) * odd
	n, _ := bits.Mul32(uint32(x>>32), sets)
	return n
}

// seenShift is that of times in struct flow: their unit is 2^26 ns.
const seenShift = 26

// FlowEntry is a flow as the programs know it. Its times are those of the latest packets, at most
// 67 ms too early.
type FlowEntry struct {
	sbr.FlowSeen
	Seen      time.Time // from either side
	Came      time.Time // from outside
	Announced []roam.L64
}

// Flow returns one flow; false: there is none. Programs write a flow's nonces before its key, so the key is
// read first. Only Forget frees a place, which must not run at the same time.
func (p *Plane) Flow(k sbr.FlowKey, t sbr.Table) (FlowEntry, bool) {
	var s bpfFlowSet
	var rest bpfNonceSet
	key := keyOf(k)
	set := setOf(key, p.objs.FlowSets.MaxEntries())
	if p.objs.FlowSets.Lookup(set, &s) != nil || p.objs.NonceSets.Lookup(set, &rest) != nil {
		return FlowEntry{}, false
	}
	for i, f := range s.Flow {
		if f.Key == key && key.Inside != (bpfHalf{}) { // that of a free place is 0
			return entry(bpfWholeFlow{Flow: f, Nonces: rest.Nonces[i]}, t), true
		}
	}
	var f bpfWholeFlow
	if p.objs.Flows.Lookup(key, &f) != nil {
		return FlowEntry{}, false
	}
	return entry(f, t), true
}

// OtherNonce returns the nonce that a packet from the inside node of a flow had, if it is not the flow's, as far as
// the programs remember it.
func (p *Plane) OtherNonce(k sbr.FlowKey) ilnp.Nonce {
	var f bpfWholeFlow
	if p.objs.PendingFlows.Lookup(keyOf(k), &f) != nil {
		return ilnp.Nonce{}
	}
	return ilnp.Nonce{Len: f.Nonces.Outward.Len, Bytes: f.Nonces.Outward.B}
}

// batch is how many sets, or flows beyond them, are read at a time.
const batch = 256

// Sweep reads all flows in steps, between which flows may come and go: one that is there all the time is read once.
type Sweep struct {
	plane    *Plane
	sets     []bpfFlowSet
	rest     []bpfNonceSet
	numbers  []uint32
	at, also ebpf.MapBatchCursor // both arrays are read in the order of their numbers
	beyond   bool                // the sets have been read
	keys     []bpfFlowKey
	flows    []bpfWholeFlow
	last     ebpf.MapBatchCursor
}

// Sweep begins one.
func (p *Plane) Sweep() *Sweep {
	s := &Sweep{plane: p, numbers: make([]uint32, batch)}
	s.sets, s.rest = make([]bpfFlowSet, batch), make([]bpfNonceSet, batch)
	return s
}

// Next returns some more flows, or none; more: there may be others.
func (s *Sweep) Next(t sbr.Table) (list []FlowEntry, more bool, err error) {
	if s.beyond {
		return s.nextBeyond(t)
	}
	objs := &s.plane.objs
	n, err := objs.FlowSets.BatchLookup(&s.at, s.numbers, s.sets, nil)
	if err == nil || errors.Is(err, ebpf.ErrKeyNotExist) {
		s.beyond = err != nil
		_, err = objs.NonceSets.BatchLookup(&s.also, s.numbers, s.rest, nil)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, false, fmt.Errorf("read sets of flows: %w", err)
	}
	for i := range s.sets[:n] {
		for j, f := range s.sets[i].Flow {
			if f.Key.Inside != (bpfHalf{}) {
				list = append(list, entry(bpfWholeFlow{Flow: f, Nonces: s.rest[i].Nonces[j]}, t))
			}
		}
	}
	return list, true, nil
}

// nextBeyond returns flows that have no place in a set.
func (s *Sweep) nextBeyond(t sbr.Table) (list []FlowEntry, more bool, err error) {
	if s.keys == nil {
		s.keys, s.flows = make([]bpfFlowKey, batch), make([]bpfWholeFlow, batch)
	}
	n, err := s.plane.objs.Flows.BatchLookup(&s.last, s.keys, s.flows, nil)
	if more = err == nil; err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, false, fmt.Errorf("read flows beyond the sets: %w", err)
	}
	for _, f := range s.flows[:n] {
		list = append(list, entry(f, t))
	}
	return list, more, nil
}

// Flows returns all flows, as Flow does.
func (p *Plane) Flows(t sbr.Table) (list []FlowEntry, err error) {
	s := p.Sweep()
	for more := true; more && err == nil; {
		var some []FlowEntry
		some, more, err = s.Next(t)
		list = append(list, some...)
	}
	return list, err
}

func entry(w bpfWholeFlow, t sbr.Table) FlowEntry {
	f, n := &w.Flow, &w.Nonces
	instant := func(at uint32) time.Time { return dataplane.Instant(uint64(at) << seenShift) }
	e := FlowEntry{Seen: instant(max(f.Came, f.Sent)), Came: instant(f.Came), FlowSeen: sbr.FlowSeen{
		FlowKey:  flowKey(f.Key),
		Internal: locator(n.Internal), Remote: locator(n.Remote), Link: roam.LinkID(n.Ifindex),
		Inward:  ilnp.Nonce{Len: n.Inward.Len, Bytes: n.Inward.B},
		Outward: ilnp.Nonce{Len: n.Outward.Len, Bytes: n.Outward.B},
		Sent:    instant(f.Sent),
		Sealed:  f.Sealed != 0,
	}}
	if f.Rule == uint8(bpfChecksumRuleRULE_RFC6741) {
		e.Rule = sbr.RuleRFC6741
	}
	for i, s := range t.Sites {
		if s.L64 != 0 && f.Announced>>i&1 != 0 {
			e.Announced = append(e.Announced, s.L64)
		}
	}
	return e
}

// lockTries is how often Forget and Renew try, while programs change flows of the same set.
const lockTries = 100

// Forget removes a flow. A program does so, which counts flows.
func (p *Plane) Forget(k sbr.FlowKey) error {
	key := keyOf(k)
	for range lockTries {
		again, err := p.objs.SbrForget.Run(&ebpf.RunOptions{Context: &key})
		if err != nil {
			return fmt.Errorf("forget a flow: %w", err)
		}
		if again == 0 {
			return nil
		}
	}
	return errors.New("forget a flow: its set stays locked")
}
