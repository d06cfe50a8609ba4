// Package stallmonitor records the stalls of the machine itself during a
// measurement.
//
// It implements one thread per core that wakes every millisecond and records late
// wake-ups, and the CPU time that a hypervisor took away. It omits any judgement of a
// stall's effect on a measurement. It is driven by lab/workload, whose agent command
// runs it in a process of its own, so that the measuring program's garbage collection
// and locks do not count as stalls of the machine.
package stallmonitor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/result"
)

// period is the time between two awakenings.
const period = time.Millisecond

// Main records stalls until standard input ends. It prints a result.Stall as a line of JSON
// for each stall above the limit, when it happens, and finally a result.StallMonitor. The
// single argument is the limit in milliseconds.
func Main(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the limit in milliseconds")
	}
	limit, err := strconv.ParseFloat(args[0], 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("limit %q is not a positive number", args[0])
	}
	debug.SetGCPercent(-1) // it allocates almost nothing
	enc := json.NewEncoder(os.Stdout)
	s := watch(os.Stdin, limit, func(stall result.Stall) { _ = enc.Encode(stall) }) // the last line tells of all
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

// watch runs the threads until in ends, and reports each stall at once.
func watch(in io.Reader, limit float64, tell func(result.Stall)) result.StallMonitor {
	cores := allowedCores()
	runtime.GOMAXPROCS(len(cores) + 2)
	out := result.StallMonitor{Cores: len(cores), LimitMs: limit}
	before := cpuTimes()
	quit := make(chan struct{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, core := range cores {
		wg.Go(func() {
			stand(core, quit, func(at time.Time, ms float64) {
				mu.Lock()
				defer mu.Unlock()
				out.WorstMs = max(out.WorstMs, ms)
				if ms > limit {
					out.Stalls = append(out.Stalls, result.Stall{At: at, Core: core, Ms: ms})
					tell(out.Stalls[len(out.Stalls)-1])
				}
			})
		})
	}
	_, _ = io.Copy(io.Discard, bufio.NewReader(in))
	close(quit)
	wg.Wait()
	out.StealMs, out.BusyPct = cpuTimes().since(before)
	return out
}

// stand is one thread on one core. If it cannot be bound to its core, it records
// nevertheless.
func stand(core int, quit <-chan struct{}, late func(time.Time, float64)) {
	runtime.LockOSThread() // never unlocked: the thread stays bound to its core
	var set unix.CPUSet
	set.Set(core)
	_ = unix.SchedSetaffinity(0, &set)
	pause := unix.NsecToTimespec(period.Nanoseconds())
	worst := 0.0
	for last := time.Now(); ; {
		select {
		case <-quit:
			return
		default:
		}
		_ = unix.Nanosleep(&pause, nil)
		now := time.Now()
		if ms := (now.Sub(last) - period).Seconds() * 1e3; ms > worst || ms > 1 {
			worst = max(worst, ms)
			late(now, ms)
		}
		last = now
	}
}

// allowedCores lists the cores that this process may use.
func allowedCores() (cores []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return []int{0}
	}
	for i := range 1024 {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// times are the machine's CPU times since boot, in clock ticks.
type times struct{ busy, idle, steal float64 }

// tickMs is the length of a clock tick in /proc/stat: USER_HZ is 100 on every
// architecture of Linux that Go knows.
const tickMs = 10

func cpuTimes() times {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return times{}
	}
	return parseStat(string(b))
}

// parseStat reads the first line: user nice system idle iowait irq softirq
// steal.
func parseStat(text string) (t times) {
	line, _, _ := strings.Cut(text, "\n")
	for i, f := range strings.Fields(line) {
		v, _ := strconv.ParseFloat(f, 64)
		switch i {
		case 1, 2, 3, 6, 7:
			t.busy += v
		case 4, 5:
			t.idle += v
		case 8:
			t.steal = v
		}
	}
	return t
}

// since returns the stolen milliseconds and the share of busy time in per cent.
func (t times) since(before times) (stealMs, busyPct float64) {
	busy, idle, steal := t.busy-before.busy, t.idle-before.idle, t.steal-before.steal
	if all := busy + idle + steal; all > 0 {
		busyPct = 100 * busy / all
	}
	return steal * tickMs, busyPct
}
