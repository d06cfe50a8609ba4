package multipath

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// placeBench is a machine with paths a and b of these rates, and long ones c and d.
type placeBench struct {
	Machine[string]
	use  Use[string]
	now  time.Time
	sent Flows
}

func newPlaceBench(rates map[string]float64) *placeBench {
	x := &placeBench{now: time.Unix(1000, 0)}
	known := make(map[string]Measured)
	for _, p := range slices.Sorted(maps.Keys(rates)) {
		rtt := 10 * time.Millisecond
		if x.use.Paths = append(x.use.Paths, p); p >= "c" {
			x.use.Long, rtt = append(x.use.Long, p), 100*time.Millisecond
		}
		for range 2 {
			x.HandleAnswer(x.now, p, x.now.Add(-rtt))
		}
		known[p] = Measured{Bytes: rates[p], Most: rates[p], Sure: true}
	}
	x.handleRates(known)
	return x
}

// pass has buckets send at these rates for a second, and returns which of them are on long paths.
func (x *placeBench) pass(loads map[uint8]float64) string {
	x.now = x.now.Add(time.Second)
	for b, n := range loads {
		x.sent[b] += uint32(n)
	}
	before := x.placed(x.use)
	if x.HandleFlows(x.now, x.use, &x.sent) == maps.Equal(before, x.placed(x.use)) {
		return "it says the opposite of whether that has changed"
	}
	return fmt.Sprint(x.placed(x.use))
}

// even are n buckets that share a rate.
func even(n int, rate float64) map[uint8]float64 {
	loads := make(map[uint8]float64)
	for b := range n {
		loads[uint8(b)] = rate / float64(n)
	}
	return loads
}

// As many of the connections take a long path as its rate permits, and a single one none.
func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		rates map[string]float64
		n     int
		want  map[string]int
	}{
		{map[string]float64{"a": 100e6, "c": 20e6}, 1, nil},
		{map[string]float64{"a": 100e6, "c": 20e6}, 2, nil},
		{map[string]float64{"a": 100e6, "c": 20e6}, 4, map[string]int{"c": 1}},
		{map[string]float64{"a": 100e6, "c": 20e6}, 12, map[string]int{"c": 2}},
		{map[string]float64{"a": 50e6, "b": 50e6, "c": 20e6}, 4, map[string]int{"c": 1}},
		{map[string]float64{"a": 40e6, "b": 40e6, "c": 40e6, "d": 20e6}, 14, map[string]int{"c": 4, "d": 2}},
		{map[string]float64{"a": 100e6, "c": 100e6}, 1, nil},
		{map[string]float64{"a": 100e6, "c": 100e6}, 2, map[string]int{"c": 1}},
		{map[string]float64{"a": 5e6, "c": 100e6}, 1, map[string]int{"c": 1}},
	} {
		x := newPlaceBench(test.rates)
		short := test.rates["a"] + test.rates["b"]
		if got := x.pass(even(test.n, short)); got != "map[]" {
			t.Errorf("%v: at first %s", test.rates, got)
		}
		x.pass(even(test.n, short))
		count := make(map[string]int)
		for _, p := range x.placed(x.use) {
			count[p]++
		}
		if !maps.Equal(count, test.want) {
			t.Errorf("%d connections over %v: %v, want %v", test.n, test.rates, count, test.want)
		}
		was := x.placed(x.use)
		if x.pass(even(test.n, short)); !maps.Equal(was, x.placed(x.use)) {
			t.Errorf("%d connections over %v: %v, then %v", test.n, test.rates, was, x.placed(x.use))
		}
	}
}

// Connections come back when few are left, stand still, or their path is gone; and none moves while
// the short path has capacity left.
func TestPlacesEnd(t *testing.T) {
	fresh := func() *placeBench { return newPlaceBench(map[string]float64{"a": 100e6, "c": 20e6}) }
	four := even(4, 100e6)
	placed := func() *placeBench {
		x := fresh()
		x.pass(four)
		x.pass(four)
		if len(x.placed(x.use)) != 1 {
			t.Fatalf("on long paths: %v", x.placed(x.use))
		}
		return x
	}
	for name, then := range map[string]func(*placeBench){
		"a single one is left":     func(x *placeBench) { x.pass(x.only(20e6)) },
		"it sends next to nothing": func(x *placeBench) { x.pass(map[uint8]float64{60: 90e6}) },
		"no path is long":          func(x *placeBench) { x.use.Long = nil; x.pass(four) },
		"the path is gone":         func(x *placeBench) { x.use.Paths, x.use.Long = []string{"a"}, nil; x.pass(four) },
		"each keeps to one path":   func(x *placeBench) { x.use.PerFlow = true; x.pass(four) },
		"its rate is not known":    func(x *placeBench) { x.handleRates(nil); x.pass(four) },
		"nothing is counted":       func(x *placeBench) { x.HandleFlows(x.now, x.use, nil) },
	} {
		x := placed()
		if then(x); len(x.placed(x.use)) > 0 {
			t.Errorf("%s: %v", name, x.placed(x.use))
		}
	}
	for name, loads := range map[string]map[uint8]float64{
		"there is capacity": even(4, 40e6), "one sends all, others little": {1: 98e6, 2: 3e5, 3: 3e5, 4: 3e5, 5: 3e5},
	} {
		x := fresh()
		x.pass(loads)
		if got := x.pass(loads); got != "map[]" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// only are the loads of the bucket on a long path alone.
func (x *placeBench) only(rate float64) map[uint8]float64 {
	loads := make(map[uint8]float64)
	for b := range x.placed(x.use) {
		loads[b] = rate
	}
	return loads
}

// The connection that sends most moves: it has the largest window.
func TestPlaceHeaviest(t *testing.T) {
	x := newPlaceBench(map[string]float64{"a": 100e6, "c": 20e6})
	loads := map[uint8]float64{7: 13e6, 8: 30e6, 9: 40e6, 10: 27e6}
	x.pass(loads)
	if got := x.pass(loads); got != "map[9:c]" {
		t.Errorf("on long paths: %s", got)
	}
}

// A connection that sends little beside another one takes no path of its own from it.
func TestPlaceCountsWhatIsAlike(t *testing.T) {
	x := newPlaceBench(map[string]float64{"a": 100e6, "c": 100e6})
	for range 3 {
		if got := x.pass(map[uint8]float64{7: 3e6, 8: 97e6}); got != "map[]" {
			t.Errorf("on long paths: %s", got)
		}
	}
}

// What passed long ago, or in a moment, says nothing about rates.
func TestPlaceTimes(t *testing.T) {
	for _, gap := range []time.Duration{placeEvery / 2, 2 * placeMost, -time.Second} {
		x := newPlaceBench(map[string]float64{"a": 100e6, "c": 20e6})
		x.pass(even(4, 100e6))
		for b := range even(4, 0) {
			x.sent[b] += 100e6
		}
		if x.HandleFlows(x.now.Add(gap), x.use, &x.sent); len(x.placed(x.use)) > 0 {
			t.Errorf("after %v: %v", gap, x.placed(x.use))
		}
	}
}
