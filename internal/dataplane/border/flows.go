package border

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
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
	Announced []roam.L64
}

// flowTries is how often a flow is read whose place was another one's just before.
const flowTries = 3

// Flow returns one flow; false: there is none. A program may give a place to another flow meanwhile, so
// what a set holds is read before its nonces, and again behind them.
func (p *Plane) Flow(k sbr.FlowKey, t sbr.Table) (FlowEntry, bool) {
	var before, s bpfFlowSet
	var rest bpfNonceSet
	key := keyOf(k)
	set := setOf(key, p.objs.FlowSets.MaxEntries())
	for range flowTries {
		if p.objs.FlowSets.Lookup(set, &before) != nil || p.objs.NonceSets.Lookup(set, &rest) != nil ||
			p.objs.FlowSets.Lookup(set, &s) != nil {
			return FlowEntry{}, false
		}
		i := slices.IndexFunc(s.Flow[:], func(f bpfFlow) bool { return f.Key == key })
		if i < 0 || key.Inside == (bpfHalf{}) { // that of a free place is 0
			break
		}
		if before.Flow[i].Key == key {
			return entry(bpfWholeFlow{Flow: s.Flow[i], Nonces: rest.Nonces[i]}, t), true
		}
	}
	var f bpfWholeFlow
	if p.objs.Flows.Lookup(key, &f) != nil {
		return FlowEntry{}, false
	}
	return entry(f, t), true
}

// setsOfBatch is how many sets are read at a time.
const setsOfBatch = 256

// Flows returns all flows.
func (p *Plane) Flows(t sbr.Table) ([]FlowEntry, error) {
	var list []FlowEntry
	var before, sets [setsOfBatch]bpfFlowSet // as in Flow
	var rest [setsOfBatch]bpfNonceSet
	var at [3]ebpf.MapBatchCursor
	for more := true; more; {
		n := 0
		for i, read := range []struct {
			from *ebpf.Map
			to   any
		}{{p.objs.FlowSets, before[:]}, {p.objs.NonceSets, rest[:]}, {p.objs.FlowSets, sets[:]}} {
			var err error
			n, err = read.from.BatchLookup(&at[i], make([]uint32, setsOfBatch), read.to, nil)
			if more = err == nil; !more && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return nil, fmt.Errorf("read sets of flows: %w", err)
			}
		}
		for i := range n {
			for j, f := range sets[i].Flow {
				if f.Key.Inside == (bpfHalf{}) {
					continue
				}
				if before[i].Flow[j].Key == f.Key {
					list = append(list, entry(bpfWholeFlow{Flow: f, Nonces: rest[i].Nonces[j]}, t))
				} else if e, ok := p.Flow(flowKey(f.Key), t); ok {
					list = append(list, e)
				}
			}
		}
	}
	var f bpfWholeFlow
	var k bpfFlowKey
	rows := p.objs.Flows.Iterate()
	for rows.Next(&k, &f) {
		list = append(list, entry(f, t))
	}
	return list, rows.Err()
}

func entry(w bpfWholeFlow, t sbr.Table) FlowEntry {
	f, n := &w.Flow, &w.Nonces
	instant := func(at uint32) time.Time { return dataplane.Instant(uint64(at) << seenShift) }
	e := FlowEntry{Seen: instant(max(f.Came, f.Sent)), FlowSeen: sbr.FlowSeen{
		FlowKey:  flowKey(f.Key),
		Internal: locator(f.Internal), Remote: locator(n.Remote), Link: roam.LinkID(n.Ifindex),
		Inward:  ilnp.Nonce{Len: n.Inward.Len, Bytes: n.Inward.B},
		Outward: ilnp.Nonce{Len: n.Outward.Len, Bytes: n.Outward.B},
		Sent:    instant(f.Sent),
	}}
	if f.Rule == uint8(bpfChecksumRuleRULE_RFC6741) {
		e.Rule = sbr.RuleRFC6741
	}
	for i, s := range t.Sites {
		if f.Announced>>i&1 != 0 {
			e.Announced = append(e.Announced, s.L64)
		}
	}
	return e
}

// forgetTries is how often Forget tries, while programs change flows of the same set.
const forgetTries = 100

// Forget removes a flow. A program does so, which counts flows.
func (p *Plane) Forget(k sbr.FlowKey) error {
	key := keyOf(k)
	for range forgetTries {
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
