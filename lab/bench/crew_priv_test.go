package bench

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"roam/lab/topo"
)

// A crew is threads that take turns at the work, each on the core of a comparison and with a
// table of files of its own: so together they have more sockets than one process may open. An
// empty crew is the thread that calls it.
type crew []chan func()

// newCrew starts so many threads. Their tables begin as copies of this process's, so what all
// of them need is opened before.
func newCrew(b *testing.B, threads int) crew {
	b.Helper()
	c := make(crew, threads)
	for i := range c {
		c[i] = make(chan func())
		go work(c[i])
		b.Cleanup(func() { close(c[i]) })
		c.do(b, i, func() error {
			var set unix.CPUSet
			set.Set(sendCore)
			return errors.Join(unix.SchedSetaffinity(0, &set), unix.Unshare(unix.CLONE_FILES))
		})
	}
	return c
}

// work does jobs on a thread of its own, which ends with its files when there are no more. The first
// thread of a process would keep them until the process ends, so it only waits.
func work(jobs chan func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			work(jobs)
		}()
		<-done
		return
	}
	for job := range jobs {
		job()
	}
}

// size is how many threads there are.
func (c crew) size() int { return max(1, len(c)) }

// do has the n-th thread, counted in turns, run f, and waits. f may end the benchmark.
func (c crew) do(b *testing.B, n int, f func() error) {
	b.Helper()
	if len(c) == 0 {
		must(b, f())
		return
	}
	done := make(chan error, 1)
	c[n%len(c)] <- func() {
		err := errors.New("the benchmark has ended on a thread of its crew")
		defer func() { done <- err }()
		err = f()
	}
	must(b, <-done)
}

// inside is do in a host's network namespace.
func (c crew) inside(b *testing.B, n int, h *topo.Host, f func() error) {
	b.Helper()
	c.do(b, n, func() error {
		if err := h.DoHere(f); err != nil {
			return fmt.Errorf("thread %d: %w", n, err)
		}
		return nil
	})
}
