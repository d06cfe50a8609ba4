package dataplane

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Ring reads a ring buffer in a goroutine of its own.
type Ring struct {
	reader  *ringbuf.Reader
	reading sync.WaitGroup
	handing atomic.Bool // take has a record
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
	r := &Ring{reader: reader}
	r.reading.Add(1)
	go func() {
		defer r.reading.Done()
		defer end()
		r.broken = readRing(reader, &r.handing, take)
	}()
	return r, nil
}

// readRing hands on what comes in a ring. Any error but that it was closed ends it: a
// ring that cannot be read does not recover, and to ask it again at once would take a
// whole processor.
func readRing(r recordReader, handing *atomic.Bool, take func(raw []byte) bool) error {
	var rec ringbuf.Record
	for {
		err := r.ReadInto(&rec)
		handing.Store(err == nil)
		if err != nil {
			if errors.Is(err, os.ErrClosed) || errors.Is(err, ringbuf.ErrClosed) {
				return nil
			}
			return fmt.Errorf("read ring buffer: %w", err)
		}
		more := take(rec.RawSample)
		handing.Store(false)
		if !more {
			return nil
		}
		if rec.Remaining == 0 {
			// Whoever waits for the record goes on in this thread: to wake another one
			// takes longer than what a first packet asks for.
			runtime.Gosched()
		}
	}
}

// Empty reports whether no record is in the ring, and take has none.
func (r *Ring) Empty() bool { return r.reader.AvailableBytes() == 0 && !r.handing.Load() }

// Close ends the reading and waits until take and end have returned. The error tells
// also why the ring could not be read. It is called once.
func (r *Ring) Close() error {
	err := r.reader.Close()
	r.reading.Wait()
	return errors.Join(err, r.broken)
}
