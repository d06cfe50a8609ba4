package multipath

import (
	"testing"
	"time"
)

// The first slow start of a connection over several paths ends at what these hold, if all of that is known.
func TestSlowStart(t *testing.T) {
	const mega = 1e6
	for _, test := range []struct {
		name   string
		rates  map[string]float64 // a and b take 10 ms, c and d are long
		change func(*placeBench)
		want   int
	}{
		{name: "two paths", rates: map[string]float64{"a": 12 * mega, "b": 2 * mega}, want: 154_000},
		{
			name: "two paths and a long one", want: 154_000,
			rates: map[string]float64{"a": 12 * mega, "b": 2 * mega, "c": 2 * mega},
		},
		{name: "one short path", rates: map[string]float64{"a": 12 * mega, "c": 2 * mega}, want: 132_000},
		{name: "each connection has its path", rates: map[string]float64{"a": 12 * mega, "b": 2 * mega},
			change: func(x *placeBench) { x.use.PerFlow = true }},
		{name: "a rate is not known", rates: map[string]float64{"a": 12 * mega, "b": 2 * mega},
			change: func(x *placeBench) { x.rates["b"] = Measured{Bytes: 2 * mega, Wants: true} }},
		{name: "a path is too fast for trains", rates: map[string]float64{"a": 25 * mega, "b": 2 * mega}},
		{name: "a length is not known", rates: map[string]float64{"a": 12 * mega, "b": 2 * mega},
			change: func(x *placeBench) { delete(x.lengths.by, "b") }},
	} {
		x := newPlaceBench(test.rates)
		if test.change != nil {
			test.change(x)
		}
		if got := x.slowStart(x.use); got != test.want {
			t.Errorf("%s: %d bytes, want %d", test.name, got, test.want)
		}
	}
}

// Over one path TCP ends it by itself, and what trains have not shown yet bounds nothing.
func TestSlowStartOfAChoice(t *testing.T) {
	x := newPlaceBench(map[string]float64{"a": 12e6, "b": 2e6})
	r := Request[string]{
		Now: x.use, Begun: true, Paths: x.use.Paths, Several: true, Rates: x.rates,
		Valid: func(string) bool { return true }, Key: func(p string) uint64 { return uint64(p[0]) },
	}
	if c := x.Choose(x.now, r); c.SlowStart != 154_000 {
		t.Errorf("over two paths: %d bytes", c.SlowStart)
	}
	r.Paths = r.Paths[:1]
	if c := x.Choose(x.now, r); c.SlowStart != 0 {
		t.Errorf("over one path: %d bytes", c.SlowStart)
	}
	r.Paths, r.Rates = x.use.Paths, nil
	if c := x.Choose(x.now, r); c.SlowStart != 0 {
		t.Errorf("without rates: %d bytes", c.SlowStart)
	}
}

// A bound changes with the news, not with each measurement; and it ends with what it follows from.
func TestSlowStartFollows(t *testing.T) {
	x := newPlaceBench(map[string]float64{"a": 10e6, "b": 10e6})
	for _, step := range []struct {
		rate float64
		want int
	}{
		{10e6, 220_000}, {12e6, 220_000}, {13e6, 253_000}, {12e6, 253_000}, {10e6, 220_000}, {0, 0}, {10.5e6, 225_500},
	} {
		x.rates["a"] = Measured{Bytes: step.rate, Sure: step.rate > 0}
		if got := x.slowStart(x.use); got < step.want-1 || got > step.want+1 {
			t.Errorf("at %.0f bytes a second: %d, want %d", step.rate, got, step.want)
		}
	}
	x.HandleAnswer(x.now, "a", x.now.Add(-5*time.Millisecond))
	if got := x.slowStart(x.use); got > 180_000 {
		t.Errorf("a path is shorter than was known: %d", got)
	}
}
