package multipath

import (
	"testing"
	"time"
)

// Two signs of TCP with paths that worked between them, and work now, are a firewall's.
func TestStall(t *testing.T) {
	type sign struct {
		after time.Duration
		sound bool
	}
	for name, test := range map[string]struct {
		signs []sign
		rtt   time.Duration
		want  bool
	}{
		"one":                    {[]sign{{0, true}}, 0, false},
		"two":                    {[]sign{{0, true}, {400 * ms, true}}, 0, true},
		"an outage":              {[]sign{{0, false}, {400 * ms, true}}, 0, false},
		"one path fails":         {[]sign{{0, true}, {400 * ms, false}}, 0, false},
		"far apart":              {[]sign{{0, true}, {5 * time.Second, true}}, 0, false},
		"far apart on long ones": {[]sign{{0, true}, {5 * time.Second, true}}, 300 * ms, true},
	} {
		x := newBench(a, b)
		got := false
		for _, s := range test.signs {
			x.now = x.now.Add(s.after)
			x.HandleStall(x.now, test.rtt, Standing{})
			if s.sound {
				got = x.HandleSound(x.now.Add(20*ms), x.use, x.now, 1)
			}
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A connection that has moved between two time-outs stands not still, nor do a few that had one each: many do.
func TestStallOfConnections(t *testing.T) {
	for name, test := range map[string]struct {
		signs []Standing
		want  bool
	}{
		"the same":                   {[]Standing{{1, 900}, {1, 900}}, true},
		"it creeps":                  {[]Standing{{1, 900}, {1, 899 + stallMoves}}, true},
		"it moves":                   {[]Standing{{1, 900}, {1, 900 + stallMoves}}, false},
		"its counter wraps":          {[]Standing{{1, 1<<32 - 1}, {1, 9}}, true},
		"it moves, and stands":       {[]Standing{{1, 900}, {1, 9000}, {1, 9001}}, true},
		"another one":                {[]Standing{{1, 900}, {2, 100}}, false},
		"another one between":        {[]Standing{{1, 900}, {2, 100}, {1, 901}}, true},
		"seven":                      {[]Standing{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}}, false},
		"eight":                      {[]Standing{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}}, true},
		"much again, of any of them": {[]Standing{{}, {}}, true},
	} {
		x := newBench(a, b)
		got := false
		for _, s := range test.signs {
			x.now = x.now.Add(200 * ms)
			x.HandleStall(x.now, 0, s)
			got = x.HandleSound(x.now.Add(20*ms), x.use, x.now, 1)
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	// A queue that has overflowed explains it, for a while.
	for late, want := range map[time.Duration]bool{stallOver - ms: false, stallOver: true} {
		x := newBench(a, b)
		x.HandleRTT(x.now, b, x.now)
		x.HandleOverflow(x.now, b)
		x.now = x.now.Add(late)
		x.HandleStall(x.now, 0, Standing{1, 900})
		x.HandleSound(x.now.Add(20*ms), x.use, x.now, 1)
		x.now = x.now.Add(400 * ms)
		x.HandleStall(x.now, 0, Standing{1, 900})
		if got := x.HandleSound(x.now.Add(20*ms), x.use, x.now, 1); got != want {
			t.Errorf("%v after an overflow: %v, want %v", late, got, want)
		}
	}
	x := newBench(a, b)
	for i := range uint32(40) {
		x.now = x.now.Add(time.Second)
		x.HandleStall(x.now, 0, Standing{Connection: i})
		if x.HandleSound(x.now.Add(20*ms), x.use, x.now, 1) {
			t.Fatalf("%d connections, one a second: a stall", i+1)
		}
	}
}

// An answer that came late, or to a question repeated, proves no path sound.
func TestStallIsFresh(t *testing.T) {
	two := func(times int, late time.Duration, change func(*bench)) bool {
		x := newBench(a, b)
		x.HandleStall(x.now, 0, Standing{})
		x.HandleSound(x.now, x.use, x.now, times)
		x.now = x.now.Add(400 * ms)
		change(x)
		x.HandleStall(x.now, 0, Standing{})
		return x.HandleSound(x.now.Add(late), x.use, x.now, 1)
	}
	if !two(1, 0, func(*bench) {}) {
		t.Error("two signs are no stall")
	}
	for name, got := range map[string]bool{
		"asked twice":             two(2, 0, func(*bench) {}),
		"answered late":           two(1, stallFresh+ms, func(*bench) {}),
		"other paths":             two(1, 0, func(x *bench) { x.HandlePaths() }),
		"after a spell":           two(1, 0, func(x *bench) { x.HandleSpell() }),
		"connections keep to one": two(1, 0, func(x *bench) { x.use.PerFlow = true }),
		"one path is left":        two(1, 0, func(x *bench) { x.use.Paths = []string{a} }),
	} {
		if got {
			t.Errorf("%s: a stall", name)
		}
	}
}

// Spells double while they follow each other closely, and end also when the clock was
// set back.
func TestSpells(t *testing.T) {
	var s Spell
	now := epoch
	for i, want := range []time.Duration{PerFlowFirst, 2 * PerFlowFirst, 4 * PerFlowFirst, 8 * PerFlowFirst, 16 * PerFlowFirst, PerFlowMax, PerFlowMax} {
		s = s.Again(now)
		if next, over := s.End(now.Add(want - time.Second)); over || next != s {
			t.Fatalf("spell %d ends before %v", i, want)
		}
		if _, over := s.End(now.Add(-1000 * time.Hour)); !over {
			t.Errorf("spell %d lasts while the clock is wrong", i)
		}
		now = now.Add(want)
		next, over := s.End(now)
		if !over || next.On {
			t.Fatalf("spell %d does not end after %v: %+v", i, want, s)
		}
		s, now = next, now.Add(time.Minute)
	}
	if s = s.Again(now.Add(PerFlowMax)); s.Every != PerFlowFirst {
		t.Errorf("after a long good time a spell of %v", s.Every)
	}
	if _, over := (Spell{}).End(now); over {
		t.Error("none has ended")
	}
}
