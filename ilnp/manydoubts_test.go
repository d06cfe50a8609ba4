package ilnp

import (
	"testing"
	"time"

	"roam"
	"roam/multipath"
)

const msec = time.Millisecond

// doubts is a session of which n paths without a common locator have been in doubt for a second.
func doubts(t *testing.T, n int) (q questions, b *bench, s *session, paths []*checkedPath) {
	t.Helper()
	b, _ = reporting(t)
	s = b.sessions[theKey]
	s.check.paths, s.entry.Paths, s.entry.Counted = nil, nil, true
	b.now = b.now.Add(time.Minute)
	s.lastTx = b.now
	for i := range n {
		h := s.check.of(crossing(i, i))
		h.since, h.missed, h.tries = b.now.Add(-time.Second), true, 4
		s.entry.Paths = append(s.entry.Paths, h.Path)
		paths = append(paths, h)
	}
	return questions{&b.liveness}, b, s, paths
}

// crossing is the path between the i-th locator of ours and the j-th of the peer's.
func crossing(i, j int) Path {
	return Path{roam.LinkLocator{Link: roam.LinkID(1 + i), L64: netA + roam.L64(i)}, netP + roam.L64(j)}
}

// answer takes that a path has answered so long ago.
func (h *checkedPath) answer(now time.Time, ago time.Duration) {
	h.Answer(now.Add(-ago), now.Add(-ago-20*msec))
}

// wasAsked takes that a path that is not in doubt has left so many probes without an answer of late.
func (h *checkedPath) wasAsked(n int) {
	h.left.note(h.since)
	h.since, h.unanswered = time.Time{}, n
}

// TestManyDoubts: three paths that seem dead are many, as long as nothing is decided of them.
func TestManyDoubts(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		set  func(s *session, h *checkedPath)
		want bool
	}{
		"two":   {2, nil, false},
		"three": {3, nil, true},
		"three, and 30 s ago a queue was full": {
			3, func(s *session, h *checkedPath) { s.check.erred = h.since.Add(time.Second - doubtsErred) }, true,
		},
		"three, and a queue was full since": {
			3, func(s *session, h *checkedPath) { s.check.erred = h.since.Add(time.Second + 1 - doubtsErred) }, false,
		},
		"three, of which one is avoided": {3, func(_ *session, h *checkedPath) { h.avoided = h.since }, false},
		"three, of which one is left":    {3, func(s *session, h *checkedPath) { s.bad[h.Path] = true }, false},
		"three, of which one may still answer in time": {
			3, func(_ *session, h *checkedPath) { h.missed, h.unanswered = false, 9 }, false,
		},
		"two, and one that left three probes without an answer": {
			3, func(_ *session, h *checkedPath) { h.wasAsked(3) }, true,
		},
		"two, and one that did so long ago": {
			3, func(_ *session, h *checkedPath) {
				h.left.note(h.since.Add(-deadCrowds))
				h.since, h.unanswered = time.Time{}, 3
			}, false,
		},
		"two, and one that left two": {
			3, func(_ *session, h *checkedPath) { h.wasAsked(2) }, false,
		},
	} {
		_, b, s, paths := doubts(t, c.n)
		if c.set != nil {
			c.set(s, paths[0])
		}
		if got := s.check.hasManyDoubts(b.now, s.bad); got != c.want {
			t.Errorf("%s: many is %t, want %t", name, got, c.want)
		}
	}
}

// TestAnswersOfFullQueues: a late answer, and one of a path that seemed dead, may come out of a full queue.
func TestAnswersOfFullQueues(t *testing.T) {
	for name, c := range map[string]struct {
		rtt  time.Duration
		set  func(now time.Time, h *checkedPath)
		want bool
	}{
		"in time": {60 * msec, func(_ time.Time, h *checkedPath) { h.since = time.Time{} }, false},
		"late":    {61 * msec, func(_ time.Time, h *checkedPath) { h.since = time.Time{} }, true},
		"the first": {
			time.Second, func(_ time.Time, h *checkedPath) {
				h.since, h.Health = time.Time{}, multipath.Health{}
			}, false,
		},
		"seemed dead":     {20 * msec, func(now time.Time, h *checkedPath) { h.since = now.Add(-450 * msec) }, true},
		"not yet dead":    {20 * msec, func(now time.Time, h *checkedPath) { h.since = now.Add(-449 * msec) }, false},
		"with few probes": {20 * msec, func(_ time.Time, h *checkedPath) { h.tries-- }, false},
		"not missed":      {20 * msec, func(_ time.Time, h *checkedPath) { h.missed = false }, false},
		"avoided":         {20 * msec, func(now time.Time, h *checkedPath) { h.avoided = now }, false},
	} {
		q, b, s, paths := doubts(t, 1)
		h := paths[0]
		for range 40 {
			h.answer(b.now, 2*time.Second)
		}
		c.set(b.now, h)
		if got := q.showsQueue(b.now, s, h, b.now.Add(-c.rtt)); got != c.want {
			t.Errorf("%s: shows a queue is %t, want %t", name, got, c.want)
		}
		s.check.erred = time.Time{}
		if b.checkReply(b.now, s, probe{path: h.Path, sent: b.now.Add(-c.rtt)}); s.check.erred.Equal(b.now) != c.want {
			t.Errorf("%s: taken as a sign of a queue is %t, want %t", name, !s.check.erred.IsZero(), c.want)
		}
	}
}

// TestProbesOfManyDoubts: what might take over is probed ever more slowly, and a path of which nothing is decided no
// more often than any other.
func TestProbesOfManyDoubts(t *testing.T) {
	for unanswered, want := range map[int]time.Duration{
		0: 15 * msec, 2: 15 * msec, 3: 30 * msec, 5: 120 * msec, 6: 150 * msec, 60: 150 * msec,
	} {
		for n, want := range map[int]time.Duration{2: 15 * msec, 3: want} {
			q, b, s, _ := doubts(t, n)
			o := &checkedPath{unanswered: unanswered}
			if got := q.otherStep(b.now, s, multipath.Normal.Timing(), o); got != want {
				t.Errorf("%d in doubt, %d without an answer: every %v, want %v", n, unanswered, got, want)
			}
		}
	}
	for _, c := range []struct {
		n, unanswered int
		ago           time.Duration
		want          bool
	}{
		{2, 0, 0, true}, {3, 0, 99 * msec, false}, {3, 12, 100 * msec, true},
		{3, 13, 149 * msec, false}, {3, 13, 150 * msec, true},
	} {
		q, b, s, paths := doubts(t, c.n)
		h := paths[0]
		h.last, h.unanswered, h.tries = b.now.Add(-c.ago), c.unanswered, 4
		q.probeUndecided(b.now, s, h, 60*msec)
		if got := h.tries > 4; got != c.want || got != (h.own == b.now) {
			t.Errorf("%d in doubt, %d without an answer, the last %v ago: probed %t, want %t",
				c.n, c.unanswered, c.ago, got, c.want)
		}
	}
}

// TestLenderOfQuestions: questions go along what answered last in this doubt; along what has not, one at a time, once
// the doubt has lasted.
func TestLenderOfQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(now time.Time, a, b *checkedPath)
		young bool
		want  int // 1: a, 2: b, 0: none now, -1: none
	}{
		"none has answered": {func(time.Time, *checkedPath, *checkedPath) {}, false, 1},
		"none has, and the doubt is young": {
			func(time.Time, *checkedPath, *checkedPath) {}, true, 0,
		},
		"one has answered": {func(now time.Time, _, b *checkedPath) { b.answer(now, msec) }, true, 2},
		"both have": {
			func(now time.Time, a, b *checkedPath) {
				a.answer(now, 2*msec)
				b.answer(now, msec)
			}, true, 2,
		},
		"one answered before the doubt": {
			func(now time.Time, _, b *checkedPath) { b.answer(now, 2*time.Second) }, true, 0,
		},
		"our direction alone lives": {
			func(now time.Time, a, b *checkedPath) {
				a.confirmed, b.confirmed = now, now
			}, false, -1,
		},
		"both are avoided": {
			func(now time.Time, a, b *checkedPath) {
				a.avoided, b.avoided = now, now
			}, false, -1,
		},
		"what answered is spent": {
			func(now time.Time, _, b *checkedPath) { b.answer(now, msec); b.lentUntil = now.Add(451 * msec) }, false, 0,
		},
		"what answered is nearly spent": {
			func(now time.Time, _, b *checkedPath) { b.answer(now, msec); b.lentUntil = now.Add(450 * msec) }, false, 2,
		},
		"what has not is spent": {
			func(now time.Time, a, b *checkedPath) { a.lentUntil, b.lentUntil = now.Add(1), now.Add(1) }, false, 0,
		},
	} {
		q, b, s, paths := doubts(t, 3)
		if c.young {
			paths[0].since = b.now.Add(-449 * msec)
		}
		c.set(b.now, paths[1], paths[2])
		by, isAny := q.lender(b.now, s, paths[0])
		got := -1
		switch {
		case by != nil:
			got = map[*checkedPath]int{paths[1]: 1, paths[2]: 2}[by]
		case isAny:
			got = 0
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	q, b, _, paths := doubts(t, 1)
	q.lend(b.now, paths[0])
	q.lend(b.now, paths[0])
	if got := paths[0].lentUntil.Sub(b.now); got != 375*msec {
		t.Errorf("two questions take %v, want 375 ms", got)
	}
	for range 100 {
		q.lend(b.now, paths[0])
	}
	if got := paths[0].lentUntil.Sub(b.now); got != 600*msec {
		t.Errorf("many questions take %v, want 600 ms", got)
	}
}

// TestTurnsOfQuestions: one more answer decides a doubt that has had its first, so that comes before all others; else
// the path that was asked about longest ago. One that comes too late for its doubt lets others go first.
func TestTurnsOfQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(now time.Time, h, o *checkedPath)
		want bool
	}{
		"it does not wait":  {func(_ time.Time, _, o *checkedPath) { o.delivery.waits = false }, false},
		"it waits":          {func(_ time.Time, h, _ *checkedPath) { h.delivery.asked = h.since.Add(-msec) }, true},
		"it is asked later": {func(_ time.Time, h, o *checkedPath) { o.delivery.asked = h.since.Add(-msec) }, false},
		"it comes too late": {
			func(_ time.Time, h, o *checkedPath) {
				h.delivery.asked, o.delivery.late = h.since.Add(-msec), true
			}, false,
		},
		"it is half asked": {func(now time.Time, _, o *checkedPath) { o.delivery.asked = now }, true},
		"both are": {
			func(now time.Time, h, o *checkedPath) {
				h.delivery.asked, o.delivery.asked = now, now
			}, false,
		},
		"it is asked enough": {
			func(now time.Time, _, o *checkedPath) {
				o.delivery.asked, o.delivery.answers = now, 2
			}, false,
		},
		"it is in no doubt": {
			func(now time.Time, _, o *checkedPath) {
				o.delivery.asked, o.since = now, time.Time{}
			}, false,
		},
		"it is avoided": {
			func(now time.Time, _, o *checkedPath) {
				o.delivery.asked, o.avoided = now, now
			}, false,
		},
	} {
		_, b, s, paths := doubts(t, 2)
		paths[1].delivery.waits = true
		c.set(b.now, paths[0], paths[1])
		if got := s.check.goesBefore(paths[0]); got != c.want {
			t.Errorf("%s: goes before is %t, want %t", name, got, c.want)
		}
	}
}

// TestPathsBesideOthers: a path that has no turn stays while one that shares a locator delivers, or may show that.
func TestPathsBesideOthers(t *testing.T) {
	asked := func(now time.Time, o *checkedPath) { o.delivery.asked = now }
	passes := func(now time.Time, o *checkedPath) { o.delivery.passes, o.delivery.from = true, now }
	for name, c := range map[string]struct {
		beside       Path
		set          func(now time.Time, o *checkedPath)
		stays, holds bool // by what the other one may show; by what it shows
	}{
		"nothing asked":                  {crossing(0, 9), func(time.Time, *checkedPath) {}, false, false},
		"asked at our locator":           {crossing(0, 9), asked, true, false},
		"asked at the peer's":            {crossing(9, 0), asked, true, false},
		"asked at none of its locators":  {crossing(9, 9), asked, false, false},
		"passes at our locator":          {crossing(0, 9), passes, true, true},
		"passes at none of its locators": {crossing(9, 9), passes, false, false},
		"asked, and in doubt for two seconds": {
			crossing(0, 9), func(now time.Time, o *checkedPath) {
				asked(now, o)
				o.since = now.Add(-checkAll)
			}, false, false,
		},
		"passes, and in no doubt": {
			crossing(0, 9), func(now time.Time, o *checkedPath) {
				passes(now, o)
				o.since = time.Time{}
			}, false, false,
		},
		"passed before its doubt": {
			crossing(0, 9), func(now time.Time, o *checkedPath) {
				passes(now, o)
				o.delivery.from = o.since
			}, false, false,
		},
		"passes, and is avoided": {
			crossing(0, 9), func(now time.Time, o *checkedPath) {
				passes(now, o)
				o.avoided = now
			}, false, false,
		},
		"asked, and has answers that decide it": {
			crossing(0, 9), func(now time.Time, o *checkedPath) {
				asked(now, o)
				o.delivery.answers = 2
			}, false, false,
		},
	} {
		_, b, s, paths := doubts(t, 3)
		o := s.check.of(c.beside)
		o.since = b.now.Add(-time.Second)
		paths[0].delivery.waits = true
		c.set(b.now, o)
		if got := paths[0].awaitsCounts(b.now, s); got != c.stays {
			t.Errorf("%s: awaits counts is %t, want %t", name, got, c.stays)
		}
		if got := s.check.passesBeside(paths[0]); got != c.holds {
			t.Errorf("%s: passes beside is %t, want %t", name, got, c.holds)
		}
	}
}

// TestQuestionIsAProbe: a question about another path's counts counts as a probe of the path that it goes along.
func TestQuestionIsAProbe(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(b *bench, s *session, paths []*checkedPath)
		want bool // asked
	}{
		"in turn": {func(b *bench, _ *session, paths []*checkedPath) { paths[1].answer(b.now, msec) }, true},
		"not in turn": {func(b *bench, _ *session, paths []*checkedPath) {
			paths[1].answer(b.now, msec)
			paths[2].delivery = delivery{waits: true, asked: paths[2].since.Add(1)}
		}, false},
		"too late for its first": {func(b *bench, _ *session, paths []*checkedPath) {
			paths[1].answer(b.now, msec)
			paths[0].delivery.asked = time.Time{}
		}, false},
		"too late, beside one that passes": {func(b *bench, s *session, paths []*checkedPath) {
			paths[1].answer(b.now, msec)
			paths[0].delivery.asked = time.Time{}
			o := s.check.of(crossing(0, 9))
			o.since, o.delivery.passes, o.delivery.from = b.now.Add(-time.Second), true, b.now
		}, true},
		"nobody counts": {func(_ *bench, s *session, _ []*checkedPath) { s.entry.Counted = false }, false},
	} {
		q, b, s, paths := doubts(t, 4)
		h, by := paths[0], paths[1]
		h.delivery.asked = h.since.Add(msec)
		by.since = time.Time{}
		c.set(b, s, paths)
		tries := by.unanswered
		q.askDelivery(b.now, s, h)
		asked := h.delivery.asked.Equal(b.now)
		isProbe := by.unanswered > tries && by.last.Equal(b.now) && by.since.Equal(b.now) && !by.own.Equal(b.now)
		if asked != c.want || asked != isProbe {
			t.Errorf("%s: asked %t (%+v), want %t", name, asked, by.delivery, c.want)
		}
		if alone := name == "nobody counts"; h.delivery.alone != alone || !asked && !alone && !h.delivery.waits {
			t.Errorf("%s: alone %t, waits %t", name, h.delivery.alone, h.delivery.waits)
		}
	}
}
