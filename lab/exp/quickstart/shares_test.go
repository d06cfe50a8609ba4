package quickstart

import (
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/scene"
)

// fill sets the counts of a sample; over: the first phase with three links is.
func (x *records) fill(now *scene.Sample, sum, tcp map[string]uint64, at time.Duration, over bool) {
	now.Data = scene.Data{}
	for l, n := range sum {
		now.Out[l], now.In[l] = n, n
		now.Towards[l] = uint64(at/time.Second) + x.came // a packet a second: neighbor discovery
		if over {
			now.Out[l] += x.bytes["out "+l]
			now.In[l] += x.bytes["in "+l]
		}
		for way, all := range map[linkem.Direction]uint64{linkem.AB: now.Out[l], linkem.BA: now.In[l]} {
			now.Data[scene.Flow{Link: l, Way: way, Peer: 1, Proto: packets.UDP}] = all - tcp[l]
			now.Data[scene.Flow{Link: l, Way: way, Peer: 2, Proto: packets.TCP}] = tcp[l]
		}
	}
	if over {
		now.Out["net2"], now.In["net2"] = now.Out["net2"]+x.trains, now.In["net2"]+x.trains
	}
}

// sharing are runs with other shares, or with the same ones at another time.
func sharing(add func(name string, alter func(*records), red ...string)) {
	for _, way := range []string{"out", "in"} {
		add("uneven "+way, func(x *records) { x.bytes[way+" net1"] = 60_000 }, "shares")
	}
	add("packets that measure a path", func(x *records) { x.trains = 400_000 })
	add("TCP uses a link late", func(x *records) { x.shuns = time.Second }, "set-change")
	add("TCP never uses a link", func(x *records) { x.shuns = x.length }, "shares", "set-change")
	add("a set that is in use late", func(x *records) { x.bringUp = time.Second }, "set-change")
}

// A phase counts from when its links, and no others, carry data both ways.
func TestPhaseInEffect(t *testing.T) {
	phase := sharePhase{links: []string{"net1", "net2"}, span: span{time.Second, 2 * time.Second}}
	reading := func(tenth int, out, in [3]uint64) scene.Sample {
		s := scene.Sample{At: exptest.At(time.Duration(tenth) * 100 * time.Millisecond), Data: scene.Data{}}
		for i, l := range access {
			s.Data[scene.Flow{Link: l, Way: linkem.AB}], s.Data[scene.Flow{Link: l, Way: linkem.BA}] = out[i], in[i]
		}
		return s
	}
	list := []scene.Sample{
		reading(9, [3]uint64{}, [3]uint64{}),
		reading(10, [3]uint64{9000, 9000, 0}, [3]uint64{9000, 9000, 0}),           // before the phase
		reading(11, [3]uint64{29000, 10000, 0}, [3]uint64{19000, 19000, 0}),       // net2 has too little out
		reading(12, [3]uint64{39000, 20000, 0}, [3]uint64{39000, 20000, 0}),       // and in
		reading(13, [3]uint64{49000, 30000, 2001}, [3]uint64{49000, 30000, 0}),    // net3 carries some out
		reading(14, [3]uint64{59000, 40000, 4001}, [3]uint64{59000, 40000, 2001}), // and in
		reading(15, [3]uint64{59900, 40900, 4001}, [3]uint64{59900, 40900, 2001}), // next to nothing
		reading(16, [3]uint64{69900, 44900, 6001}, [3]uint64{69900, 44900, 4001}),
		reading(17, [3]uint64{79900, 54300, 6001}, [3]uint64{79900, 54300, 4001}),
	}
	tr := trace{Trace: &scene.Trace{Start: exptest.Origin, Samples: list}}
	from, to := exptest.At(phase.span.from), exptest.At(phase.span.to)
	if at, ok := tr.inEffect(phase, from, to); !ok || !at.Equal(list[7].At) {
		t.Errorf("in effect at %v, %v", at.Sub(exptest.Origin), ok)
	}
	tr.Samples = list[:7]
	if at, ok := tr.inEffect(phase, from, to); ok || !at.Equal(from) {
		t.Errorf("never in effect: %v, %v", at.Sub(exptest.Origin), ok)
	}
}

// Each flow that is not idle must use all links of the set, not only all of them together.
func TestEachFlowUsesTheSet(t *testing.T) {
	flow := func(peer uint64, proto uint8, way linkem.Direction, links ...uint64) scene.Data {
		d := scene.Data{}
		for i, n := range links {
			d[scene.Flow{Link: access[i], Way: way, Peer: peer, Proto: proto}] = n
		}
		return d
	}
	for _, c := range []struct {
		name  string
		flows []scene.Data
		want  bool
	}{
		{"all", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000), flow(2, packets.UDP, linkem.AB, 3000, 3000)}, true},
		{"one correspondent lags", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(2, packets.UDP, linkem.AB, 3000, 0)}, false},
		{"one protocol lags", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(1, packets.TCP, linkem.AB, 3000, 0)}, false},
		{"a third link has some", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(2, packets.UDP, linkem.AB, 9000, 9000, 2001)}, false},
		{"a third link has some of each", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000, 1001),
			flow(2, packets.UDP, linkem.AB, 9000, 9000, 1000)}, false},
		{"next to idle", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000), flow(2, packets.TCP, linkem.AB, 2000, 0)}, true},
		{"all next to idle", []scene.Data{flow(1, packets.UDP, linkem.AB, 1000, 1000)}, false},
		{"the other way lags", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(1, packets.TCP, linkem.BA, 3000, 0)}, true},
		{"a link has half of its share", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 3000)}, true},
		{"a link has less", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 2999)}, false},
		{"nothing", nil, false},
	} {
		before, after := scene.Data{}, scene.Data{}
		for _, d := range c.flows {
			for f, n := range d {
				before[f], after[f] = 100, 100+n
			}
		}
		if got := used(before, after, linkem.AB, access[:2]); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
