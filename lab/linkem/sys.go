package linkem

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below enter the kernel without informing the Go runtime. A thread that returns
// from a call that the runtime knows of may have to wait for a lock of the scheduler. Its
// holder is an ordinary thread, which a busy machine may preempt for tens of milliseconds,
// whatever the priority of the waiting thread. The price is that the thread occupies a
// processor of the runtime while it is in the kernel; threads.grow compensates for that.

// rawRead is read(2) on a non-blocking descriptor.
func rawRead(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// rawWrite is write(2) on a non-blocking descriptor, of at least one byte.
func rawWrite(fd int, b []byte) error {
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return errno
	}
	return nil
}

// rawPoll is ppoll(2) with a limit. It returns early, with EINTR, whenever the
// runtime wants to interrupt the thread.
func rawPoll(fds []unix.PollFd, limit time.Duration) error {
	ts := unix.NsecToTimespec(int64(max(0, limit)))
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// rawEpoll is epoll_pwait(2) for one descriptor that is ready, or broken. It returns early, without one,
// whenever the runtime wants to interrupt the thread. A descriptor that stays ready is next after
// all others.
func rawEpoll(set int, limit time.Duration) (fd int, broken, ok bool) {
	var e unix.EpollEvent
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(&e)), 1,
		uintptr(limit.Milliseconds()), 0, 0)
	return int(e.Fd), e.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0, errno == 0 && n == 1
}

// alert is how long a thread waits in a raw call before it uses a call that releases its
// processor. The runtime's monitor interrupts a raw wait a hundred times a second; links
// without traffic should cost less.
const alert = 2 * time.Second

// pollUntil waits until one of the descriptors is ready, or until due, which
// may be never. It may return early.
func pollUntil(fds []unix.PollFd, due time.Duration) error {
	begin := clock()
	for now := begin; now < due; now = clock() {
		if now-begin > alert && due-now > alert {
			return pollIdle(fds, due-now-alert/2)
		}
		err := rawPoll(fds, min(due-now, alert))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if err == nil && ready(fds) {
			return nil
		}
	}
	return nil
}

// pollIdle is poll(2) as the runtime knows it.
func pollIdle(fds []unix.PollFd, limit time.Duration) error {
	const most = time.Hour // milliseconds have to fit into an int32
	_, err := unix.Poll(fds, int(min(limit, most)/time.Millisecond))
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// ready reports whether any of the descriptors is ready. A poll that ends by its limit has
// cleared all of them.
func ready(fds []unix.PollFd) bool {
	for _, f := range fds {
		if f.Revents != 0 {
			return true
		}
	}
	return false
}
