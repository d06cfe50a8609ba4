package rtpflow

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// The fixed header of RTP (RFC 3550 §5.1), without contributing sources, which
// a stream from one sender has not.
const (
	rtpHead    = 12
	rtpVersion = 2 << 6
)

// FirstSeq is the first sequence number of the lab's senders, so that a loss of the first
// packets is visible.
const FirstSeq = 1

// wrap is the number of sequence numbers.
const wrap = 1 << 16

// seed makes equal contents have equal sums within one process.
var seed = maphash.MakeSeed()

// Packet is one RTP packet of a recording.
type Packet struct {
	Seq   uint16
	At    int64 // arrival, nanoseconds of Unix time
	Bytes int   // of the payload
	sum   uint64
	off   int64 // of the payload within the recording
}

// Recording is the content of a recording, in order of arrival.
type Recording struct {
	Packets []Packet
	Alien   int // datagrams that are not RTP of the lab's form
	path    string
}

// Load reads a recording. It drops an incomplete record at the end, left by a killed
// writer.
func Load(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	defer f.Close()
	r := &Recording{path: path}
	in, buf := bufio.NewReaderSize(f, 1<<20), make([]byte, 65536)
	var head [headSize]byte
	for off := int64(0); ; {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return r, ended(err)
		}
		n := int(binary.BigEndian.Uint32(head[8:]))
		if n > len(buf) {
			return nil, fmt.Errorf("recording %s at byte %d: datagram of %d bytes", path, off, n)
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			return r, ended(err)
		}
		if n < rtpHead || buf[0] != rtpVersion {
			r.Alien++
		} else {
			r.Packets = append(r.Packets, Packet{
				Seq: binary.BigEndian.Uint16(buf[2:]), At: int64(binary.BigEndian.Uint64(head[:])), Bytes: n - rtpHead,
				sum: maphash.Bytes(seed, buf[rtpHead:n]), off: off + headSize + rtpHead,
			})
		}
		off += headSize + int64(n)
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("read recording: %w", err)
}

// Complete reports whether the recording holds a stream from FirstSeq on, each packet once
// and in order, so that it can serve as the reference.
func (r *Recording) Complete() error {
	if len(r.Packets) == 0 || r.Alien > 0 {
		return fmt.Errorf("%d packets of the stream and %d others", len(r.Packets), r.Alien)
	}
	for i, p := range r.Packets {
		if want := uint16((FirstSeq + i) % wrap); p.Seq != want {
			return fmt.Errorf("packet %d has number %d, not %d", i, p.Seq, want)
		}
	}
	return nil
}

// Arrival is a received packet that was recognized.
type Arrival struct {
	Index int // index in the sent stream
	Packet
}

// Flow is a received stream, compared packet by packet with the sent one.
type Flow struct {
	Sent     []Packet
	Arrivals []Arrival // in the order of arrival
	Unknown  int       // arrivals that differ from every sent packet
	path     string
}

// Match identifies the received packets among the sent ones, by number and content, so that
// an outage longer than the sequence space does not confuse it.
func Match(sent, got *Recording) *Flow {
	f := &Flow{Sent: sent.Packets, path: got.path, Unknown: got.Alien}
	highest := 0
	for _, p := range got.Packets {
		i, ok := f.place(p, highest)
		if !ok {
			f.Unknown++
			continue
		}
		highest = max(highest, i)
		f.Arrivals = append(f.Arrivals, Arrival{i, p})
	}
	return f
}

// place finds the packet's index, starting with the nearest to the highest so far.
func (f *Flow) place(p Packet, highest int) (int, bool) {
	base := (int(p.Seq) - FirstSeq + wrap) % wrap
	var pending []int
	for i := base; i < len(f.Sent); i += wrap {
		pending = append(pending, i)
	}
	distance := func(i int) int { return max(i-highest, highest-i) }
	slices.SortFunc(pending, func(a, b int) int { return distance(a) - distance(b) })
	for _, i := range pending {
		if s := f.Sent[i]; s.Bytes == p.Bytes && s.sum == p.sum {
			return i, true
		}
	}
	return 0, false
}

// Count is the summary of a stream's packets.
type Count struct {
	Sent, Received int // Received without copies
	Lost, Doubled  int
	Disordered     int // the number is lower than that of the previous packet (the thesis's eq. 4.2)
	Bytes          int // of payload, received without copies
}

// Count counts over the whole stream.
func (f *Flow) Count() Count {
	c := Count{Sent: len(f.Sent)}
	copies := make([]int, len(f.Sent))
	before := -1
	for _, a := range f.Arrivals {
		if copies[a.Index]++; copies[a.Index] == 1 {
			c.Received++
			c.Bytes += a.Bytes
		} else {
			c.Doubled++
		}
		if a.Index < before {
			c.Disordered++
		}
		before = a.Index
	}
	c.Lost = c.Sent - c.Received
	return c
}

// Gaps returns the spans between arrivals that are longer than least, in the
// order of their time, as pairs of nanoseconds of Unix time.
func (f *Flow) Gaps(least time.Duration) (gaps [][2]int64) {
	for i := 1; i < len(f.Arrivals); i++ {
		if a, b := f.Arrivals[i-1].At, f.Arrivals[i].At; b-a > int64(least) {
			gaps = append(gaps, [2]int64{a, b})
		}
	}
	return gaps
}

// pending are packets that wait for their turn, by index.
type pending []Arrival

func (p pending) Len() int           { return len(p) }
func (p pending) Less(i, j int) bool { return p[i].Index < p[j].Index }
func (p pending) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *pending) Push(x any)        { *p = append(*p, x.(Arrival)) }
func (p *pending) Pop() any {
	old := *p
	x := old[len(old)-1]
	*p = old[:len(old)-1]
	return x
}

// Played returns the packets in the order in which a player with a buffer of that depth
// passes them to its decoder. The player waits for a missing packet until a later one has
// waited for depth; a packet that arrives afterwards is late and discarded.
func (f *Flow) Played(depth time.Duration) (order []Arrival, late int) {
	var wait pending
	next := 0
	drain := func(now int64) {
		for len(wait) > 0 {
			switch top := wait[0]; {
			case top.Index < next: // a copy
				heap.Pop(&wait)
			case top.Index == next || now-oldest(wait) > int64(depth):
				order, next = append(order, top), top.Index+1
				heap.Pop(&wait)
			default:
				return
			}
		}
	}
	seen := make(map[int]bool, len(f.Sent))
	for _, a := range f.Arrivals {
		drain(a.At) // output that is due by now
		if a.Index < next && !seen[a.Index] {
			late++
		}
		seen[a.Index] = true
		heap.Push(&wait, a)
		drain(a.At)
	}
	drain(math.MaxInt64)
	return order, late
}

func oldest(wait pending) int64 {
	at := wait[0].At
	for _, a := range wait {
		at = min(at, a.At)
	}
	return at
}

// WriteTo writes the payloads of packets, in the given order, to a file.
func (f *Flow) WriteTo(path string, order []Arrival) error {
	out := make([]Packet, len(order))
	for i, a := range order {
		out[i] = a.Packet
	}
	return copyPayloads(f.path, path, out)
}

// WriteTo writes the payloads of a recording to a file, in order of arrival.
func (r *Recording) WriteTo(path string) error { return copyPayloads(r.path, path, r.Packets) }

func copyPayloads(from, to string, packets []Packet) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read recording: %w", err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w, buf := bufio.NewWriterSize(out, 1<<20), make([]byte, 65536)
	for _, p := range packets {
		if _, err := in.ReadAt(buf[:p.Bytes], p.off); err != nil {
			return fmt.Errorf("read recording: %w", err)
		}
		if _, err := w.Write(buf[:p.Bytes]); err != nil {
			return fmt.Errorf("write stream: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	return nil
}
