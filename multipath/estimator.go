package multipath

import (
	"slices"
	"time"
)

// Bounds of an Estimator.
const (
	samplesMost = 48               // that are kept of each direction
	lossLeast   = 20               // packets, of fewer no share is known
	missingOver = 3                // samples of which Missing takes the median
	deadLeast   = 3                // packets without a trace
	alikeWithin = 0.02             // mean sizes of packets that were counted alike differ by less
	clockAnew   = 10 * time.Minute // without a report: the clock of the other end is not followed any longer
)

// Estimator turns the answers to probes along one path into rates, losses and round trips.
// The zero value knows nothing. A peer without reports gives it round trips alone. It takes
// nothing for granted that a peer says of itself: see HandleReport.
type Estimator struct {
	rtt     time.Duration // of the last probe
	least   length
	last    PathReport
	known   bool          // last counts
	clock   time.Duration // of the last report, on the other end's clock
	slack   Traffic       // what was under way, at most, when the counts were first compared
	base    PathReport    // that first one
	zero    time.Time     // of the times in samples
	out, in direction
}

// HandleAnswer takes the answer to a probe, with a report or without.
func (e *Estimator) HandleAnswer(now, sent time.Time) {
	rtt := max(now.Sub(sent), 0)
	e.rtt = rtt
	e.least = e.least.measured(now, rtt)
}

// HandleReport takes the report in the answer to a probe. Reports that arrive in another order
// than their probes did count for nothing. It refuses
//   - a count less than before in the same epoch (ErrReportBack),
//   - more packets or bytes than were sent until now (ErrReportAbove),
//   - a time of arrival that lies not between probe and answer (ErrReportClock).
//
// So a peer can make one of its paths look better or worse than it is, by what it sends and
// receives there, and nothing else. A new epoch of either end begins anew.
func (e *Estimator) HandleReport(r PathReport) error {
	if !e.known || r.Epoch != e.last.Epoch || r.OwnEpoch != e.last.OwnEpoch ||
		r.Left.runsBack(e.last.Left) && r.Sent.After(e.last.Sent) || r.Came.Sub(e.last.Came) > clockAnew {
		return e.begin(r)
	}
	step := time.Duration(int32(r.Clock-e.last.Clock)) * time.Microsecond
	least, most := r.Sent.Sub(e.last.Came), r.Came.Sub(e.last.Sent)
	switch {
	case step < least-clockNoise(least) || step > most+clockNoise(most):
		e.known = false
		return ErrReportClock
	case step <= 0 || r.Sent.Before(e.last.Sent):
		return nil // an older one, or one of a probe that a later one has overtaken
	case r.Arrived.runsBack(e.last.Arrived) || r.PeerLeft.runsBack(e.last.PeerLeft):
		e.known = false
		return ErrReportBack
	case e.isAbove(r):
		e.known = false
		return ErrReportAbove
	}
	e.clock += step
	e.last = r
	e.note(r)
	return nil
}

// clockNoise returns how far the clocks of two hosts run apart between two reports, and are read late. Each may be fast
// or slow by 100 ppm if nothing corrects it.
func clockNoise(between time.Duration) time.Duration {
	const least, part = 5 * time.Millisecond, 5000
	return max(least, between/part)
}

// begin takes a first report, with which later ones are compared.
func (e *Estimator) begin(r PathReport) error {
	e.base, e.last, e.known, e.clock = r, r, true, 0
	if e.slack = r.Left.since(r.Arrived); r.Left.runsBack(r.Arrived) {
		e.slack = r.LeftNow.since(r.Left) // the counters began at different times
	}
	if e.zero.IsZero() {
		e.zero = r.Sent
	}
	e.out.begin()
	e.in.begin()
	e.note(r)
	return nil
}

// Rest forgets single reports when no more come for now: they take the most memory. The greatest
// rates and the least round trips stay.
func (e *Estimator) Rest() {
	e.out.begin()
	e.in.begin()
}

// isAbove reports whether more has arrived since the first report than was sent since then, or
// was under way by then.
func (e *Estimator) isAbove(r PathReport) bool {
	got, left := r.Arrived.since(e.base.Arrived), r.LeftNow.since(e.base.Left)
	return got.Packets > left.Packets+e.slack.Packets ||
		!r.Inexact && got.Bytes > left.Bytes+e.slack.Bytes
}

func (e *Estimator) note(r PathReport) {
	arrived := e.base.Sent.Add(e.clock).Sub(e.zero) // the zero of the other end's clock is chosen here
	sent, came := r.Sent.Sub(e.zero), r.Came.Sub(e.zero)
	e.out.note(sample{at: arrived, seen: came, left: r.Left, got: r.Arrived, delay: arrived - sent, inexact: r.Inexact})
	e.in.note(sample{at: came, seen: came, left: r.PeerLeft, got: r.Got, delay: came - arrived, inexact: r.Inexact})
}

// Missing is how many packets of each direction have not arrived, by counters of these epochs.
// Only differences count.
type Missing struct {
	Epoch, OwnEpoch uint32
	Out, In         int64
}

// Missing returns what was missing by the last reports; false: there are none.
func (e *Estimator) Missing() (Missing, bool) {
	n := len(e.out.samples)
	if !e.known || n == 0 {
		return Missing{}, false
	}
	from := max(n-missingOver, 0)
	return Missing{
		e.last.Epoch, e.last.OwnEpoch, medianMissing(e.out.samples[from:]), medianMissing(e.in.samples[from:]),
	}, true
}

// State returns what is known now.
func (e *Estimator) State(now time.Time) PathState {
	s := PathState{RTT: e.rtt, Least: e.least.rtt()}
	if !e.zero.IsZero() {
		s.Out, s.In = e.out.state(e.zero, now), e.in.state(e.zero, now)
	}
	return s
}

// sample is one report about one direction. Times count from a zero of the Estimator's.
type sample struct {
	at        time.Duration // of the counts, on the clock of the end that receives
	seen      time.Duration // when the report came
	left, got Traffic
	delay     time.Duration // of the probe, or of its answer, beside a constant
	inexact   bool
}

// missing returns how many packets had not arrived: those that are lost, and those that the
// probe has overtaken. Only differences count.
func (s sample) missing() int64 { return int64(s.left.Packets - s.got.Packets) }

// direction is what is known of one direction of a path.
type direction struct {
	samples         []sample // the oldest first
	most, before    float64  // greatest rate of the present window, and of the one before
	since           time.Duration
	least, leastOld time.Duration // delay: of the present window, and of the one before
	leastSince      time.Duration
	rated, timed    bool   // since, leastSince mean something
	grew            sample // the last one by which something had arrived
	still           int    // samples since then,
	unmet           sample // the first of them by which more had been sent
}

// begin forgets what was counted; what paths can do, and how long they are, stays.
func (d *direction) begin() {
	d.samples, d.grew, d.still, d.unmet, d.timed = nil, sample{}, 0, sample{}, false
}

func (d *direction) note(s sample) {
	d.noteDelay(s)
	switch {
	case len(d.samples) == 0 || s.got.Packets != d.grew.got.Packets:
		d.grew, d.still, d.unmet = s, 0, s
	default:
		d.still++
		if d.unmet.left.Packets == d.grew.left.Packets {
			d.unmet = s
		}
	}
	d.samples = append(d.samples, s)
	d.samples = slices.DeleteFunc(d.samples, func(o sample) bool { return s.seen-o.seen > LossOver })
	d.samples = d.samples[max(len(d.samples)-samplesMost, 0):]
	if _, rate, ok := d.rates(); ok {
		d.noteRate(s.seen, rate)
	}
}

// noteRate keeps the greatest rate of two windows.
func (d *direction) noteRate(at time.Duration, rate float64) {
	switch age := at - d.since; {
	case !d.rated || age >= 2*mostOver:
		d.most, d.before, d.since, d.rated = rate, rate, at, true
	case age >= mostOver:
		d.most, d.before, d.since = rate, d.most, at
	}
	d.most = max(d.most, rate)
}

// noteDelay keeps the least delay of two windows. The clocks of two hosts run apart, so that
// windows are short.
func (d *direction) noteDelay(s sample) {
	switch age := s.seen - d.leastSince; {
	case !d.timed || age >= 2*LengthLasts:
		d.least, d.leastOld, d.leastSince, d.timed = s.delay, s.delay, s.seen, true
	case age >= LengthLasts:
		d.least, d.leastOld, d.leastSince = s.delay, d.least, s.seen
	}
	d.least = min(d.least, s.delay)
}

// rates returns the rates of what was sent, and of what arrived, over the last RateOver.
func (d *direction) rates() (sent, rate float64, ok bool) {
	n := len(d.samples) - 1
	for i := n - 1; i >= 0; i-- {
		a, b := d.samples[i], d.samples[n]
		if over := b.at - a.at; over >= RateOver {
			s := over.Seconds()
			return float64(b.left.Bytes-a.left.Bytes) / s, float64(b.got.Bytes-a.got.Bytes) / s, true
		}
	}
	return 0, 0, false
}

// carries returns the rate at which packets left a queue that every probe of late has met: then the path was never
// idle, and they came as fast as it carries them. No train is needed for that. Without a queue it is 0.
func (d *direction) carries() float64 {
	n, least := len(d.samples)-1, min(d.least, d.leastOld)
	for i := n; i >= 0 && d.samples[i].delay-least >= carriesQueue; i-- {
		a, b := d.samples[i], d.samples[n]
		if i < n && d.samples[i+1].at-a.at > carriesMost {
			break
		}
		got := b.got.since(a.got)
		if over := b.at - a.at; over >= carriesLeast && got.Packets >= carriesOf {
			return (float64(got.Bytes) + dataHeaders*float64(got.Packets)) / over.Seconds()
		}
	}
	return 0
}

// overflows reports whether the newest packets were lost at once. A few that are missing may be under way.
func (d *direction) overflows() bool {
	n := len(d.samples) - 1
	if n < 1 {
		return false
	}
	a, b := d.samples[n-1], d.samples[n]
	lost, sent := float64(b.missing()-a.missing()), float64(b.left.Packets-a.left.Packets)
	return lost >= overflowLeast && lost >= overflowPart*sent && lost <= (1-overflowPart)*sent
}

// loss returns the share of packets that did not arrive. What is missing by a report differs
// from what was lost by then: some are under way yet, as the probe has overtaken them, or one
// count was read late. Medians of the older and of the newer half of all reports are free of
// what is wrong with some, and what all have in common does not count.
func (d *direction) loss() (share float64, ok bool) {
	half := len(d.samples) / 2
	if half < 2 {
		return 0, false
	}
	old, recent := d.samples[:half], d.samples[len(d.samples)-half:]
	first, last := old[(half-1)/2], recent[(half-1)/2] // in the middle of either half
	sent, got := last.left.since(first.left), last.got.since(first.got)
	if sent.Packets < lossLeast || last.inexact && !areAlike(sent, got) {
		return 0, false
	}
	lost := medianMissing(recent) - medianMissing(old)
	return min(max(float64(lost)/float64(sent.Packets), 0), 1), true
}

func medianMissing(samples []sample) int64 {
	missing := make([]int64, len(samples))
	for i, s := range samples {
		missing[i] = s.missing()
	}
	slices.Sort(missing)
	return missing[(len(missing)-1)/2]
}

// areAlike reports whether packets that were sent and received have the same mean size: none
// was cut or merged between the two counters.
func areAlike(sent, got Traffic) bool {
	if sent.Packets == 0 || got.Packets == 0 {
		return false
	}
	a, b := float64(sent.Bytes)/float64(sent.Packets), float64(got.Bytes)/float64(got.Packets)
	return a-b < alikeWithin*a && b-a < alikeWithin*a
}

func (d *direction) state(zero, now time.Time) Direction {
	var s Direction
	if d.rated && now.Sub(zero)-d.since < 2*mostOver {
		s.Most = max(d.most, d.before)
	}
	if len(d.samples) == 0 {
		return s
	}
	last := d.samples[len(d.samples)-1]
	if now.Sub(zero)-last.seen > LossOver {
		return s // too old
	}
	s.At, s.Queue, s.Life = zero.Add(last.seen), last.delay-min(d.least, d.leastOld), d.life(last)
	s.Sent, s.Rate, _ = d.rates()
	if s.Overflows = d.overflows(); now.Sub(zero)-last.seen <= carriesMost {
		s.Carries = d.carries()
	}
	s.Loss, s.LossKnown = d.loss()
	s.Missing, s.Still = last.left.Packets-d.grew.left.Packets, last.at-d.unmet.at
	return s
}

func (d *direction) life(last sample) Life {
	switch {
	case d.still >= 2 && last.left.Packets-d.grew.left.Packets >= deadLeast:
		return Dead
	case len(d.samples) > 1 && d.grew.seen > d.samples[0].seen:
		return Lives
	}
	return LifeUnknown
}
