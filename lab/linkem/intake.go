package linkem

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// intake is the thread that reads and stamps the frames of all links that delay them. With
// a thread for each device, the one that runs first would stamp first: of two frames that
// a host sends 5 µs apart on two links of one delay, the later one often overtook the
// other. epoll(7) lists devices in the order in which they got a frame.
//
// A direction that passes frames straight on has a thread of its own, since order there is
// that of the devices, and speed matters.
type intake struct {
	set  int // of epoll: devices and eventfds of the directions, and quit
	quit int // eventfd that ends the thread
	gone chan struct{}
	mu   sync.Mutex // held while a direction comes, and while one goes
}

// start makes the thread.
func (in *intake) start() (err error) {
	if in.set, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("make epoll: %w", err)
	}
	if in.quit, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return errors.Join(fmt.Errorf("make eventfd: %w", err), unix.Close(in.set))
	}
	if err := in.watch(in.quit); err != nil {
		return errors.Join(err, unix.Close(in.quit), unix.Close(in.set))
	}
	in.gone = make(chan struct{})
	threads.grow(1)
	go in.run()
	return nil
}

// stop ends the thread. All directions must have left.
func (in *intake) stop() {
	_ = signalFD(in.quit) // it can only fail by being full
	<-in.gone
	_, _ = unix.Close(in.quit), unix.Close(in.set)
	threads.grow(-1)
}

func (in *intake) watch(fd int) error {
	err := unix.EpollCtl(in.set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("watch descriptor: %w", err)
	}
	return nil
}

// admit has the thread read a direction, which the releaser knows already.
func (in *intake) admit(d *direction) error {
	in.mu.Lock() // the thread may see quit before the device is there
	defer in.mu.Unlock()
	if err := in.watch(d.quit); err != nil {
		return err
	}
	if err := in.watch(d.from.fd); err != nil {
		_ = unix.EpollCtl(in.set, unix.EPOLL_CTL_DEL, d.quit, nil) // it is there
		return err
	}
	return nil
}

// dismiss undoes admit. Only the thread calls it.
func (in *intake) dismiss(d *direction) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, fd := range []int{d.from.fd, d.quit} {
		_ = unix.EpollCtl(in.set, unix.EPOLL_CTL_DEL, fd, nil) // they are there
	}
}

// run reads one frame at a time, from the device that has waited longest.
func (in *intake) run() {
	runtime.LockOSThread()
	defer close(in.gone)
	urgent()
	buf := make([]byte, maxFrame)
	poll := []unix.PollFd{{Fd: int32(in.set), Events: unix.POLLIN}}
	for last := clock(); ; {
		fd, broken, ok := rawEpoll(in.set, alert)
		switch {
		case ok && fd == in.quit:
			return
		case ok:
			last = clock()
			in.serve(fd, broken, last, buf)
		case clock()-last > alert:
			_ = pollIdle(poll, never) // the descriptor is good, so this can only end early
			last = clock()
		}
	}
}

// serve handles a descriptor of a direction that is ready, or of no more use, now.
func (in *intake) serve(fd int, broken bool, now time.Duration, buf []byte) {
	for _, d := range *clockwork.dirs.Load() {
		switch fd {
		case d.quit:
			in.dismiss(d)
			close(d.gone)
			return
		case d.from.fd:
			n, err := rawRead(fd, buf)
			switch {
			case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN) && !broken:
			case err != nil: // the device ended with its namespace
				in.dismiss(d)
				close(d.gone)
			case n < vnetLen+ethLen:
			case !d.take(now, buf[:n]):
				in.dismiss(d)
				go d.read()
			}
			return
		}
	}
}
