package ilnphost

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"roam/internal/dataplane"
)

// checkTicksEach is the time between two looks at the programs' clock.
const checkTicksEach = 10 * time.Second

// tickClock keeps the clock that the programs derive from the kernel's counter of ticks
// (bpf/lib/clock.h).
type tickClock struct {
	table   *ebpf.Map        // tick_zero
	meter   *dataplane.Ticks // nil: the programs use the kernel's clock
	zero    uint64           // as in the map
	checked time.Time
	strayed bool // the last look found the clock wrong
}

// start gives the programs the time of tick 0. One that was measured before stands: times
// of sessions were taken by it.
func (t *tickClock) start(table *ebpf.Map) error {
	t.table = table
	meter, err := dataplane.OpenTicks()
	if err != nil {
		return nil // the kernel's clock will do
	}
	t.meter, t.checked = meter, time.Now()
	if err := t.table.Lookup(uint32(0), &t.zero); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read clock of programs: %w", err)
	}
	if t.zero != 0 {
		return nil
	}
	zero, err := dataplane.TickZero()
	if err != nil {
		return err
	}
	return t.setZero(zero)
}

func (t *tickClock) setZero(zero uint64) error {
	if err := t.table.Put(uint32(0), &zero); err != nil {
		return fmt.Errorf("set clock of programs: %w", err)
	}
	t.zero = zero
	return nil
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
