package multipath

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// newStretchBench makes a crossBench without queues, where these have just been long.
func newStretchBench(rates map[string]float64) *crossBench {
	x := newCrossBench(rates)
	x.places.cross.stretch.not, x.deep = time.Time{}, stretchDeep
	for p := range x.queued {
		x.queued[p] = 10 * time.Millisecond
	}
	return x
}

// told returns what windows are to follow.
func (x *crossBench) told() (all string) {
	for s, ok := x.PollStretch(); ok; s, ok = x.PollStretch() {
		phase := []string{"begins", "lasts", "ends"}[s.Phase]
		paced := map[bool]string{true: " paced"}[s.Paced]
		all += fmt.Sprintf("%s %b %v %v x%.2f %.0f%s;", phase, s.Buckets, s.RTT, s.Gap, s.Gain, s.Rate/1e6, paced)
	}
	return all
}

// asking returns a bench in which the windows of n connections that fill path a are to grow.
func asking(t *testing.T, n int) *crossBench {
	t.Helper()
	x := newStretchBench(map[string]float64{"a": 100e6, "c": 20e6})
	for range 3 {
		x.send(even(n, 95e6), time.Second)
	}
	if got, want := x.told(), fmt.Sprintf("begins %b 10ms 45ms x1.20 120;", 1<<n-1); got != want || x.crossing() != "" {
		t.Fatalf("windows: %q, want %q; crossed: %q", got, want, x.crossing())
	}
	return x
}

// timeout calls HandleStretchTimeout when it is due, and returns after which time.
func (x *crossBench) timeout(t *testing.T) time.Duration {
	t.Helper()
	at, ok := x.StretchTimeout()
	if !ok {
		t.Fatal("nothing is waited for")
	}
	d := at.Sub(x.now)
	x.HandleStretchTimeout(at.Add(-time.Millisecond))
	if again, ok := x.StretchTimeout(); !ok || again != at {
		t.Errorf("handled before it was due")
	}
	if at.After(x.now) {
		x.now = at
	}
	x.HandleStretchTimeout(at)
	return d
}

// Without a queue windows grow first, then the other end is asked, and then connections are crossed and send more. Once
// they are crossed no more, the windows shrink when acknowledgements are back on the short way.
func TestStretching(t *testing.T) {
	x := asking(t, 1)
	x.queued["a"] = 15 * time.Millisecond
	if _, asks := x.Asks(); asks || x.HandleCrosses(x.now) {
		t.Error("the other end is asked before windows are set")
	}
	if !x.HandleStretched(x.now, 1) || x.HandleStretched(x.now, 1) {
		t.Error("the other end is not to be asked, or twice")
	}
	if p, asks := x.Asks(); p != "c" || !asks || x.crossing() != "" || x.told() != "" {
		t.Errorf("asks %q, %t; crossed %q", p, asks, x.crossing())
	}
	x.send(even(1, 95e6), 200*time.Millisecond)
	if !x.HandleCrosses(x.now) || x.HandleCrosses(x.now) {
		t.Error("the answer changes nothing, or twice")
	}
	if _, asks := x.Asks(); asks || x.crossing() != "c 1" {
		t.Errorf("asks %t, crossed %q", asks, x.crossing())
	}
	if d := x.timeout(t); d != 85*time.Millisecond || x.told() != "lasts 1 10ms 45ms x1.20 120;" {
		t.Errorf("windows may grow after %v", d)
	}
	if _, ok := x.StretchTimeout(); ok {
		t.Error("something is waited for")
	}
	for i := range 8 { // another connection has no larger window
		if got := x.send(map[uint8]float64{0: 70e6, 7: 50e6}, 500*time.Millisecond); got != "c 1" {
			t.Errorf("look %d: %q", i, got)
		}
	}
	if got := x.told(); got != "lasts 1 10ms 45ms x1.20 88;lasts 1 10ms 45ms x1.20 70;" {
		t.Errorf("the windows leave %q to another connection", got)
	}
	for range 6 {
		if x.send(map[uint8]float64{0: 40e6, 7: 10e6}, 500*time.Millisecond); x.crossing() == "" {
			break
		}
	}
	if got := x.crossing(); got != "" {
		t.Errorf("with half of what it had: %q", got)
	}
	x.told()
	d := x.timeout(t)
	if got := x.told(); d != 20*time.Millisecond || got != "ends 1 10ms 45ms x1.20 70;" {
		t.Errorf("windows shrink after %v: %q", d, got)
	}
	if _, ok := x.StretchTimeout(); ok {
		t.Error("something is waited for")
	}
}

// Which long path windows grow for, and by how much.
func TestStretchingTo(t *testing.T) {
	const ms = time.Millisecond
	far := func(rtt time.Duration) func(*crossBench) {
		return func(x *crossBench) {
			x.queued["c"] = rtt
			x.lengths.by["c"] = length{now: rtt, before: rtt, since: x.now, n: 2}
		}
	}
	usual, fast := map[string]float64{"a": 100e6, "c": 20e6}, map[string]float64{"a": 400e6, "c": 40e6}
	for name, c := range map[string]struct {
		rates  map[string]float64
		change func(*crossBench)
		want   string
	}{
		"as above":              {usual, nil, "c 45ms x1.20"},
		"not by the other end":  {usual, func(x *crossBench) { x.use.Crosses = false }, ""},
		"too far":               {usual, far(211 * ms), ""},
		"just not too far":      {usual, far(209 * ms), "c 99.5ms x1.20"},
		"too slow":              {map[string]float64{"a": 100e6, "c": 4.9e6}, nil, ""},
		"of two the faster":     {map[string]float64{"a": 100e6, "c": 6e6, "d": 10e6}, nil, "d 45ms x1.10"},
		"two short ones":        {map[string]float64{"a": 50e6, "b": 50e6, "c": 10e6}, nil, "c 45ms x1.10"},
		"little is sent":        {fast, nil, ""},
		"queues too short":      {usual, func(x *crossBench) { x.deep, x.lost = 24*ms, "a" }, ""},
		"just not too short":    {usual, func(x *crossBench) { x.deep, x.lost = 25*ms, "a" }, "c 45ms x1.20"},
		"short, without a loss": {usual, func(x *crossBench) { x.deep, x.lost = 0, "c" }, "c 45ms x1.20"},
		"long ones of before": {usual, func(x *crossBench) {
			x.send(even(1, 10e6), time.Second)
			x.deep, x.lost = 0, "a"
			x.send(even(1, 10e6), time.Minute)
		}, ""},
		"one of them long": {map[string]float64{"a": 75e6, "b": 25e6, "c": 20e6}, func(x *crossBench) {
			x.deep, x.lost = 20*ms, "b"
			x.HandleRTT(x.now, "b", x.now.Add(-50*ms))
		}, "c 45ms x1.20"},
		"one that is late": {usual, func(x *crossBench) { x.HandleLate(x.now, "c") }, ""},
	} {
		x := newStretchBench(c.rates)
		if c.change != nil {
			c.change(x)
		}
		for range 3 {
			x.send(even(1, 95e6), time.Second)
		}
		got := ""
		if s, ok := x.PollStretch(); ok {
			x.HandleStretched(x.now, 1)
			p, _ := x.Asks()
			got = fmt.Sprintf("%s %v x%.2f", p, s.Gap, s.Gain)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Where no window can be set nothing follows, and it is tried again ever more seldom. Of several connections those
// whose windows have grown are crossed.
func TestStretchingOfSome(t *testing.T) {
	x := asking(t, 2)
	x.HandleStretched(x.now, 1<<1|1<<5)
	if x.HandleCrosses(x.now); x.crossing() != "c 10" {
		t.Errorf("crossed: %q", x.crossing())
	}
	x = asking(t, 1)
	var last time.Duration
	for i := range 4 {
		if x.HandleStretched(x.now, 2) {
			t.Fatal("the other end is asked for connections whose windows are as before")
		}
		if _, ok := x.StretchTimeout(); ok {
			t.Fatal("something is waited for")
		}
		from := x.now
		for x.told() == "" && x.now.Sub(from) < time.Hour {
			x.send(even(1, 95e6), time.Second)
		}
		d := x.now.Sub(from)
		if want := crossAfter << i; d < want || d > want+time.Second {
			t.Errorf("try %d: after %v, the last time after %v", i, d, last)
		}
		last = d
	}
}

// What fails half way is taken back once no acknowledgement can be crossed any more.
func TestStretchingThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(*testing.T, *crossBench)
		after time.Duration
	}{
		"no window is set": {func(t *testing.T, x *crossBench) { x.timeout(t) }, 0},
		"no answer": {func(t *testing.T, x *crossBench) {
			x.HandleStretched(x.now, 1)
			if d := x.timeout(t); d != 350*time.Millisecond {
				t.Errorf("an answer is waited for for %v", d)
			}
		}, 0},
		"the path is gone": {func(_ *testing.T, x *crossBench) {
			x.HandleStretched(x.now, 1)
			x.use.Long, x.use.Paths = nil, []string{"a"}
			x.HandleFlows(x.now, x.use, &x.sent)
		}, 0},
		"the path is late": {func(_ *testing.T, x *crossBench) {
			x.HandleStretched(x.now, 1)
			x.use.Crosses = false
			x.send(even(1, 95e6), time.Second)
		}, 0},
		"the transfer ends": {func(_ *testing.T, x *crossBench) {
			x.HandleStretched(x.now, 1)
			x.send(nil, time.Second)
		}, 0},
	} {
		x := asking(t, 1)
		c.fail(t, x)
		if x.HandleCrosses(x.now) || x.HandleStretched(x.now, 1) || x.crossing() != "" {
			t.Errorf("%s: it goes on", name)
		}
		if d := x.timeout(t); d > c.after || x.told() != "ends 1 10ms 45ms x1.00 120;" {
			t.Errorf("%s: taken back after %v, %q", name, d, x.told())
		}
		if x.told() != "" {
			t.Errorf("%s: twice", name)
		}
	}
}

// Connections that fill a single short path with a short queue are paced by what they have sent, whatever trains show,
// until these show far more; and by no more where there is no queue. They keep off the long path where a part of
// several short ones would overflow, and are not paced where nothing is full, or queues have been long.
func TestStretchingBeforeAShortQueue(t *testing.T) {
	const ms = time.Millisecond
	one, more := map[string]float64{"a": 110e6, "c": 20e6}, map[string]float64{"a": 130e6, "c": 20e6}
	two := map[string]float64{"a": 60e6, "b": 50e6, "c": 20e6}
	for name, c := range map[string]struct {
		rates              map[string]float64
		queue, deep, after time.Duration // now, of late, and then
		lost, want, then   string
	}{
		"one": {one, 8 * ms, 12 * ms, 0, "a", "begins x1.18 115 paced;", "lasts 115 paced;"},
		"it has a queue": {one, 8 * ms, 12 * ms, 11 * ms, "a", "begins x1.18 115 paced;",
			"lasts 115 paced;lasts 110 paced;"},
		"without a loss":   {one, 8 * ms, 12 * ms, 0, "", "begins x1.18 115 paced;", "lasts 115 paced;"},
		"trains show more": {more, 8 * ms, 12 * ms, 4 * ms, "a", "begins x1.15 150 paced;", "lasts 150 paced;"},
		"not full":         {one, 1 * ms, 12 * ms, 4 * ms, "", "begins x1.18 130;", "lasts 130;"},
		"not full, a loss": {one, 1 * ms, 12 * ms, 4 * ms, "a", "", ""},
		"a long queue":     {one, 8 * ms, 26 * ms, 4 * ms, "a", "begins x1.18 130;", "lasts 130;"},
		"several":          {two, 8 * ms, 12 * ms, 4 * ms, "a", "", ""},
		"several, no loss": {two, 8 * ms, 12 * ms, 4 * ms, "", "begins x1.18 130;", "lasts 130;"},
	} {
		x := newStretchBench(c.rates)
		x.deep, x.lost = c.deep, c.lost
		x.send(even(1, 40e6), time.Second)
		x.queued["a"], x.queued["b"] = 10*ms+c.queue, 10*ms+c.queue
		for range 3 {
			x.send(even(1, 95e6), time.Second)
		}
		short := strings.NewReplacer("1 10ms 45ms ", "")
		if got := short.Replace(x.told()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !x.HandleStretched(x.now, 1) {
			continue
		}
		x.HandleCrosses(x.now)
		x.timeout(t)
		x.queued["a"], x.queued["b"] = 10*ms+c.after, 10*ms+c.after
		x.send(even(1, 100e6), time.Second)
		if got := short.Replace(strings.ReplaceAll(x.told(), "x1.18 ", "")); strings.ReplaceAll(got, "x1.15 ", "") != c.then {
			t.Errorf("%s: then %q, want %q", name, got, c.then)
		}
	}
}

// A queue that makes the short path long enough needs no windows.
func TestStretchingNeedsNoQueue(t *testing.T) {
	x := begun(t)
	if got := x.told(); got != "" {
		t.Errorf("windows: %q", got)
	}
	if x.send(even(1, 50e6), time.Second); x.told() != "" {
		t.Error("windows shrink that have not grown")
	}
}

// Where all paths carry less than they did, windows follow at once; where they carry more, they follow step by step,
// and if it is still so by the next look. They are smaller where a short path has a queue, and larger where none has.
func TestStretchingFollowsRates(t *testing.T) {
	x := asking(t, 1)
	x.HandleStretched(x.now, 1)
	x.HandleCrosses(x.now)
	x.timeout(t)
	x.told()
	for i, c := range []struct {
		short float64
		queue time.Duration // ms
		want  string
	}{
		{105e6, 7, ""}, {135e6, 7, ""}, {100e6, 7, ""}, {200e6, 7, ""}, {200e6, 7, "150"}, {200e6, 7, ""}, {200e6, 7, "188"},
		{100e6, 7, "120"}, {95e6, 7, ""}, {100e6, 11, "115"}, {100e6, 7, ""}, {100e6, 11, "111"}, {100e6, 1, "113"},
		{100e6, 1, "115"}, {100e6, 1, "117"}, {100e6, 1, "120"}, {100e6, 1, "122"}, {100e6, 1, "125"}, {100e6, 1, "127"},
		{100e6, 1, "130"}, {100e6, 1, "130"}, {100e6, 1, ""}, {100e6, 3, ""},
	} {
		x.queued["a"] = 10*time.Millisecond + c.queue*time.Millisecond
		x.handleRates(map[string]Measured{"a": {Bytes: c.short, Sure: true}, "c": {Bytes: 20e6, Sure: true}})
		x.send(even(1, 1.1*c.short), time.Second)
		if c.want != "" {
			c.want = "lasts 1 10ms 45ms x1.20 " + c.want + ";"
		}
		if got := x.told(); got != c.want {
			t.Errorf("look %d, %.0f MB/s: %q, want %q", i, c.short/1e6, got, c.want)
		}
	}
}
