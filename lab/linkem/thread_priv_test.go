package linkem

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// No thread of a process with links goes before another one. The runtime has threads wait for each
// other without sleeping: one that goes before those that it waits for has them wait for good if the other
// processor is busy as well, and nothing else on the machine runs.
func TestThreadsAreEqual(t *testing.T) {
	needLink(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the namespace ends with the thread
		done <- comparePriorities()
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// comparePriorities makes a link in a new namespace of the calling thread, and returns what threads have another
// priority than the others.
func comparePriorities() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	var taps [2]*Tap
	for i, name := range [2]string{"em0", "em1"} {
		if taps[i], err = OpenTap(name); err != nil {
			return err
		}
		defer taps[i].Close()
	}
	p := Params{Delay: 5 * time.Millisecond}
	link, err := New(taps[0], taps[1], p, p)
	if err != nil {
		return err
	}
	defer link.Close()
	if err := pass(taps); err != nil {
		return err
	}
	tasks, err := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		a, gone := unix.SchedGetAttr(tid, 0)
		if gone == nil && (a.Policy != unix.SCHED_RR || a.Priority != priority) {
			err = errors.Join(err, fmt.Errorf("thread %d has policy %d and priority %d", tid, a.Policy, a.Priority))
		}
	}
	return err
}

// pass has a frame pass a link, by which its threads are known to run.
func pass(taps [2]*Tap) error {
	out, err := taps[0].listen()
	if err != nil {
		return err
	}
	defer unix.Close(out)
	in, err := taps[1].listen()
	if err != nil {
		return err
	}
	defer unix.Close(in)
	frame := make([]byte, 60)
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, probeType >> 8, probeType & 0xff})
	if _, err := unix.Write(out, frame); err != nil {
		return err
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}}, 10_000); n != 1 {
		return fmt.Errorf("no frame has passed: %w", err)
	}
	return nil
}
