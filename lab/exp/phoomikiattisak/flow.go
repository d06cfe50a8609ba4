package phoomikiattisak

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"roam/lab/packets"
)

// snapLength is how much of each packet the analysis needs: Ethernet, IPv6, a
// Destination Options header with the longer nonce, TCP with all its options.
const snapLength = 14 + 40 + 16 + 60

// Flags of TCP (RFC 9293 §3.1).
const (
	flagSyn = 2
	flagAck = 16
)

// port is where iperf3 listens; its data and its control connection share it.
const port = 5201

// sent is a piece of the stream as the correspondent sent it: with segmentation
// offload several segments at once.
type sent struct {
	at       time.Time
	from, to int64 // bytes of the stream
	again    int64 // the part of it sent before
}

// arrival is a segment as it reached the mobile host.
type arrival struct {
	at       time.Time
	link     string
	from, to int64
	again    int64 // the part of it that arrived before
	late     bool  // something behind it in the stream had arrived before
	edge     int64 // end of the contiguous stream, this segment included
}

// flow is one TCP connection from the correspondent to the mobile host, captured at both
// ends.
type flow struct {
	sent    []sent
	arrived []arrival
	mss     int // bytes of data in the largest segment that arrived
	offered int // the MSS that the mobile host offered
	syns    int // SYNs of the connection that left the mobile host
	dupAcks int // duplicate acknowledgements without data
	window  int // largest amount of unacknowledged data
}

// errNoFlow says that the captures hold no data.
var errNoFlow = errors.New("the captures hold no TCP data from the correspondent")

// assemble finds the connection that carried the most data in the captures of
// the correspondent and of the mobile host, and follows it.
func assemble(atPeer, atMobile []packets.Packet) (*flow, error) {
	volume, best := map[uint16]int{}, uint16(0)
	for _, p := range atMobile {
		if p.Proto == packets.TCP && p.SrcPort == port {
			volume[p.DstPort] += p.Payload
			if volume[p.DstPort] > volume[best] {
				best = p.DstPort
			}
		}
	}
	if best == 0 {
		return nil, errNoFlow
	}
	f, base := &flow{}, uint32(0)
	found := false
	for _, p := range atPeer {
		if p.Proto == packets.TCP && p.SrcPort == port && p.DstPort == best && isFirst(p) {
			base, found = p.Seq+1, true
		}
	}
	if !found {
		return nil, errors.New("the captures lack the beginning of the TCP connection")
	}
	f.follow(atPeer, best, base)
	f.receive(atMobile, best, base)
	return f, nil
}

// follow reads the sender's side.
func (f *flow) follow(list []packets.Packet, client uint16, base uint32) {
	var most, acked int64
	for _, p := range list {
		switch {
		case p.Proto != packets.TCP:
		case p.SrcPort == client && p.DstPort == port && p.Flags&flagAck != 0:
			ack := int64(p.Ack - base)
			if ack > acked {
				acked = ack
			} else if ack == acked && p.Payload == 0 && most > acked {
				f.dupAcks++
			}
		case p.SrcPort == port && p.DstPort == client && p.Payload > 0:
			from := int64(p.Seq - base)
			d := sent{at: p.At, from: from, to: from + int64(p.Payload)}
			d.again = max(0, min(d.to, most)-d.from)
			most = max(most, d.to)
			f.sent = append(f.sent, d)
			f.window = max(f.window, int(most-acked))
		}
	}
}

// receive reads the receiver's side.
func (f *flow) receive(list []packets.Packet, client uint16, base uint32) {
	var got spans
	var most int64
	for _, p := range list {
		switch {
		case p.Proto != packets.TCP:
		case p.SrcPort == client && p.DstPort == port && isFirst(p):
			f.syns++
			f.offered = offeredMSS(p.Raw)
		case p.SrcPort == port && p.DstPort == client && p.Payload > 0:
			from := int64(p.Seq - base)
			a := arrival{at: p.At, link: p.Where, from: from, to: from + int64(p.Payload), late: from < most}
			a.again = got.add(a.from, a.to)
			most = max(most, a.to)
			a.edge = got.edge()
			f.mss = max(f.mss, p.Payload)
			f.arrived = append(f.arrived, a)
		}
	}
}

// isFirst reports whether the segment opens a connection. The SYN of a conntrack resync,
// which has a mark, does not.
func isFirst(p packets.Packet) bool {
	return p.Flags&flagSyn != 0 && !bytes.Contains(p.Raw, []byte("roam"))
}

// offeredMSS reads the MSS option of a SYN (RFC 9293 §3.2), which every current stack sends
// first. 0: none.
func offeredMSS(raw []byte) int {
	for o := 40; o+24 <= len(raw); o += 8 { // headers before TCP come in eights
		if tcp := raw[o:]; binary.BigEndian.Uint16(tcp[2:]) == port && tcp[20] == 2 && tcp[21] == 4 {
			return int(binary.BigEndian.Uint16(tcp[22:]))
		}
	}
	return 0
}

// spans are the known parts of a stream, sorted and disjoint.
type spans []struct{ from, to int64 }

// add adds a part and returns how many of its bytes were known.
func (s *spans) add(from, to int64) (known int64) {
	i, _ := slices.BinarySearchFunc(*s, from, func(e struct{ from, to int64 }, v int64) int {
		return cmp.Compare(e.to, v)
	})
	j := i
	lo, hi := from, to
	for ; j < len(*s) && (*s)[j].from <= to; j++ {
		e := (*s)[j]
		known += min(e.to, to) - max(e.from, from)
		lo, hi = min(lo, e.from), max(hi, e.to)
	}
	*s = slices.Replace(*s, i, j, struct{ from, to int64 }{lo, hi})
	return known
}

// edge returns the end of the contiguous part from the start.
func (s spans) edge() int64 {
	if len(s) == 0 || s[0].from > 0 {
		return 0
	}
	return s[0].to
}

// segments turns bytes into segments, parts counted whole.
func (f *flow) segments(nbytes int64) int {
	if f.mss == 0 {
		return 0
	}
	return int((nbytes + int64(f.mss) - 1) / int64(f.mss))
}

// lost counts the segments that left the correspondent and never reached the mobile host,
// including copies (the paper's M4: retransmitted without arriving twice). It considers
// only the part of the stream that was complete at the given time, which must precede the
// end of both captures by more than the transit time.
func (f *flow) lost(by time.Time) int {
	end := f.edgeAt(by)
	var out, in []packets.Span
	for _, s := range f.sent {
		out = append(out, packets.Span{From: s.from, To: min(s.to, end)})
	}
	for _, a := range f.arrived {
		in = append(in, packets.Span{From: a.from, To: min(a.to, end)})
	}
	return f.segments(packets.Missing(out, in))
}

// edgeAt returns how much of the stream was complete at a moment.
func (f *flow) edgeAt(at time.Time) (edge int64) {
	for _, a := range f.arrived {
		if a.at.After(at) {
			break
		}
		edge = a.edge
	}
	return edge
}

// retransmissions counts the retransmitted segments after a time (the paper's M3).
func (f *flow) retransmissions(after time.Time) (n int) {
	for _, s := range f.sent {
		if !s.at.Before(after) {
			n += f.segments(s.again)
		}
	}
	return n
}

// count counts arrivals within [from, to) that ok picks.
func (f *flow) count(from, to time.Time, ok func(arrival) bool) (n int) {
	for _, a := range f.arrived {
		if !a.at.Before(from) && a.at.Before(to) && ok(a) {
			n++
		}
	}
	return n
}

// bytes returns how many bytes of the stream became complete between two
// moments.
func (f *flow) nbytes(from, to time.Time) int64 { return f.edgeAt(to) - f.edgeAt(from) }

// longestGap returns the longest span within [from, to] in which the contiguous stream did
// not grow: the application's longest wait.
func (f *flow) longestGap(from, to time.Time) (longest time.Duration) {
	last, edge := from, int64(-1)
	for _, a := range f.arrived {
		if a.at.Before(from) {
			edge = a.edge
			continue
		}
		if a.at.After(to) {
			break
		}
		if a.edge > edge {
			longest, last, edge = max(longest, a.at.Sub(last)), a.at, a.edge
		}
	}
	return max(longest, to.Sub(last))
}

// profile returns the arrivals per bin in Mb/s, on one link or on all ("").
func (f *flow) profile(start time.Time, length, bin time.Duration, link string) []float64 {
	y := make([]float64, int(length/bin))
	for _, a := range f.arrived {
		i := int(a.at.Sub(start) / bin)
		if a.at.Before(start) || i >= len(y) || link != "" && a.link != link {
			continue
		}
		y[i] += float64(a.to-a.from) * 8e-6 / bin.Seconds()
	}
	return y
}
