package ilnphost

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// crossingRig is a session with a short path and a long one, of which the peer's acknowledgements come.
func crossingRig(t *testing.T) (*rig, ilnp.Entry) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there})
	p.Counted = true
	choose(&p, nil, p.Paths[1])
	r.upsert(p)
	r.settle(p.Key)
	return r, p
}

// dataBy is a segment of the peer on a connection of ours, to one of our locators.
func dataBy(to roam.L64, own uint16, data int, nonce bool) []byte {
	s := bare(443, own, flagACK, data)
	if nonce {
		return packet(at(there, theirs), at(to, ours), ip6.DestOpts, with(theirNonce, ip6.TCP, s))
	}
	return packet(at(there, theirs), at(to, ours), ip6.TCP, s)
}

// bare is a segment without options, and with so many bytes of data.
func bare(from, to uint16, flags uint8, data int) []byte {
	s := segmentOf(from, to, flags)[:20]
	s[ip6.TCPDataOffsetAt] = 5 << 4
	return append(s, make([]byte, data)...)
}

// leaves returns our locator from which a segment leaves.
func (r *rig) leaves(segment []byte) roam.L64 {
	r.t.Helper()
	_, out := r.egress(packet(session(ours), session(theirs), ip6.TCP, segment))
	return roam.L64(binary.BigEndian.Uint64(out[8:]))
}

// What acknowledges data that came by the long path leaves by the short one, and the other way round, from the first
// data on that came by the long path; on the compact path of ingress and on the full one. Data, and what ends a
// connection, do not take the long path, nor do other connections.
func TestAcknowledgementsAreCrossed(t *testing.T) {
	const short, long, own = here, here + 1, 40000
	r, p := crossingRig(t)
	for _, c := range []struct {
		name  string
		came  roam.L64 // 0: nothing
		data  int
		nonce bool
		want  roam.L64
	}{
		{"before anything", 0, 0, false, short},
		{"data by the short path", short, 100, false, short},
		{"no data by the long path", long, 0, false, short},
		{"data by the long path", long, 100, false, short},
		{"by the short path then", short, 100, false, long},
		{"an acknowledgement by the long path", long, 0, false, long},
		{"by the long path, with a nonce", long, 100, true, short},
		{"by the short path, with a nonce", short, 100, true, long},
	} {
		if c.came != 0 {
			if v, _ := r.ingress(dataBy(c.came, own, c.data, c.nonce)); v != passOn {
				t.Errorf("%s: verdict %d", c.name, v)
			}
		}
		if got := r.leaves(bare(own, 443, flagACK, 0)); got != c.want {
			t.Errorf("%s: the acknowledgement leaves from %v, want %v", c.name, got, c.want)
		}
	}
	for name, segment := range map[string][]byte{
		"data": bare(own, 443, flagACK, 10), "the last one": bare(own, 443, flagACK|flagFIN, 0),
		"a reset":            bare(own, 443, 0x14, 0),
		"another connection": bare(own+1, 443, flagACK, 0),
	} {
		if got := r.leaves(segment); got != short {
			t.Errorf("%s leaves from %v", name, got)
		}
	}
	for _, k := range keysOf[bpfCrossedKey, bpfCrossedFlow](r.objs.CrossedFlows) {
		var f bpfCrossedFlow
		r.must(r.objs.CrossedFlows.Lookup(&k, &f))
		f.At -= 1000
		r.must(r.objs.CrossedFlows.Put(&k, &f))
	}
	r.ingress(dataBy(short, own, 100, false))
	if got := r.leaves(bare(own, 443, flagACK, 0)); got != short {
		t.Errorf("long after the last data by the long path an acknowledgement leaves from %v", got)
	}
	r.ingress(dataBy(long, own, 100, false))
	if r.ingress(dataBy(short, own, 100, false)); r.leaves(bare(own, 443, flagACK, 0)) != long {
		t.Error("not crossed again")
	}
	p.Seq++
	if r.upsert(p); r.leaves(bare(own, 443, flagACK, 0)) != short {
		t.Error("crossed by the paths of an entry that is no more")
	}
}

// An acknowledgement takes no path that cannot be used, and none is crossed in a session without a long path.
func TestCrossingLeavesPaths(t *testing.T) {
	const short, long, own = here, here + 1, 40000
	r, p := crossingRig(t)
	r.ingress(dataBy(long, own, 100, false))
	r.ingress(dataBy(short, own, 100, false))
	r.must(r.SetUplinks([]UplinkEntry{
		{Local: roam.LinkLocator{Link: loopback, L64: short}, Usable: true, MTU: 1500},
		{Local: roam.LinkLocator{Link: loopback, L64: long}, MTU: 1500},
	}))
	if got := r.leaves(bare(own, 443, flagACK, 0)); got != short {
		t.Errorf("by a path that cannot be used: %v", got)
	}
	r.uplink(short, long)
	if got := r.leaves(bare(own, 443, flagACK, 0)); got != long {
		t.Errorf("by %v once it can", got)
	}
	p.Seq++
	choose(&p, nil)
	r.upsert(p)
	r.ingress(dataBy(long, own, 100, false))
	r.ingress(dataBy(short, own, 100, false))
	ways := make(map[roam.L64]int)
	for range 10 {
		ways[r.leaves(bare(own, 443, flagACK, 0))]++
	}
	if len(ways) != 2 {
		t.Errorf("without a long path they take no turns: %v", ways)
	}
}

// sentAgo is a segment of the peer with data and a time stamp of so long ago.
func sentAgo(to roam.L64, own uint16, ago time.Duration) []byte {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it always works
	s := bare(443, own, flagACK, 12+100)
	s[ip6.TCPDataOffsetAt] = 8 << 4
	binary.BigEndian.PutUint32(s[20:], 0x0101080a)
	binary.BigEndian.PutUint32(s[24:], uint32((now.Nano()-ago.Nanoseconds())/1e6))
	return packet(at(there, theirs), at(to, ours), ip6.TCP, s)
}

// A queue is a part of the way there: the longer data are under way by the short path, the more acknowledgements
// return by it, and at last each by the path of its data. The long path's way is 45 ms longer here.
func TestCrossingByTimeStamps(t *testing.T) {
	const short, long, ms = here, here + 1, time.Millisecond
	r, _ := crossingRig(t)
	for i, c := range []struct {
		byShort, byLong time.Duration // how long data are under way
		toShort, toLong roam.L64      // where acknowledgements leave from, of data by either path
	}{
		{5 * ms, 50 * ms, long, short},
		{20 * ms, 50 * ms, long, short},
		{30 * ms, 50 * ms, short, short},
		{50 * ms, 50 * ms, short, short},
		{70 * ms, 50 * ms, short, short},
		{80 * ms, 50 * ms, short, long},
		{300 * ms, 50 * ms, short, long},
		{time.Minute, 50 * ms, long, short},  // no such path: the peer's clock has another unit
		{-time.Minute, 50 * ms, long, short}, // clocks do not agree, nor need they
	} {
		own := uint16(40000 + i)
		r.ingress(sentAgo(long, own, c.byLong))
		r.ingress(sentAgo(short, own, c.byShort))
		if got := r.leaves(bare(own, 443, flagACK, 0)); got != c.toShort {
			t.Errorf("%v and %v there: what acknowledges the former leaves from %v", c.byShort, c.byLong, got)
		}
		r.ingress(sentAgo(long, own, c.byLong))
		if got := r.leaves(bare(own, 443, flagACK, 0)); got != c.toLong {
			t.Errorf("%v and %v there: what acknowledges the latter leaves from %v", c.byShort, c.byLong, got)
		}
	}
	const own = 41000
	for range 40 { // a queue grows: the mean follows
		r.ingress(sentAgo(long, own, 50*ms))
		r.ingress(sentAgo(short, own, 5*ms))
	}
	for range 20 {
		r.ingress(sentAgo(long, own, 50*ms))
		r.ingress(sentAgo(short, own, 50*ms))
	}
	if got := r.leaves(bare(own, 443, flagACK, 0)); got != short {
		t.Errorf("with a queue that has grown to 45 ms an acknowledgement leaves from %v", got)
	}
}
