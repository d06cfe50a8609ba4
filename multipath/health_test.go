package multipath

import (
	"testing"
	"time"
)

// TestHealthWaits: an answer is waited for as long as the path's own round trips and their
// spread say, within the bounds of the level.
func TestHealthWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		level Level
		rtts  []time.Duration
		guess time.Duration
		least time.Duration
		most  time.Duration
	}{
		{"unknown", Normal, nil, 0, 200 * ms, 200 * ms},
		{"guessed", Normal, nil, 100 * ms, 300 * ms, 300 * ms},
		{"steady", Normal, repeat(20*ms, 50), 0, 60 * ms, 60 * ms},
		{"steady, fast", Fast, repeat(20*ms, 50), 0, 20 * ms, 26 * ms},
		{"steady, relaxed", Relaxed, repeat(20*ms, 50), 0, 500 * ms, 500 * ms},
		{"far", Normal, repeat(600*ms, 50), 0, 600 * ms, 640 * ms},
		{"uneven", Normal, append(repeat(20*ms, 20), repeat(320*ms, 1)...), 0, 250 * ms, 500 * ms},
		{"queue of four seconds", Normal, repeat(4*time.Second, 50), 0, 4 * time.Second, 4100 * ms},
		{"of a minute", Normal, repeat(time.Minute, 50), 0, 8 * time.Second, 8 * time.Second},
	} {
		var h Health
		now := time.Unix(1000, 0)
		for _, rtt := range c.rtts {
			h.Answer(now.Add(rtt), now)
			now = now.Add(time.Second)
		}
		if got := h.Wait(c.level.Timing(), c.guess); got < c.least || got > c.most {
			t.Errorf("%s: waits %v, want %v to %v", c.name, got, c.least, c.most)
		}
	}
}

func repeat(d time.Duration, n int) (list []time.Duration) {
	for range n {
		list = append(list, d)
	}
	return list
}

// TestHealthTries: the more probes get lost, the more of them decide.
func TestHealthTries(t *testing.T) {
	var h Health
	if got := h.Tries(); got != 4 {
		t.Errorf("%d probes decide on a path without losses, want 4", got)
	}
	at := time.Unix(1000, 0)
	met := func(in bool) {
		h.Met(in)
		h.Answer(at, at) // be it late
	}
	for i := range 1000 {
		met(i%10 != 0)
	}
	if got := h.Tries(); got < 6 || got > 8 {
		t.Errorf("%d probes decide at 10 %% losses, want 6 to 8", got)
	}
	for range 1000 {
		met(false)
	}
	if got := h.Tries(); got != 20 {
		t.Errorf("%d probes decide where nothing comes back, want 20 at most", got)
	}
	for range 1000 {
		met(true)
	}
	if got := h.Tries(); got != 4 {
		t.Errorf("%d probes decide long after the losses, want 4", got)
	}
	for range 5 {
		h.Met(false)
	}
	if got := h.Tries(); got != 4 {
		t.Errorf("%d probes decide in a doubt, want 4: no answer shows that it is loss", got)
	}
	if h.Leave(at); !h.IsClean() {
		t.Error("a death counts as losses")
	}
}

// TestHealthMisses: round trips of 80 and 120 ms. The first probe of a silent path is missed a mean deviation after
// the mean, any other one four of these after it. The last one of a path without losses is missed after the longest of
// the last 16 round trips; where chance takes nearly as many as decide, or fewer are known, it is not.
func TestHealthMisses(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		lost, n           int // of 100 probes, and answers
		early, wait, last time.Duration
	}{
		"clean":      {0, 1000, 120 * ms, 180 * ms, 120 * ms},
		"3 %":        {3, 1000, 120 * ms, 180 * ms, 180 * ms},
		"15 answers": {0, 15, 120 * ms, 180 * ms, 180 * ms},
		"16 answers": {0, 16, 120 * ms, 180 * ms, 120 * ms},
	} {
		var h Health
		at := time.Unix(1000, 0)
		for i := range c.n {
			h.sure = float64(c.lost) / 100
			h.misses = h.sure
			h.Answer(at, at.Add(-80*ms-40*ms*time.Duration(i%2)))
		}
		timing := Normal.Timing()
		for what, got := range map[string][2]time.Duration{
			"Early": {h.Early(timing, 0), c.early}, "Wait": {h.Wait(timing, 0), c.wait}, "Last": {h.Last(timing, 0), c.last},
			"EarlyComplaint": {h.EarlyComplaint(timing, 0), c.early + 20*ms},
		} {
			if (got[0] - got[1]).Abs() > 12*ms {
				t.Errorf("%s: %s is %v, want about %v", name, what, got[0], got[1])
			}
		}
	}
	var h Health
	at := time.Unix(1000, 0)
	for range 100 {
		h.Answer(at, at.Add(-20*ms))
	}
	timing := Normal.Timing()
	if h.Last(timing, 0) != timing.Least || h.Early(timing, 0) != timing.Least/2 {
		t.Errorf("of a short path %v and %v, want at least %v and %v",
			h.Last(timing, 0), h.Early(timing, 0), timing.Least, timing.Least/2)
	}
}

// TestHealthHolds: a path that flaps is left alone for twice as long each time, up to a minute;
// one that was steady for long begins anew.
func TestHealthHolds(t *testing.T) {
	var h Health
	now := time.Unix(1000, 0)
	if !h.Ready(now) || h.Hold() != holdFirst {
		t.Error("a path that was never left has to wait")
	}
	want := holdFirst
	for range 12 {
		h.Leave(now)
		if h.Hold() != want {
			t.Errorf("held for %v, want %v", h.Hold(), want)
		}
		if h.Ready(now.Add(want - 1)) {
			t.Errorf("ready before %v", want)
		}
		now = now.Add(want)
		if !h.Ready(now) {
			t.Errorf("not ready after %v", want)
		}
		want = min(2*want, holdMost)
	}
	h.Leave(now.Add(11 * holdMost))
	if h.Hold() != holdFirst {
		t.Errorf("held for %v after %v without a flap, want %v", h.Hold(), 11*holdMost, holdFirst)
	}
}

// TestHealthRemembersLateAnswers: the mean adapts to late answers at once, so that later ones are none; they are
// remembered for a second. Two answers are remembered by their times.
func TestHealthRemembersLateAnswers(t *testing.T) {
	var h Health
	now := time.Unix(1000, 0)
	answer := func(rtt time.Duration) {
		before := h.Heard()
		now = now.Add(150 * ms)
		if h.Answer(now, now.Add(-rtt)); h.Heard() != now || h.HeardTwice() != before {
			t.Errorf("heard at %v and %v, want %v and %v", h.HeardTwice(), h.Heard(), before, now)
		}
	}
	for range 20 {
		answer(20 * ms)
	}
	if h.Late(now) != 0 {
		t.Errorf("%v is late among equals", h.Late(now))
	}
	for _, rtt := range []time.Duration{300 * ms, 80 * ms, 200 * ms} {
		if answer(rtt); h.Late(now) != 300*ms {
			t.Errorf("after one of %v the longest late round trip is %v, want 300 ms", rtt, h.Late(now))
		}
	}
	for range 10 {
		answer(20 * ms)
	}
	if h.Late(now) != 0 {
		t.Errorf("%v is late still", h.Late(now))
	}
	if answer(time.Second); h.Late(now) != time.Second {
		t.Errorf("late: %v, want a second", h.Late(now))
	}
}
