package cc

import (
	"math"
	"testing"
	"time"
)

// after lets a window grow for a number of round-trip times, each of which
// acknowledges the window that was sent in it.
func after(m Model, s State, rounds int) State {
	for range rounds {
		for range int(s.Window) {
			s.Window += m.Gain(s)
		}
	}
	return s
}

// The point of Hybla: the window in packets per second of a long path grows as
// on the path of reference, so in the same time it sends rho times the packets.
func TestHyblaGrowsAsOnTheReference(t *testing.T) {
	m := Models["hybla"]
	short := after(m, State{Window: 100, Threshold: 50, RTT: 25 * time.Millisecond}, 64)
	long := after(m, State{Window: 800, Threshold: 50, RTT: 200 * time.Millisecond}, 8)
	rateShort, rateLong := (short.Window-100)/0.025, (long.Window-800)/0.2
	if math.Abs(rateLong/rateShort-1) > 0.03 {
		t.Errorf("in 1.6 s the rate grows by %.0f/s at 25 ms and by %.0f/s at 200 ms", rateShort, rateLong)
	}
	if g := m.Gain(State{Window: 10, Threshold: 1000, RTT: 50 * time.Millisecond}); g != 3 {
		t.Errorf("slow start at rho 2: %v packets per ack, want 2^2 - 1", g)
	}
	if g := m.Gain(State{Window: 10, Threshold: 1000, RTT: 5 * time.Millisecond}); g != 1 {
		t.Errorf("slow start below the reference: %v packets per ack, want Reno's 1", g)
	}
	if got := m.Loss(State{Window: 3}); got != 2 {
		t.Errorf("threshold after a loss at 3: %v, want at least 2", got)
	}
}

func TestVenoTellsCongestionFromChance(t *testing.T) {
	m := Models["veno"]
	base := State{Window: 100, Threshold: 50, Base: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		rtt        time.Duration
		gain, loss float64
	}{
		"empty queues": {100 * time.Millisecond, 0.01, 80},
		"backlog of 2": {102040 * time.Microsecond, 0.01, 80},
		"backlog of 4": {104167 * time.Microsecond, 0.005, 50},
	} {
		s := base
		s.RTT = c.rtt
		if g, l := m.Gain(s), m.Loss(s); g != c.gain || l != c.loss {
			t.Errorf("%s: gain %v, threshold %v, want %v and %v (N = %.2f)", name, g, l, c.gain, c.loss, Backlog(s))
		}
	}
	if g := m.Gain(State{Window: 10, Threshold: 50, RTT: time.Second, Base: time.Millisecond}); g != 1 {
		t.Errorf("slow start: %v, want Reno's 1", g)
	}
	if l := m.Loss(State{Window: 100, RTT: time.Second}); l != 80 {
		t.Errorf("without a base: %v, want 80", l)
	}
}
