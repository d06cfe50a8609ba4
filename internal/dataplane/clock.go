package dataplane

import (
	"time"

	"golang.org/x/sys/unix"
)

// epoch ties the two clocks together once, so that one instant of the data
// plane is the same instant whenever it is read.
var epoch = struct {
	wall time.Time
	mono int64
}{time.Now(), monotonicNow()}

// Monotonic returns t in nanoseconds of CLOCK_MONOTONIC, 0 for the zero time.
func Monotonic(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(epoch.mono+int64(t.Sub(epoch.wall)), 1))
}

// Instant is the reverse of Monotonic.
func Instant(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return epoch.wall.Add(time.Duration(int64(ns) - epoch.mono))
}

func monotonicNow() int64 {
	var ts unix.Timespec
	// Cannot fail with a valid clock and address.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
