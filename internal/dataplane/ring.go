package dataplane

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Ring reads a ring buffer in a goroutine of its own.
type Ring struct {
	reader  *ringbuf.Reader
	wakeup  *wakeup
	reading sync.WaitGroup
	handing atomic.Bool // take has a record, or is about to
	broken  error       // why the reading ended, once it has
}

// recordReader is a ring: a ringbuf.Reader, but for tests.
type recordReader interface {
	ReadInto(*ringbuf.Record) error
}

// ReadRing hands each record of a ring to take until take returns false, the ring is
// closed or cannot be read. Then it calls end. A record is valid until take returns.
func ReadRing(m *ebpf.Map, take func(raw []byte) bool, end func()) (*Ring, error) {
	reader, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, fmt.Errorf("open ring buffer: %w", err)
	}
	reader.SetDeadline(time.Unix(1, 0)) // it never waits: see wakeup
	w, err := newWakeup(m.FD())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for ring buffer: %w", err), reader.Close())
	}
	r := &Ring{reader: reader, wakeup: w}
	r.reading.Add(1)
	go func() {
		defer r.reading.Done()
		defer end()
		r.broken = readRing(reader, w.wait, &r.handing, take)
	}()
	return r, nil
}

// readRing hands on what comes in a ring. Any error but that it was closed ends it: a
// ring that cannot be read does not recover, and to ask it again at once would take a
// whole processor. handing is set before a record leaves the ring, so that no record is
// in neither.
func readRing(r recordReader, wait func() error, handing *atomic.Bool, take func(raw []byte) bool) error {
	var rec ringbuf.Record
	for {
		if err := wait(); err != nil {
			return unlessClosed(err)
		}
		handing.Store(true)
		more, err := takeAll(r, &rec, take)
		handing.Store(false)
		if err != nil || !more {
			return unlessClosed(err)
		}
		// Whoever waits for the last record goes on in this thread: to wake another one
		// takes longer than what a first packet asks for.
		runtime.Gosched()
	}
}

// takeAll hands on the records that are in a ring, until take returns false.
func takeAll(r recordReader, rec *ringbuf.Record, take func(raw []byte) bool) (more bool, err error) {
	for {
		switch err := r.ReadInto(rec); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true, nil
		case err != nil:
			return false, err
		case !take(rec.RawSample):
			return false, nil
		case rec.Remaining == 0:
			return true, nil
		}
	}
}

func unlessClosed(err error) error {
	if err == nil || errors.Is(err, os.ErrClosed) || errors.Is(err, ringbuf.ErrClosed) {
		return nil
	}
	return fmt.Errorf("read ring buffer: %w", err)
}

// Empty reports whether no record is in the ring, and take has none.
func (r *Ring) Empty() bool { return r.reader.AvailableBytes() == 0 && !r.handing.Load() }

// Close ends the reading and waits until take and end have returned. The error tells
// also why the ring could not be read. It is called once.
func (r *Ring) Close() error {
	err := r.wakeup.end()
	r.reading.Wait()
	return errors.Join(err, r.reader.Close(), r.wakeup.close(), r.broken)
}

// wakeup waits for records of a ring and leaves them there.
type wakeup struct{ epoll, ended int }

func newWakeup(ring int) (*wakeup, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	ended, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(err, unix.Close(epoll))
	}
	w := &wakeup{epoll, ended}
	for _, fd := range []int{ring, ended} {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

// wait returns when there is a record, or os.ErrClosed after end.
func (w *wakeup) wait() error {
	for {
		var events [2]unix.EpollEvent
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, ev := range events[:max(n, 0)] {
			if int(ev.Fd) == w.ended {
				return os.ErrClosed
			}
		}
		if n > 0 {
			return nil
		}
	}
}

// end has wait return, now and always.
func (w *wakeup) end() error {
	_, err := unix.Write(w.ended, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

func (w *wakeup) close() error { return errors.Join(unix.Close(w.epoll), unix.Close(w.ended)) }
