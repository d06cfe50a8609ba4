package udpflow

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// spread is how much earlier or later than the arrivals around a drop the dropped datagram may
// have been sent: paths of a flow differ in delay.
const spread = int64(100 * time.Millisecond)

// SocketDropped reports whether the receiving socket's own counter owns a datagram that was
// never read: its buffer was full. Each drop owns one datagram, sent about when those were
// that arrived before and after it.
func (f *Flow) SocketDropped(seq uint64) bool { return f.socket[seq] }

// own assigns the drops in a receiver's list to datagrams that are missing. A list without
// its end, left by a killed receiver, owns nothing.
func (f *Flow) own(list []byte) {
	f.socket = map[uint64]bool{}
	type drop struct{ at, count uint64 }
	var drops []drop
	for ; len(list) >= dropSize; list = list[dropSize:] {
		drops = append(drops, drop{binary.BigEndian.Uint64(list), binary.BigEndian.Uint64(list[8:])})
	}
	if len(drops) == 0 || drops[len(drops)-1].at != dropsEnd {
		return
	}
	total := drops[len(drops)-1].count
	before := uint64(0)
	for _, d := range drops {
		now := min(d.count, total)
		f.take(min(d.at, uint64(len(f.Got))), int(now-min(before, now)))
		before = now
	}
}

// take assigns n drops before an arrival to the missing datagrams that were sent next to it.
func (f *Flow) take(arrival uint64, n int) {
	if n == 0 {
		return
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if arrival > 0 {
		from = f.Got[arrival-1].Sent
	}
	if arrival < uint64(len(f.Got)) {
		to = f.Got[arrival].Sent
	}
	from, to = min(from, to), max(from, to)
	off := func(seq int) int64 { // how far outside
		at := f.Sent[seq].At
		switch {
		case at < from:
			return from - at
		case at > to:
			return at - to
		}
		return 0
	}
	var near []int
	for seq, s := range f.Sent {
		if f.copies[seq] == 0 && !s.Refused && !f.socket[uint64(seq)] && off(seq) <= spread {
			near = append(near, seq)
		}
	}
	slices.SortStableFunc(near, func(a, b int) int { return int(off(a) - off(b)) })
	for _, seq := range near[:min(n, len(near))] {
		f.socket[uint64(seq)] = true
	}
}

// dropped returns the socket's count of dropped datagrams among the control messages of a
// datagram (SO_RXQ_OVFL); without one it is 0.
func dropped(oob []byte) uint32 {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data)
		}
	}
	return 0
}

// noteDrop writes down that the socket had dropped so many datagrams before an arrival, which
// has not been counted yet.
func (e *end) noteDrop(count uint32) {
	if count == e.dropped {
		return
	}
	e.dropped = count
	e.writeDrop(e.got.Load(), uint64(count))
}

func (e *end) writeDrop(arrivals, count uint64) {
	var rec [dropSize]byte
	binary.BigEndian.PutUint64(rec[:], arrivals)
	binary.BigEndian.PutUint64(rec[8:], count)
	_, _ = e.lost.Write(rec[:]) // the error stays in the writer and shows at Flush
}
