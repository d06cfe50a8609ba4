package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestForgetDead: when the answers of as many paths are kept as may be, a path that answers takes the place of the
// dead one whose answer is the oldest. One that is not dead is never forgotten, however old its answer.
func TestForgetDead(t *testing.T) {
	b, _ := reporting(t)
	s := b.sessions[theKey]
	answer := func(p Path) { b.checkReply(b.now, s, probe{path: p, sent: b.now.Add(-20 * time.Millisecond)}) }
	at := func(i int) Path {
		return Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netR + roam.L64(i)}
	}
	s.check.paths = nil
	for i := range 2 * MaxPaths {
		b.now = b.now.Add(time.Millisecond)
		answer(at(i))
	}
	s.bad = map[Path]bool{at(4): true, at(9): true}
	want := func(step string, there, gone []int) {
		t.Helper()
		if len(s.check.paths) != 2*MaxPaths {
			t.Fatalf("%s: %d paths are kept, want %d", step, len(s.check.paths), 2*MaxPaths)
		}
		for _, i := range there {
			if s.check.find(at(i)) == nil {
				t.Errorf("%s: path %d is forgotten", step, i)
			}
		}
		for _, i := range gone {
			if s.check.find(at(i)) != nil {
				t.Errorf("%s: path %d is kept", step, i)
			}
		}
	}
	answer(at(9)) // its answer is no longer the older one of the two
	answer(at(100))
	want("the first one too many", []int{0, 9, 100}, []int{4})
	answer(at(4)) // it lives again
	want("the dead path answers", []int{0, 4, 100}, []int{9})
	s.bad = map[Path]bool{}
	answer(at(101))
	want("no path is dead", []int{0, 4, 100}, []int{101})
}

// TestNobodyToAskForCounts: the counts of a path in doubt are asked for along another one that may answer, and the doubt
// waits for these. If there is none, it does not.
func TestNobodyToAskForCounts(t *testing.T) {
	for name, c := range map[string]struct {
		set func(s *session, h, o *checkedPath, now time.Time)
		by  bool
	}{
		"another path in use": {func(*session, *checkedPath, *checkedPath, time.Time) {}, true},
		"it is avoided":       {func(_ *session, _, o *checkedPath, now time.Time) { o.avoided = now }, false},
		"of it only our direction lives": {
			func(_ *session, _, o *checkedPath, now time.Time) { o.confirmed = now }, false,
		},
		"the same, and it has answered in the doubt": {
			func(_ *session, h, o *checkedPath, now time.Time) {
				o.Answer(now, h.since)
				o.confirmed = now
			}, true,
		},
		"the doubted one is not in use": {
			func(s *session, h, _ *checkedPath, _ time.Time) {
				s.entry.Paths = slices.DeleteFunc(slices.Clone(s.entry.Paths), func(p Path) bool { return p == h.Path })
			}, false,
		},
		"paths are not counted": {func(s *session, _, _ *checkedPath, _ time.Time) { s.entry.Counted = false }, false},
		"the peer gives no reports": {
			func(s *session, _, _ *checkedPath, _ time.Time) { s.reports.unfilled = reportsUnfilled }, false,
		},
	} {
		b, _ := reporting(t)
		s := b.sessions[theKey]
		h, o := s.check.of(s.entry.Paths[0]), s.check.of(s.entry.Paths[1])
		h.since, h.delivery = b.now, delivery{asks: 5, asked: b.now.Add(time.Millisecond)}
		b.now = b.now.Add(time.Second)
		s.lastTx = b.now
		c.set(s, h, o, b.now)
		b.forget()
		questions{&b.liveness}.askDelivery(b.now, s, h)
		b.drain()
		asked := slices.ContainsFunc(b.probesSent(), func(p ilnpwire.Packet) bool {
			r, _ := ilnpwire.ParseReport(p.Payload[8:])
			return r.Other && p.Src.L64 == o.Local.L64
		})
		if asked != c.by || h.awaitsCounts(b.now, s) != c.by || len(b.probesSent()) > 0 != c.by {
			t.Errorf("%s: asked %t, of %d probes, awaits counts %t; want %t",
				name, asked, len(b.probesSent()), h.awaitsCounts(b.now, s), c.by)
		}
		// Questions that had no answer do not count once nobody can be asked: there may be somebody again.
		if !c.by && h.delivery.asks != 0 {
			t.Errorf("%s: %d questions without an answer still count", name, h.delivery.asks)
		}
	}
}
