package dataplane

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// TickLength returns the length of a tick of the kernel; 0: it is not known.
func TickLength() time.Duration {
	var ts unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Ticks measures how the kernel's counter of ticks relates to CLOCK_MONOTONIC. Their
// difference grows by a tick until the next one begins, and is the least then.
type Ticks struct {
	length time.Duration
	least  *ebpf.Map // the least difference that a run has seen
	prog   *ebpf.Program
}

// OpenTicks loads the program that measures.
func OpenTicks() (*Ticks, error) {
	t := &Ticks{length: TickLength()}
	if t.length <= 0 || t.length > time.Second {
		return nil, fmt.Errorf("length of a tick: %w", ErrNoHelper)
	}
	var err error
	if t.least, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
		return nil, fmt.Errorf("make map for ticks: %w", err)
	}
	t.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: t.instructions()})
	if err != nil {
		t.least.Close()
		return nil, fmt.Errorf("load program for ticks: %w", err)
	}
	return t, nil
}

// instructions keep the least difference of clock and counter.
func (t *Ticks) instructions() asm.Instructions {
	return asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.FnJiffies64.Call(),
		asm.Mul.Imm(asm.R0, int32(t.length)),
		asm.Sub.Reg(asm.R6, asm.R0),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, t.least.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JSGE.Reg(asm.R6, asm.R1, "out"),
		asm.StoreMem(asm.R0, 0, asm.R6, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}
}

// Length is that of a tick.
func (t *Ticks) Length() time.Duration { return t.length }

// looks is how often Zero looks, each time at another part of a tick.
const looks = 16

// Zero returns CLOCK_MONOTONIC at tick 0, in ns modulo 2^64, or later by a fraction of a
// tick. It takes as many ticks as it looks.
func (t *Ticks) Zero() (uint64, error) {
	least, err := t.Look()
	for range looks - 1 {
		time.Sleep(t.length + t.length/looks)
		zero, failed := t.Look()
		least, err = min(least, zero), errors.Join(err, failed)
	}
	return uint64(least), err
}

// Look returns what Zero does, in its sign, or later by less than a tick.
func (t *Ticks) Look() (int64, error) {
	zero := int64(math.MaxInt64)
	if err := t.least.Put(uint32(0), &zero); err != nil {
		return 0, fmt.Errorf("prepare measurement of ticks: %w", err)
	}
	if _, err := t.prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 20}); err != nil {
		return 0, fmt.Errorf("measure ticks: %w", err)
	}
	if err := t.least.Lookup(uint32(0), &zero); err != nil {
		return 0, fmt.Errorf("read measurement of ticks: %w", err)
	}
	return zero, nil
}

// TickZero is what Zero of a new meter returns; it is measured once.
var TickZero = sync.OnceValues(func() (uint64, error) {
	t, err := OpenTicks()
	if err != nil {
		return 0, err
	}
	defer t.Close()
	return t.Zero()
})

// Close unloads the program.
func (t *Ticks) Close() {
	t.prog.Close()
	t.least.Close()
}
