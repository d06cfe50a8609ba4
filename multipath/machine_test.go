package multipath

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

const (
	a, b, c = "a", "b", "c"
	ms      = time.Millisecond
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// bench is a machine and what its owner sends along.
type bench struct {
	Machine[string]
	use Use[string]
	now time.Time
}

func newBench(paths ...string) *bench {
	return &bench{now: epoch, use: Use[string]{Paths: paths}}
}

// follow has the owner do as the machine says.
func (x *bench) follow() { x.use.Long = x.long(x.use, x.use.Paths) }

// answer has probes of these round trips be answered, and time pass for the longest.
func (x *bench) answer(rtts map[string]time.Duration) {
	sent := x.now
	for _, p := range slices.Sorted(maps.Keys(rtts)) {
		x.HandleAnswer(sent.Add(rtts[p]), p, sent)
		x.now = later(x.now, sent.Add(rtts[p]))
	}
	x.follow()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// TCP leaves the long ones of paths alone, once their length is known.
func TestLong(t *testing.T) {
	for _, test := range []struct {
		rtts map[string]time.Duration
		long []string
	}{
		{map[string]time.Duration{a: 10 * ms, b: 10 * ms}, nil},
		{map[string]time.Duration{a: 20 * ms, b: 41 * ms}, nil}, // TCP gets more from both
		{map[string]time.Duration{a: 10 * ms, b: 24 * ms}, []string{b}},
		{map[string]time.Duration{a: 100 * ms, b: 10 * ms}, []string{a}},
		{map[string]time.Duration{a: 300 * time.Microsecond, b: 2 * ms}, nil}, // a busy host may add that
		{map[string]time.Duration{a: 100 * ms, b: 10 * ms, c: 300 * ms}, []string{a, c}},
		{map[string]time.Duration{a: 10 * ms}, []string{b}}, // not measured, and not taken so far
		{nil, []string{b}}, // of those that nobody knows, one is taken
	} {
		x := newBench(a, b)
		if len(test.rtts) == 3 {
			x.use.Paths = []string{a, b, c}
		}
		x.use.Long = x.use.Paths
		x.answer(test.rtts)
		if !slices.Equal(x.use.Long, test.long) {
			t.Errorf("%v: TCP does not take %v, want %v", test.rtts, x.use.Long, test.long)
		}
		for p, want := range test.rtts {
			if rtt, known := x.RTT(p); !known || rtt != want {
				t.Errorf("%v: %s takes %v, %v", test.rtts, p, rtt, known)
			}
		}
		x.use.PerFlow = true
		if x.follow(); len(x.use.Long) != 0 {
			t.Errorf("%v: connections keep to one path each, but not to %v", test.rtts, x.use.Long)
		}
	}
}

// One path is never a long one, and need not be asked.
func TestOnePath(t *testing.T) {
	x := newBench(a)
	x.follow()
	if len(x.use.Long) != 0 || x.Doubtful(x.use) || len(x.Unasked(x.use)) != 0 || x.HandleQueue(x.now, x.use, false) {
		t.Errorf("TCP does not take %v, doubts %v, asks %v", x.use.Long, x.Doubtful(x.use), x.Unasked(x.use))
	}
}

// A path that answers no probe is taken like all others.
func TestNoAnswer(t *testing.T) {
	x := newBench(a, b)
	x.use.Long = []string{b}
	x.HandleNoAnswer(x.use, []string{a, b})
	if x.follow(); len(x.use.Long) != 0 || x.Doubtful(x.use) {
		t.Errorf("TCP does not take %v, doubts %v", x.use.Long, x.Doubtful(x.use))
	}
	if _, known := x.RTT(a); known {
		t.Error("what was asked in vain is known")
	}
	x.answer(map[string]time.Duration{a: 20 * ms, b: 120 * ms})
	x.answer(map[string]time.Duration{a: 20 * ms, b: 120 * ms})
	x.HandleNoAnswer(x.use, []string{b}) // one that is lost changes nothing
	if x.follow(); !slices.Equal(x.use.Long, []string{b}) {
		t.Errorf("TCP does not take %v", x.use.Long)
	}
}

// What is known of a path that is gone is forgotten, and of no other.
func TestForget(t *testing.T) {
	x := queueBench()
	x.waits(map[string]time.Duration{b: 60 * ms})
	x.Forget(func(p string) bool { return p == b })
	if _, known := x.RTT(b); known || len(x.queues.costsOf(x.use.Paths)) != 0 {
		t.Error("the path that is gone is remembered")
	}
	if _, known := x.RTT(a); !known {
		t.Error("the other one is forgotten")
	}
}

// queueBench has two paths of 20 ms.
func queueBench() *bench {
	x := newBench(a, b)
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	return x
}

// waits has segments wait, and answers the questions that follow, each path taking
// longer by so much; a wait of 0 is not given. It reports how often all were asked.
func (x *bench) waits(by map[string]time.Duration) (asked int) {
	for again := x.HandleQueue(x.now, x.use, false); again; {
		asked++
		x.Asked(x.now)
		rtts := make(map[string]time.Duration)
		for _, p := range x.use.Paths {
			rtts[p] = 20*ms + by[p]
		}
		x.answer(rtts)
		_, again = x.HandleSettled(x.now, x.use, nil, true, nil)
	}
	return asked
}

func (x *bench) share(p string) float64 { return Shares(x.use.Paths, x.queues.costsOf(x.use.Paths))[p] }

// Paths get shares by which nearly all that they can carry is used, whatever their
// rates, and never less than by equal shares or than the better one has.
func TestSharesFollowRates(t *testing.T) {
	for _, rate := range []float64{100, 90, 70, 50, 40, 20, 10, 5, 1} {
		x := queueBench()
		total := x.transfer(100, rate, 20*time.Second)
		if best := max(100, 2*min(100, rate)); total < 0.92*best || total < 0.8*(100+rate) {
			t.Errorf("over 100 and %v TCP gets %.0f, b's share is %.2f", rate, total, x.share(b))
		}
	}
}

// When the slower path has become the faster one, shares follow.
func TestSharesTurn(t *testing.T) {
	x := queueBench()
	x.transfer(100, 20, 10*time.Second)
	if total := x.transfer(20, 100, 20*time.Second); total < 92 {
		t.Errorf("after the rates were exchanged TCP gets %.0f of 120", total)
	}
}

// transfer has TCP send as fast as it can over paths of two rates, of which the one that
// its share exceeds has a queue, and returns how fast that is in the mean of the last half.
func (x *bench) transfer(rateA, rateB float64, during time.Duration) float64 {
	var sum, n float64
	for began := x.now; x.now.Sub(began) < during; x.now = x.now.Add(50 * ms) {
		byA, byB := rateA/x.share(a), rateB/x.share(b)
		fast, waits := min(byA, byB), make(map[string]time.Duration)
		if byA <= fast*1.001 {
			waits[a] = 40 * ms
		}
		if byB <= fast*1.001 {
			waits[b] = 40 * ms
		}
		x.waits(waits)
		if x.now.Sub(began) > during/2 {
			sum, n = sum+fast, n+1
		}
	}
	return sum / n
}

// Equal queues, or none, change nothing, and are asked for ever more rarely.
func TestSharesStayEqual(t *testing.T) {
	for _, waits := range []map[string]time.Duration{nil, {b: 4 * ms}, {a: 40 * ms, b: 60 * ms}, {a: 300 * ms, b: 400 * ms}} {
		x, asked := queueBench(), 0
		for end := x.now.Add(time.Minute); x.now.Before(end); x.now = x.now.Add(50 * ms) {
			asked += x.waits(waits)
		}
		if share := x.share(a); share != 0.5 || asked > 20 || asked < 10 {
			t.Errorf("%v: a share of %v, asked %d times in a minute", waits, share, asked)
		}
	}
}

// One late answer is asked again at once, and changes nothing.
func TestWaitIsConfirmed(t *testing.T) {
	x := queueBench()
	x.HandleQueue(x.now, x.use, false)
	x.Asked(x.now)
	x.answer(map[string]time.Duration{a: 20 * ms, b: 120 * ms})
	if changed, again := x.HandleSettled(x.now, x.use, nil, true, nil); changed || !again {
		t.Errorf("a wait that was seen once: changed %v, again %v", changed, again)
	}
	x.Asked(x.now)
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	if changed, again := x.HandleSettled(x.now, x.use, nil, true, nil); changed || again || x.share(b) != 0.5 {
		t.Errorf("a wait that has gone: changed %v, again %v, share %v", changed, again, x.share(b))
	}
}

// A path that swallows the probes gets less at once.
func TestWaitThatSwallowsProbes(t *testing.T) {
	x := queueBench()
	x.HandleQueue(x.now, x.use, false)
	x.Asked(x.now)
	x.answer(map[string]time.Duration{a: 20 * ms})
	x.now = x.now.Add(300 * ms)
	if changed, _ := x.HandleSettled(x.now, x.use, []string{b}, true, nil); !changed || math.Abs(x.share(b)-1./3) > 0.01 {
		t.Errorf("changed %v, share %v", changed, x.share(b))
	}
	x = queueBench()
	x.HandleQueue(x.now, x.use, false)
	x.Asked(x.now)
	if changed, again := x.HandleSettled(x.now, x.use, []string{a, b}, false, nil); changed || again {
		t.Error("judges when nothing was answered")
	}
	if !x.HandleQueue(x.now.Add(ms), x.use, false) {
		t.Error("asks more rarely as nothing was answered")
	}
}

// Nothing is asked where there is nothing to share, or no answer could be told apart.
func TestNothingToShare(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"a path is long":             func(x *bench) { x.use.Long = []string{b} },
		"connections keep to a path": func(x *bench) { x.use.PerFlow = true },
		"one path":                   func(x *bench) { x.use.Paths = []string{a} },
		"just asked":                 func(x *bench) { x.waits(nil) },
	} {
		x := queueBench()
		if change(x); x.HandleQueue(x.now, x.use, false) {
			t.Errorf("%s: asks", name)
		}
	}
	if x := queueBench(); x.HandleQueue(x.now, x.use, true) {
		t.Error("asks among other questions")
	}
}

// Shares are forgotten when nothing waits any more; other paths start anew.
func TestSharesAreForgotten(t *testing.T) {
	x := queueBench()
	last := x.now
	x.waits(map[string]time.Duration{b: 60 * ms})
	if x.Expire(last.Add(CostLasts-time.Second)) || x.share(b) == 0.5 {
		t.Error("forgotten too soon")
	}
	if x.HandlePaths(); x.share(b) == 0.5 {
		t.Error("forgotten with the question")
	}
	if !x.Expire(last.Add(CostLasts)) || x.share(b) != 0.5 || x.Expire(last.Add(2*CostLasts)) {
		t.Error("not forgotten once")
	}
}

// A path that has become faster gets more again.
func TestSharesRelax(t *testing.T) {
	x := queueBench()
	for range 4 {
		x.waits(map[string]time.Duration{b: 60 * ms})
		x.now = x.now.Add(time.Second)
	}
	least := x.share(b)
	for range 240 {
		x.waits(nil)
		x.now = x.now.Add(500 * ms)
	}
	if least > 0.2 || x.share(b) != 0.5 {
		t.Errorf("a share of %v, before of %v", x.share(b), least)
	}
}

func TestShares(t *testing.T) {
	for _, test := range []struct {
		costs map[string]uint8
		want  map[string]float64
	}{
		{nil, map[string]float64{a: 0.5, b: 0.5}},
		{map[string]uint8{b: 2}, map[string]float64{a: 2. / 3, b: 1. / 3}},
		{map[string]uint8{b: 1}, map[string]float64{a: 0.6, b: 0.4}},
		{map[string]uint8{a: 4}, map[string]float64{a: 0.2, b: 0.8}},
	} {
		if got := Shares([]string{a, b}, test.costs); !maps.EqualFunc(got, test.want, func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }) {
			t.Errorf("%v: %v, want %v", test.costs, got, test.want)
		}
	}
}

// The word of the other end holds for a while, and is taken back by silence.
func TestWish(t *testing.T) {
	x := newBench(a, b)
	for i, step := range []struct {
		after          time.Duration
		perFlow        bool
		changed, holds bool
	}{
		{0, false, false, false},
		{time.Second, true, true, true},
		{time.Second, false, false, true},
		{WishLasts - 2*time.Second, false, false, true},
		{time.Second, false, true, false},
	} {
		x.now = x.now.Add(step.after)
		if changed := x.HandleWish(x.now, step.perFlow); changed != step.changed || x.Wished() != step.holds {
			t.Errorf("step %d: changed %v, holds %v", i, changed, x.Wished())
		}
	}
	x.HandleWish(x.now, true)
	if x.ForgetWish(); x.Wished() {
		t.Error("not forgotten")
	}
}

func TestSpread(t *testing.T) {
	x := newBench(a, b)
	x.use.PerFlow = true
	if s, changed := x.Show(x.use); s != ByFlow || !changed {
		t.Errorf("shown by %v, changed %v", s, changed)
	}
	if _, changed := x.Show(x.use); changed {
		t.Error("told twice")
	}
	if got := fmt.Sprint(ByPacket, ByFlow, ByLength, Spread(9)); got != "packet flow length unknown" {
		t.Error(got)
	}
}

// TestLate: TCP leaves a path that is late until its rate is known anew. It is no long path for that:
// segments are spread by packet as before, and no connection takes it whole.
func TestLate(t *testing.T) {
	x := newBench(a, b)
	rates := map[string]Measured{a: sure(100), b: sure(100)}
	follow := func() {
		x.handleRates(rates)
		x.follow()
	}
	follow()
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	if len(x.use.Long) > 0 {
		t.Fatalf("TCP does not take %v", x.use.Long)
	}
	x.HandleLate(x.now, b)
	rates[b] = Measured{Bytes: sure(100).Bytes, Sure: true, Wants: true}
	follow()
	s, changed := x.Show(x.use)
	if !slices.Equal(x.use.Long, []string{b}) || s != ByPacket || changed || !x.IsLate(b) {
		t.Errorf("late: TCP does not take %v, spread by %v", x.use.Long, s)
	}
	if _, long := x.placeRates(x.use); len(long) > 0 {
		t.Errorf("connections take %v whole", long)
	}
	rates[b] = Measured{Bytes: sure(100).Bytes, Most: sure(20).Bytes, Sure: true, Wants: true}
	if follow(); !slices.Equal(x.use.Long, []string{b}) || len(x.queues.base) > 0 {
		t.Errorf("after one slow train: TCP does not take %v, costs %v", x.use.Long, x.queues.base)
	}
	rates[b] = sure(20)
	if follow(); len(x.use.Long) > 0 || x.queues.base[b] != 5 || x.IsLate(b) {
		t.Errorf("rate known: TCP does not take %v, costs %v", x.use.Long, x.queues.base)
	}
	x.HandleLate(x.now, b) // its rate is not measured
	if follow(); len(x.use.Long) > 0 || x.IsLate(b) {
		t.Errorf("nothing to wait for: TCP does not take %v", x.use.Long)
	}
}
