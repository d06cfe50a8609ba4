package bench

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
)

// beforeEnv names a directory with roam and roamd of an older build, which is compared as
// well.
const beforeEnv = "ROAM_BINARIES_BEFORE"

// A pair of measurements is sliceRounds rounds; a comparison ends when every figure that has
// a bound, and what two builds differ by, is known well enough, or after 120 pairs. It begins
// when what takes the full path is over: for 3 s after the set-up packets bear nonces, and for
// 5 s after a silence, as that while the others are set up, echoes of TCP are forgotten.
const (
	sliceRounds = 30
	roundsLeast = 8 * sliceRounds
	roundsMost  = 120 * sliceRounds
	sendCore    = 0
	settledIn   = 6 * time.Second
)

// contender is one of the set-ups that are compared: hosts of its own, and sockets of one
// thread on them, between which a slice of work is done.
type contender struct {
	name  string
	slice func(*stopwatch) error
	times map[string][]float64 // of each round, in ns, by part
}

// whole is the part that every slice has: all of it.
const whole = ""

// stopwatch takes the times of the parts of a slice.
type stopwatch struct {
	clock  func() time.Duration
	last   time.Duration
	parts  map[string]float64
	thread int // of a crew, that does the slice
}

func newStopwatch(clock func() time.Duration) *stopwatch {
	return &stopwatch{clock: clock, last: clock(), parts: map[string]float64{}}
}

// lap ends a part of the slice; a slice that never calls it has no parts.
func (s *stopwatch) lap(part string) {
	now := s.clock()
	s.parts[part] += float64((now - s.last).Nanoseconds())
	s.last = now
}

// restart leaves out what the slice has done since the last lap.
func (s *stopwatch) restart() { s.last = s.clock() }

// question is what a comparison asks: the quotient of two contenders' times of a part.
type question struct {
	testutil.Figure
	over, under string
	part        string
	units       int     // of work in that part of a slice
	unit        string  // "datagram"
	known       float64 // half-width to go on for; 0: whatever it is
}

// compare runs the contenders' slices by turns, in another order each round, until all is
// known well enough, and reports what was asked. A figure is the median over the rounds of
// the quotient within a round: so what else the machine does meets all contenders alike, and
// outliers none.
//
// One thread on one core does all the work of both hosts and of the router between them, so
// its processor time is that of both ends, whatever else the core has to do.
func compare(b *testing.B, all []*contender, asked []question) {
	b.Helper()
	runtime.LockOSThread() // never unlocked: the thread keeps its core
	var set unix.CPUSet
	set.Set(sendCore)
	must(b, unix.SchedSetaffinity(0, &set))
	compareBy(b, nil, all, asked)
}

// compareBy is compare by the threads of a crew, each of which has whole rounds.
func compareBy(b *testing.B, threads crew, all []*contender, asked []question) {
	b.Helper()
	var clock func() time.Duration
	threads.do(b, 0, func() (err error) {
		clock, err = clockOf(b, all[0])
		return err
	})
	for n, began := 0, time.Now(); time.Since(began) < settledIn; n++ {
		threads.do(b, n, func() error { return round(all, n, threads, clock) })
	}
	for _, c := range all {
		c.times = nil
	}
	for n := range roundsMost {
		threads.do(b, n, func() error { return round(all, n, threads, clock) })
		if n+1 >= roundsLeast && n%sliceRounds == 0 && settled(all, asked) {
			break
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, q := range asked {
		testutil.Report(b, q.answer(all))
	}
}

// round has each contender do one slice, in an order that changes from round to round.
func round(all []*contender, n int, threads crew, clock func() time.Duration) error {
	for i := range all {
		c, began := all[turn(i, n/threads.size(), len(all))], clock()
		s := newStopwatch(clock)
		s.thread = n % threads.size()
		if err := c.slice(s); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.add(s.parts, float64((clock() - began).Nanoseconds()))
	}
	return nil
}

// trialSlices is how many slices tell which clock counts all of a thread's work.
const trialSlices = 20

// clockOf returns the clock of the thread's processor time where that includes what soft
// interrupts do on its behalf, which a kernel with CONFIG_IRQ_TIME_ACCOUNTING leaves out:
// there it and the time spent waiting for the core do not make up the time that went by.
func clockOf(b *testing.B, c *contender) (func() time.Duration, error) {
	b.Helper()
	began, cpu, waited := time.Now(), threadTime(), queueTime(b)
	for range trialSlices {
		if err := c.slice(newStopwatch(threadTime)); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	all := time.Since(began)
	if known := threadTime() - cpu + queueTime(b) - waited; known < all*8/10 {
		b.Logf("the thread's time leaves out %v of %v: times are of the clock", all-known, all)
		return func() time.Duration { return time.Since(began) }, nil
	}
	return threadTime, nil
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// queueTime is how long this thread was ready to run and did not.
func queueTime(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	must(b, err)
	var ran, waited time.Duration
	_, err = fmt.Sscan(string(text), &ran, &waited)
	must(b, err)
	return waited
}

// add keeps the times of a slice. Its parts are all of it, if there are any: what lies
// between them was not measured.
func (c *contender) add(parts map[string]float64, all float64) {
	if c.times == nil {
		c.times = map[string][]float64{}
	}
	if len(parts) > 0 {
		all = 0
	}
	for part, t := range parts {
		c.times[part] = append(c.times[part], t)
		all += t
	}
	c.times[whole] = append(c.times[whole], all)
}

// turn says who has the i-th turn of round n: each follows each, and each is first as often.
func turn(i, n, of int) int {
	if n%2 == 1 {
		i = of - 1 - i
	}
	return (i + n/2) % of
}

// settled reports whether all that is judged is known well enough.
func settled(all []*contender, asked []question) bool {
	return !slices.ContainsFunc(asked, func(q question) bool {
		return q.known > 0 && q.estimate(all).Half > q.known
	})
}

func (q question) estimate(all []*contender) testutil.Estimate {
	return testutil.Quotients(contenderOf(all, q.over).times[q.part], contenderOf(all, q.under).times[q.part])
}

// answer is the figure that was asked for.
func (q question) answer(all []*contender) testutil.Figure {
	f, e := q.Figure, q.estimate(all)
	over, under := contenderOf(all, q.over).times[q.part], contenderOf(all, q.under).times[q.part]
	f.Value, f.Half, f.Rounds = e.Mid, e.Half, len(under)
	per := func(times []float64) float64 { return testutil.Estimated(times).Mid / float64(q.units) }
	extra := testutil.Differences(under, over)
	f.Raw = map[string][]float64{"ns " + q.over: over, "ns " + q.under: under}
	f.Details = map[string]float64{
		"ns/" + q.unit + " " + q.over:  per(over),
		"ns/" + q.unit + " " + q.under: per(under),
		"ns/" + q.unit + " more":       extra.Mid / float64(q.units),
		"ns/" + q.unit + " more ±":     extra.Half / float64(q.units),
		q.unit + "s/s " + q.under:      1e9 / per(under),
	}
	return f
}

func contenderOf(all []*contender, name string) *contender {
	return all[slices.IndexFunc(all, func(c *contender) bool { return c.name == name })]
}

// builds are the programs to compare: none for plain IPv6, and those of the build before if
// there is one.
func builds() (names []string, programs map[string]*node.Binaries) {
	names, programs = []string{"plain", "now"}, map[string]*node.Binaries{"plain": nil, "now": &bin}
	if dir := os.Getenv(beforeEnv); dir != "" {
		before := node.In(dir)
		names, programs["before"] = append(names, "before"), &before
	}
	return names, programs
}

// asks returns the questions for the builds: this one against plain IPv6, with the given
// figure, and the build before against both, without a bound.
func asks(f testutil.Figure, part string, units int, unit string) []question {
	all := []question{{f, "plain", "now", part, units, unit, 0}}
	if f.Op != "" {
		all[0].known = testutil.HalfWidth
	}
	if os.Getenv(beforeEnv) == "" {
		return all
	}
	against := func(name, says, over, under string, known float64) {
		f := testutil.Figure{Name: f.Name + name, Says: says}
		all = append(all, question{f, over, under, part, units, unit, known})
	}
	against(" (before)", f.Says+", the build before", "plain", "before", 0)
	against(" (now over before)", "rate of this build over that of the build before", "before", "now", testutil.HalfWidth/2)
	return all
}

// setting is how the hosts of a comparison are set up.
type setting struct {
	options     string // of the correspondents in the hosts files
	more        string // lines of MN's configuration
	fromAddress bool   // identifiers are those of the hosts' addresses
}

// slicer opens the sockets of a contender and returns what does a slice of work.
type slicer func(b *testing.B, w *world, target roam.ILV) func(*stopwatch) error

// start makes hosts for each build, with Roam on both ends, and a slice of work between
// them.
func start(b *testing.B, s setting, slice slicer) (all []*contender) {
	b.Helper()
	build(b)
	testutil.NeedKernel(b, "two cores", runtime.NumCPU() > 1)
	names, programs := builds()
	for _, name := range names {
		w := newNamedWorld(b, name, 1, linkem.Params{})
		target := roam.ILVFromAddr(w.cnPlain)
		if programs[name] != nil {
			w.bin, w.options, w.more = *programs[name], s.options, s.more
			if s.fromAddress {
				w.takeAddresses(b)
			}
			w.startRoam(b, "soft", "net1")
			w.ping(b, "cn", 3)
			target = roam.ILV{NID: w.nidCN, L64: roam.DefaultSessionPrefix}
		}
		all = append(all, &contender{name: name, slice: slice(b, w, target)})
	}
	return all
}
