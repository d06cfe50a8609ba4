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
	err  error
	read int
}

func (e *ending) ReadInto(rec *ringbuf.Record) error {
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
		r, taken := &ending{err: tt.err}, 0
		var handing atomic.Bool
		err := readRing(r, &handing, func([]byte) bool {
			taken++
			if !handing.Load() {
				t.Error("nobody has the record that is being taken")
			}
			return true
		})
		if handing.Load() {
			t.Error("somebody still has the record that was taken")
		}
		if !errors.Is(err, tt.want) || r.read != 2 || taken != 1 {
			t.Errorf("ring with %v: ended with %v, %d times read, %d records", tt.err, err, r.read, taken)
		}
	}
	r := &ending{err: broken}
	if err := readRing(r, new(atomic.Bool), func([]byte) bool { return false }); err != nil || r.read != 1 {
		t.Errorf("nobody takes the records: %v, %d times read", err, r.read)
	}
}
