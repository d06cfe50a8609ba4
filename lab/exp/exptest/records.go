package exptest

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// Origin is the start of traffic in all records.
var Origin = time.Unix(1_700_000_000, 0)

// At is a moment of the records.
func At(d time.Duration) time.Time { return Origin.Add(d) }

// Datagram is one datagram of a probe: when it was sent, what became of it, and how long it
// took.
type Datagram struct {
	At      time.Duration
	Refused bool // by the sender's kernel
	Lost    bool
	Dropped bool // lost too, by the receiver's socket
	Doubled bool
	Delay   time.Duration
}

// UDP writes the logs of both ends of a flow, one datagram after each pause, as the probe
// writes them, and reads them. change may alter each datagram; nil leaves them as they are.
func UDP(t testing.TB, length, pause, delay time.Duration, change func(*Datagram)) *udpflow.Flow {
	t.Helper()
	var tx []byte
	type arrival struct {
		at   time.Time
		data []byte // nil: the socket dropped it
	}
	var got []arrival
	seq := uint64(0)
	for at := time.Duration(0); at < length; at += pause {
		d := Datagram{At: at, Delay: delay}
		if change != nil {
			change(&d)
		}
		sent := uint64(At(d.At).UnixNano())
		tx = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(tx, seq), sent)
		tx = append(tx, map[bool]byte{true: 1}[d.Refused])
		came := At(d.At + d.Delay)
		if d.Dropped {
			got = append(got, arrival{came, nil})
		}
		if !d.Refused && !d.Lost && !d.Dropped {
			rec := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seq), sent)
			rec = binary.BigEndian.AppendUint64(rec, uint64(came.UnixNano()))
			got = append(got, arrival{came, rec})
			if d.Doubled {
				got = append(got, arrival{came, rec})
			}
		}
		seq++
	}
	slices.SortStableFunc(got, func(a, b arrival) int { return a.at.Compare(b.at) })
	var rx, drops []byte
	arrivals, dropped := uint64(0), uint64(0)
	for _, g := range got {
		if g.data == nil {
			dropped++
			drops = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(drops, arrivals), dropped)
			continue
		}
		rx, arrivals = append(rx, g.data...), arrivals+1
	}
	drops = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(drops, math.MaxUint64), dropped)
	base := filepath.Join(t.TempDir(), "udp")
	write(t, base+".tx", tx)
	write(t, base+".rx", rx)
	write(t, base+".drops", drops)
	f, err := udpflow.Load(base, base)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TCP writes the log of a receiving application that reads 1,000 bytes after each pause, but
// not while quiet says so, and reads it.
func TCP(t testing.TB, length, pause time.Duration, quiet func(time.Duration) bool) tcpflow.Stream {
	t.Helper()
	return Reads(t, length, pause, func(at time.Duration) int {
		if quiet != nil && quiet(at) {
			return 0
		}
		return 1000
	})
}

// Reads is TCP with as many bytes after each pause as size says; of none there is no record.
func Reads(t testing.TB, length, pause time.Duration, size func(time.Duration) int) tcpflow.Stream {
	t.Helper()
	var rd []byte
	for at := time.Duration(0); at < length; at += pause {
		if n := size(at); n > 0 {
			rd = binary.BigEndian.AppendUint64(rd, uint64(At(at).UnixNano()))
			rd = binary.BigEndian.AppendUint64(rd, uint64(n))
		}
	}
	base := filepath.Join(t.TempDir(), "tcp")
	write(t, base+".rd", rd)
	s, err := tcpflow.Load(base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Within returns a function that reports whether a moment lies within a span.
func Within(from, to time.Duration) func(time.Duration) bool {
	return func(at time.Duration) bool { return at >= from && at < to }
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
