package border

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// change changes a flow in place, as programs do.
func (r *rig) change(k sbr.FlowKey, what func(*bpfFlow)) {
	r.Helper()
	key := keyOf(k)
	n := setOf(key, r.objs.FlowSets.MaxEntries())
	r.changeSet(n, func(s *bpfFlowSet) {
		for i := range s.Flow {
			if f := &s.Flow[i]; f.Key == key {
				what(f)
				return
			}
		}
		r.Fatalf("flow %v is not in its set", k)
	})
}

// changeSet changes a set.
func (r *rig) changeSet(n uint32, what func(*bpfFlowSet)) {
	r.Helper()
	var s bpfFlowSet
	if err := r.objs.FlowSets.Lookup(n, &s); err != nil {
		r.Fatal(err)
	}
	what(&s)
	if err := r.objs.FlowSets.Put(n, s); err != nil {
		r.Fatal(err)
	}
}

// lock locks a set, or unlocks it.
func (r *rig) lock(n, v uint32) {
	r.Helper()
	var rest bpfNonceSet
	if err := r.objs.NonceSets.Lookup(n, &rest); err != nil {
		r.Fatal(err)
	}
	rest.Nonces[0].Locked = v
	if err := r.objs.NonceSets.Put(n, rest); err != nil {
		r.Fatal(err)
	}
}

// known returns how many flows there are, which is also what the programs count.
func (r *rig) known() int {
	r.Helper()
	list, err := r.Flows(r.table)
	var counted uint32
	if err == nil {
		err = r.objs.FlowCounts.Lookup(uint32(0), &counted)
	}
	if err != nil {
		r.Fatal(err)
	}
	if int(counted) != len(list) {
		r.Errorf("%d flows, and the programs count %d", len(list), counted)
	}
	return len(list)
}

// sharers are flows of the inside host that share a set.
type sharers struct {
	*rig
	set     uint32
	outside []roam.NID
}

func newSharers(t *testing.T, n int) sharers {
	t.Helper()
	s := sharers{rig: newRig(t)}
	s.set = setOf(keyOf(theKey), s.objs.FlowSets.MaxEntries())
	for nid := outsideNID; len(s.outside) < n; nid++ {
		if setOf(keyOf(sbr.FlowKey{Inside: insideNID, Outside: nid}), s.objs.FlowSets.MaxEntries()) == s.set {
			s.outside = append(s.outside, nid)
		}
	}
	return s
}

func (s sharers) key(i int) sbr.FlowKey { return sbr.FlowKey{Inside: insideNID, Outside: s.outside[i]} }

// own returns the nonces of a flow.
func own(i int) (out, in ilnp.Nonce) {
	out, in = outward, inward
	out.Bytes[3], in.Bytes[3] = byte(2*i), byte(2*i+1)
	return out, in
}

// nonces has both nodes of a flow send one.
func (s sharers) nonces(i int) {
	s.Helper()
	out, in := own(i)
	far := roam.ILV{L64: remote, NID: s.outside[i]}
	s.run(s.objs.SbrInsideIngress, s.echo(mine, far, out, true, 1, 56))
	s.run(s.objs.SbrUplinkIngress, s.echo(far, roam.ILV{L64: siteA, NID: insideNID}, in, false, 1, 56))
}

// wantOwnNonces fails if a flow that is listed has the nonces of another one.
func (s sharers) wantOwnNonces() {
	s.Helper()
	list, err := s.Flows(s.table)
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range list {
		out, in := own(slices.Index(s.outside, f.Outside))
		one, _ := s.Flow(f.FlowKey, s.table)
		if f.Outward != out || f.Inward != in || one.Outward != out || one.Inward != in {
			s.Errorf("flow %v has nonces %x and %x, by itself %x and %x", f.FlowKey, f.Outward.Bytes, f.Inward.Bytes,
				one.Outward.Bytes, one.Inward.Bytes)
		}
	}
}

// wantLeaving fails if a datagram of a flow does not leave from that locator, as one of a flow or of none.
func (s sharers) wantLeaving(i int, from roam.L64, known bool) {
	s.Helper()
	out := moved(s.T, transport(s.T, ip6.UDP, 1, 2), mine, roam.ILV{L64: remote, NID: s.outside[i]})
	before := s.counter("tx_flow")
	_, got := s.run(s.objs.SbrInsideIngress, out)
	if source(got) != from || (s.counter("tx_flow") == before+1) != known {
		s.Errorf("a datagram of flow %d leaves from %v; of a flow: %v; want %v, %v", i, source(got),
			s.counter("tx_flow") == before+1, from, known)
	}
	if _, ok := s.Flow(s.key(i), s.table); ok != known {
		s.Errorf("flow %d is known: %v, want %v", i, ok, known)
	}
}

// placed returns which flows have a place in the set.
func (s sharers) placed() (list []int) {
	s.Helper()
	s.changeSet(s.set, func(set *bpfFlowSet) {
		for _, f := range set.Flow {
			if i := slices.Index(s.outside, flowKey(f.Key).Outside); f.Key.Inside != (bpfHalf{}) {
				list = append(list, i)
			}
		}
	})
	return list
}

// Flows that find no place in their set are as good as others: their packets are rewritten, they are
// announced, listed and forgotten. A place that is given up is used again.
func TestSharedSet(t *testing.T) {
	s := newSharers(t, 7)
	for i := range 6 {
		s.nonces(i)
	}
	if got := s.placed(); !slices.Equal(got, []int{0, 1, 2, 3}) || s.known() != 6 {
		t.Errorf("flows %v have a place, %d are known", got, s.known())
	}
	s.wantOwnNonces()
	for i := range 6 {
		s.wantLeaving(i, siteA, true)
		if err := s.Announce(s.key(i), s.table, []roam.L64{siteB}); err != nil {
			t.Fatal(err)
		}
		s.wantLeaving(i, siteB, true)
	}
	if err := errors.Join(s.Seal(s.key(1), true), s.Seal(s.key(5), true)); err != nil {
		t.Fatal(err)
	}
	if err := s.Install(s.table, everyIndex, hops); err != nil { // nothing is announced any more
		t.Fatal(err)
	}
	for i := range 6 {
		if f, _ := s.Flow(s.key(i), s.table); f.Sealed != (i%4 == 1) {
			t.Errorf("flow %d: sealed is %v", i, f.Sealed)
		}
	}
	for i := range 6 {
		s.wantLeaving(i, siteA, true)
	}
	if err := s.Announce(s.key(1), s.table, []roam.L64{siteB}); err != nil { // what gets its place knows nothing of it
		t.Fatal(err)
	}
	for _, i := range []int{1, 5, 1} {
		if err := s.Forget(s.key(i)); err != nil {
			t.Fatal(err)
		}
		s.wantLeaving(i, siteA, false)
	}
	if s.known() != 4 {
		t.Errorf("%d flows are known after two have gone", s.known())
	}
	s.nonces(6)
	if got := s.placed(); !slices.Equal(got, []int{0, 6, 2, 3}) || s.known() != 5 {
		t.Errorf("flows %v have a place, %d are known", got, s.known())
	}
	s.wantOwnNonces()
	for _, i := range []int{0, 2, 3, 4, 6} {
		s.wantLeaving(i, siteA, true)
	}
}

// New nonces change a flow where it lies, in its set or not: of what was announced before, the outside node of the new
// session knows nothing, and its updates may have no MACs.
func TestFlowRenewed(t *testing.T) {
	s := newSharers(t, 5)
	newer := ilnp.Nonce{Len: 4, Bytes: [12]byte{9}}
	for i := range 5 {
		s.nonces(i)
		if err := s.Announce(s.key(i), s.table, []roam.L64{siteB}); err != nil {
			t.Fatal(err)
		}
		if err := s.Seal(s.key(i), true); err != nil {
			t.Fatal(err)
		}
		if f, _ := s.Flow(s.key(i), s.table); !f.Sealed || !slices.Equal(f.Announced, []roam.L64{siteB}) {
			t.Errorf("flow %d is %+v", i, f)
		}
		far := roam.ILV{L64: remote, NID: s.outside[i]}
		_, in := own(i)
		s.run(s.objs.SbrInsideIngress, s.echo(mine, far, newer, true, 1, 56))
		s.run(s.objs.SbrUplinkIngress, s.echo(far, roam.ILV{L64: siteA, NID: insideNID}, in, false, 1, 56))
		s.run(s.objs.SbrUplinkIngress, s.echo(far, roam.ILV{L64: siteA, NID: insideNID}, newer, false, 1, 56))
		if f, ok := s.Flow(s.key(i), s.table); !ok || f.Outward != newer || f.Inward != newer {
			t.Errorf("flow %d has nonces %x and %x", i, f.Outward.Bytes, f.Inward.Bytes)
		} else if f.Sealed || len(f.Announced) > 0 {
			t.Errorf("flow %d is %+v", i, f)
		}
		s.wantLeaving(i, siteA, true)
	}
	if s.known() != 5 {
		t.Errorf("%d flows are known", s.known())
	}
}

// A processor that read what was pending before another one confirmed the flow writes it back afterwards.
// With that one nonce, another node's does not replace the flow's. A new session of both still does.
func TestOlderPending(t *testing.T) {
	s := newSharers(t, 5) // the last has no place in the set
	other, newer := ilnp.Nonce{Len: 4, Bytes: [12]byte{8}}, ilnp.Nonce{Len: 4, Bytes: [12]byte{9}}
	for i := range 5 {
		far := roam.ILV{L64: remote, NID: s.outside[i]}
		fromInside := func(n ilnp.Nonce) { s.run(s.objs.SbrInsideIngress, s.echo(mine, far, n, true, 1, 56)) }
		fromOutside := func(n ilnp.Nonce) {
			s.run(s.objs.SbrUplinkIngress, s.echo(far, roam.ILV{L64: siteA, NID: insideNID}, n, false, 1, 56))
		}
		want := func(after string, out, in ilnp.Nonce) {
			t.Helper()
			if f, _ := s.Flow(s.key(i), s.table); f.Outward != out || f.Inward != in {
				t.Errorf("%s, flow %d has nonces %x and %x", after, i, f.Outward.Bytes, f.Inward.Bytes)
			}
		}
		var early [2]bpfWholeFlow // with one nonce each
		out, in := own(i)
		for j, send := range []func(){func() { fromInside(out) }, func() { fromOutside(in) }} {
			send()
			if err := s.objs.PendingFlows.LookupAndDelete(keyOf(s.key(i)), &early[j]); err != nil {
				t.Fatal(err)
			}
		}
		s.nonces(i)
		confirmed := s.counter("flow_confirmed")
		for j, forged := range []func(){func() { fromOutside(other) }, func() { fromInside(other) }} {
			if err := s.objs.PendingFlows.Put(keyOf(s.key(i)), early[j]); err != nil {
				t.Fatal(err)
			}
			forged()
			want("after another node's nonce", out, in)
			var left bpfWholeFlow
			if s.objs.PendingFlows.Lookup(keyOf(s.key(i)), &left) == nil &&
				(left.Nonces.Outward == early[0].Nonces.Outward || left.Nonces.Inward == early[1].Nonces.Inward) {
				t.Errorf("a nonce of flow %d is still pending", i)
			}
			_ = s.objs.PendingFlows.Delete(keyOf(s.key(i)))
		}
		if n := s.counter("flow_confirmed"); n != confirmed {
			t.Errorf("flow_confirmed counts %d more", n-confirmed)
		}
		if err := s.objs.PendingFlows.Put(keyOf(s.key(i)), early[0]); err != nil {
			t.Fatal(err)
		}
		fromOutside(newer)
		fromInside(newer)
		want("after a new session", newer, newer)
	}
}

// A free place is no flow, whatever the last one left there.
func TestFreePlace(t *testing.T) {
	s := sharers{rig: newRig(t), outside: []roam.NID{outsideNID}}
	if f, ok := s.Flow(sbr.FlowKey{}, s.table); ok {
		t.Errorf("an empty table has the flow %+v", f.FlowSeen)
	}
	set := func(inside roam.NID) uint32 {
		return setOf(keyOf(sbr.FlowKey{Inside: inside, Outside: s.outside[0]}), s.objs.FlowSets.MaxEntries())
	}
	for set(insideNID) != set(0) {
		s.outside[0]++
	}
	s.nonces(0)
	if err := s.Forget(s.key(0)); err != nil {
		t.Fatal(err)
	}
	if f, ok := s.Flow(sbr.FlowKey{Outside: s.outside[0]}, s.table); ok {
		t.Errorf("what a flow left is the flow %+v", f.FlowSeen)
	}
}

// While another program changes a set, a flow of it becomes none, which counts as no lack of space, and
// none is removed. The next nonce succeeds.
func TestLockedSet(t *testing.T) {
	s := newSharers(t, 2)
	s.nonces(0)
	lock := func(v uint32) { s.lock(s.set, v) }
	lock(1)
	s.nonces(1)
	s.wantLeaving(1, siteA, false)
	if s.Forget(s.key(0)) == nil {
		t.Error("a flow is removed from a set that is locked")
	}
	s.wantLeaving(0, siteA, true)
	if n := s.counter("flow_table_full"); n != 0 {
		t.Errorf("flow_table_full counts %d", n)
	}
	lock(0)
	s.nonces(1)
	s.wantLeaving(1, siteA, true)
	if s.known() != 2 {
		t.Errorf("%d flows are known", s.known())
	}
}

// While flows of one set come and go on several processors at a time, none is there twice, and the count
// stays right.
func TestSetUnderRaces(t *testing.T) {
	s := newSharers(t, 8)
	deadline := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for time.Now().Before(deadline) && !t.Failed() {
				i := rand.IntN(len(s.outside))
				if s.nonces(i); rand.IntN(2) == 0 {
					_ = s.Forget(s.key(i)) // its set may be locked
				}
			}
		})
	}
	all.Wait()
	s.known()
	list, err := s.Flows(s.table)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[sbr.FlowKey]bool{}
	for _, f := range list {
		if seen[f.FlowKey] {
			t.Errorf("flow %v is there twice", f.FlowKey)
		}
		seen[f.FlowKey] = true
	}
	for i := range s.outside { // a flow that has no place must be found, too
		s.nonces(i)
		s.wantLeaving(i, siteA, true)
		if err := s.Forget(s.key(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.known(); n != 0 {
		t.Errorf("%d flows are left", n)
	}
}

// Of a table that has filled up fourteen in fifteen flows have a place in their set, whether NIDs follow each
// other or are drawn.
func TestPlaces(t *testing.T) {
	const n = 1 << 18
	random := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(i int) sbr.FlowKey{
		"inside":  func(i int) sbr.FlowKey { return sbr.FlowKey{Inside: insideNID + roam.NID(i), Outside: outsideNID} },
		"outside": func(i int) sbr.FlowKey { return sbr.FlowKey{Inside: insideNID, Outside: outsideNID + roam.NID(i)} },
		"both": func(i int) sbr.FlowKey {
			return sbr.FlowKey{Inside: insideNID + roam.NID(i%512), Outside: outsideNID + roam.NID(i/512)}
		},
		"drawn": func(int) sbr.FlowKey {
			return sbr.FlowKey{Inside: roam.NID(random.Uint64()), Outside: roam.NID(random.Uint64())}
		},
	} {
		sets := make([]int, setCount(n))
		without := 0
		for i := range n {
			at := setOf(keyOf(key(i)), uint32(len(sets)))
			if sets[at]++; sets[at] > setFlows {
				without++
			}
		}
		if without > n/15 {
			t.Errorf("%s: %d of %d flows find no place", name, without, n)
		}
	}
}

// As flows come and go in a full table, six in seven keep having a place: one that has none stays where
// it is when a place becomes free.
func TestPlacesLater(t *testing.T) {
	const n = 1 << 16
	random := rand.New(rand.NewPCG(1, 2))
	sets := make([]int, setCount(n))
	const none = -1
	without := 0
	add := func() int {
		key := sbr.FlowKey{Inside: roam.NID(random.Uint64()), Outside: roam.NID(random.Uint64())}
		at := int(setOf(keyOf(key), uint32(len(sets))))
		if sets[at] == setFlows {
			without++
			return none
		}
		sets[at]++
		return at
	}
	flows := make([]int, n)
	for i := range flows {
		flows[i] = add()
	}
	for range 5 * n {
		i := random.IntN(n)
		if flows[i] == none {
			without--
		} else {
			sets[flows[i]]--
		}
		flows[i] = add()
	}
	if without > n*14/100 {
		t.Errorf("%d of %d flows have no place", without, n)
	}
}
