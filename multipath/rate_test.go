package multipath

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// A train's rate is that of the bytes between its two probes, by the clock of the other end if
// both answers have it: they may come late, and in another order.
func TestTrain(t *testing.T) {
	at := func(came int) Arrival {
		return Arrival{Came: time.Unix(1000, 0).Add(time.Duration(came) * time.Millisecond)}
	}
	timed := func(came int, clock uint32) Arrival {
		a := at(came)
		a.Timed, a.Clock = true, clock
		return a
	}
	most := 10_000 / trainLeast.Seconds()
	for _, c := range []struct {
		first, last Arrival
		want        float64 // 0: none
	}{
		{at(0), at(4), 2_500_000},
		{at(1), at(0), 0},
		{at(0), at(0), most},
		{timed(0, 50), timed(0, 4050), 2_500_000},
		{timed(9, 50), timed(1, 4050), 2_500_000},
		{timed(0, 1<<32-2000), timed(1, 2000), 2_500_000},
		{timed(0, 4050), timed(1, 50), 0},
		{timed(0, 50), at(4), 2_500_000},
		{at(0), timed(4, 50), 2_500_000},
	} {
		for _, lastFirst := range []bool{false, true} {
			var tr Train
			early, late := c.first, c.last
			if lastFirst {
				early, late = late, early
			}
			if _, ok := tr.HandleAnswer(early, lastFirst, 10_000); ok {
				t.Errorf("%v and %v: one answer gives a rate", c.first, c.last)
			}
			if rate, ok := tr.HandleAnswer(late, !lastFirst, 10_000); ok != (c.want > 0) || rate != c.want {
				t.Errorf("10 kB between %v and %v: %v bytes a second, %t, want %v", c.first, c.last, rate, ok, c.want)
			}
		}
	}
}

// Data that come between the two probes of a train are a part of what the path carries, if one count says so of both.
func TestTrainAmongData(t *testing.T) {
	at := func(d time.Duration, epoch uint32, packets uint64) Arrival {
		return Arrival{Came: time.Unix(1000, 0).Add(d), Epoch: epoch, Data: Traffic{packets, 1000 * packets}}
	}
	for _, c := range []struct {
		first, last Arrival
		want        float64
	}{
		{at(0, 7, 100), at(10*ms, 7, 110), 100 * (10_000 + 10*(1000+dataHeaders))},
		{at(0, 7, 100), at(10*ms, 7, 100), 100 * 10_000},
		{at(0, 7, 100), at(10*ms, 8, 110), 100 * 10_000},
		{at(0, 0, 100), at(10*ms, 0, 110), 100 * 10_000},
		{at(0, 7, 100), at(10*ms, 7, 90), 100 * 10_000},
	} {
		var tr Train
		tr.HandleAnswer(c.first, false, 10_000)
		if rate, ok := tr.HandleAnswer(c.last, true, 10_000); !ok || rate != c.want {
			t.Errorf("from %+v to %+v: %v, %t, want %v", c.first, c.last, rate, ok, c.want)
		}
	}
}

// Three trains that agree suffice; others are sent until three do, up to a limit. A rate that gets old is measured
// anew, and counts until it is, or cannot be.
func TestRate(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		trains []float64 // bytes a second; 0: lost
		want   Measured
	}{
		{nil, Measured{Wants: true}},
		{[]float64{100}, Measured{Bytes: 100, Most: 100, Wants: true}},
		{[]float64{100, 90}, Measured{Bytes: 90, Most: 100, Wants: true}},
		{[]float64{100, 90, 95}, Measured{Bytes: 100, Most: 100, Sure: true}},
		{[]float64{10, 100, 20, 110, 105}, Measured{Bytes: 110, Most: 110, Sure: true}},
		{[]float64{300, 20, 19, 20}, Measured{Bytes: 20, Most: 300, Sure: true, Wants: true}}, // one was late,
		{[]float64{300, 20, 19, 20, 20, 19}, Measured{Bytes: 20, Most: 20, Sure: true}},       // as the others show
		{[]float64{1, 2, 4, 8, 16, 32, 64}, Measured{Bytes: 32, Most: 64, Wants: true}},
		{[]float64{1, 2, 4, 8, 16, 32, 64, 128}, Measured{Bytes: 64, Most: 128}},
		{[]float64{95, 59, 99, 120, 55, 64}, Measured{Bytes: 99, Most: 120, Wants: true}}, // the slow ones agree by chance
		{[]float64{95, 59, 99, 120, 55, 64, 38, 39}, Measured{Bytes: 99, Most: 120, Sure: true}},
		{[]float64{300, 20, 310, 19, 20}, Measured{Bytes: 300, Most: 310, Wants: true}},
		{[]float64{300, 20, 310, 19, 20, 21}, Measured{Bytes: 21, Most: 310, Sure: true, Wants: true}},
		{[]float64{300, 20, 310, 19, 20, 21, 20, 20}, Measured{Bytes: 21, Most: 21, Sure: true}},
		{[]float64{0, 0}, Measured{Wants: true}},
		{[]float64{0, 0, 0}, Measured{}},
		{[]float64{0, 50, 0, 0}, Measured{Bytes: 50, Most: 50}},
	} {
		var r Rate
		for _, bytes := range c.trains {
			if bytes == 0 {
				r = r.Without(now)
			} else {
				r = r.With(now, bytes)
			}
		}
		if got := r.Measured(now); got != c.want {
			t.Errorf("after %v: %v, want %v", c.trains, got, c.want)
		}
		for _, at := range []time.Time{now.Add(RateLasts), now.Add(-time.Second)} {
			want := Measured{Wants: true}
			if c.want.Sure {
				want.Bytes, want.Sure = c.want.Bytes, true
			}
			if got := r.Measured(at); len(c.trains) > 0 && got != want {
				t.Errorf("after %v, %v later: %v, want %v", c.trains, at.Sub(now), got, want)
			}
			late := r.Without(at).Without(at).Without(at)
			if want.Wants = false; len(c.trains) > 0 && late.Measured(at) != want {
				t.Errorf("after %v, and none of three that are sent %v later: %v, want %v", c.trains, at.Sub(now),
					late.Measured(at), want)
			}
			if got := Held(50).Measured(at); got != (Measured{Bytes: 50, Sure: true, Wants: true}) {
				t.Errorf("a rate from before: %v", got)
			}
		}
	}
}

func sure(bytes float64) Measured { return Measured{Bytes: bytes, Sure: true} }

// Shares follow rates, and rates that are not sure change none. Rates that are
// about equal give equal shares. Shares that queues have shown stay while the rates are the same.
func TestCostsByRates(t *testing.T) {
	for want, rates := range map[string]map[string]Measured{
		"map[]":         {"a": sure(100), "b": sure(70), "c": {Bytes: 1}},
		"map[b:2]":      {"a": sure(100), "b": sure(50), "c": {Bytes: 900}},
		"map[c:2]":      {"a": sure(100), "b": {Bytes: 20, Most: 70, Sure: true}, "c": {Bytes: 50, Most: 55, Sure: true}},
		"map[b:5]":      {"a": sure(100), "b": sure(20), "c": {}},
		"map[a:9 c:15]": {"a": sure(50), "b": sure(1000), "c": sure(1)},
	} {
		var m Machine[string]
		m.handleRates(rates)
		paths := slices.Sorted(maps.Keys(rates))
		if got := fmt.Sprint(m.queues.costsOf(paths)); got != want || fmt.Sprint(only(m.queues.base, paths)) != want {
			t.Errorf("rates %v: costs %s, want %s", rates, got, want)
		}
		m.queues.costs = map[string]uint8{"a": 3}
		if m.handleRates(rates); fmt.Sprint(m.queues.costsOf(paths)) != "map[a:3]" {
			t.Errorf("the same rates again change the costs to %v", m.queues.costsOf(paths))
		}
		m.queues.last = time.Unix(1000, 0)
		if m.Expire(time.Unix(1000, 0).Add(CostLasts)); fmt.Sprint(m.queues.costsOf(paths)) != want {
			t.Errorf("without queues the costs become %v, want %s", m.queues.costsOf(paths), want)
		}
	}
}

// A path gets the share at which it and the fastest one together carry most, however exactly trains have measured them:
// never less than nine tenths of the sum, nor of that by rates within a tenth of the true ones.
func TestCostsByInexactRates(t *testing.T) {
	for _, c := range []struct {
		ratio float64
		want  uint8
	}{
		{1.6, 1}, {1.66, 1}, {1.68, 2}, {2.2, 2}, {2.3, 3}, {3.1, 3}, {3.3, 4}, {4.2, 4}, {4.3, 5}, {4.7, 5}, {5.5, 5},
		{6.3, 6}, {8.4, 7}, {300, 15},
	} {
		costs := rateCosts(map[string]Measured{"a": sure(1000 * c.ratio), "b": sure(1000)})
		if got := costs["b"]; got != c.want || costs["a"] != 0 {
			t.Errorf("one path is %.2f times as fast: the other one costs %d, want %d", c.ratio, got, c.want)
		}
	}
	for ratio := rateAlike; ratio < 100; ratio *= 1.01 {
		if got := together(stepFor(ratio), ratio); got < 0.92*(1+1/ratio) {
			t.Errorf("one path is %.2f times as fast as the other: both carry %.2f of %.2f", ratio, got, 1+1/ratio)
		}
	}
	for _, ratio := range []float64{2, 5, 10} { // of the experiments
		for _, wrong := range []float64{0.9, 1.1} {
			if got := together(stepFor(wrong*ratio), ratio); got < 0.95*(1+1/ratio) {
				t.Errorf("%.0f times as fast, measured %.1f: both carry %.2f of %.2f", ratio, wrong*ratio, got, 1+1/ratio)
			}
		}
	}
}

// TCP waits for rates that are being measured on the path that seems to be the fastest, and keeps
// a path that it takes already.
func TestTCPWaitsForRates(t *testing.T) {
	paths, now := []string{"a", "b", "c"}, time.Unix(1000, 0)
	var m Machine[string]
	for _, p := range paths {
		m.HandleAnswer(now, p, now.Add(-10*time.Millisecond))
	}
	m.handleRates(map[string]Measured{"a": {Wants: true}, "b": {Wants: true}, "c": {Wants: true}})
	if got := fmt.Sprint(m.long(Use[string]{}, paths)); got != "[b c]" {
		t.Errorf("without a train TCP does not take %s", got)
	}
	one := func(bytes float64) Measured { return Measured{Bytes: bytes, Most: bytes, Wants: true} }
	m.handleRates(map[string]Measured{"a": {Wants: true}, "b": one(5), "c": one(3)})
	if got := fmt.Sprint(m.long(Use[string]{}, paths)); got != "[a c]" {
		t.Errorf("after a train on b and a slower one on c TCP does not take %s", got)
	}
	m.handleRates(map[string]Measured{"a": {Wants: true}, "b": one(5), "c": one(4)})
	if got := fmt.Sprint(m.long(Use[string]{}, paths)); got != "[a]" {
		t.Errorf("after trains on b and c of about the same rate TCP does not take %s", got)
	}
	if got := fmt.Sprint(m.long(Use[string]{Paths: paths[:1]}, paths)); got != "[]" {
		t.Errorf("TCP takes a path already and does not take %s", got)
	}
	m.handleRates(map[string]Measured{"a": sure(9), "b": {Bytes: 5, Wants: true}, "c": {}})
	if got := fmt.Sprint(m.long(Use[string]{}, paths)); got != "[b]" {
		t.Errorf("when two rates are known TCP does not take %s", got)
	}
}

// Where rates are known, a short queue changes no shares, and a long one does, unless the path delivers what it can;
// after that short ones count as well.
func TestQueuesWhereRatesAreKnown(t *testing.T) {
	paths := []string{"a", "b"}
	u := Use[string]{Paths: paths}
	for _, c := range []struct {
		known   bool
		waits   []time.Duration // before a, in rounds of two questions
		carried map[string]float64
		want    string
	}{
		{true, []time.Duration{60 * time.Millisecond}, nil, "map[b:5]"},
		{false, []time.Duration{60 * time.Millisecond}, nil, "map[a:2]"},
		{true, []time.Duration{200 * time.Millisecond}, nil, "map[b:3]"},
		{true, []time.Duration{200 * time.Millisecond}, map[string]float64{"a": 81, "b": 1}, "map[b:5]"},
		{true, []time.Duration{200 * time.Millisecond}, map[string]float64{"a": 79, "b": 20}, "map[b:3]"},
		{false, []time.Duration{60 * time.Millisecond}, map[string]float64{"a": 100}, "map[a:2]"},
		{true, []time.Duration{200 * time.Millisecond, 60 * time.Millisecond}, nil, "map[b:1]"},
	} {
		var m Machine[string]
		now := time.Unix(1000, 0)
		for _, p := range paths {
			m.HandleAnswer(now, p, now.Add(-20*time.Millisecond))
		}
		if c.known {
			m.handleRates(map[string]Measured{"a": sure(100), "b": sure(20)})
		}
		for _, wait := range c.waits {
			for range 2 {
				now = now.Add(10 * time.Second)
				if !m.HandleQueue(now, u, false) {
					t.Fatal("no question is asked")
				}
				m.Asked(now)
				m.HandleAnswer(now.Add(20*time.Millisecond), "b", now)
				m.HandleAnswer(now.Add(20*time.Millisecond+wait), "a", now)
				m.HandleSettled(now.Add(20*time.Millisecond+wait), u, nil, true, c.carried)
			}
		}
		if got := fmt.Sprint(m.queues.costsOf(paths)); got != c.want {
			t.Errorf("rates known: %t, waits of %v: costs %s, want %s", c.known, c.waits, got, c.want)
		}
	}
}

// TestQueuesBesideALongPath: that the rate of a path is not known which TCP does not take changes nothing.
func TestQueuesBesideALongPath(t *testing.T) {
	var m Machine[string]
	rates := map[string]Measured{"a": sure(100), "b": sure(20), "c": {Wants: true}}
	m.handleRates(rates)
	u := Use[string]{Paths: []string{"a", "b", "c"}, Long: []string{"c"}}
	if !m.followsRates(u) {
		t.Error("shares do not go by rates where that of a long path is not known")
	}
	if u.Long = nil; m.followsRates(u) {
		t.Error("shares go by rates where one is not known")
	}
}

// TestRateAnew: a rate in doubt counts until three trains agree about another one. Trains look whether a path that
// data fill has become faster.
func TestRateAnew(t *testing.T) {
	const bytes = 12_700
	now := time.Unix(1000, 0)
	r := Rate{}
	if _, anew := r.Doubted(now, bytes); anew || r.IsRise(now, 1e9) || r.Checks(now.Add(time.Hour), 1e9, bytes) {
		t.Error("an unknown rate changes")
	}
	for range rateEnough {
		r = r.With(now, 10e6)
	}
	if !r.IsRise(now, 12.1e6) || r.IsRise(now, 11.9e6) {
		t.Error("rises")
	}
	d, anew := r.Doubted(now, bytes)
	for i := range rateEnough {
		if m := d.Measured(now); !anew || m.Bytes != 10e6 || !m.Sure || !m.Wants || d.IsRise(now, 1e9) {
			t.Errorf("after %d trains: %+v", i, m)
		}
		d = d.With(now, 2e6)
	}
	if m := d.Measured(now); m != (Measured{Bytes: 2e6, Most: 2e6, Sure: true}) {
		t.Errorf("after three trains: %+v", m)
	}
	lost, _ := r.Doubted(now, bytes)
	if m := lost.Without(now).Without(now).Without(now).Measured(now); m.Bytes != 10e6 || !m.Sure || m.Wants {
		t.Errorf("without answers: %+v", m)
	}
	for _, c := range []struct {
		after time.Duration
		rate  float64 // that data have
		bytes int     // of a train
		want  bool
	}{
		{checkEvery, 3.4e6, bytes, true}, {checkEvery - 1, 5e6, bytes, false}, {time.Minute, 3.3e6, bytes, false},
		{4 * time.Second, 10e6, 80_000, true}, {4*time.Second - 1, 10e6, 80_000, false},
	} {
		if got := r.Checks(now.Add(c.after), c.rate, c.bytes); got != c.want {
			t.Errorf("after %v, data at %v: %v", c.after, c.rate, got)
		}
		if got := r.Checked(now).Checks(now.Add(c.after), c.rate, c.bytes); got != c.want {
			t.Errorf("%v after a train, data at %v: %v", c.after, c.rate, got)
		}
	}
	if m := r.Checked(now.Add(RateLasts - 1)).Measured(now.Add(RateLasts)); !m.Wants {
		t.Error("a train that shows no rise keeps a rate from being measured anew")
	}
}

// TestDoubtsAreFew: three doubts may follow each other, of a path as slow as this one once a minute then.
func TestDoubtsAreFew(t *testing.T) {
	now, doubts := time.Unix(1000, 0), 0
	var r Rate
	for i := range 600 {
		for r.Measured(now).Wants {
			r = r.With(now, 317_500)
		}
		next, anew := r.Doubted(now, 12_700)
		if r = next; anew {
			doubts++
		}
		if i == 10 && doubts != doubtsInRow {
			t.Errorf("%d in a row", doubts)
		}
		now = now.Add(time.Second)
	}
	if doubts != doubtsInRow+9 {
		t.Errorf("%d in ten minutes", doubts)
	}
}

// TestFalls: what leaves a queue more slowly than a path carries raises a doubt, the more seldom the more often trains
// have shown otherwise. A single slow train does where data were just lost at once.
func TestFalls(t *testing.T) {
	now := time.Unix(1000, 0)
	trains := func(r Rate, bytes float64) Rate {
		for range rateEnough {
			r = r.With(now, bytes)
		}
		return r
	}
	r := trains(Rate{}, 10e6)
	if !r.IsSlower(now, 6.2e6) || r.IsSlower(now, 6.3e6) || r.IsSlower(now, 0) {
		t.Error("a path that carries less")
	}
	for i := range 3 {
		r, _ = r.Doubted(now, 12_700)
		if r.IsSlower(now, 1) {
			t.Error("a rate that is measured anew is lower")
		}
		r = trains(r, 9e6)
		rests := checkEvery << (i + 1)
		if r.IsSlower(now.Add(rests-1), 1) || !r.IsSlower(now.Add(rests), 1) {
			t.Errorf("after %d doubts in vain the next one may not come after %v", i+1, rests)
		}
		now = now.Add(time.Minute)
	}
	lost, _ := r.Doubted(now, 12_700)
	if lost = lost.Without(now).Without(now).Without(now); lost.IsSlower(now.Add(checkEvery<<4-1), 1) {
		t.Error("after one without answers it may come sooner")
	}
	if r, _ = r.Doubted(now, 12_700); !trains(r, 2e6).IsSlower(now, 1e6) {
		t.Error("after one with a reason it may not come at once")
	}
	r = trains(Rate{}, 10e6)
	alarmed, ok := r.Alarmed(now)
	_, again := alarmed.Alarmed(now.Add(checkEvery - 1))
	_, later := alarmed.Alarmed(now.Add(checkEvery))
	if !ok || again || !later {
		t.Errorf("alarms: %t, again %t, later %t", ok, again, later)
	}
	over := alarmed.IsFall(now.Add(alarmLasts), 1e6)
	if r.IsFall(now, 1e6) || !alarmed.IsFall(now, 6e6) || alarmed.IsFall(now, 6.3e6) || over {
		t.Error("a slow train")
	}
}

// TestOutpaced: TCP leaves the path on which a session began as soon as a train has shown it as slow beside another
// one, and takes it with its share once its rate is known. Where trains are about as fast, or the rate is measured
// anew, it stays. One that is known as slow waits for the rate of one that trains have shown as faster.
func TestOutpaced(t *testing.T) {
	x := newBench(a, b)
	x.use.Long = []string{b}
	x.handleRates(map[string]Measured{a: {Bytes: 90, Most: 100, Wants: true}, b: {Wants: true}})
	if x.follow(); !slices.Equal(x.use.Long, []string{b}) {
		t.Fatalf("TCP does not take %v", x.use.Long)
	}
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	x.handleRates(map[string]Measured{a: {Bytes: 90, Most: 100, Wants: true}, b: sure(20)})
	if x.follow(); !slices.Equal(x.use.Long, []string{b}) {
		t.Errorf("of two paths the slow one is known: TCP does not take %v", x.use.Long)
	}
	x.handleRates(map[string]Measured{a: sure(100), b: sure(20)})
	if x.follow(); len(x.use.Long) > 0 {
		t.Errorf("both are known: TCP does not take %v", x.use.Long)
	}

	for _, c := range []struct {
		now  Measured
		left bool
	}{
		{Measured{Bytes: 20, Most: 20, Wants: true}, true},
		{Measured{Bytes: 20, Most: 70, Wants: true}, false},
		{Measured{Wants: true}, false},
		{Measured{Bytes: 100, Most: 20, Sure: true, Wants: true}, false},
	} {
		x := newBench(a, b)
		x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
		x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
		x.handleRates(map[string]Measured{a: {Bytes: 100, Most: 100, Sure: true}, b: c.now})
		x.follow()
		if left := slices.Equal(x.use.Long, []string{b}); left != c.left || len(x.use.Long) > 0 && !left {
			t.Errorf("%+v: TCP does not take %v", c.now, x.use.Long)
		}
		x.handleRates(map[string]Measured{a: sure(100), b: sure(20)})
		if x.follow(); len(x.use.Long) > 0 || x.queues.base[b] != 5 {
			t.Errorf("%+v, then known: TCP does not take %v, costs %v", c.now, x.use.Long, x.queues.base)
		}
	}
}
