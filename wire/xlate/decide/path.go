package decide

import (
	"roam"
	"roam/wire/ip6"
)

// noPath is the verdict if no path is usable. TCP with data in flight sees a local drop.
func (t outward) noPath() Verdict {
	if t.k.InFlight {
		return t.drop(DropNoPathRetry)
	}
	t.count(DropNoPathHeld)
	return t.dropSilently()
}

// dropSilently is the verdict on a packet that goes nowhere, while its sender sees success:
// Consumed would let it leave an uplink.
func (t outward) dropSilently() Verdict {
	if t.k.Link == t.s.Host.Device {
		return Consumed
	}
	return Redirect
}

// cost returns the weight of a byte on a path, in halves.
func (p *Session) cost(i int) uint32 {
	k := uint32(p.Costs >> (4 * i) & 15)
	return (2 + k&1) << (k >> 1)
}

// uplink returns the uplink of a path.
func (s *State) uplink(p *Session, i int) *Uplink { return &s.Uplinks[p.path(i).Uplink] }

// choose returns the path of the first end ones that has carried the fewest bytes, or -1. It omits paths to
// locators in skip and those in skipPaths.
func (s *State) choose(p *Session, turns *[MaxPaths]uint32, skip uint8, skipPaths uint16, end int) int {
	best, least := -1, uint32(0)
	for i := range min(end, MaxPaths) {
		if !s.uplink(p, i).Usable || skip>>p.path(i).Remote&1 != 0 || skipPaths>>i&1 != 0 {
			continue
		}
		score := turns[i] - turns[0] + 1<<31
		if best < 0 || score < least {
			best, least = i, score
		}
	}
	return best
}

// isPlainSoon reports whether a first segment was retransmitted without its nonce and the
// daemon has not made the session plain yet.
func isPlainSoon(p *Session, l *Live) bool { return p.is(Initiated) && l.Retried }

func hasChoice(p *Session, l *Live) bool { return p.NPaths > 1 && !isPlainSoon(p, l) }

// defaultPath returns the path of a packet if nothing is skipped, or -1.
func (s *State) defaultPath(p *Session, l *Live) int {
	switch {
	case p.NPaths == 0:
		return -1
	case hasChoice(p, l):
		return s.choose(p, &l.PathBytes, 0, 0, p.NPaths)
	case s.uplink(p, 0).Usable:
		return 0
	}
	return -1
}

// tryPath keeps a packet within the allowance of an unvalidated locator: that of path i, or
// the hint. It returns the path, or -1, and whether the packet goes to the hint.
func (t outward) tryPath(p *Session, l *Live, i int, hinted bool) (int, bool) {
	target := p.Remote[p.path(i).Remote]
	if hinted {
		target = l.Hint
	}
	validated := t.s.choose(p, &l.PathBytes, p.Unvalidated, 0, p.NPaths+p.NReserve)
	given := !hinted && p.Given>>p.path(i).Remote&1 != 0
	if t.permits(p, l, target, validated < 0, given) {
		return i, hinted
	}
	return validated, false
}

const mixer = 0xd6e8feb86659fd93

// weight returns the same number at both ends for a path and the ports of a connection.
func weight(a, b roam.L64, ports uint32) uint32 {
	x := uint64(a^b) + uint64(ports)
	x = (x ^ x>>32) * mixer
	x = (x ^ x>>32) * mixer
	return uint32(x >> 37)
}

// portsOf returns the same number at both ends of a flow.
func portsOf(a, b uint16) uint32 { return uint32(a)*uint32(b) + uint32(a^b) }

// Buckets is into how many the flows of a session are divided.
const Buckets = 64

// FlowTable is where flows go, by their bucket.
type FlowTable struct {
	Alone   uint64 // bit b: packets of bucket b take one path; the others take turns
	Crossed uint64 // bit b: those of bucket b take turns among the paths of Across
	Several uint16 // bits of the paths among which the others do
	Across  uint16
	Longs   uint16               // bits of the long paths
	Waits   [CrossedLongs]uint16 // ms: for how long data may be missing of which some come by each of Longs
	Ways    [Buckets]uint8       // index of the path to which first segments keep, and from bit 4 on of that one path
	Costs   [MaxPaths]uint16
	Bytes   [Buckets]uint32 // sent
	Turns   [MaxPaths]uint32
}

// set returns the bits of the paths that a bucket may take.
func (f *FlowTable) set(bucket uint32) uint16 {
	if f.Alone>>bucket&1 != 0 {
		return 1 << (f.Ways[bucket] >> 4)
	}
	if f.Crossed>>bucket&1 != 0 {
		return f.Across
	}
	return f.Several
}

// turn is what counts a packet in the table by which it has its path; zero: none.
type turn struct {
	table  *FlowTable
	bucket uint32
	taken  bool // the path is one of several that take turns
}

// count counts n bytes that leave by path i.
func (w turn) count(p *Session, i int, n uint32) {
	f := w.table
	if f != nil && f == p.Table {
		f.Bytes[w.bucket] += n
	}
	if !w.taken {
		return
	}
	if f.Turns[i] += n * uint32(f.Costs[i]); (f.Several|f.Across)&1 == 0 {
		f.Turns[0] = f.Turns[i]
	}
}

// tablePath returns the path of a packet by a table, or -1, and its turn there; keep: its flow keeps to its home,
// as long as that can be used.
func (s *State) tablePath(p *Session, f *FlowTable, ports uint32, keep bool) (int, turn) {
	if f == nil {
		return -1, turn{}
	}
	bucket := p.bucket(ports)
	paths, i := f.set(bucket), -1
	if keep {
		i = s.choose(p, &f.Turns, 0, ^(1 << (f.Ways[bucket] & 15)), MaxPaths)
	}
	if i < 0 {
		i = s.choose(p, &f.Turns, 0, ^paths, MaxPaths)
	}
	if i < 0 {
		return -1, turn{}
	}
	return i, turn{f, bucket, !keep && paths&(paths-1) != 0}
}

const (
	stallAgain = 200 * millisecond
	queueAgain = 50 * millisecond
)

// watchTCP reports a local connection that stalls, or whose segments wait in queues.
func (t outward) watchTCP(p *Session, l *Live) {
	now := tick(t.now)
	if t.k.Stalled && now-l.StallTold >= tick(stallAgain) {
		l.StallTold = now
		from, to, _ := t.k.ports(t.c.at)
		t.tell(Urgent, Stall, Event{Key: p.Alias, Bytes: int(from)<<16 | int(to), Packets: int(t.k.Delivered)})
	}
	if t.k.Queued && now-l.QueueTold >= tick(queueAgain) {
		l.QueueTold = now
		t.tell(Urgent, Queue, Event{Key: p.Alias})
	}
}

// flowPath returns the path to which a segment's connection is pinned, or -1.
func (t outward) flowPath(p *Session, l *Live) (int, turn) {
	if _, ok := t.k.load(t.c.at, 16); !ok {
		return -1, turn{}
	}
	from, to, _ := t.k.ports(t.c.at)
	flags, _ := t.c.flags(t.k)
	keep := p.is(PerFlow) || flags&flagSYN != 0
	if !keep {
		t.watchTCP(p, l)
	}
	if !keep && !p.is(Placed) {
		return -1, turn{}
	}
	if !keep {
		withhold(t, p, flags)
	}
	i, way := t.s.tablePath(p, p.Table, portsOf(from, to), keep)
	if i < 0 && p.is(PerFlow) {
		return t.s.hashedPath(p, portsOf(from, to)), turn{}
	}
	return i, way
}

// hashedPath returns the path of a connection whose session has no table, or -1.
func (s *State) hashedPath(p *Session, ports uint32) int {
	best, greatest := -1, uint32(0)
	for i := range min(p.NPaths, MaxPaths) {
		u := s.uplink(p, i)
		if w := weight(u.L64, p.Remote[p.path(i).Remote], ports); u.Usable && (best < 0 || w >= greatest) {
			best, greatest = i, w
		}
	}
	return best
}

// isSpread reports whether a packet counts in the bytes of its path.
func isSpread(p *Session, c *chain) bool {
	return p.NPaths > 1 && !(p.is(PerFlow|Placed) && c.proto == ip6.TCP)
}
