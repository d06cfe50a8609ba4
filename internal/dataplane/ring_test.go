package dataplane

import (
	"errors"
	"os"
	"testing"
	"unsafe"

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
	rec.RawSample = make([]byte, unsafe.Sizeof(bpfEvent{}))
	return nil
}

// A ring that cannot be read is left with its error, and not asked again; one that
// was closed, without.
func TestReaderOfABrokenRingEnds(t *testing.T) {
	broken := errors.New("bad descriptor")
	for _, tt := range []struct{ err, want error }{{broken, broken}, {ringbuf.ErrClosed, nil}, {os.ErrClosed, nil}} {
		p, r := newPlane(Options{}), &ending{err: tt.err}
		if err := p.readRing(r, p.urgent); !errors.Is(err, tt.want) || r.read != 2 || len(p.urgent) != 1 {
			t.Errorf("ring with %v: ended with %v, %d times read, %d events", tt.err, err, r.read, len(p.urgent))
		}
	}
}
