package linkem

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// epoch is the zero of all times in this package.
var epoch = time.Now()

// clock returns the monotonic time since the epoch.
func clock() time.Duration { return time.Since(epoch) }

// direction carries frames from one device to another: a pipe that the intake, or a thread
// of its own, fills. The releaser empties it.
type direction struct {
	from, to *Tap
	quit     int           // eventfd that ends reading
	gone     chan struct{} // closed when none reads any more
	watch    atomic.Pointer[func(frame []byte)]
	overflow atomic.Pointer[func(frame []byte)]
	arrival  atomic.Pointer[func(frame []byte)]

	mu   sync.Mutex // guards pipe and pool
	pipe *pipe
	pool pool
	due  atomic.Int64 // pipe.next, for the releaser

	// out guards writes to the device and the fields below. A thread takes it while it
	// holds mu, which it then releases, so that frames are written in the order in which
	// they left the pipe.
	out       sync.Mutex
	delivered uint64
	nbytes    uint64
	refused   uint64
	down      uint64 // the receiving device was down
}

func newDirection(from, to *Tap, p Params) (*direction, error) {
	quit, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make eventfd: %w", err)
	}
	d := &direction{from: from, to: to, quit: quit, gone: make(chan struct{})}
	d.pipe = newPipe(p, d.pool.put)
	d.pipe.lost, d.pipe.spilled = d.lost, d.spilled
	d.pipe.clone = func(b []byte) []byte {
		c := d.pool.get(len(b))
		copy(c, b)
		return c
	}
	d.due.Store(int64(never))
	return d, nil
}

// free closes what a direction has that nothing reads, and nobody knows any more.
func (d *direction) free() { _ = unix.Close(d.quit) }

// read passes frames straight on, until stop, or until the link delays them: then the intake
// reads them.
func (d *direction) read() {
	runtime.LockOSThread() // never unlocked, so that the thread ends with its policy
	patient()
	buf := make([]byte, maxFrame)
	poll := []unix.PollFd{
		{Fd: int32(d.from.fd), Events: unix.POLLIN},
		{Fd: int32(d.quit), Events: unix.POLLIN},
	}
	for {
		n, err := rawRead(d.from.fd, buf)
		switch {
		case err == nil:
			if n < vnetLen+ethLen {
				continue
			}
			if d.take(clock(), buf[:n]) && clockwork.intake.admit(d) == nil {
				return
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if !await(poll) {
				close(d.gone)
				return
			}
		default:
			close(d.gone)
			return // the device ended with its namespace
		}
	}
}

// await blocks until the first of two descriptors is readable; false means
// that the second is, or that the first is of no more use.
func await(poll []unix.PollFd) bool {
	for {
		poll[0].Revents, poll[1].Revents = 0, 0
		if err := pollIdle(poll, never); err != nil {
			return false
		}
		const broken = unix.POLLERR | unix.POLLHUP | unix.POLLNVAL
		if poll[1].Revents != 0 || poll[0].Revents&broken != 0 {
			return false
		}
		if poll[0].Revents != 0 {
			return true
		}
	}
}

// take moves one frame, which it does not keep, into the pipe; or straight on
// where the pipe would not hold it. It reports whether the time mattered.
func (d *direction) take(now time.Duration, b []byte) (timed bool) {
	size := len(b) - vnetLen
	d.mu.Lock()
	if d.pipe.idle() {
		d.pipe.count(size)
		if d.pipe.lose(b) {
			d.mu.Unlock()
			return false
		}
		d.out.Lock()
		d.mu.Unlock()
		d.write(b)
		d.out.Unlock()
		return false
	}
	kept := d.pool.get(len(b))
	copy(kept, b)
	d.pipe.push(now, kept, size, isControl(b[vnetLen:]))
	d.publish()
	d.mu.Unlock()
	return true
}

// publish stores the time of the next release. d.mu is held.
func (d *direction) publish() {
	next := d.pipe.next()
	d.due.Store(int64(next))
	clockwork.wakeBy(next)
}

// release delivers at most one frame that is due.
func (d *direction) release(now time.Duration) {
	d.mu.Lock()
	f, ok := d.pipe.pop(now)
	// Without publish: the releaser itself is the caller.
	d.due.Store(int64(d.pipe.next()))
	if !ok {
		d.mu.Unlock()
		return
	}
	d.out.Lock()
	d.mu.Unlock()
	d.write(f.buf)
	d.out.Unlock()
	d.mu.Lock()
	d.pool.put(f.buf)
	d.mu.Unlock()
}

// write gives a frame to the receiving device. d.out is held.
func (d *direction) write(b []byte) {
	for {
		err := rawWrite(d.to.fd, b)
		switch {
		case err == nil:
			d.delivered++
			d.nbytes += uint64(len(b) - vnetLen)
			if f := d.arrival.Load(); f != nil {
				(*f)(b[vnetLen:])
			}
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EIO): // interface not up
			d.down++
			d.lost(b)
		default:
			d.refused++
			d.spilled(b)
		}
		return
	}
}

// lost passes a lost frame to the watching function.
func (d *direction) lost(b []byte) {
	if f := d.watch.Load(); f != nil {
		(*f)(b[vnetLen:])
	}
}

// spilled passes a frame that was dropped for want of room to its watching function.
func (d *direction) spilled(b []byte) {
	if f := d.overflow.Load(); f != nil {
		(*f)(b[vnetLen:])
	}
}

func (d *direction) set(p Params) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pipe.set(clock(), p)
	d.publish()
}

func (d *direction) counters() Counters {
	d.mu.Lock()
	c := d.pipe.c
	c.QueueNow, c.FlightNow = d.pipe.waiting(), d.pipe.wire.len()
	d.mu.Unlock()
	d.out.Lock()
	defer d.out.Unlock()
	c.Delivered, c.DeliveredBytes = d.delivered, d.nbytes
	c.DropDown += d.down
	c.DropError = d.refused
	return c
}

// stop ends the reading thread and waits for it.
func (d *direction) stop() error {
	if err := signalFD(d.quit); err != nil {
		return fmt.Errorf("stop reading %s: %w", d.from.name, err)
	}
	<-d.gone
	return nil
}

// signalFD makes an eventfd readable.
func signalFD(fd int) error {
	_, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if errors.Is(err, unix.EAGAIN) {
		return nil // the counter is at its limit, so the descriptor is readable
	}
	return err
}

// pool keeps buffers of two sizes for reuse, so that a steady stream allocates nothing. The
// direction's mutex guards it.
type pool struct {
	small, large [][]byte
}

// smallFrame fits an Ethernet frame with headroom for the usual MTUs.
const smallFrame = 2048

// poolMax bounds the free buffers of each size.
const poolMax = 8192

func (p *pool) get(n int) []byte {
	list, size := &p.small, smallFrame
	if n > smallFrame {
		list, size = &p.large, maxFrame
	}
	if k := len(*list); k > 0 {
		b := (*list)[k-1]
		*list = (*list)[:k-1]
		return b[:n]
	}
	return make([]byte, n, size)
}

func (p *pool) put(b []byte) {
	list := &p.small
	if cap(b) > smallFrame {
		list = &p.large
	}
	if len(*list) < poolMax {
		*list = append(*list, b)
	}
}
