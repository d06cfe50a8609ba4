// Package stallmonitor records the stalls of the machine itself during a
// measurement.
//
// It implements one thread per core that wakes every millisecond and records late
// wake-ups, and finds whose time each was: the hypervisor's, by the stolen time of that
// core; or, by the times that the scheduler keeps of every thread, that of the daemon under
// test, of the emulator, of a workload, or of a process outside the run. It omits any
// judgement of a stall's effect on a measurement. It is driven by lab/workload, whose agent
// command runs it in a process of its own, so that the measuring program's garbage
// collection and locks do not count as stalls of the machine.
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

// queueEvery is after how many awakenings the queueing time of a thread is read anew: reading
// it costs as much as an awakening, and what the thread waited in a few of them is little
// beside a stall.
const queueEvery = 8

// memoryLimit is from where garbage is collected nevertheless: after some minutes.
const memoryLimit = 128 << 20

// Main records stalls until standard input ends. It prints a result.Stall as a line of JSON
// for each stall above the limit, when it happens, and finally a result.StallMonitor. The
// first argument is the limit in milliseconds. The second, which may be absent, is the
// number of the process that runs the emulator and has started everything else: with it,
// stalls have owners.
func Main(args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return fmt.Errorf("want the limit in milliseconds, and perhaps the number of a process")
	}
	limit, err := strconv.ParseFloat(args[0], 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("limit %q is not a positive number", args[0])
	}
	var run *sampler
	if len(args) == 2 {
		root, err := strconv.Atoi(args[1])
		if err != nil || root <= 0 {
			return fmt.Errorf("%q is not the number of a process", args[1])
		}
		run = newSampler(root)
	}
	debug.SetGCPercent(-1) // a collection would be a stall of our own
	debug.SetMemoryLimit(memoryLimit)
	enc := json.NewEncoder(os.Stdout)
	s := watch(os.Stdin, limit, run, func(stall result.Stall) { _ = enc.Encode(stall) }) // the last line tells of all
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

// watch runs the threads until in ends, and reports each stall at once. Without a sampler,
// stalls have no owners.
func watch(in io.Reader, limit float64, run *sampler, tell func(result.Stall)) result.StallMonitor {
	cores := allowedCores()
	runtime.GOMAXPROCS(len(cores) + 3)
	out := result.StallMonitor{Cores: len(cores), LimitMs: limit}
	before, stolen, began := cpuTimes(), stealByCore(), time.Now()
	quit := make(chan struct{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	note := func(s result.Stall) {
		mu.Lock()
		defer mu.Unlock()
		if s.Excuses() {
			out.WorstMs = max(out.WorstMs, s.Ms)
		} else {
			out.RoamMs = max(out.RoamMs, s.Ms)
		}
		if s.Ms > limit {
			out.Stalls = append(out.Stalls, s)
			tell(s)
		}
	}
	for _, core := range cores {
		wg.Go(func() {
			stand(core, quit, func(at time.Time, ms, queued float64) {
				s := result.Stall{At: at, Core: core, Ms: ms}
				if ms <= limit || run == nil {
					note(s)
					return
				}
				owned := run.blame(s, queued)
				wg.Go(func() { note(owned()) })
			})
		})
	}
	if run != nil {
		wg.Go(func() { run.run(quit) })
	}
	_, _ = io.Copy(io.Discard, bufio.NewReader(in))
	close(quit)
	wg.Wait()
	now := cpuTimes()
	out.StealMs, out.BusyPct = now.since(before)
	out.StealByCoreMs = map[int]float64{}
	for core, ms := range stealByCore() {
		out.StealByCoreMs[core] = ms - stolen[core]
	}
	if run != nil {
		out.Processes = run.report()
		out.OthersPct = othersPct(&out, now.softSince(before), time.Since(began))
	}
	return out
}

// othersPct is what of all cores was neither idle nor in soft interrupts, which may handle the packets of
// the run, nor had by its threads. 0: their times are not known.
func othersPct(s *result.StallMonitor, softPct float64, watched time.Duration) float64 {
	own := 0.0
	if len(s.Processes) == 0 {
		return 0
	}
	for _, p := range s.Processes {
		own += p.RunMs
	}
	return max(0, s.BusyPct-softPct-100*own/(float64(s.Cores)*watched.Seconds()*1e3))
}

// stand is one thread on one core. If it cannot be bound to its core, it records
// nevertheless. late learns the end of a sleep, by how much it was too long, and how much of
// that the thread waited for its core.
func stand(core int, quit <-chan struct{}, late func(at time.Time, ms, queuedMs float64)) {
	runtime.LockOSThread() // never unlocked: the thread stays bound to its core
	var set unix.CPUSet
	set.Set(core)
	_ = unix.SchedSetaffinity(0, &set)
	queue, _ := os.Open("/proc/thread-self/schedstat") // without it the queueing time is unknown
	if queue != nil {
		defer queue.Close()
	}
	buf := make([]byte, 128)
	pause := unix.NsecToTimespec(period.Nanoseconds())
	worst := 0.0
	last, before := time.Now(), waited(queue, buf)
	for n := 1; ; n++ {
		select {
		case <-quit:
			return
		default:
		}
		_ = unix.Nanosleep(&pause, nil)
		now := time.Now()
		if ms := (now.Sub(last) - period).Seconds() * 1e3; ms > worst || ms > 1 {
			worst = max(worst, ms)
			queued := unknownQueue
			if queue != nil {
				queued = (waited(queue, buf) - before).Seconds() * 1e3
			}
			late(now, ms, queued)
			now = time.Now() // what was until now was the monitor's own time
			n = 0
		}
		if n%queueEvery == 0 {
			before = waited(queue, buf)
		}
		last = now
	}
}

// waited reads how long a thread has waited in run queues.
func waited(queue *os.File, buf []byte) time.Duration {
	if queue == nil {
		return 0
	}
	n, _ := queue.ReadAt(buf, 0)
	_, wait, _ := parseSchedstat(string(buf[:n]))
	return wait
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

// times are the machine's CPU times since boot, in clock ticks; soft is part of busy, in interrupts.
type times struct{ busy, soft, idle, steal float64 }

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

// stealByCore returns the stolen milliseconds of each core since boot.
func stealByCore() map[int]float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	return parseSteal(string(b))
}

// parseStat reads the first line: user nice system idle iowait irq softirq
// steal.
func parseStat(text string) (t times) {
	line, _, _ := strings.Cut(text, "\n")
	for i, f := range strings.Fields(line) {
		v, _ := strconv.ParseFloat(f, 64)
		switch i {
		case 1, 2, 3:
			t.busy += v
		case 6, 7:
			t.busy += v
			t.soft += v
		case 4, 5:
			t.idle += v
		case 8:
			t.steal = v
		}
	}
	return t
}

// softSince returns the share of time in interrupts in per cent.
func (t times) softSince(before times) float64 {
	soft, all := t.soft-before.soft, t.busy-before.busy+t.idle-before.idle+t.steal-before.steal
	return 100 * soft / max(all, 1)
}

// since returns the stolen milliseconds and the share of busy time in per cent.
func (t times) since(before times) (stealMs, busyPct float64) {
	busy, idle, steal := t.busy-before.busy, t.idle-before.idle, t.steal-before.steal
	if all := busy + idle + steal; all > 0 {
		busyPct = 100 * busy / all
	}
	return steal * tickMs, busyPct
}
