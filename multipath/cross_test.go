package multipath

import (
	"fmt"
	"testing"
	"time"
)

// crossBench is a placeBench whose other end withholds blocks of SACK, and on which no windows can be set. Short paths
// take 10 ms, long ones 100 ms, so a round trip over both takes 55 ms, which is 0.7 of 79.
type crossBench struct {
	*placeBench
	queued map[string]time.Duration // what paths take now
	deep   time.Duration            // and a moment before, more than 10 ms
	lost   string                   // the path on which packets are lost
}

func newCrossBench(rates map[string]float64) *crossBench {
	const queued = 80 * time.Millisecond
	x := &crossBench{placeBench: newPlaceBench(rates), queued: map[string]time.Duration{"a": queued, "b": queued}}
	x.use.Crosses = true
	x.places.cross.stretch.not = x.now.Add(1000 * time.Hour)
	return x
}

// send has buckets send at these rates for a time, with probes of all paths, and returns what is crossed.
func (x *crossBench) send(loads map[uint8]float64, d time.Duration) string {
	x.now = x.now.Add(d)
	for _, p := range x.use.Paths {
		rtt := max(x.queued[p], 100*time.Millisecond)
		if p < "c" {
			rtt = x.queued[p]
		}
		x.HandleAnswer(x.now, p, x.now.Add(-rtt))
		x.HandleRTT(x.now, p, x.now.Add(-10*time.Millisecond-x.deep))
		x.HandleRTT(x.now, p, x.now.Add(-rtt))
		x.HandleLoss(x.now, p, p == x.lost)
	}
	for b, n := range loads {
		x.sent[b] += uint32(n * d.Seconds())
	}
	was, placed := x.crossing(), fmt.Sprint(x.placed(x.use))
	changed := x.HandleFlows(x.now, x.use, &x.sent)
	if changed != (was != x.crossing() || placed != fmt.Sprint(x.placed(x.use))) {
		return fmt.Sprintf("it reports %v for %s, then %s", changed, was, x.crossing())
	}
	return x.crossing()
}

func (x *crossBench) crossing() string {
	if p, buckets := x.crossed(x.use); buckets != 0 {
		return fmt.Sprintf("%s %b", p, buckets)
	}
	return ""
}

// begun returns a bench in which a connection that fills path a is crossed with c.
func begun(t *testing.T) *crossBench {
	t.Helper()
	x := newCrossBench(map[string]float64{"a": 100e6, "c": 20e6})
	x.send(even(1, 100e6), time.Second)
	x.send(even(1, 95e6), time.Second)
	if got := x.send(even(1, 95e6), time.Second); got != "c 1" {
		t.Fatalf("crossed: %q", got)
	}
	return x
}

// Where a connection stands still that takes a long path, that one is left. It is no sign of a firewall, nor is one a
// moment later; afterwards it is.
func TestStallOfACrossedConnection(t *testing.T) {
	x := begun(t)
	stalls := func() bool {
		for range 2 {
			x.HandleStall(x.now, 0, Standing{})
			x.now = x.now.Add(time.Second)
			x.HandleSound(x.now, x.use, x.now, 1)
		}
		return x.HandleSound(x.now, x.use, x.now, 1)
	}
	if stalls() {
		t.Error("connections keep to one path each")
	}
	if got := x.send(even(1, 95e6), time.Second); got != "" {
		t.Errorf("crossed: %q", got)
	}
	if stalls() {
		t.Error("connections keep to one path each, just after it")
	}
	x.now = x.now.Add(crossStalls)
	if !stalls() {
		t.Error("a firewall is never thought of")
	}
}

// Connections are crossed with a long path once the queues of the short ones make these so much longer than the crossed
// round trip, where no connection takes the long path whole. Of several long paths the fastest is taken.
func TestCrossing(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		rates  map[string]float64
		n      int
		change func(*crossBench)
		want   string
	}{
		"one connection":        {n: 1, want: "c 1"},
		"two connections":       {n: 2, want: "c 11"},
		"one whole on the path": {n: 4},
		"a queue too short":     {n: 1, change: func(x *crossBench) { x.queued["a"] = 78 * ms }},
		"just long enough":      {n: 1, change: func(x *crossBench) { x.queued["a"] = 79 * ms }, want: "c 1"},
		"not by the other end":  {n: 1, change: func(x *crossBench) { x.use.Crosses = false }},
		"each on one path":      {n: 1, change: func(x *crossBench) { x.use.PerFlow = true }},
		"a path that is late":   {n: 1, change: func(x *crossBench) { x.HandleLate(x.now, "c") }},
		"two short paths":       {map[string]float64{"a": 50e6, "b": 50e6, "c": 20e6}, 1, nil, "c 1"},
		"one of them is empty": {map[string]float64{"a": 50e6, "b": 50e6, "c": 20e6}, 1,
			func(x *crossBench) { x.queued["b"] = 10 * ms }, ""},
		"two long paths": {map[string]float64{"a": 100e6, "c": 10e6, "d": 15e6}, 1, nil, "d 1"},
		"too long a path": {n: 1, change: func(x *crossBench) {
			x.queued["a"], x.queued["c"] = 130*ms, 131*ms
			x.lengths.by["c"] = length{now: 131 * ms, before: 131 * ms, since: x.now, n: 2}
		}},
		"an unknown rate":      {map[string]float64{"a": 100e6, "c": 0}, 1, nil, ""},
		"a queue far too long": {n: 1, change: func(x *crossBench) { x.queued["a"] = 131 * ms }},
		"just not too long":    {n: 1, change: func(x *crossBench) { x.queued["a"] = 129 * ms }, want: "c 1"},
		"little is sent":       {map[string]float64{"a": 400e6, "c": 20e6}, 1, nil, ""},
		"the long one faster":  {map[string]float64{"a": 100e6, "c": 120e6}, 1, nil, "c 1"},
	} {
		if c.rates == nil {
			c.rates = map[string]float64{"a": 100e6, "c": 20e6}
		}
		x := newCrossBench(c.rates)
		if c.rates["c"] == 0 {
			x.handleRates(map[string]Measured{"a": {Bytes: 100e6, Sure: true}, "c": {Bytes: 20e6}})
		}
		if c.change != nil {
			c.change(x)
		}
		x.send(even(c.n, 100e6), time.Second)
		x.send(even(c.n, 100e6), time.Second)
		if got := x.send(even(c.n, 100e6), time.Second); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An answer of long ago does not say how long a queue is.
func TestCrossingNeedsAnswers(t *testing.T) {
	x := newCrossBench(map[string]float64{"a": 100e6, "c": 20e6})
	x.send(even(1, 100e6), time.Second)
	x.queued["a"] = 10 * time.Millisecond
	x.send(even(1, 100e6), time.Second)
	x.HandleRTT(x.now, "a", x.now.Add(-80*time.Millisecond))
	x.queued["a"] = 80 * time.Millisecond
	x.now = x.now.Add(2 * time.Second)
	if x.pass(even(1, 300e6)); x.crossing() != "" {
		t.Errorf("crossed by an answer of three seconds ago: %q", x.crossing())
	}
	if got := x.send(even(1, 100e6), time.Second); got != "c 1" {
		t.Errorf("after a new one: %q", got)
	}
}

// One look at connections may have begun before they did: what they sent then is no measure.
func TestCrossingNeedsTwoLooks(t *testing.T) {
	x := newCrossBench(map[string]float64{"a": 100e6, "c": 20e6})
	x.send(nil, time.Second)
	if got := x.send(even(1, 60e6), time.Second); got != "" {
		t.Errorf("after one look: %q", got)
	}
	if got := x.send(even(1, 100e6), time.Second); got != "c 1" {
		t.Errorf("after two: %q", got)
	}
	for range 4 { // 0.7 of what it had
		x.send(even(1, 70e6), time.Second)
	}
	if got := x.crossing(); got != "" {
		t.Errorf("with 0.7 of what it had before: %q", got)
	}
}

// A transfer that ends is no failure: the next one is crossed as soon as it has a queue. One that shares the paths with
// another that sends little stays crossed, and that one keeps to the short paths. So does one whose long path's rate is
// measured anew.
func TestCrossingInTurns(t *testing.T) {
	x := begun(t)
	for i := range 5 {
		if x.send(nil, time.Second); x.crossing() != "" {
			t.Fatalf("crossed after the end of transfer %d", i)
		}
		for range 4 {
			x.send(even(1, 100e6), 500*time.Millisecond)
		}
		if x.crossing() != "c 1" {
			t.Fatalf("transfer %d: %q", i+2, x.crossing())
		}
	}
	loads := map[uint8]float64{0: 110e6, 9: 2e6}
	x.handleRates(map[string]Measured{"a": {Bytes: 100e6, Sure: true}, "c": {Bytes: 20e6, Sure: true, Wants: true}})
	for range 8 {
		if got := x.send(loads, 500*time.Millisecond); got != "c 1" {
			t.Fatalf("beside a connection that sends little: %q", got)
		}
	}
}

// What is crossed stays so while it pays, whatever the queues do.
func TestCrossingStays(t *testing.T) {
	x := begun(t)
	x.queued["a"] = 10 * time.Millisecond
	for i := range 20 {
		if got := x.send(even(1, 110e6), 300*time.Millisecond); got != "c 1" {
			t.Fatalf("look %d: %q", i, got)
		}
	}
	for range 8 {
		if got := x.send(map[uint8]float64{0: 60e6, 7: 50e6}, 300*time.Millisecond); got != "c 10000001" {
			t.Errorf("with a second connection: %q", got)
		}
	}
	for range 8 {
		x.send(even(1, 110e6), 300*time.Millisecond)
	}
	if got := x.crossing(); got != "c 1" {
		t.Errorf("once that one is over: %q", got)
	}
}

// Connections that send less than before are crossed no more: for ten seconds, then twice as long with each time.
func TestCrossingThatFails(t *testing.T) {
	x := begun(t)
	lasts := func() (d time.Duration) {
		for x.crossing() == "" && d < time.Hour {
			if x.queued["a"] = 80 * time.Millisecond; d%(30*time.Second) == 0 {
				x.queued["a"] = 10 * time.Millisecond // or what is its length would be forgotten
			}
			x.send(even(1, 95e6), 500*time.Millisecond)
			d += 500 * time.Millisecond
		}
		return d
	}
	fail := func() (d time.Duration) {
		for x.crossing() != "" && d < time.Minute {
			x.send(even(1, 80e6), 500*time.Millisecond)
			d += 500 * time.Millisecond
		}
		return d
	}
	for _, want := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 640} {
		took := fail()
		if got := lasts(); took > 2*time.Second || got < want*time.Second || got > want*time.Second+time.Second {
			t.Fatalf("ended after %v, tried again after %v, want %v s", took, got, int64(want))
		}
	}
	for range 8 {
		x.send(even(1, 110e6), 500*time.Millisecond) // it pays for once
	}
	fail()
	if got := lasts(); got > 11*time.Second {
		t.Errorf("after a success the next try comes after %v", got)
	}
}

// The crossing ends at once where it cannot go on.
func TestCrossingEnds(t *testing.T) {
	for name, change := range map[string]func(*crossBench){
		"the other end stops":   func(x *crossBench) { x.use.Crosses = false },
		"nothing is counted":    func(x *crossBench) { x.HandleFlows(x.now, x.use, nil) },
		"each on one path":      func(x *crossBench) { x.use.PerFlow = true },
		"the path is gone":      func(x *crossBench) { x.use.Paths, x.use.Long = []string{"a"}, nil },
		"the path is short now": func(x *crossBench) { x.use.Long = nil },
		"the path is late":      func(x *crossBench) { x.HandleLate(x.now, "c") },
	} {
		x := begun(t)
		change(x)
		x.HandleFlows(x.now.Add(time.Second), x.use, &x.sent)
		if got := x.crossing(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The table has another set for what is crossed, and says which acknowledgements this host crosses.
func TestCrossingInTable(t *testing.T) {
	x := begun(t)
	r := Request[string]{
		Now: x.use, Begun: true, Paths: x.use.Paths, Several: true, Valid: func(string) bool { return true },
		Key: func(p string) uint64 { return uint64(p[0]) }, Rates: x.rates,
	}
	table := x.Choose(x.now, r).Table
	for b, set := range table.Sets {
		want := uint16(1)
		if b == 0 {
			want = 3
		}
		if set != want {
			t.Errorf("bucket %d: %b, want %b", b, set, want)
		}
	}
	late := table.Longs == 2 && table.Waits[1] == 85*time.Millisecond
	if table.Across != 3 || !late || !table.Crosses("c") || table.Crosses("d") {
		t.Errorf("across %b, long %b, %v", table.Across, table.Longs, table.Waits)
	}
	rest := table.Without(func(p string) bool { return p == "c" })
	if rest.Across != 0 || rest.Longs != 0 || rest.Sets[0] != 1 || rest.Equal(table) {
		t.Errorf("without the long path: across %b, long %b, bucket 0 %b", rest.Across, rest.Longs, rest.Sets[0])
	}
	r.Now.Paths, r.Now.Long = []string{"a", "b", "c"}, []string{"b", "c"}
	r.Paths, r.Rates["b"] = r.Now.Paths, Measured{Wants: true}
	x.HandleAnswer(x.now, "b", x.now.Add(-11*time.Millisecond))
	if measured := x.Choose(x.now, r).Table; measured.Longs != 4 || measured.Sets[1] != 1 {
		t.Errorf("a path that is still measured: long %b, bucket 1 %b", measured.Longs, measured.Sets[1])
	}
	other := *table
	if other.Longs = 0; other.Equal(table) {
		t.Error("tables that cross differently count as equal")
	}
}
