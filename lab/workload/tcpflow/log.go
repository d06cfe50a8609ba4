package tcpflow

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// readSize is the size of a record: time and bytes, both big-endian.
const readSize = 8 + 8

// Read is one read of the receiving application.
type Read struct {
	At    int64 // nanoseconds of Unix time
	Bytes int
}

// Stream holds the reads of the receiving application, in order.
type Stream []Read

// Load reads the log of the receiving end, named as in its --out.
func Load(path string) (Stream, error) {
	b, err := os.ReadFile(path + ".rd")
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return decode(b), nil
}

// decode drops an incomplete record at the end, left by a killed writer.
func decode(b []byte) (s Stream) {
	for ; len(b) >= readSize; b = b[readSize:] {
		s = append(s, Read{At: int64(binary.BigEndian.Uint64(b)), Bytes: int(binary.BigEndian.Uint64(b[8:]))})
	}
	return s
}

// Bytes returns how many bytes were read within [from, to).
func (s Stream) Bytes(from, to time.Time) (n int) {
	for _, r := range s {
		if r.At >= from.UnixNano() && r.At < to.UnixNano() {
			n += r.Bytes
		}
	}
	return n
}

// LongestGap returns the start and the length of the longest span without a read within
// [from, to); the ends of the window bound a gap too.
func (s Stream) LongestGap(from, to time.Time) (at time.Time, length time.Duration) {
	last, end := from.UnixNano(), to.UnixNano()
	note := func(t int64) {
		if d := time.Duration(t - last); d > length {
			at, length = time.Unix(0, last), d
		}
		last = t
	}
	for _, r := range s {
		if r.At >= last && r.At < end {
			note(r.At)
		}
	}
	note(end)
	return at, length
}

// Gaps returns the spans between reads within [from, to), in milliseconds.
func (s Stream) Gaps(from, to time.Time) (out []float64) {
	var last int64
	for _, r := range s {
		if r.At < from.UnixNano() || r.At >= to.UnixNano() {
			continue
		}
		if last != 0 {
			out = append(out, float64(r.At-last)/1e6)
		}
		last = r.At
	}
	return out
}

// FirstAfter returns the first read at or after t; ok is false if there is none.
func (s Stream) FirstAfter(t time.Time) (at time.Time, ok bool) {
	for _, r := range s {
		if r.At >= t.UnixNano() {
			return time.Unix(0, r.At), true
		}
	}
	return time.Time{}, false
}
