package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// pathFrom returns the path of a session from a locator.
func pathFrom(s *session, l roam.L64) Path {
	return s.entry.Paths[slices.IndexFunc(s.entry.Paths, func(p Path) bool { return p.Local.L64 == l })]
}

// trainsOn returns how many trains have left along a path, and how many probes besides, and forgets them.
func (b *bench) trainsOn(p Path) (trains, probes int) {
	b.t.Helper()
	b.drain()
	for _, s := range b.sent {
		switch q := b.parse(s); {
		case q.Src.L64 != p.Local.L64 || q.Type != ilnpwire.TypeEchoRequest:
		case len(s.Behind) > 0:
			trains++
		default:
			probes++
		}
	}
	b.sent = nil
	return trains, probes
}

// TestSlowerPathIsLeft: TCP leaves a path that data fill and whose queue empties more slowly than its rate says. No
// train leaves before a probe has met no queue; with the trains TCP takes the path again.
func TestSlowerPathIsLeft(t *testing.T) {
	const rate = 12_500_000
	for name, test := range map[string]struct {
		out  multipath.Direction
		left bool
	}{
		"slower":               {multipath.Direction{Carries: rate / 2, Most: rate / 2}, true},
		"a little slower":      {multipath.Direction{Carries: rate / 1.5, Most: rate / 2}, false},
		"nothing is known":     {multipath.Direction{Most: rate}, false},
		"data do not fill it":  {multipath.Direction{Carries: rate / 4, Most: rate / 4}, false},
		"losses, and no queue": {multipath.Direction{Overflows: true, Most: rate}, false},
	} {
		b := measuredBench(t)
		s := b.sessionOf(theKey)
		p := pathFrom(s, netA)
		b.now = b.now.Add(time.Second)
		b.trainsOn(p)
		b.leaveSlower(b.now, s, p, test.out)
		b.drain()
		if got := slices.Contains(b.long(), p.Local.L64); got != test.left {
			t.Errorf("%s: TCP has left the path: %t", name, got)
		}
		if !test.left {
			continue
		}
		sent := b.sent
		if trains, probes := b.trainsOn(p); trains != 0 || probes == 0 {
			t.Errorf("%s: %d trains and %d probes leave at once", name, trains, probes)
		}
		b.sent = sent
		b.answerTrains(map[roam.L64]int{netA: 6_250_000, netB: 2_500_000}, 400*ms, false)
		if e := b.entries[theKey]; len(e.Long) > 0 || s.rates[p].Last() > 7e6 {
			t.Errorf("%s: then TCP does not take %v, the rate is %v", name, e.Long, s.rates[p].Last())
		}
	}
}

// TestTrainsWaitForTheQueue: behind a queue that does not go a probe asks each 25 ms, and after a second the train
// leaves all the same. One that stays without an answer is followed by the next soon.
func TestTrainsWaitForTheQueue(t *testing.T) {
	b := measuredBench(t, onNormal)
	s := b.sessionOf(theKey)
	p := pathFrom(s, netA)
	b.now = b.now.Add(time.Second)
	b.leaveSlower(b.now, s, p, multipath.Direction{Carries: 1e6, Most: 1e7})
	left, first := b.now, time.Time{}
	var again time.Time
	asked := 0
	for b.now.Sub(left) < 1500*ms && again.IsZero() {
		s.multipath.HandleRTT(b.now, p, b.now.Add(-100*ms))
		b.measureRate(b.now, s, p)
		switch trains, probes := b.trainsOn(p); {
		case trains > 0 && first.IsZero():
			first = b.now
		case trains > 0:
			again = b.now
		default:
			asked += probes
		}
		b.now = b.now.Add(5 * ms)
	}
	if waited := first.Sub(left); waited != time.Second || asked < 35 || asked > 41 {
		t.Errorf("the first train leaves after %v, %d probes before it", waited, asked)
	}
	if soon := again.Sub(first); soon < 200*ms || soon > 400*ms {
		t.Errorf("the next one follows after %v", soon)
	}
}

// TestOverflowAsksATrain: where packets are lost at once a train looks what the path carries, every two seconds at
// most. A slow one has TCP leave the path; without losses before it a single one does not.
func TestOverflowAsksATrain(t *testing.T) {
	for _, lost := range []bool{true, false} {
		b := measuredBench(t)
		s := b.sessionOf(theKey)
		p := pathFrom(s, netA)
		b.now = b.now.Add(10 * time.Second)
		b.trainsOn(p)
		out := multipath.Direction{Overflows: lost, Most: 1e7, Rate: 1e7}
		for range 3 {
			b.leaveSlower(b.now, s, p, out)
		}
		if trains, _ := b.trainsOn(p); trains != 1 && lost || trains > 0 && !lost {
			t.Errorf("lost %t: %d trains", lost, trains)
		}
		if !lost {
			b.checkRate(b.now, s, p, 1e7, 20*ms)
		}
		tr := s.trains[p]
		if tr == nil {
			t.Fatal("no train is under way")
		}
		b.trainAnswered(b.now.Add(20*ms), s, probe{path: p, sent: tr.sent, train: tr}, ilnpwire.Packet{})
		b.trainAnswered(b.now.Add(30*ms), s, probe{path: p, sent: tr.sent, train: tr, behind: true}, ilnpwire.Packet{})
		b.drain()
		if got := slices.Contains(b.long(), p.Local.L64); got != lost {
			t.Errorf("lost %t: TCP has left the path: %t", lost, got)
		}
	}
}

// TestRisesNeedNoQueue: no train looks for a rise behind a queue, and what one shows that has met a queue is none: the
// queue may have dropped some of it.
func TestRisesNeedNoQueue(t *testing.T) {
	for _, took := range []time.Duration{20 * ms, 60 * ms} {
		b := measuredBench(t)
		s := b.sessionOf(theKey)
		p := pathFrom(s, netA)
		b.now = b.now.Add(10 * time.Second)
		b.checkRate(b.now, s, p, 1e7, 40*ms)
		if s.trains[p] != nil {
			t.Fatal("a train leaves behind a queue")
		}
		b.checkRate(b.now, s, p, 1e7, 20*ms)
		tr := s.trains[p]
		b.trainAnswered(b.now.Add(took), s, probe{path: p, sent: tr.sent, train: tr}, ilnpwire.Packet{})
		b.trainAnswered(b.now.Add(took+ms/2), s, probe{path: p, sent: tr.sent, train: tr, behind: true}, ilnpwire.Packet{})
		if doubted := s.rates[p].Measured(b.now).Wants; doubted != (took == 20*ms) {
			t.Errorf("a fast train whose first probe took %v: the rate is in doubt: %t", took, doubted)
		}
	}
}
