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
	meter   *dataplane.Ticks // nil: the programs use the kernel's clock
	zero    uint64           // as in the map
	checked time.Time
	strayed bool // the last look found the clock wrong
}

// startTicks gives the programs the time of tick 0. One that was measured before stands:
// times of sessions were taken by it.
func (p *Plane) startTicks() error {
	meter, err := dataplane.OpenTicks()
	if err != nil {
		return nil // the kernel's clock will do
	}
	p.ticks.meter, p.ticks.checked = meter, time.Now()
	if err := p.objs.TickZero.Lookup(uint32(0), &p.ticks.zero); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read clock of programs: %w", err)
	}
	if p.ticks.zero != 0 {
		return nil
	}
	zero, err := dataplane.TickZero()
	if err != nil {
		return err
	}
	return p.setTickZero(zero)
}

func (p *Plane) setTickZero(zero uint64) error {
	if err := p.objs.TickZero.Put(uint32(0), &zero); err != nil {
		return fmt.Errorf("set clock of programs: %w", err)
	}
	p.ticks.zero = zero
	return nil
}

// checkTicks compares the programs' clock with CLOCK_MONOTONIC now and then, behind which
// it is by less than a tick, or by little more if the kernel was late. Where that fails
// twice in a row, ticks do not follow that clock on this machine: from then on the
// programs ask the kernel.
func (p *Plane) checkTicks(now time.Time) error {
	t := &p.ticks
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
		return p.setTickZero(0)
	}
	t.strayed = wrong
	return nil
}

func (p *Plane) stopTicks() {
	if p.ticks.meter != nil {
		p.ticks.meter.Close()
	}
}
