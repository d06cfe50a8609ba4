package ilnphost

import (
	"time"

	"roam/internal/dataplane"
)

// checkTicksEach is the time between two looks at the programs' clock.
const checkTicksEach = 10 * time.Second

// tickClock keeps the clock that the programs derive from the kernel's counter of ticks
// (bpf/ilnp/clock.h).
type tickClock struct {
	change  func(func(*bpfHost) error) error
	meter   *dataplane.Ticks // nil: the programs use the kernel's clock
	zero    uint64           // as in the map hosts
	checked time.Time
	strayed bool // the last look found the clock wrong
}

// start gives the programs the time of tick 0. One that was measured before stands: times
// of sessions were taken by it.
func (t *tickClock) start(change func(func(*bpfHost) error) error) error {
	t.change = change
	meter, err := dataplane.OpenTicks()
	if err != nil {
		return nil // the kernel's clock will do
	}
	t.meter, t.checked = meter, time.Now()
	return t.change(func(h *bpfHost) (err error) {
		if h.TickZero == 0 {
			h.TickZero, err = dataplane.TickZero()
		}
		t.zero = h.TickZero
		return err
	})
}

func (t *tickClock) setZero(zero uint64) error {
	t.zero = zero
	return t.change(func(h *bpfHost) error {
		h.TickZero = zero
		return nil
	})
}

// check compares the programs' clock with CLOCK_MONOTONIC now and then, behind which
// it is by less than a tick, or by little more if the kernel was late. Where that fails
// twice in a row, ticks do not follow that clock on this machine: from then on the
// programs ask the kernel.
func (t *tickClock) check(now time.Time) error {
	if t.meter == nil || t.zero == 0 || now.Sub(t.checked) < checkTicksEach {
		return nil
	}
	t.checked = now
	zero, err := t.meter.Look()
	if err != nil {
		return err
	}
	behind := time.Duration(zero - int64(t.zero))
	wrong := behind < -t.meter.Length() || behind > 2*t.meter.Length()
	if wrong && t.strayed {
		return t.setZero(0)
	}
	t.strayed = wrong
	return nil
}

func (t *tickClock) stop() {
	if t.meter != nil {
		t.meter.Close()
	}
}
