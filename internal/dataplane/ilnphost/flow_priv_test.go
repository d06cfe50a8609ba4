package ilnphost

import (
	"maps"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// way is an entry of locators, ours first.
type way [2]roam.L64

// crossed is an established session with a path from each of ours to each of theirs.
func crossed(r *rig, own, other []roam.L64) ilnp.Entry {
	r.t.Helper()
	r.uplink(own...)
	p := entryFor()
	for _, l := range own {
		for _, d := range other {
			p.Paths = append(p.Paths, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: l}, Remote: d})
		}
	}
	return p
}

// choose gives an entry the tables that a core gives it: of its paths those of long are long ones.
func choose(p *ilnp.Entry, rules map[int]multipath.Demand[ilnp.Path], long ...ilnp.Path) {
	var m multipath.Machine[ilnp.Path]
	now := time.Unix(1000, 0)
	for _, path := range p.Paths {
		rtt := 10 * time.Millisecond
		if slices.Contains(long, path) {
			rtt = 100 * time.Millisecond
		}
		for range 2 {
			m.HandleAnswer(now, path, now.Add(-rtt))
		}
	}
	choice := m.Choose(now, multipath.Request[ilnp.Path]{
		Now: multipath.Use[ilnp.Path]{Paths: p.Paths, PerFlow: p.PerFlow}, Paths: p.Paths, Several: true, Rules: rules,
		Valid: func(q ilnp.Path) bool { return !slices.Contains(p.Unvalidated, q.Remote) },
		Key:   func(q ilnp.Path) uint64 { return multipath.PathKey(uint64(q.Local.L64), uint64(q.Remote)) },
	})
	p.Long, p.Table, p.RuleTables = choice.Long, choice.Table, choice.Rules
}

// connection sends some segments of one, and returns the ways that they took.
func (r *rig) connection(from, to uint16) map[way]bool {
	r.t.Helper()
	ways := make(map[way]bool)
	take := func(p ilnpwire.Packet) { ways[way{p.Src.L64, p.Dst.L64}] = true }
	for _, flags := range []uint8{flagSYN, flagSYN | flagACK, flagACK, flagACK | flagFIN} {
		take(r.send(ip6.TCP, segmentOf(from, to, flags)))
	}
	for range 4 {
		take(r.send(ip6.TCP, segmentOf(from, to, flagACK)))
	}
	return ways
}

// Each connection keeps to one path, the same one at both ends, and all paths have
// connections; UDP is spread as ever.
func TestConnectionsKeepToAPath(t *testing.T) {
	own, other := []roam.L64{here, here + 1}, []roam.L64{there, else1}
	us, them := newRig(t), newRig(t)
	p, q := crossed(us, own, other), crossed(them, other, own)
	p.PerFlow, q.PerFlow = true, true
	choose(&p, nil)
	choose(&q, nil)
	us.upsert(p)
	them.upsert(q)
	used := make(map[way]int)
	for port := uint16(40000); port < 40200; port++ {
		ours, theirs := us.connection(port, 443), them.connection(443, port)
		for w := range ours {
			if len(ours) != 1 || len(theirs) != 1 || !theirs[way{w[1], w[0]}] {
				t.Fatalf("port %d: from here %v, from there %v", port, ours, theirs)
			}
			used[w]++
		}
	}
	for w, n := range used {
		if len(used) != 4 || n < 25 || n > 80 {
			t.Errorf("%d of 200 connections on %v, of %d ways", n, w, len(used))
		}
	}
	spread := make(map[way]bool)
	for range 8 {
		d := us.send(ip6.UDP, udp(100))
		spread[way{d.Src.L64, d.Dst.L64}] = true
	}
	if len(spread) != 4 {
		t.Errorf("datagrams took %v", spread)
	}
}

// However much a connection sends on its path, datagrams are spread evenly.
func TestConnectionsLeaveTheSpreadAlone(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there})
	p.PerFlow = true
	choose(&p, nil)
	r.upsert(p)
	used := make(map[roam.L64]int)
	for range 20 {
		if ways := r.connection(40000, 443); len(ways) != 1 {
			t.Fatalf("a connection on %v", ways)
		}
		used[r.send(ip6.UDP, udp(100)).Src.L64]++
	}
	if used[here] != 10 || used[here+1] != 10 {
		t.Errorf("of 20 datagrams on each path: %v", used)
	}
}

// A path that cannot be used, or leads to where nobody may be, is not a
// connection's.
func TestConnectionsLeavePaths(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there, else1})
	p.PerFlow, p.Unvalidated = true, []roam.L64{else1}
	choose(&p, nil)
	r.upsert(p)
	r.must(r.SetUplinks([]UplinkEntry{
		{Local: roam.LinkLocator{Link: loopback, L64: here}, MTU: 1500},
		{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Usable: true, MTU: 1500},
	}))
	for port := uint16(40000); port < 40020; port++ {
		if ways := r.connection(port, 443); len(ways) != 1 || !ways[way{here + 1, there}] {
			t.Errorf("port %d: %v", port, ways)
		}
	}
}

// Where the map of tables was full a session has none. A connection that must keep to one path does
// so by the weights of the paths, which the other end computes, too.
func TestConnectionsWithoutATable(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there, else1})
	p.PerFlow = true
	r.upsert(p)
	for _, k := range keysOf[bpfTableKey, bpfFlowTable](r.objs.FlowTables) {
		r.must(r.objs.FlowTables.Delete(&k))
	}
	used := make(map[way]int)
	for port := uint16(40000); port < 40040; port++ {
		ways := make(map[way]bool)
		for range 4 {
			r.send(ip6.UDP, udp(100)) // the turns of the session change
			maps.Copy(ways, r.connection(port, 443))
			maps.Copy(ways, r.connection(443, port))
		}
		if len(ways) != 1 {
			t.Errorf("ports %d and 443, in both directions: %v", port, ways)
		}
		for w := range ways {
			used[w]++
		}
	}
	if len(used) != 4 {
		t.Errorf("40 connections take %v", used)
	}
}

// Connections do not take long paths, unless no other can be used; datagrams do.
func TestConnectionsLeaveLongPaths(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there, else1})
	choose(&p, nil, p.Paths[1:]...)
	r.upsert(p)
	for port := uint16(40000); port < 40020; port++ {
		if ways := r.connection(port, 443); len(ways) != 1 || !ways[way{here, there}] {
			t.Errorf("port %d: %v", port, ways)
		}
	}
	spread := make(map[way]int)
	for range 40 {
		d := r.send(ip6.UDP, udp(100))
		spread[way{d.Src.L64, d.Dst.L64}]++
	}
	for w, n := range spread {
		if len(spread) != 4 || n != 10 {
			t.Errorf("%d of 40 datagrams on %v, of %d ways", n, w, len(spread))
		}
	}
	r.must(r.SetUplinks([]UplinkEntry{
		{Local: roam.LinkLocator{Link: loopback, L64: here}, MTU: 1500},
		{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Usable: true, MTU: 1500},
	}))
	if ways := r.connection(40000, 443); len(ways) == 0 || ways[way{here, there}] || ways[way{here, else1}] {
		t.Errorf("by another uplink than that which is left: %v", ways)
	}
}

// takes sends segments of a connection, none of them the first, and returns how many took each way.
func (r *rig) takes(from uint16, n int) map[way]int {
	r.t.Helper()
	ways := make(map[way]int)
	for range n {
		p := r.send(ip6.TCP, segmentOf(from, 443, flagACK))
		ways[way{p.Src.L64, p.Dst.L64}]++
	}
	return ways
}

// Beside long paths segments take turns on the short ones; a bucket that was placed takes a long
// one, as long as that can be used. What connections send is counted, and stays so when the paths of
// buckets change; datagrams do not notice.
func TestConnectionsArePlaced(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there, else1})
	choose(&p, nil, p.Paths[0], p.Paths[3])
	r.upsert(p)
	short, long := way{here, else1}, way{here + 1, else1}
	if ways := r.takes(40000, 40); len(ways) != 2 || ways[short] != 20 || ways[way{here + 1, there}] != 20 {
		t.Errorf("before anything is placed: %v", ways)
	}
	flows := func() (sum uint32) {
		acts, err := r.Activity(r.keys())
		if r.must(err); acts[0].Flows == nil {
			return 0
		}
		for _, n := range acts[0].Flows {
			sum += n
		}
		return sum
	}
	sent := flows()
	place := func(path ilnp.Path) {
		p.Seq++
		table := *p.Table
		for b := range table.Sets {
			table.Sets[b] = 1 << slices.Index(table.Paths, path)
		}
		p.Table = &table
		r.upsert(p)
	}
	place(p.Paths[3])
	if ways := r.takes(40000, 10); len(ways) != 1 || ways[long] != 10 || sent == 0 || flows() != sent/4*5 {
		t.Errorf("placed: %v, sent %d, then %d", ways, sent, flows())
	}
	if d := r.send(ip6.TCP, segmentOf(40000, 443, flagSYN)); (way{d.Src.L64, d.Dst.L64}) == long {
		t.Error("a first segment takes a long path")
	}
	spread := make(map[way]int)
	for range 40 {
		d := r.send(ip6.UDP, udp(100))
		spread[way{d.Src.L64, d.Dst.L64}]++
	}
	if len(spread) != 4 || spread[long] != 10 {
		t.Errorf("datagrams: %v", spread)
	}
	r.must(r.SetUplinks([]UplinkEntry{
		{Local: roam.LinkLocator{Link: loopback, L64: here}, Usable: true, MTU: 1500},
		{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, MTU: 1500},
	}))
	if ways := r.takes(40000, 10); ways[long] > 0 || len(ways) == 0 {
		t.Errorf("by an uplink that does not work: %v", ways)
	}
	p.Seq++
	p.Long = nil
	if r.upsert(p); flows() != 0 {
		t.Error("bytes are counted in a session without long paths")
	}
	p.Seq++
	if choose(&p, nil, p.Paths[3]); len(p.Long) == 0 {
		t.Fatal("no path is long")
	}
	if r.upsert(p); flows() != 0 {
		t.Error("bytes of the time before are counted")
	}
	p.Seq++
	p.Paths, p.Long, p.Table = p.Paths[:1], nil, nil
	if r.upsert(p); len(keysOf[bpfTableKey, bpfFlowTable](r.objs.FlowTables)) != 0 {
		t.Error("a session with one path has a table")
	}
}

// Tables go with their sessions, and the next process removes what it finds of others.
func TestTablesEnd(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there})
	choose(&p, nil, p.Paths[1:]...)
	r.upsert(p)
	stray := bpfTableKey{Slot: 77, Birth: 5}
	r.must(r.objs.FlowTables.Put(&stray, &bpfFlowTable{}))
	r.must(r.tables.adopt(r.objs.FlowTables, r.known))
	if ks := keysOf[bpfTableKey, bpfFlowTable](r.objs.FlowTables); len(ks) != 1 || ks[0] == stray {
		t.Errorf("tables of %v", ks)
	}
	r.must(r.Delete(p.Key))
	if ks := keysOf[bpfTableKey, bpfFlowTable](r.objs.FlowTables); len(ks) != 0 {
		t.Errorf("after its end: tables of %v", ks)
	}
}

// A path on which a byte counts more gets as much less, of datagrams and segments.
func TestCostsOfPaths(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there, else1})
	for i, want := range []float64{1, 1. / 1.5, 1. / 2, 1. / 3, 1. / 4, 1. / 6} {
		p.Seq++
		p.Costs = map[ilnp.Path]uint8{p.Paths[3]: uint8(i)}
		r.upsert(p)
		for _, proto := range []uint8{ip6.UDP, ip6.TCP} {
			used := make(map[way]float64)
			for range 360 {
				body := udp(100)
				if proto == ip6.TCP {
					body = segmentOf(40000, 443, flagACK)
				}
				d := r.send(proto, body)
				used[way{d.Src.L64, d.Dst.L64}]++
			}
			dear, cheap := used[way{here + 1, else1}], used[way{here, there}]
			if len(used) != 4 || dear/cheap < 0.9*want || dear/cheap > 1.1*want {
				t.Errorf("cost %d: %v packets, %v on another path", i, dear, cheap)
			}
		}
	}
}

// By default segments are spread, but for the first ones of a connection, which take
// the path that it would keep to. The daemon hears of it once when probes of the
// correspondent ask for that; that they do not any more it sees.
func TestCorrespondentAsksForOnePath(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there, else1})
	choose(&p, nil)
	r.upsert(p)
	first := func(flags uint8) way {
		d := r.send(ip6.TCP, segmentOf(40000, 443, flags))
		return way{d.Src.L64, d.Dst.L64}
	}
	var told []EventKind
	probe := func(data string) {
		t.Helper()
		r.ingress(mustPacket(t)(ilnpwire.BuildEcho(at(there, theirs), at(here, ours), theirNonce, true, 7, 7, []byte(data))))
		acts, err := r.Activity(r.keys())
		r.must(err)
		a := acts[0]
		if !a.Asks || a.AsksPerFlow != (len(data) == 20) {
			t.Errorf("after %d bytes: %+v", len(data), a)
		}
		for _, ev := range r.events() {
			if ev.Key == p.Key {
				told = append(told, ev.Kind)
			}
		}
		p.PerFlow = a.AsksPerFlow
		choose(&p, nil)
		r.upsert(p)
	}
	ways := r.connection(40000, 443)
	if len(ways) != 4 || first(flagSYN) != first(flagSYN|flagACK) {
		t.Errorf("by default: %v", ways)
	}
	syn := first(flagSYN)
	probe("sixteen bytes...more")
	if ways := r.connection(40000, 443); len(ways) != 1 || !ways[syn] {
		t.Errorf("as the correspondent wants it: %v, first segments %v", ways, syn)
	}
	if w := r.connection(40000, 443); r.connection(443, 40000)[syn] != w[syn] {
		t.Error("the two directions differ")
	}
	probe("sixteen bytes...more")
	probe("sixteen bytes...")
	probe("sixteen bytes...")
	if ways := r.connection(40000, 443); len(ways) != 4 {
		t.Errorf("afterwards: %v", ways)
	}
	if !slices.Equal(told, []EventKind{PerFlow}) {
		t.Errorf("told %v", told)
	}
}
