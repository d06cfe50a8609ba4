package linkem

import (
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// priority is that of all threads of the process in the real-time class. The releaser is late when it
// waits; the frames of a reader wait in the device's queue and are stamped late; the other threads
// are needed to bring these two back when the runtime has interrupted them. None goes before another
// one: the runtime has threads wait for each other without sleeping, as for the collector that
// scans their stack, and one that yields to its equals alone would wait for good for one below it.
const priority = 1

// urgent makes the calling thread a real-time thread with exact timers, since it stamps or
// releases frames at exact times. Without the privilege the emulator still works, but less
// punctually; Accuracy measures by how much.
func urgent() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size:     unix.SizeofSchedAttr,
		Policy:   unix.SCHED_RR,
		Flags:    unix.SCHED_FLAG_RESET_ON_FORK,
		Priority: priority,
	}, 0)
}

// patient makes the calling thread an ordinary one, if a preferred one. A
// reader that passes frames straight on is: at full speed it never rests, and
// the kernel stops a real-time thread that does not for 50 ms in each second.
func patient() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size:   unix.SizeofSchedAttr,
		Policy: unix.SCHED_NORMAL,
		Flags:  unix.SCHED_FLAG_RESET_ON_FORK,
		Nice:   -10,
	}, 0)
}

// favour makes all threads of the process real-time threads, once. The runtime's monitor
// interrupts a thread that stays in the kernel a hundred times a second, and needs the
// scheduler's other threads, whichever is idle, to resume it: applications that load the
// machine must preempt none of them. So a process with links should do little else than
// measure. Later threads and processes inherit the policy; lab/topo starts its own as
// ordinary ones.
var favour = sync.OnceFunc(func() {
	tasks, _ := os.ReadDir("/proc/self/task") // without it, less punctual
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetAttr(tid, &unix.SchedAttr{
				Size:     unix.SizeofSchedAttr,
				Policy:   unix.SCHED_RR,
				Priority: priority,
			}, 0)
		}
	}
})

// spare raises GOMAXPROCS by the number of this package's threads.
type spare struct {
	mu    sync.Mutex
	base  int
	extra int
}

var threads spare

// grow accounts for n more threads, each of which occupies a processor of the runtime even
// while it waits in the kernel (see rawRead).
func (s *spare) grow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	favour()
	if s.extra == 0 {
		s.base = runtime.GOMAXPROCS(0)
	}
	s.extra += n
	runtime.GOMAXPROCS(s.base + s.extra)
}
