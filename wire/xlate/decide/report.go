package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// PathKey is a path: the addresses of this host and of a correspondent on the wire.
type PathKey struct{ Near, Far roam.ILV }

// PathCounts are the data that went along a path, in both directions.
type PathCounts struct {
	Epoch          uint32 // ticks: when counting began
	Told           uint32 // what it costs by the other end's measure, and CostTold; 0: it has not told
	Received, Sent ilnp.Counts
}

// CostTold in PathCounts.Told says that the other end has told the cost.
const CostTold = 1 << 8

// data returns how many segments or datagrams a packet is, and their bytes behind the headers;
// false: none that are counted.
func (t *step) data() (ilnp.Counts, bool) {
	header := udpLen
	switch {
	case !t.c.isWhole():
		return ilnp.Counts{}, false
	case t.c.proto == ip6.TCP:
		b, ok := t.k.byteAt(t.c.at + ip6.TCPDataOffsetAt)
		if !ok {
			return ilnp.Counts{}, false
		}
		header = int(b>>4) * 4
	case t.c.proto != ip6.UDP:
		return ilnp.Counts{}, false
	}
	n := ilnp.Counts{Packets: 1, Bytes: uint64(max(t.k.Len-t.c.at-header, 0))}
	if size := uint64(t.k.GSO); size > 0 && n.Bytes > size {
		n.Packets = (n.Bytes + size - 1) / size
	}
	return n, true
}

// pathCounts returns the counts of a path, new ones if there are none.
func (t *step) pathCounts(k PathKey) *PathCounts {
	c := t.s.PathCounts[k]
	if c == nil {
		c = &PathCounts{Epoch: tick(t.now) | 1}
		t.s.PathCounts[k] = c
	}
	return c
}

// countReceived and countSent count data of a session whose paths are counted.
func (t *step) countReceived(p *Session) {
	if n, ok := t.data(); ok && p.is(Counted) {
		add(&t.pathCounts(PathKey{t.dst, t.src}).Received, n)
	}
}

func (t *step) countSent(p *Session) {
	if n, ok := t.data(); ok && p.is(Counted) {
		add(&t.pathCounts(PathKey{t.out.Src, t.out.Dst}).Sent, n)
	}
}

func add(sum *ilnp.Counts, n ilnp.Counts) {
	sum.Packets += n.Packets
	sum.Bytes += n.Bytes
}

// reportAsked returns what a probe asks to be reported; false: nothing.
func (t *step) reportAsked() (ilnp.Report, bool) {
	n := t.k.Len - t.c.at - 8
	if t.c.proto != ip6.ICMPv6 || n != ilnp.ReportLen && n != ilnp.SealedReportLen {
		return ilnp.Report{}, false
	}
	b, ok := t.k.load(t.c.at+8+reportMarkAt, 8)
	if !ok || binary.BigEndian.Uint32(b) != reportMark || b[4] != 0 || b[7] != 0 {
		return ilnp.Report{}, false
	}
	r := ilnp.Report{Counted: b[5]&2 != 0, PerFlow: b[5]&4 != 0, Other: b[5]&8 != 0, Answers: b[5]&16 != 0, Cost: b[6],
		Sealed: n == ilnp.SealedReportLen}
	r.Cross = b[5]&64 != 0 && !r.Other
	b, ok = t.k.load(t.c.at+8+reportCountsAt, 4*ilnp.CrossMost)
	if r.Other && ok {
		r.Near, r.Far = roam.L64(binary.BigEndian.Uint64(b)), roam.L64(binary.BigEndian.Uint64(b[8:]))
	}
	for i := range r.Connections {
		if r.Cross && ok {
			r.Connections[i] = [2]uint16{binary.BigEndian.Uint16(b[4*i:]), binary.BigEndian.Uint16(b[4*i+2:])}
		}
	}
	return r, true
}

const (
	reportMarkAt   = 16 // in the data of a probe
	reportCountsAt = 32
	reportMark     = 0x524f5250
)

// report returns the report that a probe of the session asks for, of the path between Near and Far, or nil.
func (t *step) report(p *Session) *ilnp.Report {
	r, ok := t.reportAsked()
	if !ok || r.Sealed && p.UpdateKey == nil {
		return nil
	}
	r.Clock, r.Answers = uint32(t.now/1000), false // what the other end asks for is not in the reply
	r.Crosses = p.crosses()
	r.Cross = r.Cross && crossAsked(t, p, r.Connections)
	r.Connections = ilnp.Connections{}
	k := PathKey{t.dst, t.src}
	if r.Other { // the NIDs stay: nobody asks about sessions of others
		k.Near.L64, k.Far.L64 = r.Near, r.Far
	}
	if r.Near, r.Far = k.Near.L64, k.Far.L64; r.Sealed {
		t.out.ReportKey = p.UpdateKey.Key
	}
	c := t.s.PathCounts[k]
	if p.is(Counted) && !r.Other {
		c = t.pathCounts(k)
		c.Told = CostTold | uint32(r.Cost)
	}
	if r.Counted = c != nil && p.is(Counted); r.Counted {
		r.Epoch, r.Received, r.Sent = c.Epoch, c.Received, c.Sent
	}
	return &r
}
