package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/xlate/decide"
)

// world is what the maps hold, row by row, in a test that runs programs and the model on
// the same packets.
type world struct {
	host       bpfHost
	uplinks    [decide.MaxUplinks]bpfUplink
	sessions   []bpfSessionEntry // the index of each is its slot, and its place
	lives      []noted
	known      map[bpfHalf]uint8
	places     map[bpfAddr]uint8
	sources    map[bpfAllowanceKey]uint8
	collisions map[bpfCollisionKey]bpfSessionKey
	obstructed map[bpfObstructionKey]uint8
	pending    map[bpfSessionKey]bpfPendingPeer
	plainNodes map[bpfSessionKey]uint8
	plainFlows map[bpfFlowKey]bpfFlowEnds
	fragmented map[bpfFragmentKey]uint64
	flows      []bpfFlowKey // those that there were at first
	windows    [decide.Rates]bpfRateWindow
	allowances map[bpfAllowanceKey]bpfAllowance
	counts     map[bpfPathKey]bpfPathCounts
	tables     map[bpfTableKey]bpfFlowTable
	crossed    map[bpfCrossedKey]bpfCrossedFlow
	keys       map[bpfSlotUser]bpfUpdateKey
	marks      decide.Marks
}

func newWorld() *world {
	return &world{
		known: map[bpfHalf]uint8{}, places: map[bpfAddr]uint8{}, sources: map[bpfAllowanceKey]uint8{},
		collisions: map[bpfCollisionKey]bpfSessionKey{}, obstructed: map[bpfObstructionKey]uint8{},
		pending: map[bpfSessionKey]bpfPendingPeer{}, plainNodes: map[bpfSessionKey]uint8{},
		fragmented: map[bpfFragmentKey]uint64{}, plainFlows: map[bpfFlowKey]bpfFlowEnds{},
		allowances: map[bpfAllowanceKey]bpfAllowance{}, counts: map[bpfPathKey]bpfPathCounts{},
		tables: map[bpfTableKey]bpfFlowTable{}, keys: map[bpfSlotUser]bpfUpdateKey{},
		crossed: map[bpfCrossedKey]bpfCrossedFlow{}, marks: decide.Marks{Of: map[uint16]uint32{}},
	}
}

// put writes rows into a map, and remove takes them out.
func put[K comparable, V any](r *decideRig, m *ebpf.Map, rows map[K]V) {
	r.t.Helper()
	for k, v := range rows {
		r.must(m.Put(&k, &v))
	}
}

func remove[K comparable, V any](r *decideRig, m *ebpf.Map, rows map[K]V) {
	r.t.Helper()
	for k := range rows {
		if err := m.Delete(&k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			r.t.Fatal(err)
		}
	}
}

// read brings rows up to date with a map, which has none beside those and the extra keys.
func read[K comparable, V any](r *decideRig, m *ebpf.Map, rows map[K]V, extra []K) {
	r.t.Helper()
	for k := range rows {
		extra = append(extra, k)
	}
	clear(rows)
	for _, k := range extra {
		var v V
		err := m.Lookup(&k, &v)
		if err == nil {
			rows[k] = v
		} else if !errors.Is(err, ebpf.ErrKeyNotExist) {
			r.t.Fatal(err)
		}
	}
}

// keysOf returns the keys of a map.
func keysOf[K comparable, V any](m *ebpf.Map) (ks []K) {
	var k K
	var v V
	for all := m.Iterate(); all.Next(&k, &v); {
		ks = append(ks, k)
	}
	return ks
}

// decideRig runs a program and the model.
type decideRig struct {
	*rig
	w       *world
	sockets socketList
	before  [decide.Counters]uint64 // of the counters
}

// install makes the maps hold what a world has, in place of the world before.
func (r *decideRig) install(w *world) {
	r.t.Helper()
	if o := r.w; o != nil {
		r.clearWorld(o)
	}
	r.w = w
	r.must(r.objs.Hosts.Put(uint32(0), &w.host))
	r.writeRules()
	for i, u := range w.uplinks {
		r.must(r.objs.Uplinks.Put(uint32(i), &u))
	}
	for i := range r.index.buckets {
		r.index.buckets[i] = bpfBucket{}
	}
	for i, p := range w.sessions {
		r.must(r.objs.Sessions.Put(uint32(i), &p))
		r.note(uint32(i), w.lives[i])
		r.enlist(p.Alias, i)
		if p.Flags&bpfEntryFlagsENTRY_NAMED != 0 {
			r.enlist(nidsOf(p), i)
		}
	}
	put(r, r.objs.KnownNids, w.known)
	put(r, r.objs.Places, w.places)
	put(r, r.objs.Sources, w.sources)
	put(r, r.objs.NidCollisions, w.collisions)
	put(r, r.objs.Obstructed, w.obstructed)
	put(r, r.objs.PendingPeers, w.pending)
	put(r, r.objs.PlainNodes, w.plainNodes)
	put(r, r.objs.PlainFlows, w.plainFlows)
	put(r, r.objs.RealFragments, w.fragmented)
	put(r, r.objs.Allowances, w.allowances)
	put(r, r.objs.PathCounts, w.counts)
	put(r, r.objs.FlowTables, w.tables)
	put(r, r.objs.CrossedFlows, w.crossed)
	put(r, r.objs.UpdateKeys, w.keys)
	for i, c := range w.windows {
		r.must(r.objs.RateWindows.Put(uint32(i), &c))
	}
	r.marks.Valid = w.marks.Valid
	for i, m := range w.marks.Of {
		r.marks.Mark[i] = m
	}
}

// enlist has the index name a session by an alias.
func (r *decideRig) enlist(k bpfSessionKey, place int) {
	hash := r.index.hash(k)
	for _, b := range r.index.both(hash) {
		if e := room(b, hash); e != nil {
			*e = entryOf(hash, uint32(place), uint32(place))
			return
		}
	}
	r.t.Fatal("no room in the index")
}

func (r *decideRig) clearWorld(o *world) {
	remove(r, r.objs.KnownNids, o.known)
	remove(r, r.objs.Places, o.places)
	remove(r, r.objs.Sources, o.sources)
	remove(r, r.objs.NidCollisions, o.collisions)
	remove(r, r.objs.Obstructed, o.obstructed)
	remove(r, r.objs.PendingPeers, o.pending)
	remove(r, r.objs.PlainNodes, o.plainNodes)
	remove(r, r.objs.PlainFlows, o.plainFlows)
	remove(r, r.objs.RealFragments, o.fragmented)
	remove(r, r.objs.Allowances, o.allowances)
	remove(r, r.objs.PathCounts, o.counts)
	remove(r, r.objs.FlowTables, o.tables)
	remove(r, r.objs.CrossedFlows, o.crossed)
	remove(r, r.objs.UpdateKeys, o.keys)
	for i := range o.marks.Of {
		r.marks.Mark[i] = 0
	}
}

// reread brings the world up to date with what a program has written.
func (r *decideRig) reread() {
	w := r.w
	for i := range w.sessions {
		w.lives[i] = r.notedAt(uint32(i))
	}
	pairs := pairs()
	read(r, r.objs.PendingPeers, w.pending, pairs)
	read(r, r.objs.PlainNodes, w.plainNodes, slices.Clone(pairs))
	read(r, r.objs.PlainFlows, w.plainFlows, nil)
	read(r, r.objs.RealFragments, w.fragmented, keysOf[bpfFragmentKey, uint64](r.objs.RealFragments))
	var ks []bpfAllowanceKey
	for i, p := range w.sessions {
		for _, l := range slices.Concat(remoteLocators, strayLocators) {
			for _, refused := range []roam.L64{0, noLocator << 56} {
				k := bpfAllowanceKey{L64: half(uint64(l | refused)), Slot: uint32(i), Birth: p.Birth}
				if _, ok := w.allowances[k]; !ok {
					ks = append(ks, k)
				}
			}
		}
	}
	read(r, r.objs.Allowances, w.allowances, ks)
	read(r, r.objs.PathCounts, w.counts, keysOf[bpfPathKey, bpfPathCounts](r.objs.PathCounts))
	read(r, r.objs.FlowTables, w.tables, nil)
	read(r, r.objs.CrossedFlows, w.crossed, keysOf[bpfCrossedKey, bpfCrossedFlow](r.objs.CrossedFlows))
	read(r, r.objs.UpdateKeys, w.keys, nil)
	for i := range w.windows {
		r.must(r.objs.RateWindows.Lookup(uint32(i), &w.windows[i]))
	}
}

// model is the world as the model has it; it shares nothing with the world.
func (r *decideRig) model() *decide.State {
	w, s := r.w, decide.NewState()
	s.Host, s.Sockets, s.Marks, s.Rules = modelHost(w.host), r.sockets, w.marks, generatedRules
	for i, u := range w.uplinks {
		s.Uplinks[i] = modelUplink(u)
	}
	for i, p := range w.sessions {
		m := modelSession(p, w.lives[i])
		if t, there := w.tables[tableKey(tableUserOf(p), 0)]; there {
			m.Table = modelTable(t)
		}
		m.RuleTables = make(map[int]*decide.FlowTable)
		for i := range s.Rules {
			if t, there := w.tables[tableKey(tableUserOf(p), 1+uint32(p.RulesAt)+uint32(i))]; there {
				m.RuleTables[i] = modelTable(t)
			}
		}
		if k, there := w.keys[userOf(p)]; there {
			m.UpdateKey = &decide.UpdateKey{Key: macBytes(k.Key), Counter: k.Counter, Acks: k.Acks}
		}
		s.Put(m)
	}
	for k, v := range w.known {
		s.Known[k.nid()] = v == 2
	}
	for k := range w.places {
		s.Places[k.ilv()] = true
	}
	for k := range w.sources {
		s.Sources[modelAllowanceKey(k)] = true
	}
	for k, v := range w.collisions {
		s.Collisions[decide.CollisionKey{Local: k.LocalNid.nid(), Remote: k.Remote.ilv()}] = modelKey(v)
	}
	for k, v := range w.obstructed {
		s.Obstructed[decide.ObstructionKey{Local: k.LocalL64.l64(), Remote: k.Remote.ilv()}] = v != 0
	}
	for k, v := range w.pending {
		s.Pending[modelKey(k)] = modelPending(v)
	}
	for k := range w.plainNodes {
		s.PlainNodes[modelKey(k)] = true
	}
	for k, v := range w.plainFlows {
		s.PlainFlows[modelFlow(k)] = decide.FlowEnds{Local: v.LocalL64.l64(), Remote: v.RemoteL64.l64()}
	}
	w.modelFragments(s)
	for k, v := range w.allowances {
		s.Allowances[modelAllowanceKey(k)] = modelAllowance(v)
	}
	for k, v := range w.counts {
		s.PathCounts[decide.PathKey{Near: k.Near.ilv(), Far: k.Far.ilv()}] = &decide.PathCounts{
			Epoch: v.Epoch, Told: v.Told,
			Received: ilnpwire.Counts{Packets: v.RxPackets, Bytes: v.RxBytes},
			Sent:     ilnpwire.Counts{Packets: v.TxPackets, Bytes: v.TxBytes},
		}
	}
	for k, v := range w.crossed {
		s.Crossed[modelCrossed(k)] = modelCrossedFlow(v)
	}
	for i, c := range w.windows {
		s.Windows[i] = decide.Window{Since: c.Since, Last: c.Last, Now: c.Now}
	}
	return s
}

// shot is one packet and what a program is to be run on it.
type shotAt struct {
	outward bool // egress of the session device or of an uplink; else ingress of one
	packet  *decide.Packet
	frame   []byte
}

// result is what a program did.
type result struct {
	verdict  int
	out      []byte // from the IPv6 header
	counters []decide.Counter
	events   []decide.Event
	packets  [][]byte // of the events
}

func clock(id int32) uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err)
	}
	return uint64(ts.Nano())
}

// fire runs the program.
func (r *decideRig) fire(s shotAt) (got result) {
	prog := r.objs.IlnpUplinkIngress
	if s.outward {
		prog = r.objs.IlnpSessionEgress
	}
	k := s.packet
	v, out := r.run(prog, s.frame, func(o *ebpf.RunOptions) { o.Context = contextOf(k) })
	got.verdict, got.out = v, out[min(ethLen, len(out)):]
	r.collect(&got)
	return got
}

// contextOf is what a program sees of a packet beside its bytes.
func contextOf(k *decide.Packet) skbContext {
	c := skbContext{Mark: k.Mark, Arrived: k.Arrived, Ifindex: k.Link, GSOSize: k.GSO}
	if k.GSO != 0 {
		c.GSOSegs = 2
	}
	return c
}

// collect reads what a program has counted and told.
func (r *decideRig) collect(got *result) {
	now := r.counts()
	for c := range decide.Counters {
		for range now[c] - r.before[c] {
			got.counters = append(got.counters, c)
		}
	}
	r.before = now
	for i, reader := range []*ringbuf.Reader{r.urg, r.req, r.str} {
		for {
			rec, err := reader.Read()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			r.must(err)
			ev, ok := decodeEvent(rec.RawSample)
			if !ok {
				r.t.Fatal("an event cannot be read")
			}
			got.events = append(got.events, modelEvent(ev, decide.Ring(i)))
			got.packets = append(got.packets, ev.Packet)
		}
	}
}

// counts reads all counters by one call, of which there is one for each packet.
func (r *decideRig) counts() (sums [decide.Counters]uint64) {
	r.t.Helper()
	m, cpus := r.objs.Counters, ebpf.MustPossibleCPU()
	keys, values := make([]uint32, m.MaxEntries()), make([]uint64, int(m.MaxEntries())*cpus)
	n, err := m.BatchLookup(new(ebpf.MapBatchCursor), keys, values, nil)
	if n < len(sums) || err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		r.t.Fatalf("read %d counters: %v", n, err)
	}
	for i, k := range keys[:n] {
		if int(k) >= len(sums) {
			continue
		}
		for _, v := range values[i*cpus : (i+1)*cpus] {
			sums[k] += v
		}
	}
	return sums
}

// disagrees says where a program's result is another one than the model's.
func disagrees(s shotAt, got result, want decide.Outcome, h *decide.Host) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if got.verdict != int(want.Verdict) {
		say("verdict %d, want %d", got.verdict, want.Verdict)
	}
	counters := slices.Sorted(slices.Values(want.Counters))
	if !slices.Equal(got.counters, counters) {
		say("counters %v, want %v", got.counters, counters)
	}
	events := slices.Clone(want.Events)
	slices.SortStableFunc(events, func(a, b decide.Event) int { return int(a.Ring) - int(b.Ring) })
	if !slices.Equal(got.events, events) {
		say("events\n  %+v, want\n  %+v", got.events, events)
	}
	for _, p := range got.packets {
		if p != nil && !want.Again && !bytes.Equal(p, labelled(s.packet.Bytes, want.Label)) {
			say("an event has another packet")
		}
	}
	if got.verdict == shot || got.verdict == consumed || len(wrong) > 0 {
		return wrong
	}
	if want.Report != nil && len(got.out) >= len(s.packet.Bytes) {
		want.Report = atClockOf(*want.Report, got.out[:len(s.packet.Bytes)])
	}
	nbytes, err := h.Rewrite(s.packet, &want)
	if err != nil || leavesOverNIDs(s, want) {
		return append(wrong, differentEnds(got.out, want)...)
	}
	if len(got.out) < len(nbytes) || !bytes.Equal(got.out[:len(nbytes)], nbytes) {
		say("bytes: %s", difference(got.out, nbytes))
	}
	return wrong
}

// leavesOverNIDs reports whether an ICMPv6 message leaves without a nonce, to a peer that
// wants its sum over NIDs. The programs sum it over NIDs all the same, although the
// receiver permits that only to what has the nonce; package xlate sums it as plain IPv6.
// Where the two agree this function goes.
func leavesOverNIDs(s shotAt, want decide.Outcome) bool {
	return s.outward && want.Action == decide.Sent && want.OverNIDs && !want.Nonce.Present()
}

// differentEnds compares the addresses alone, where the model has no bytes.
func differentEnds(out []byte, want decide.Outcome) []string {
	if len(out) < 40 || want.Action == decide.Left || want.Action == decide.Segmented {
		return nil
	}
	at := func(i int) roam.ILV {
		return roam.ILV{L64: roam.L64(binary.BigEndian.Uint64(out[i:])), NID: roam.NID(binary.BigEndian.Uint64(out[i+8:]))}
	}
	if at(8) != want.Src || at(24) != want.Dst {
		return []string{fmt.Sprintf("from %v to %v, want from %v to %v", at(8), at(24), want.Src, want.Dst)}
	}
	return nil
}

// noted says where what is noted for a security log differs from the model.
func (r *decideRig) noted(s shotAt, got result, want decide.Outcome) (wrong []string) {
	reasons := slices.Clone(got.counters)
	if want.Refused != 0 && !slices.Contains(reasons, want.Refused) {
		reasons = append(reasons, want.Refused)
	}
	for _, c := range slices.Compact(reasons) {
		var perCPU []bpfRefusal
		r.must(r.objs.Refusals.Lookup(uint32(c), &perCPU))
		i := slices.IndexFunc(perCPU, func(n bpfRefusal) bool { return n.At != 0 })
		if (i >= 0) != (c == want.Refused && c != decide.TxPackets) {
			wrong = append(wrong, fmt.Sprintf("%s is noted: %v", counterTable[c].Name, i >= 0))
		}
		if i < 0 {
			continue
		}
		// In a packet from outside that was dropped the addresses stand as they came.
		if b := s.packet.Bytes; half(binary.BigEndian.Uint64(b[8:])) != perCPU[i].Remote.L64 || half(binary.BigEndian.Uint64(b[24:])) != perCPU[i].Local.L64 {
			wrong = append(wrong, fmt.Sprintf("%s is noted of %+v", counterTable[c].Name, perCPU[i]))
		}
		clear(perCPU)
		r.must(r.objs.Refusals.Put(uint32(c), perCPU))
	}
	return wrong
}

// changed says where the maps differ from what the model has made of them, at the moment
// before and the one after.
func (r *decideRig) changed(before, after *decide.State) (wrong []string) {
	now := r.model()
	for k, p := range now.Sessions {
		wrong = append(wrong, between("live", reflect.ValueOf(p.Live), reflect.ValueOf(before.Sessions[k].Live), reflect.ValueOf(after.Sessions[k].Live))...)
	}
	for k, p := range now.Sessions {
		if p.UpdateKey != nil {
			was, is := reflect.ValueOf(*before.Sessions[k].UpdateKey), reflect.ValueOf(*after.Sessions[k].UpdateKey)
			wrong = append(wrong, between("update key", reflect.ValueOf(*p.UpdateKey), was, is)...)
		}
		if p.Table != nil {
			wrong = append(wrong, between("table", reflect.ValueOf(*p.Table), reflect.ValueOf(*before.Sessions[k].Table), reflect.ValueOf(*after.Sessions[k].Table))...)
		}
		for i, t := range p.RuleTables {
			was, is := before.Sessions[k].RuleTables[i], after.Sessions[k].RuleTables[i]
			wrong = append(wrong, between("table of a rule", reflect.ValueOf(t), reflect.ValueOf(was), reflect.ValueOf(is))...)
		}
	}
	wrong = append(wrong, rowsBetween("pending", now.Pending, before.Pending, after.Pending)...)
	wrong = append(wrong, rowsBetween("allowance", now.Allowances, before.Allowances, after.Allowances)...)
	wrong = append(wrong, rowsBetween("counts", now.PathCounts, before.PathCounts, after.PathCounts)...)
	for i := range now.Windows {
		wrong = append(wrong, between("window", reflect.ValueOf(now.Windows[i]), reflect.ValueOf(before.Windows[i]), reflect.ValueOf(after.Windows[i]))...)
	}
	// What is noted of nodes and flows is one thing or the other, as time decides.
	if !reflect.DeepEqual(now.PlainNodes, before.PlainNodes) && !reflect.DeepEqual(now.PlainNodes, after.PlainNodes) {
		wrong = append(wrong, fmt.Sprintf("plain nodes %v, want %v", now.PlainNodes, before.PlainNodes))
	}
	wrong = append(wrong, wrongCrossed(now, before, after)...)
	if !reflect.DeepEqual(now.PlainFlows, before.PlainFlows) && !reflect.DeepEqual(now.PlainFlows, after.PlainFlows) {
		wrong = append(wrong, fmt.Sprintf("plain flows %v, want %v", now.PlainFlows, before.PlainFlows))
	}
	return append(wrong, fragmentsBetween(now, before, after)...)
}
