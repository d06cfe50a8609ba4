package linkem

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// releaser is the thread that delivers the frames of all links when they are due. One
// thread for all keeps frames of different links in order, and only one must be punctual.
type releaser struct {
	mu   sync.Mutex // guards starting and stopping
	wake int        // eventfd that wakes the thread
	gone chan struct{}

	dirs  atomic.Pointer[[]*direction] // replaced, never changed
	until atomic.Int64                 // when the present sleep ends
	quit  atomic.Bool

	intake intake // runs as long
}

// clockwork is the releaser of the process.
var clockwork releaser

// awake is the value of releaser.until while it does not sleep.
const awake = -1

// add puts directions under the care of the releaser, and starts it with the
// first.
func (r *releaser) add(ds []*direction) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*direction
	if old := r.dirs.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if len(list) == 0 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return fmt.Errorf("make eventfd: %w", err)
		}
		if err := r.intake.start(); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		r.wake, r.gone = fd, make(chan struct{})
		r.quit.Store(false)
		threads.grow(1)
		defer func() { go r.run() }()
	}
	list = append(list, ds...)
	r.dirs.Store(&list)
	return nil
}

// remove removes directions; after it returns the releaser writes to none of them. The
// releaser ends with the last.
func (r *releaser) remove(ds []*direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(*r.dirs.Load()), func(d *direction) bool {
		return slices.Contains(ds, d)
	})
	r.dirs.Store(&list)
	for _, d := range ds {
		// A releaser with the old list finds nothing due; a write in progress must finish
		// first.
		d.mu.Lock()
		d.pipe.flush()
		d.due.Store(int64(never))
		d.out.Lock()
		d.mu.Unlock()
		d.out.Unlock()
	}
	if len(list) > 0 {
		return
	}
	r.quit.Store(true)
	_ = signalFD(r.wake) // this eventfd can only fail by being full
	<-r.gone
	_ = unix.Close(r.wake)
	threads.grow(-1)
	r.intake.stop()
}

// run delivers and sleeps in turn.
func (r *releaser) run() {
	runtime.LockOSThread()
	defer close(r.gone)
	urgent()
	poll := []unix.PollFd{{Fd: int32(r.wake), Events: unix.POLLIN}}
	for !r.quit.Load() {
		d, due := r.earliest()
		if now := clock(); due <= now {
			d.release(now)
			continue
		}
		r.until.Store(int64(due))
		// A frame that arrived between the two looks is in the second one, or its reader
		// saw until and wakes the releaser.
		if _, again := r.earliest(); again >= due {
			r.sleep(poll, due)
		}
		r.until.Store(awake)
	}
}

// earliest finds the direction with the least due time. There are a few dozen at most, and
// their times change constantly: a scan is cheaper than keeping them sorted.
func (r *releaser) earliest() (first *direction, due time.Duration) {
	due = never
	for _, d := range *r.dirs.Load() {
		if t := time.Duration(d.due.Load()); t < due {
			first, due = d, t
		}
	}
	return first, due
}

// sleep blocks until due or until a signal on wake.
func (r *releaser) sleep(poll []unix.PollFd, due time.Duration) {
	poll[0].Revents = 0
	// The descriptor is good for as long as the thread runs, so a failure
	// could only be a bad argument; the loop would then go on unslept.
	if pollUntil(poll, due) == nil && poll[0].Revents != 0 {
		var b [8]byte
		_, _ = rawRead(r.wake, b[:]) // the due times show which direction signalled
	}
}

// wakeBy rings if the releaser sleeps beyond t.
func (r *releaser) wakeBy(t time.Duration) {
	if int64(t) < r.until.Load() {
		_ = signalFD(r.wake) // as in remove
	}
}
