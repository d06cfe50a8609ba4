package packets

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// Counts compare one direction of a flow in the capture at its sender with that at its
// receiver.
type Counts struct {
	Sent, Got int // packets with payload
	Bytes     int // of payload, without retransmissions
	Lost      int // UDP packets, or TCP bytes, that were sent and never arrived
	Resent    int // TCP bytes that were retransmitted
	Doubled   int // UDP packets, or TCP bytes, that arrived twice
	Misorders int // arrivals with a lower sequence number than the one before
}

// Datagrams compares datagrams by the four-byte number at an offset in their payload.
// Numbers start anywhere and increase.
func Datagrams(sent, got []Packet, offset int) (c Counts) {
	number := func(p Packet) (uint32, bool) {
		if len(p.Data) < offset+4 {
			return 0, false
		}
		return binary.BigEndian.Uint32(p.Data[offset:]), true
	}
	seen := map[uint32]int{}
	last := uint32(0)
	for _, p := range got {
		n, ok := number(p)
		if !ok {
			continue
		}
		if c.Got > 0 && n < last {
			c.Misorders++
		}
		if seen[n] > 0 {
			c.Doubled++
		}
		last, seen[n], c.Got = n, seen[n]+1, c.Got+1
	}
	for _, p := range sent {
		n, ok := number(p)
		if !ok {
			continue
		}
		c.Sent, c.Bytes = c.Sent+1, c.Bytes+p.Payload
		if seen[n] == 0 {
			c.Lost++
		}
	}
	return c
}

// Segments compares the segments of TCP connections by their sequence numbers. The captures
// may segment differently, since the sending host hands GSO packets to its device. Both
// lists hold one direction. Connections with less than floor bytes are ignored.
func Segments(sent, got []Packet, floor int) (c Counts) {
	in := byPorts(got)
	for ports, list := range byPorts(sent) {
		base, limit := list[0].Seq, int64(math.MaxInt64)
		out := follow(list, base, limit)
		if out.fresh < floor {
			continue
		}
		// The receiver's capture may go on where the sender's has ended.
		came := follow(in[ports], base, out.end)
		c.Sent, c.Got = c.Sent+len(list), c.Got+len(in[ports])
		c.Bytes += out.fresh
		c.Resent += out.again
		c.Doubled += came.again
		c.Misorders += came.misorders
		c.Lost += int(Missing(out.all, came.all))
	}
	return c
}

type ports [2]uint16

func byPorts(list []Packet) map[ports][]Packet {
	out := map[ports][]Packet{}
	for _, p := range list {
		if p.Payload > 0 {
			k := ports{p.SrcPort, p.DstPort}
			out[k] = append(out[k], p)
		}
	}
	return out
}

// Span is a captured part of the sequence space, end excluded.
type Span struct{ From, To int64 }

// Missing returns how many bytes were sent more often than they arrived. A byte that arrived
// more often than it was sent, since a network doubled it, makes up for no other.
func Missing(sent, got []Span) (n int64) {
	type edge struct {
		at   int64
		more int
	}
	var edges []edge
	add := func(list []Span, more int) {
		for _, s := range list {
			if s.To > s.From {
				edges = append(edges, edge{s.From, more}, edge{s.To, -more})
			}
		}
	}
	add(sent, 1)
	add(got, -1)
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	missing, last := 0, int64(0)
	for _, e := range edges {
		n += int64(max(0, missing)) * (e.at - last)
		missing, last = missing+e.more, e.at
	}
	return n
}

// span is a captured part of the sequence space, end excluded.
type span struct{ from, to int64 }

// followed is one capture's view of a connection, in bytes, except for misorders.
type followed struct {
	fresh, again, misorders int
	end                     int64 // of the highest segment
	all                     []Span
}

// follow walks the segments of one direction of a connection, and counts the bytes from
// sequence number base to limit bytes later. Sequence numbers wrap: each is extended to the
// value nearest to the previous one.
func follow(list []Packet, base uint32, limit int64) (f followed) {
	var seen []span
	var at int64
	for i, p := range list {
		from := at + int64(int32(p.Seq-base-uint32(at)))
		if i > 0 && from < at {
			f.misorders++
		}
		at = from
		s := span{max(0, from), min(limit, from+int64(p.Payload))}
		if s.to <= s.from {
			continue
		}
		f.all = append(f.all, Span{s.from, s.to})
		fresh := 0
		seen, fresh = cover(seen, s)
		f.fresh += fresh
		f.again += int(s.to-s.from) - fresh
		f.end = max(f.end, s.to)
	}
	return f
}

// cover adds a span to a sorted list of disjoint ones, and returns the number of new bytes.
func cover(seen []span, s span) ([]span, int) {
	fresh := int(s.to - s.from)
	i, _ := slices.BinarySearchFunc(seen, s.from, func(x span, from int64) int {
		if x.to < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(seen) && seen[j].from <= s.to; j++ {
		fresh -= int(min(s.to, seen[j].to) - max(s.from, seen[j].from))
	}
	for _, x := range seen[i:j] {
		s.from, s.to = min(s.from, x.from), max(s.to, x.to)
	}
	return slices.Replace(seen, i, j, s), fresh
}

// Gap is a time without an arrival.
type Gap struct {
	From, To time.Time
}

// Length is the time without an arrival.
func (g Gap) Length() time.Duration { return g.To.Sub(g.From) }

// Gaps returns the times longer than a threshold between consecutive arrivals within a span of
// time, whose ends count as arrivals.
func Gaps(got []Packet, from, to time.Time, over time.Duration) (out []Gap) {
	last := from
	add := func(at time.Time) {
		if at.Sub(last) > over {
			out = append(out, Gap{last, at})
		}
		last = at
	}
	for _, p := range got {
		if !p.At.Before(from) && !p.At.After(to) {
			add(p.At)
		}
	}
	add(to)
	return out
}

// Longest returns the longest time between arrivals within a span, whose ends count as
// arrivals.
func Longest(got []Packet, from, to time.Time) time.Duration {
	longest, last := time.Duration(0), from
	for _, p := range got {
		if p.At.Before(from) || p.At.After(to) {
			continue
		}
		longest, last = max(longest, p.At.Sub(last)), p.At
	}
	return max(longest, to.Sub(last))
}

// Buckets returns the rate of arrival of IPv6 payload in Mb/s, in n spans of a
// width from a moment on; which names the series that a packet belongs to.
func Buckets(got []Packet, from time.Time, width time.Duration, n int, which func(Packet) string) map[string][]float64 {
	out := map[string][]float64{}
	for _, p := range got {
		i := int(p.At.Sub(from) / width)
		if p.At.Before(from) || i >= n {
			continue
		}
		k := which(p)
		if out[k] == nil {
			out[k] = make([]float64, n)
		}
		out[k][i] += float64(p.Length) * 8e-6 / width.Seconds()
	}
	return out
}
