package linkem

import (
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// schedule makes the calling thread a real-time one with exact timers, or an
// ordinary one again. Who stamps or releases frames by the clock has to run
// when it is time, not when it is its turn. A reader that merely passes frames
// on is an ordinary thread: at full speed it never rests, and the kernel stops
// a real-time thread that does not for 50 ms in each second.
//
// Where this is refused the emulator works all the same, only less
// punctually; Accuracy tells by how much.
func schedule(urgent bool) {
	a := unix.SchedAttr{
		Size:   unix.SizeofSchedAttr,
		Policy: unix.SCHED_NORMAL,
		Flags:  unix.SCHED_FLAG_RESET_ON_FORK,
	}
	if urgent {
		a.Policy, a.Priority = unix.SCHED_RR, 1
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	}
	_ = unix.SchedSetAttr(0, &a, 0)
}

// favour puts all threads of the process ahead of the applications that load
// the machine, once. The runtime's monitor takes each thread that stays away
// in the kernel off its processor a hundred times a second, and it needs the
// scheduler's other threads to come back: those must not be put aside either.
// Threads to come inherit this, as do processes: lab/topo starts its own
// with the ordinary value.
var favour = sync.OnceFunc(func() {
	const best = -20
	tasks, _ := os.ReadDir("/proc/self/task") // without it, less punctual
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, best)
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

// grow accounts for n more threads, each of which keeps a processor of the
// runtime even while it waits in the kernel (see rawRead).
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
