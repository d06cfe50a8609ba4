package multipath

import (
	"slices"
	"testing"
	"time"
)

// A path is doubtful until it was measured, and while one late answer has made it long.
func TestDoubtful(t *testing.T) {
	x := newBench(a, b)
	if !x.Doubtful(x.use) || !slices.Equal(x.Unasked(x.use), []string{a, b}) {
		t.Errorf("nothing is known, and asked are %v", x.Unasked(x.use))
	}
	x.answer(map[string]time.Duration{a: 20 * ms, b: 120 * ms})
	if s, changed := x.Show(x.use); !x.Doubtful(x.use) || s != ByPacket || changed {
		t.Errorf("one late answer: shown by %v, doubted %v", s, x.Doubtful(x.use))
	}
	x.answer(map[string]time.Duration{a: 20 * ms, b: 120 * ms})
	if s, changed := x.Show(x.use); x.Doubtful(x.use) || s != ByLength || !changed {
		t.Errorf("two answers: shown by %v, doubted %v", s, x.Doubtful(x.use))
	}
	x.answer(map[string]time.Duration{b: 20 * ms})
	if s, changed := x.Show(x.use); len(x.use.Long) != 0 || s != ByPacket || !changed {
		t.Errorf("the least counts: shown by %v, long %v", s, x.use.Long)
	}
}

// Where a busy host may have made the difference, two late answers are not enough: the path is
// probed again, after ever longer pauses, until its least round trip shows, or eight answers agree,
// or are missing.
func TestAskAgainOnBusyHosts(t *testing.T) {
	late := map[string]time.Duration{a: ms, b: 9 * ms}
	for _, lost := range []bool{false, true} {
		x := newBench(a, b)
		x.answer(late)
		x.answer(late)
		var pauses []time.Duration
		for len(pauses) < 20 && x.AskAgain(x.use) > 0 {
			pauses = append(pauses, x.AskAgain(x.use))
			if lost {
				x.HandleNoAnswer(x.use, []string{b})
				x.follow()
			} else {
				x.answer(late)
			}
		}
		want := []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms}
		if !slices.Equal(pauses, want) || !slices.Equal(x.use.Long, []string{b}) || x.Doubtful(x.use) {
			t.Errorf("probes lost %v: asked after %v, want %v; long %v", lost, pauses, want, x.use.Long)
		}
	}
	x := newBench(a, b)
	x.answer(late)
	x.answer(late)
	if x.answer(map[string]time.Duration{a: ms, b: 2 * ms}); x.AskAgain(x.use) != 0 || len(x.use.Long) != 0 {
		t.Errorf("a quick answer: asked after %v, long %v", x.AskAgain(x.use), x.use.Long)
	}
	for _, far := range []map[string]time.Duration{{a: ms, b: 40 * ms}, {a: 20 * ms, b: 120 * ms}} {
		x := newBench(a, b)
		x.answer(far)
		if x.answer(far); x.AskAgain(x.use) != 0 || !slices.Equal(x.use.Long, []string{b}) {
			t.Errorf("%v: asked after %v, long %v", far, x.AskAgain(x.use), x.use.Long)
		}
	}
}

// The length of a path follows it, after a while upwards; near the limit TCP does not go
// to and fro.
func TestLengthChanges(t *testing.T) {
	x := newBench(a, b)
	at := func(rtt, during time.Duration) {
		for end := x.now.Add(during); x.now.Before(end); x.now = x.now.Add(Regularly) {
			x.answer(map[string]time.Duration{a: 20 * ms, b: rtt})
			x.Show(x.use)
		}
	}
	at(20*ms, 2*LengthLasts)
	if at(100*ms, LengthLasts/2); len(x.use.Long) != 0 {
		t.Error("a queue of half a minute makes a path long")
	}
	if at(100*ms, 2*LengthLasts); len(x.use.Long) != 1 {
		t.Error("a path that became longer is not long")
	}
	if at(35*ms, 10*time.Second); len(x.use.Long) != 1 {
		t.Error("taken again though it is near the limit")
	}
	if at(30*ms, 10*time.Second); len(x.use.Long) != 0 {
		t.Error("not taken again")
	}
}

// What was measured long ago does not make a late answer the second one of two.
func TestPause(t *testing.T) {
	x := newBench(a, b)
	x.answer(map[string]time.Duration{a: 20 * ms, b: 20 * ms})
	x.now = x.now.Add(3 * LengthLasts)
	x.answer(map[string]time.Duration{a: 20 * ms, b: 90 * ms})
	if s, _ := x.Show(x.use); s != ByPacket || !x.Doubtful(x.use) {
		t.Errorf("shown by %v, doubted %v", s, x.Doubtful(x.use))
	}
}
