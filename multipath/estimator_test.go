package multipath

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// way is a path in a test, with a probe each step: it carries packets of 1,000 bytes each way.
type way struct {
	now             time.Time
	report          PathReport
	out, in         float64 // packets a second
	outLoss, inLoss float64 // shares
	rtt, queue      time.Duration
	est             Estimator
	left, got       float64
	peer, back      float64
}

func newWay() *way {
	return &way{now: time.Unix(1000, 0), out: 1000, in: 500, rtt: 20 * ms}
}

// next returns the report to the next probe, one step later.
func (w *way) next(step time.Duration) PathReport {
	w.now = w.now.Add(step)
	s := step.Seconds()
	w.left += w.out * s
	w.got += w.out * s * (1 - w.outLoss)
	w.peer += w.in * s
	w.back += w.in * s * (1 - w.inLoss)
	count := func(n float64) Traffic { return Traffic{uint64(n), 1000 * uint64(n)} }
	arrives := w.now.Add(w.rtt/2 + w.queue)
	return PathReport{
		Sent: w.now, Clock: uint32(arrives.UnixMicro()), Came: arrives.Add(w.rtt / 2), Epoch: 1, OwnEpoch: 1,
		Left: count(w.left), LeftNow: count(w.left + w.out*w.rtt.Seconds()), Arrived: count(w.got),
		PeerLeft: count(w.peer), Got: count(w.back),
	}
}

// run takes n reports, one each step.
func (w *way) run(t *testing.T, n int, step time.Duration) PathState {
	t.Helper()
	for range n {
		r := w.next(step)
		w.est.HandleAnswer(r.Came, r.Sent)
		if err := w.est.HandleReport(r); err != nil {
			t.Fatalf("refused: %v", err)
		}
	}
	return w.est.State(w.now)
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

// TestEstimator: rates, losses and queues of both directions follow from the counts.
func TestEstimator(t *testing.T) {
	for _, c := range []struct {
		name           string
		change         func(*way)
		rate, loss, in float64
		inRate         float64
		queue          time.Duration
		out, back      Life
		quiet          bool
	}{
		{name: "both directions", change: func(*way) {}, rate: 1e6, inRate: 5e5, out: Lives, back: Lives},
		{
			name: "losses out", change: func(w *way) { w.outLoss = 0.05 },
			rate: 0.95e6, loss: 0.05, inRate: 5e5, out: Lives, back: Lives,
		},
		{
			name: "losses in", change: func(w *way) { w.inLoss = 0.1 },
			rate: 1e6, in: 0.1, inRate: 4.5e5, out: Lives, back: Lives,
		},
		{
			name: "a queue", change: func(w *way) { w.queue = 80 * ms },
			rate: 1e6, inRate: 5e5, queue: 80 * ms, out: Lives, back: Lives,
		},
		{name: "dead outwards", change: func(w *way) { w.outLoss = 1 }, loss: 1, inRate: 5e5, out: Dead, back: Lives},
		{name: "dead inwards", change: func(w *way) { w.inLoss = 1 }, rate: 1e6, in: 1, out: Lives, back: Dead},
		{name: "idle", change: func(w *way) { w.out, w.in = 0, 0 }, quiet: true},
	} {
		w := newWay()
		w.run(t, 10, 150*ms)
		c.change(w)
		s := w.run(t, 40, 150*ms)
		if !near(s.Out.Rate, c.rate, 1e4) || !near(s.In.Rate, c.inRate, 1e4) {
			t.Errorf("%s: rates %.0f and %.0f, want %.0f and %.0f", c.name, s.Out.Rate, s.In.Rate, c.rate, c.inRate)
		}
		if s.Out.LossKnown == c.quiet || !near(s.Out.Loss, c.loss, 0.003) || !near(s.In.Loss, c.in, 0.005) {
			t.Errorf("%s: losses %.4f (%v) and %.4f, want %.4f and %.4f",
				c.name, s.Out.Loss, s.Out.LossKnown, s.In.Loss, c.loss, c.in)
		}
		if s.Out.Queue != c.queue || s.In.Queue != 0 {
			t.Errorf("%s: queues %v and %v, want %v and 0", c.name, s.Out.Queue, s.In.Queue, c.queue)
		}
		if s.Out.Life != c.out || s.In.Life != c.back {
			t.Errorf("%s: %v and %v, want %v and %v", c.name, s.Out.Life, s.In.Life, c.out, c.back)
		}
		if s.RTT != c.queue+20*ms || s.Least != 20*ms {
			t.Errorf("%s: round trip %v, least %v, want %v, 20ms", c.name, s.RTT, s.Least, c.queue+20*ms)
		}
	}
}

// TestEstimatorCarries: what leaves a queue that each probe meets is what the path carries, and one that overflows
// loses many packets at once. Nothing else shows either.
func TestEstimatorCarries(t *testing.T) {
	const carries = 1000 * (1000 + dataHeaders) // packets of 1,000 bytes
	for _, c := range []struct {
		name      string
		change    func(*way)
		n         int
		step      time.Duration
		want      float64
		overflows bool
	}{
		{"a queue", func(w *way) { w.queue = carriesQueue }, 2, 150 * ms, carries, false},
		{"probes in a row", func(w *way) { w.queue, w.out = carriesQueue, 2000 }, 6, 2 * ms, 2 * carries, false},
		{"a short while", func(w *way) { w.queue, w.out = carriesQueue, 2000 }, 5, 2 * ms, 0, false},
		{"one probe", func(w *way) { w.queue = 80 * ms }, 1, 150 * ms, 0, false},
		{"a short queue", func(w *way) { w.queue = carriesQueue - ms }, 3, 150 * ms, 0, false},
		{"few packets", func(w *way) { w.queue, w.out = 80*ms, 100 }, 2, 150 * ms, 0, false},
		{"far apart", func(w *way) { w.queue = 80 * ms }, 2, carriesMost + ms, 0, false},
		{"losses", func(w *way) { w.outLoss = 0.3 }, 1, 150 * ms, 0, true},
		{"few of many", func(w *way) { w.outLoss, w.out = 0.05, 10_000 }, 1, 150 * ms, 0, false},
		{"few", func(w *way) { w.outLoss, w.out = 0.8, 200 }, 1, 150 * ms, 0, false},
		{"all", func(w *way) { w.outLoss = 1 }, 1, 150 * ms, 0, false},
		{"losses before", func(w *way) { w.outLoss = 0.3; w.run(t, 1, 150*ms); w.outLoss = 0 }, 1, 150 * ms, 0, false},
	} {
		w := newWay()
		w.run(t, 10, 150*ms)
		c.change(w)
		s := w.run(t, c.n, c.step)
		if !near(s.Out.Carries, c.want, c.want/50) || s.Out.Overflows != c.overflows {
			t.Errorf("%s: %.0f bytes a second, overflows %t, want %.0f, %t",
				c.name, s.Out.Carries, s.Out.Overflows, c.want, c.overflows)
		}
		if s.In.Carries != 0 || s.In.Overflows {
			t.Errorf("%s: the other direction carries %.0f, overflows %t", c.name, s.In.Carries, s.In.Overflows)
		}
	}
}

// TestEstimatorSpeed: losses show within two seconds and are forgotten within LossOver.
func TestEstimatorSpeed(t *testing.T) {
	w := newWay()
	w.run(t, 40, 150*ms)
	w.outLoss = 0.2
	if s := w.run(t, 14, 150*ms); s.Out.Loss < 0.02 {
		t.Errorf("two seconds after losses of 0.2 began, %.3f is seen", s.Out.Loss)
	}
	w.run(t, 40, 150*ms)
	w.outLoss = 0
	if s := w.run(t, 40, 150*ms); s.Out.Loss > 0.001 {
		t.Errorf("%v after the last loss, %.3f is seen", 40*150*ms, s.Out.Loss)
	}
}

// TestEstimatorLate: packets that a probe overtakes are not lost, and neither are those that are
// counted late.
func TestEstimatorLate(t *testing.T) {
	w := newWay()
	for i := range 60 {
		r := w.next(150 * ms)
		if i%5 == 2 {
			r.Arrived.Packets, r.Arrived.Bytes = r.Arrived.Packets-40, r.Arrived.Bytes-40000
		}
		if i%7 == 3 {
			r.Got.Packets, r.Got.Bytes = r.Got.Packets+30, r.Got.Bytes+30000
		}
		if err := w.est.HandleReport(r); err != nil {
			t.Fatal(err)
		}
		if s := w.est.State(w.now); s.Out.Loss > 0 || s.In.Loss > 0 {
			t.Fatalf("report %d: losses %.4f and %.4f of packets that were late", i, s.Out.Loss, s.In.Loss)
		}
	}
}

// TestEstimatorMost: the greatest rate outlasts a pause, and is forgotten in the end.
func TestEstimatorMost(t *testing.T) {
	w := newWay()
	w.run(t, 20, 150*ms)
	w.out = 10
	if s := w.run(t, 40, 150*ms); !near(s.Out.Most, 1e6, 1e4) || s.Out.Rate > 2e4 {
		t.Errorf("after 6 s of little: rate %.0f, greatest %.0f", s.Out.Rate, s.Out.Most)
	}
	if s := w.run(t, 200, 150*ms); s.Out.Most > 2e4 {
		t.Errorf("after 36 s of little: greatest %.0f", s.Out.Most)
	}
	if s := w.est.State(w.now.Add(time.Minute)); s.Out.Most != 0 {
		t.Errorf("after a minute without a report: greatest %.0f", s.Out.Most)
	}
}

// TestEstimatorMostRolls: of two windows the newer one always covers some time.
func TestEstimatorMostRolls(t *testing.T) {
	w := newWay()
	w.out = 10
	w.run(t, 95, 200*ms)
	w.out = 1000
	w.run(t, 4, 200*ms)
	w.out = 10
	if s := w.run(t, 20, 200*ms); !near(s.Out.Most, 1e6, 1e4) {
		t.Errorf("4 s after the greatest rate %.0f is known", s.Out.Most)
	}
}

// TestEstimatorDies: a direction is dead once two reports bring nothing new.
func TestEstimatorDies(t *testing.T) {
	w := newWay()
	w.run(t, 10, 150*ms)
	w.outLoss = 1
	for i, want := range []Life{Lives, Dead, Dead} {
		if s := w.run(t, 1, 150*ms); s.Out.Life != want {
			t.Errorf("report %d: %v, want %v", i, s.Out.Life, want)
		}
	}
	w.outLoss = 0.5
	if s := w.run(t, 1, 150*ms); s.Out.Life != Lives {
		t.Errorf("%v although packets arrive", s.Out.Life)
	}
}

// TestEstimatorStands: how long nothing has arrived counts from the first report by which something new had been sent,
// not from a pause of the sender before it.
func TestEstimatorStands(t *testing.T) {
	w := newWay()
	w.run(t, 10, 150*ms)
	out := w.out
	w.out = 0
	if s := w.run(t, 10, 150*ms); s.Out.Life == Dead || s.Out.Still != 0 {
		t.Errorf("a pause: %v for %v", s.Out.Life, s.Out.Still)
	}
	w.out, w.outLoss = out, 1
	if s := w.run(t, 1, 150*ms); s.Out.Life != Dead || s.Out.Still != 0 || s.Out.Missing == 0 {
		t.Errorf("the first packets after it: %+v", s.Out)
	}
	if s := w.run(t, 2, 150*ms); !near(s.Out.Still.Seconds(), 0.3, 0.01) {
		t.Errorf("nothing has arrived for %v, want 300 ms", s.Out.Still)
	}
	w.outLoss = 0
	if s := w.run(t, 1, 150*ms); s.Out.Life != Lives || s.Out.Still != 0 {
		t.Errorf("all arrive again: %v, nothing for %v", s.Out.Life, s.Out.Still)
	}
}

// TestEstimatorInexact: of packets that were merged before they were counted, no loss is known.
func TestEstimatorInexact(t *testing.T) {
	for _, merged := range []bool{false, true} {
		w := newWay()
		var s PathState
		for range 40 {
			r := w.next(150 * ms)
			if r.Inexact = true; merged {
				r.Arrived.Packets /= 2
				r.Arrived.Bytes += r.Arrived.Bytes / 50 // headers
			}
			if err := w.est.HandleReport(r); err != nil {
				t.Fatal(err)
			}
			s = w.est.State(w.now)
		}
		if s.Out.LossKnown == merged || s.Out.Loss != 0 || !near(s.Out.Rate, 1e6, 3e4) || s.Out.Life != Lives {
			t.Errorf("merged %v: %+v", merged, s.Out)
		}
	}
}

// TestEstimatorRests: after a pause the greatest rate is known, and nothing of what was counted.
func TestEstimatorRests(t *testing.T) {
	w := newWay()
	w.run(t, 20, 150*ms)
	w.est.Rest()
	s := w.est.State(w.now)
	if !near(s.Out.Most, 1e6, 1e4) || s.Least != 20*ms || s.Out.Rate != 0 || !s.Out.At.IsZero() {
		t.Errorf("resting: %+v", s)
	}
	if s := w.run(t, 3, 150*ms); s.Out.At.IsZero() || !w.est.State(w.now.Add(LossOver+100*ms)).Out.At.IsZero() {
		t.Error("what is known of a direction does not end with the reports")
	}
	w.est.Rest()
	w.left, w.got = w.left+5000, w.got+100 // lost meanwhile, or in parts nobody knows
	if s := w.run(t, 20, 150*ms); s.Out.Loss != 0 || !s.Out.LossKnown {
		t.Errorf("after it: %+v", s.Out)
	}
}

// TestEstimatorRefuses: what cannot be is refused, and judged anew from the next report on.
func TestEstimatorRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		lie  func(*PathReport)
		want error
	}{
		{"truth", func(*PathReport) {}, nil},
		{"a packet more than was sent", func(r *PathReport) { r.Arrived.Packets = r.LeftNow.Packets + 1 }, ErrReportAbove},
		{"a byte more than was sent", func(r *PathReport) { r.Arrived.Bytes = r.LeftNow.Bytes + 1 }, ErrReportAbove},
		{"all that there is", func(r *PathReport) { r.Arrived = Traffic{math.MaxUint64, math.MaxUint64} }, ErrReportAbove},
		{"fewer packets than before", func(r *PathReport) { r.Arrived.Packets -= 200 }, ErrReportBack},
		{"fewer bytes than before", func(r *PathReport) { r.Arrived.Bytes = 0 }, ErrReportBack},
		{"less sent than before", func(r *PathReport) { r.PeerLeft = Traffic{} }, ErrReportBack},
		{"before it was sent", func(r *PathReport) { r.Clock -= 170_000 }, ErrReportClock},
		{"after it came back", func(r *PathReport) { r.Clock += 60_000 }, ErrReportClock},
		{"half an hour later", func(r *PathReport) { r.Clock += 1 << 31 }, ErrReportClock},
	} {
		w := newWay()
		before := w.run(t, 20, 150*ms)
		r := w.next(150 * ms)
		c.lie(&r)
		if err := w.est.HandleReport(r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		after := w.est.State(w.now)
		if c.want != nil && (after.Out != before.Out || after.In != before.In) {
			t.Errorf("%s changed what was known:\n%+v\n%+v", c.name, before, after)
		}
		if s := w.run(t, 20, 150*ms); !near(s.Out.Rate, 1e6, 1e4) || s.Out.Loss != 0 || !s.Out.LossKnown {
			t.Errorf("%s: later reports are not judged: %+v", c.name, s.Out)
		}
	}
}

// TestEstimatorEpoch: counters that begin anew at either end are no lie.
func TestEstimatorEpoch(t *testing.T) {
	for name, anew := range map[string]func(*PathReport, *way){
		"peer":                  func(r *PathReport, w *way) { r.Epoch++; w.got, w.peer = 0, 0 },
		"own":                   func(r *PathReport, w *way) { r.OwnEpoch++; w.left, w.back = 0, 0 },
		"own, more than before": func(r *PathReport, w *way) { r.OwnEpoch++; w.left += 5000 },
		"both": func(r *PathReport, w *way) {
			r.Epoch, r.OwnEpoch = 9, 9
			w.got, w.peer, w.left, w.back = 0, 0, 0, 0
		},
	} {
		w := newWay()
		w.run(t, 20, 150*ms)
		var epochs PathReport
		anew(&epochs, w)
		for range 20 {
			r := w.next(150 * ms)
			r.Epoch, r.OwnEpoch = epochs.Epoch+1, epochs.OwnEpoch+1
			if err := w.est.HandleReport(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		s := w.est.State(w.now).Out
		if !near(s.Rate, 1e6, 1e4) || s.Loss != 0 || !s.LossKnown || !near(s.Most, 1e6, 1e4) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestEstimatorReorders: where probes and answers overtake each other, nothing is refused.
func TestEstimatorReorders(t *testing.T) {
	var reports []PathReport
	rnd, start := rand.New(rand.NewPCG(1, 2)), time.Unix(1000, 0)
	uneven := func() time.Duration { return 10*ms + time.Duration(rnd.Int64N(int64(300*ms))) }
	count := func(at time.Time) Traffic {
		n := uint64(max(at.Sub(start).Milliseconds(), 0))
		return Traffic{n, 1000 * n}
	}
	for i := range 300 {
		sent := start.Add(time.Duration(i) * 50 * ms)
		at := sent.Add(uneven())
		came := at.Add(uneven())
		reports = append(reports, PathReport{
			Sent: sent, Clock: uint32(at.UnixMicro()), Came: came, Epoch: 1, OwnEpoch: 1,
			Left: count(sent), LeftNow: count(came), Arrived: count(at.Add(-150 * ms)),
			PeerLeft: count(at), Got: count(came.Add(-150 * ms)),
		})
	}
	slices.SortFunc(reports, func(a, b PathReport) int { return a.Came.Compare(b.Came) })
	var e Estimator
	for i, r := range reports {
		if err := e.HandleReport(r); err != nil {
			t.Fatalf("report %d: %v", i, err)
		}
	}
	s := e.State(reports[len(reports)-1].Came)
	if !near(s.Out.Rate, 1e6, 4e5) || s.Out.Life != Lives || s.Out.Loss > 0.05 {
		t.Errorf("%+v", s.Out)
	}
}

// FuzzEstimator: whatever a peer reports, rates are not negative, losses are shares, and no more
// is believed to have arrived than was sent.
func FuzzEstimator(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint64(4), uint32(5), uint32(1), int64(20))
	f.Add(uint64(math.MaxUint64), uint64(0), uint64(1), uint64(1<<63), uint32(math.MaxUint32), uint32(1), int64(0))
	f.Fuzz(func(t *testing.T, packets, bytes, left, leftBytes uint64, clock, epoch uint32, rtt int64) {
		w := newWay()
		var last PathState
		for i := range 12 {
			r := w.next(150 * ms)
			if i%4 == 3 {
				r.Arrived, r.PeerLeft = Traffic{packets, bytes}, Traffic{left, leftBytes}
				r.Clock, r.Epoch = clock, epoch
				r.Came = r.Sent.Add(time.Duration(rtt%int64(time.Minute)) & math.MaxInt64)
			}
			_ = w.est.HandleReport(r)
			last = w.est.State(w.now)
			for _, d := range []Direction{last.Out, last.In} {
				if d.Rate < 0 || d.Sent < 0 || d.Loss < 0 || d.Loss > 1 || math.IsNaN(d.Rate+d.Loss) {
					t.Fatalf("report %d: %+v", i, d)
				}
			}
		}
	})
}

// TestEstimatorAfterAPause: clocks of hosts run apart, the further the longer nothing is asked: no peer lies by that.
// What lies further apart than clocks run is refused also then.
func TestEstimatorAfterAPause(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		ppm   int64 // that the other end's clock is fast
		want  error
	}{
		{5 * time.Minute, 50, nil},
		{5 * time.Minute, -50, nil},
		{9 * time.Minute, 190, nil},
		{5 * time.Minute, 300, ErrReportClock},
		{5 * time.Minute, -300, ErrReportClock},
		{150 * ms, 50_000, ErrReportClock},
	} {
		w := newWay()
		w.rtt = ms
		w.run(t, 20, 150*ms)
		w.est.Rest()
		r := w.next(c.pause)
		r.Clock += uint32(c.pause.Microseconds() * c.ppm / 1_000_000)
		if err := w.est.HandleReport(r); !errors.Is(err, c.want) {
			t.Errorf("after %v by a clock that is %d ppm fast: %v, want %v", c.pause, c.ppm, err, c.want)
		}
	}
}

// TestEstimatorOvertaken: the report to a probe that a later one has overtaken counts for nothing. More is never
// missing than was sent.
func TestEstimatorOvertaken(t *testing.T) {
	w := newWay()
	w.run(t, 10, 150*ms)
	before, _ := w.est.Missing()
	first := w.next(150 * ms)
	second := w.next(5 * ms)
	w.out, w.in = 0, 0
	first.Clock = second.Clock + 1000 // it comes after the other one
	first.Arrived, first.PeerLeft = second.Arrived, second.PeerLeft
	for range 4 {
		for _, r := range []PathReport{second, first} {
			if err := w.est.HandleReport(r); err != nil {
				t.Fatal(err)
			}
		}
		first, second = w.next(150*ms), w.next(5*ms)
		first.Clock = second.Clock + 1000
		first.Left = Traffic{first.Left.Packets - 5, first.Left.Bytes - 5000}
		if s := w.est.State(w.now); s.Out.Missing > 0 || s.Out.Life == Dead {
			t.Fatalf("%d packets are missing, %v", s.Out.Missing, s.Out.Life)
		}
	}
	if now, _ := w.est.Missing(); now != before {
		t.Errorf("missing %v, before %v", now, before)
	}
}
