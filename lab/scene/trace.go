package scene

import (
	"context"
	"slices"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/stats"
)

// Trace is the record of the network during a schedule.
type Trace struct {
	Arm        arm.Arm
	Start, End time.Time
	Steps      []Done
	Samples    []Sample
	Begins     []Begin  // when links of the mobile host began to carry its data
	Adverts    []Advert // received by the mobile host
	Drops      map[string]uint64
	Events     map[string][]node.Event // of the daemons, by host
}

// Run executes a schedule, records the network meanwhile, and shows both in the live view,
// with the sessions of board, if not nil. Call it once, when traffic flows.
func (s *Scene) Run(ctx context.Context, plan Schedule, board func() []live.Session) (*Trace, error) {
	t := &Trace{Arm: s.cfg.Arm, Start: time.Now(), Events: map[string][]node.Event{}}
	s.env.View.Clock(t.Start, plan.Length)
	smp := startSampler(ctx, s, board)
	for _, e := range s.Ends {
		if e.Node == nil {
			continue
		}
		heard := func(ev node.Event) {
			if e == s.Mobile() {
				s.show(ev)
				smp.refresh()
			}
		}
		if err := e.Node.Monitor(ctx, heard); err != nil {
			smp.finish()
			return nil, err
		}
	}
	err := s.follow(ctx, t, plan)
	t.End = time.Now()
	s.env.Kept.Ran(exp.Span{From: t.Start, To: t.End})
	t.Samples = smp.finish()
	t.Begins = smp.begins
	if err != nil {
		return nil, err
	}
	if s.Mobile().Node != nil && slices.ContainsFunc(t.Steps, func(d Done) bool { return d.cut() != "" }) {
		s.env.Kept.Cut(exp.Cuts{LateMs: stats.Millis(t.Late()), StillCameMs: stats.Millis(t.StillCame())})
	}
	t.Adverts, t.Drops = s.ra.seen(), s.Drops()
	for _, e := range s.Ends {
		if e.Node != nil {
			t.Events[e.Host.Name()] = e.Node.Events()
			if s.kept != "" {
				if err := keepEvents(s.kept, e.Host.Name(), t.Events[e.Host.Name()]); err != nil {
					return nil, err
				}
			}
		}
	}
	return t, nil
}

// At returns a moment of the schedule.
func (t *Trace) At(d time.Duration) time.Time { return t.Start.Add(d) }

// Rel returns a moment as seconds since the start of the schedule.
func (t *Trace) Rel(at time.Time) float64 { return at.Sub(t.Start).Seconds() }

// Late returns how much later than the schedule says a loss of carrier was over, at most. Of a Swap
// that waits for its locator the schedule says nothing.
func (t *Trace) Late() (worst time.Duration) {
	for _, d := range t.Steps {
		if d.Op == Detach || d.Op == Cut || d.Op == Swap && !d.Settled {
			worst = max(worst, d.Over.Sub(t.At(d.Step.At)))
		}
	}
	return worst
}

// Behind returns by how much a step was begun later than the schedule says, at most.
func (t *Trace) Behind() (worst time.Duration) {
	for _, d := range t.Steps {
		worst = max(worst, d.At.Sub(t.At(d.Step.At)))
	}
	return worst
}

// BegunLate is Behind without what a step owes to commands to Roam and to cuts before it, which took
// too long: the lab's own lateness.
func (t *Trace) BegunLate() (worst time.Duration) {
	var free time.Time
	for _, d := range t.Steps {
		due := t.At(d.Step.At)
		if free.After(due) {
			due = free
		}
		worst = max(worst, d.At.Sub(due))
		if d.Op != Mark && d.Op != Attach && d.Op != Alter {
			free = d.Over
		}
	}
	return worst
}

// Advertised returns when the first Router Advertisement reached the mobile host on a link at
// or after a moment. From then on the network can be used, whatever the daemon says.
func (t *Trace) Advertised(link string, from time.Time) (time.Time, bool) {
	for _, a := range t.Adverts {
		if a.Link == link && !a.At.Before(from) {
			return a.At, true
		}
	}
	return time.Time{}, false
}

// Moved reports whether a link carried at least nine tenths of the bytes each way in the last
// interval between two samples before a moment.
func (t *Trace) Moved(link string, before time.Time) bool {
	for i := len(t.Samples) - 1; i > 0; i-- {
		if b := t.Samples[i]; !b.At.After(before) {
			a := t.Samples[i-1]
			return shares(a.Out, b.Out)[link] >= 90 && shares(a.In, b.In)[link] >= 90
		}
	}
	return false
}

// StillCame returns for how long after the loss of a link packets to the mobile host still
// took the way to its network, at most and to the interval of two samples.
func (t *Trace) StillCame() (worst time.Duration) {
	for i, d := range t.Steps {
		link := d.cut()
		if link == "" {
			continue
		}
		back := t.End
		for _, later := range t.Steps[i+1:] {
			if (later.Op == Attach || later.Op == Swap) && later.Link == link {
				back = later.At
				break
			}
		}
		for j := 1; j < len(t.Samples); j++ {
			a, b := t.Samples[j-1], t.Samples[j]
			if b.At.After(d.Over) && b.At.Before(back) && b.Towards[link] > a.Towards[link]+idleFrames {
				worst = max(worst, b.At.Sub(d.Over))
			}
		}
	}
	return worst
}

// cut returns the link that a step takes from the mobile host, "" if none.
func (d Done) cut() string {
	if d.Host != "" {
		return ""
	}
	return map[Op]string{Detach: d.Link, Cut: d.Link, Swap: d.From, Call: d.From}[d.Op]
}

// idleFrames are what a network gets between two samples without data: neighbor discovery.
const idleFrames = 2

// SampleAt returns the first sample not before a moment, or the last of all.
func (t *Trace) SampleAt(at time.Time) Sample {
	i := slices.IndexFunc(t.Samples, func(s Sample) bool { return !s.At.Before(at) })
	if i < 0 {
		i = len(t.Samples) - 1
	}
	return t.Samples[i]
}

// Within returns the first sample of a span and the last one; twice the same if it has none but one.
func (t *Trace) Within(from, to time.Time) (a, b Sample) {
	a = t.SampleAt(from)
	b = a
	for _, s := range t.Samples {
		if s.At.After(a.At) && !s.At.After(to) {
			b = s
		}
	}
	return a, b
}

// Shares returns the shares of the links in the bytes carried between the first sample of a span
// and the last one, in per cent, from the mobile host and to it. So a sample that came late does not
// count what the next span carried.
func (t *Trace) Shares(from, to time.Time) (out, in map[string]float64) {
	a, b := t.Within(from, to)
	return shares(a.Out, b.Out), shares(a.In, b.In)
}

func shares(a, b map[string]uint64) map[string]float64 {
	total, out := uint64(0), map[string]float64{}
	for l := range b {
		total += b[l] - a[l]
	}
	for l := range b {
		out[l] = 100 * float64(b[l]-a[l]) / float64(max(total, 1))
	}
	return out
}

// AddRates adds the rate over time of each link of the mobile host to a result: series "out
// net1" and "in net1" of each link, after the name of the arm if given.
func (t *Trace) AddRates(r *result.Result, arm string) {
	r.Start(arm, t.Start)
	add := func(what string, pick func(Sample) map[string]uint64) {
		for _, l := range sorted(pick(t.Samples[0])) {
			var x, y []float64
			for i := 1; i < len(t.Samples); i++ {
				a, b := t.Samples[i-1], t.Samples[i]
				dt := b.At.Sub(a.At).Seconds()
				if dt < 0.02 {
					continue // two readings in quick succession would divide by almost zero
				}
				x = append(x, stats.Round(t.Rel(b.At), 3))
				y = append(y, stats.Round(float64(pick(b)[l]-pick(a)[l])*8e-6/dt, 3))
			}
			r.AddSeries(strings.TrimSpace(arm+" "+what+" "+l), "Mb/s", x, y)
		}
	}
	add("out", func(s Sample) map[string]uint64 { return s.Out })
	add("in", func(s Sample) map[string]uint64 { return s.In })
}

// show shows an event of the mobile host's daemon in the live view.
func (s *Scene) show(e node.Event) {
	switch e.Kind {
	case "handoff-done":
		s.env.View.Handoff("%s -> %s, acknowledged by all after %.1f ms", linkNames(e.From), linkNames(e.To), e.DurationMs)
	case "update-failed", "handoff-returned", "session-fell-back", "peer-dead", "session-replaced", "lost":
		s.env.View.Logf("%s %s %s", e.Kind, e.PeerName, e.Reason)
	}
}

func linkNames(l []node.LinkLocator) string {
	set := map[string]bool{}
	for _, x := range l {
		set[x.Link] = true
	}
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(sorted(set), "+")
}
