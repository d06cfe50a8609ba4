package dataplane

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf/ringbuf"
)

// ending is a ring of one record, and then an error.
type ending struct {
	t       *testing.T
	handing *atomic.Bool
	err     error
	read    int
}

func (e *ending) ReadInto(rec *ringbuf.Record) error {
	if !e.handing.Load() {
		e.t.Error("a record leaves the ring and nobody has it")
	}
	e.read++
	if e.read > 1 {
		return e.err
	}
	rec.RawSample = make([]byte, 8)
	return nil
}

// A ring that cannot be read is left with its error, and not asked again; one that
// was closed, without. So is one whose records nobody takes any more.
func TestReaderOfABrokenRingEnds(t *testing.T) {
	broken := errors.New("bad descriptor")
	for _, tt := range []struct{ err, want error }{{broken, broken}, {ringbuf.ErrClosed, nil}, {os.ErrClosed, nil}} {
		for _, waits := range []bool{true, false} {
			var handing atomic.Bool
			r, taken := &ending{t: t, handing: &handing, err: tt.err}, 0
			wait := func() error {
				if handing.Load() {
					t.Error("somebody still has the record that was taken")
				}
				if waits && taken > 0 {
					return tt.err
				}
				return nil
			}
			err := readRing(r, wait, &handing, func([]byte) bool {
				taken++
				if !handing.Load() {
					t.Error("nobody has the record that is being taken")
				}
				return true
			})
			if handing.Load() {
				t.Error("somebody still has the record that was taken")
			}
			reads := 2
			if waits {
				reads = 1
			}
			if !errors.Is(err, tt.want) || r.read != reads || taken != 1 {
				t.Errorf("ring with %v: ended with %v, %d times read, %d records", tt.err, err, r.read, taken)
			}
		}
	}
	var handing atomic.Bool
	r := &ending{t: t, handing: &handing, err: broken}
	err := readRing(r, func() error { return nil }, &handing, func([]byte) bool { return false })
	if err != nil || r.read != 1 {
		t.Errorf("nobody takes the records: %v, %d times read", err, r.read)
	}
}

// TestReaderGoesOnAfterNothing: a wakeup without a record is no error.
func TestReaderGoesOnAfterNothing(t *testing.T) {
	var handing atomic.Bool
	r := &ending{t: t, handing: &handing, err: os.ErrDeadlineExceeded}
	waits := 0
	err := readRing(r, func() error {
		if waits++; waits > 3 {
			return os.ErrClosed
		}
		return nil
	}, &handing, func([]byte) bool { return true })
	if err != nil || waits != 4 {
		t.Errorf("%v after %d wakeups", err, waits)
	}
}
