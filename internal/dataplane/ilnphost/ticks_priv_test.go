package ilnphost

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	"roam/internal/testutil"
	"roam/wire/ip6"
)

// noted runs a packet to a locator that is not validated through the programs and returns
// the time at which they begin to count what goes there.
func (r *rig) noted() uint64 {
	r.t.Helper()
	row := r.known[entryFor().Key]
	key := bpfAllowanceKey{L64: row.Remote[0], Slot: row.Slot, Birth: row.Birth}
	_ = r.objs.Allowances.Delete(&key) // unless this is the first one
	r.egress(toPeer(ip6.UDP, udp(9)))
	var a bpfAllowance
	r.must(r.objs.Allowances.Lookup(&key, &a))
	return a.Since
}

// followsClock fails the test unless the programs' clock is within a tick of
// CLOCK_MONOTONIC, but for how late the kernel began it, for some ticks.
func (r *rig) followsClock(when string) {
	r.t.Helper()
	tick := uint64(dataplane.TickLength())
	seen := map[uint64]bool{}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		before := clock(unix.CLOCK_MONOTONIC_COARSE)
		noted := r.noted()
		after := clock(unix.CLOCK_MONOTONIC)
		if noted+tick < before || noted > after+tick {
			r.t.Fatalf("%s: the programs note %d, between %d and %d", when, noted, before, after)
		}
		if seen[noted] = true; len(seen) > 5 {
			return
		}
	}
	r.t.Errorf("%s: the programs' clock stands still", when)
}

// The programs' clock is CLOCK_MONOTONIC, within a tick. A successor keeps it.
// Where ticks turn out not to follow that clock, the programs use the kernel's.
func TestProgramsClock(t *testing.T) {
	r := newRig(t)
	testutil.NeedKernel(t, "a length of ticks", r.ticks.meter != nil)
	r.uplink(here)
	p := entryFor(there)
	p.Unvalidated = []roam.L64{there}
	r.upsert(p)
	tick := dataplane.TickLength()
	var h bpfHost
	r.must(r.objs.Hosts.Lookup(uint32(0), &h))
	zero := h.TickZero
	if zero == 0 {
		t.Error("the programs do not count ticks")
	}
	r.followsClock("measured")
	r.close()
	r.open()
	if r.ticks.zero != zero {
		t.Errorf("a successor has measured again")
	}
	r.followsClock("of a successor")

	r.must(r.ticks.setZero(zero + uint64(1000*tick)))
	if noted := r.noted(); noted < clock(unix.CLOCK_MONOTONIC) {
		t.Errorf("the programs do not use ticks: they note %d", noted)
	}
	now := r.ticks.checked
	for range 2 {
		now = now.Add(checkTicksEach)
		r.must(r.ticks.check(now))
	}
	if r.ticks.zero != 0 {
		t.Error("a clock that is a thousand ticks ahead stands")
	}
	r.followsClock("of the kernel")
	r.must(r.ticks.setZero(zero)) // another test may get these programs
}

// One reading that is off does not end the programs' clock.
func TestProgramsClockStands(t *testing.T) {
	r := newRig(t)
	testutil.NeedKernel(t, "a length of ticks", r.ticks.meter != nil)
	zero, now := r.ticks.zero, r.ticks.checked
	for _, off := range []time.Duration{10, 0, -10, 0} {
		r.must(r.ticks.setZero(zero + uint64(off*dataplane.TickLength())))
		now = now.Add(checkTicksEach)
		r.must(r.ticks.check(now))
	}
	if r.ticks.zero != zero {
		t.Error("the programs' clock has changed")
	}
}
