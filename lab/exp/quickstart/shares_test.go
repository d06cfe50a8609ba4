package quickstart

import (
	"fmt"
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
	if n := x.lone * uint64(at/(100*time.Millisecond)); n > 0 {
		now.Out["net1"], now.In["net1"] = now.Out["net1"]+n, now.In["net1"]+n
		for _, way := range []linkem.Direction{linkem.AB, linkem.BA} {
			now.Data[scene.Flow{Link: "net1", Way: way, Peer: 3, Proto: packets.UDP}] = n
		}
	}
	now.Out["net3"], now.In["net3"] = now.Out["net3"]+x.strayed(at), now.In["net3"]+x.strayed(at)
	if over {
		now.Out["net2"], now.In["net2"] = now.Out["net2"]+x.trains, now.In["net2"]+x.trains
	}
}

// strayed are the bytes of net3 until then that are no data, in the phase in which it is withdrawn.
func (x *records) strayed(at time.Duration) uint64 {
	phase := plan(x.p, false).shares[1].span
	from, until := phase.from+x.strays, min(at, phase.to)
	return x.stray * uint64(max(0, until-from)/(100*time.Millisecond))
}

// sharing are runs with other shares, or with the same ones at another time.
func sharing(add func(name string, alter func(*records), red ...string)) {
	for _, way := range []string{"out", "in"} {
		add("uneven "+way, func(x *records) { x.bytes[way+" net1"] = 60_000 }, "shares")
	}
	add("packets that measure a path", func(x *records) { x.trains = 400_000 })
	for _, c := range []struct {
		phase string
		late  time.Duration
		red   []string
	}{
		{"8", 3900 * time.Millisecond, []string{"set-change"}},
		{"8", 4100 * time.Millisecond, []string{"shares", "set-change"}},
		{"8", 6900 * time.Millisecond, []string{"shares", "set-change"}},
		{"3", 1000 * time.Millisecond, []string{"set-change"}},
		{"3", 1400 * time.Millisecond, []string{"set-change"}},
		{"3", 2100 * time.Millisecond, []string{"set-change"}},
		{"3", 2600 * time.Millisecond, []string{"shares", "set-change"}},
	} {
		add(fmt.Sprintf("TCP uses a link %v late in %s s", c.late, c.phase), func(x *records) {
			*x = *healthy(x.t, "phase_s="+c.phase)
			x.shuns = c.late
		}, c.red...)
	}
	add("packets on a withdrawn link that are no data", func(x *records) { x.stray = 500_000 },
		"shares", "set-change")
	add("packets later on a withdrawn link that are no data", func(x *records) {
		x.stray, x.strays = 3_000, 1500*time.Millisecond
	}, "shares")
	add("few packets on a withdrawn link that are no data", func(x *records) { x.stray = 500 })
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
		s.Out, s.In = s.Data.Of(linkem.AB), s.Data.Of(linkem.BA)
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
	two := flow(1, packets.UDP, linkem.AB, 9000, 9000)
	for _, c := range []struct {
		name   string
		flows  []scene.Data
		want   bool
		noData uint64 // on a third link
	}{
		{"all", []scene.Data{two, flow(2, packets.UDP, linkem.AB, 3000, 3000)}, true, 0},
		{"one correspondent lags", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(2, packets.UDP, linkem.AB, 3000, 0)}, false, 0},
		{"one protocol lags", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(1, packets.TCP, linkem.AB, 3000, 0)}, false, 0},
		{"a third link has some", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(2, packets.UDP, linkem.AB, 9000, 9000, 2001)}, false, 0},
		{"a third link has some of each", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000, 1001),
			flow(2, packets.UDP, linkem.AB, 9000, 9000, 1000)}, false, 0},
		{"next to idle", []scene.Data{two, flow(2, packets.TCP, linkem.AB, 2000, 0)}, true, 0},
		{"all next to idle", []scene.Data{flow(1, packets.UDP, linkem.AB, 1000, 1000)}, false, 0},
		{"the other way lags", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 9000),
			flow(1, packets.TCP, linkem.BA, 3000, 0)}, true, 0},
		{"a link has half of its share", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 3000)}, true, 0},
		{"a link has less", []scene.Data{flow(1, packets.UDP, linkem.AB, 9000, 2999)}, false, 0},
		{"a third link has some that is no data", []scene.Data{two}, false, 2001},
		{"a third link has next to nothing that is no data", []scene.Data{two}, true, 2000},
		{"nothing", nil, false, 0},
	} {
		before, after := scene.Sample{Data: scene.Data{}}, scene.Sample{Data: scene.Data{}}
		for _, d := range c.flows {
			for f, n := range d {
				before.Data[f], after.Data[f] = 100, 100+n
			}
		}
		before.Out, after.Out = before.Data.Of(linkem.AB), after.Data.Of(linkem.AB)
		after.Out["net1"], after.Out["net3"] = after.Out["net1"]+9000, after.Out["net3"]+c.noData
		if got := used(before, after, linkem.AB, access[:2]); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
