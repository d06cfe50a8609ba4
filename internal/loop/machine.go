package loop

import "time"

// Machine is what a loop needs of a core and of those that carry out its outputs.
type Machine interface {
	// PollTimeout returns when HandleTimeout is to be called; false: never, as it stands.
	PollTimeout() (at time.Time, armed bool)
	// HandleTimeout is called when that time has come.
	HandleTimeout(now time.Time)
	// Drain carries out, in order, everything that the core wants done.
	Drain(now time.Time)
}

// Core is a protocol machine that is drained by Poll.
type Core[O any] interface {
	Poll() (O, bool)
	PollTimeout() (time.Time, bool)
	HandleTimeout(now time.Time)
}

// Drive joins a core with what carries out its outputs.
func Drive[O any](core Core[O], execute func(now time.Time, o O)) Machine {
	return driven[O]{core, execute}
}

type driven[O any] struct {
	Core[O]
	execute func(now time.Time, o O)
}

func (d driven[O]) Drain(now time.Time) {
	for o, ok := d.Poll(); ok; o, ok = d.Poll() {
		d.execute(now, o)
	}
}

// Every calls do each period, for the first time one period after start. Calls that the
// loop was too busy for are left out.
func Every(start time.Time, period time.Duration, do func(now time.Time)) Machine {
	return &periodic{start.Add(period), period, do}
}

type periodic struct {
	next   time.Time
	period time.Duration
	do     func(now time.Time)
}

func (p *periodic) PollTimeout() (time.Time, bool) { return p.next, true }

func (p *periodic) HandleTimeout(now time.Time) {
	p.next = p.next.Add((now.Sub(p.next)/p.period + 1) * p.period)
	p.do(now)
}

func (p *periodic) Drain(time.Time) {}
