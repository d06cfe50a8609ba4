package udpflow

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sizes of the records in the three files, in bytes; all integers big-endian.
const (
	sentSize = 8 + 8 + 1 // number, time, 1 if the kernel refused it
	gotSize  = 8 + 8 + 8 // number, time of sending, time of arrival
	dropSize = 8 + 8     // arrivals before, datagrams that the socket had dropped by then
)

// dropsEnd in place of the arrivals marks the last record of drops, whose count is that of the
// whole flow.
const dropsEnd = ^uint64(0)

// Got is one datagram as it arrived. Times are nanoseconds of Unix time.
type Got struct {
	Seq      uint64
	Sent, At int64
}

// Sent is one datagram as it was written, or tried to.
type Sent struct {
	At      int64
	Refused bool // by the sender's kernel
}

// Flow is one direction of a flow: the datagrams that one end sent and the other received.
type Flow struct {
	Sent   []Sent // by number
	Got    []Got  // in the order of arrival
	copies []int  // how often each of Sent was read
	socket map[uint64]bool
}

// New makes a flow of sent and received datagrams.
func New(sent []Sent, got []Got) *Flow {
	f := &Flow{Sent: sent, Got: got, copies: make([]int, len(sent))}
	for _, g := range got {
		if g.Seq < uint64(len(sent)) {
			f.copies[g.Seq]++
		}
	}
	return f
}

// Load reads one direction: the sender's log and the receiver's, each named as in --out of
// that end. A receiver without a list of drops has dropped nothing.
func Load(sender, receiver string) (*Flow, error) {
	tx, err := os.ReadFile(sender + ".tx")
	if err != nil {
		return nil, fmt.Errorf("read log of sender: %w", err)
	}
	rx, err := os.ReadFile(receiver + ".rx")
	if err != nil {
		return nil, fmt.Errorf("read log of receiver: %w", err)
	}
	drops, err := os.ReadFile(receiver + ".drops")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read drops of receiver: %w", err)
	}
	f := decode(tx, rx)
	f.own(drops)
	return f, nil
}

// decode drops an incomplete record at the end of a file, left by a killed writer.
func decode(tx, rx []byte) *Flow {
	var sent []Sent
	for ; len(tx) >= sentSize; tx = tx[sentSize:] {
		sent = append(sent, Sent{At: int64(binary.BigEndian.Uint64(tx[8:])), Refused: tx[16] != 0})
	}
	var got []Got
	for ; len(rx) >= gotSize; rx = rx[gotSize:] {
		got = append(got, Got{
			Seq:  binary.BigEndian.Uint64(rx),
			Sent: int64(binary.BigEndian.Uint64(rx[8:])),
			At:   int64(binary.BigEndian.Uint64(rx[16:])),
		})
	}
	return New(sent, got)
}

// Number reads the number in the payload of a datagram; false: it is not this probe's.
func Number(payload []byte) (seq uint64, ok bool) {
	if len(payload) < MinSize || binary.BigEndian.Uint32(payload) != magic {
		return 0, false
	}
	return binary.BigEndian.Uint64(payload[4:]), true
}

// Missing returns the numbers of the datagrams that were sent at or after from and
// before to, and never read.
func (f *Flow) Missing(from, to time.Time) (list []uint64) {
	a, b := from.UnixNano(), to.UnixNano()
	for seq, s := range f.Sent {
		if s.At >= a && s.At < b && f.copies[seq] == 0 {
			list = append(list, uint64(seq))
		}
	}
	return list
}

// Count is the summary of the datagrams sent within a span.
type Count struct {
	Written   int // accepted by the sender's kernel
	Refused   int // refused by it
	Lost      int // written and never read, or refused
	Doubled   int // read more than once
	Misorders int // read after one with a higher number
}

// Count counts over the datagrams sent at or after from and before to.
func (f *Flow) Count(from, to time.Time) Count {
	a, b := from.UnixNano(), to.UnixNano()
	var c Count
	for seq, s := range f.Sent {
		switch n := f.copies[seq]; {
		case s.At < a || s.At >= b:
		case s.Refused:
			c.Refused, c.Lost = c.Refused+1, c.Lost+1
		default:
			c.Written++
			if n == 0 {
				c.Lost++
			}
			c.Doubled += max(0, n-1)
		}
	}
	highest := uint64(0)
	for _, g := range f.Got {
		if g.Seq < highest && g.Sent >= a && g.Sent < b {
			c.Misorders++
		}
		highest = max(highest, g.Seq)
	}
	return c
}

// Gap is a span without arrivals.
type Gap struct {
	From, To time.Time
}

// Length returns how long the gap was.
func (g Gap) Length() time.Duration { return g.To.Sub(g.From) }

// LongestGap returns the longest span within [from, to) without an arrival; the ends of the
// window bound a gap too.
func (f *Flow) LongestGap(from, to time.Time) Gap {
	a, b := from.UnixNano(), to.UnixNano()
	last, best := a, Gap{From: from, To: from}
	note := func(at int64) {
		if at-last > best.To.Sub(best.From).Nanoseconds() {
			best = Gap{From: time.Unix(0, last), To: time.Unix(0, at)}
		}
		last = at
	}
	for _, g := range f.window(a, b) {
		note(max(g.At, last))
	}
	note(b)
	return best
}

// window returns the arrivals within [a, b). Time stamps are taken on several
// cores and may run backwards by microseconds; the search only needs them to
// be sorted at the scale of the window.
func (f *Flow) window(a, b int64) []Got {
	order := func(g Got, t int64) int { return cmp.Compare(g.At, t) }
	i, _ := slices.BinarySearchFunc(f.Got, a, order)
	j, _ := slices.BinarySearchFunc(f.Got, b, order)
	return f.Got[i:max(i, j)]
}

// FirstAfter returns the first arrival at or after t of a datagram sent at or after sent;
// ok is false if there is none.
func (f *Flow) FirstAfter(t, sent time.Time) (at time.Time, ok bool) {
	for _, g := range f.Got {
		if g.At >= t.UnixNano() && g.Sent >= sent.UnixNano() {
			return time.Unix(0, g.At), true
		}
	}
	return time.Time{}, false
}

// Arrived returns how many datagrams arrived within [from, to).
func (f *Flow) Arrived(from, to time.Time) int {
	return len(f.window(from.UnixNano(), to.UnixNano()))
}

// Rate returns arrivals per second in bins of the given width from start to
// end, with the middle of each bin in seconds since start.
func (f *Flow) Rate(start, end time.Time, bin time.Duration) (x, y []float64) {
	n := int(end.Sub(start) / bin)
	x, y = make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = (float64(i) + 0.5) * bin.Seconds()
	}
	for _, g := range f.Got {
		if i := int((g.At - start.UnixNano()) / int64(bin)); g.At >= start.UnixNano() && i < n {
			y[i] += 1 / bin.Seconds()
		}
	}
	return x, y
}

// Offered returns the rate of sent datagrams over time, with the middle of each bin in seconds
// since start. A sender that stands still offers nothing, and nothing can arrive.
func (f *Flow) Offered(start, end time.Time, bin time.Duration) (x, y []float64) {
	n := int(end.Sub(start) / bin)
	x, y = make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = (float64(i) + 0.5) * bin.Seconds()
	}
	for _, s := range f.Sent {
		if i := int((s.At - start.UnixNano()) / int64(bin)); s.At >= start.UnixNano() && i < n {
			y[i] += 1 / bin.Seconds()
		}
	}
	return x, y
}

// Losses returns, for each bin from start to end, the number of datagrams sent in it and
// never received, with the middle of each bin in seconds since start.
func (f *Flow) Losses(start, end time.Time, bin time.Duration) (x, y []float64) {
	n := int(end.Sub(start) / bin)
	x, y = make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = (float64(i) + 0.5) * bin.Seconds()
	}
	for seq, s := range f.Sent {
		if i := int((s.At - start.UnixNano()) / int64(bin)); s.At >= start.UnixNano() && i < n && f.copies[seq] == 0 {
			y[i]++
		}
	}
	return x, y
}

// Gaps returns the spans between arrivals within [from, to), in milliseconds.
func (f *Flow) Gaps(from, to time.Time) []float64 {
	w := f.window(from.UnixNano(), to.UnixNano())
	var out []float64
	for i := 1; i < len(w); i++ {
		out = append(out, max(0, float64(w[i].At-w[i-1].At)/1e6))
	}
	return out
}

// snmp6 finds one counter in the text of /proc/net/snmp6.
func snmp6(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// socketDrops finds the drops of the socket with that inode in the text of /proc/net/udp6.
func socketDrops(text string, inode uint64) uint64 {
	const inodeAt, dropsAt = 9, 12 // fields
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > dropsAt && f[inodeAt] == strconv.FormatUint(inode, 10) {
			n, _ := strconv.ParseUint(f[dropsAt], 10, 64)
			return n
		}
	}
	return 0
}
