package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"roam"
)

// Params are the properties of one direction of a link.
type Params struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // at most, added to the delay, drawn for each packet; may reorder
	Loss      float64       // probability that a packet is lost
	Duplicate float64       // probability that a packet is duplicated
	MTU       int           // larger packets are lost, unless a router answers them; 0: unlimited
	Rate      int           // bytes a second; excess is queued; 0: unlimited
	Queue     int           // bytes; packets beyond it are lost; 0: unlimited
}

// Pair selects packets by their addresses. A zero prefix matches any address.
type Pair struct{ Src, Dst netip.Prefix }

func (r Pair) matches(p Packet) bool {
	return (!r.Src.IsValid() || r.Src.Contains(p.Source())) && (!r.Dst.IsValid() || r.Dst.Contains(p.Destination()))
}

// Direction is a direction of a link, or both.
type Direction uint8

// The directions, seen from the first end that Connect was given.
const (
	Forward Direction = 1 << iota
	Backward
	Both = Forward | Backward
)

// End is one end of a link: a node, and the node's identifier of the link.
type End struct {
	Node Node
	Link roam.LinkID
}

// Counts counts the packets that entered one direction of a link, by their fate.
type Counts struct {
	Packets, Bytes uint64 // all of them
	Cut            uint64 // while the link was cut for them
	Filtered       uint64 // dropped by the filter
	TooBig         uint64 // beyond the MTU
	Overflowed     uint64 // beyond the queue
	Lost           uint64 // by chance
	Duplicated     uint64
	Unplugged      uint64 // copies whose receiver was disconnected
}

// Link connects two ends.
type Link struct{ ways [2]*way }

// way is one direction of a link.
type way struct {
	net    *Network
	to     *port
	params Params
	pairs  []pairParams
	cut    bool
	cuts   []Pair
	filter func(p Packet) bool
	free   time.Time // when the queue will be empty
	counts Counts
}

type pairParams struct {
	Pair
	Params
}

// port is an end of a link. After a disconnect it remains the receiver of packets in flight,
// and drops them.
type port struct {
	seat *seat
	link roam.LinkID
	out  *way
	gone bool
}

// Connect joins two unconnected ends by a link with the same params in both directions.
func (n *Network) Connect(a, b End, p Params) *Link {
	x, y := n.plug(a), n.plug(b)
	x.out = &way{net: n, to: y, params: p}
	y.out = &way{net: n, to: x, params: p}
	return &Link{ways: [2]*way{x.out, y.out}}
}

func (n *Network) plug(e End) *port {
	s := n.seat(e.Node)
	if s.ports[e.Link] != nil {
		panic(fmt.Sprintf("sim: link %d of %T is taken", e.Link, e.Node)) // a mistake in the test
	}
	p := &port{seat: s, link: e.Link}
	s.ports[e.Link] = p
	return p
}

// Disconnect removes the link at an end, and frees both ends. Packets in flight to that end
// are lost; those that it sent arrive at the other end.
func (n *Network) Disconnect(e End) {
	s := n.seat(e.Node)
	p := s.ports[e.Link]
	if p == nil {
		return
	}
	p.gone = true
	delete(s.ports, e.Link)
	other := p.out.to
	delete(other.seat.ports, other.link)
}

// MTU returns the MTU of the link at an end, in the direction away from it; 0: unlimited;
// false: there is no link.
func (n *Network) MTU(e End) (int, bool) {
	p := n.seat(e.Node).ports[e.Link]
	if p == nil {
		return 0, false
	}
	return p.out.params.MTU, true
}

// Watch passes an observer each packet that the node at one end sends, before the link loses
// any, and each that arrives, before the node receives it. It applies to every later link of
// that end. An observer that is itself a Node, with deadlines or packets of its own, must be
// settled by its caller.
func (n *Network) Watch(e End, watch func(now time.Time, out bool, p Packet)) {
	s := n.seat(e.Node)
	s.watches[e.Link] = append(s.watches[e.Link], watch)
}

// Set replaces the properties of the link for packets from now on.
func (l *Link) Set(d Direction, p Params) {
	for _, w := range l.in(d) {
		w.params = p
	}
}

// SetPair sets properties for packets between a pair of addresses, and replaces those of the
// same pair. If several pairs match, the one that was set first applies.
func (l *Link) SetPair(d Direction, pair Pair, p Params) {
	for _, w := range l.in(d) {
		i := slices.IndexFunc(w.pairs, func(e pairParams) bool { return e.Pair == pair })
		if i < 0 {
			w.pairs = append(w.pairs, pairParams{pair, p})
			continue
		}
		w.pairs[i].Params = p
	}
}

// ClearPair undoes SetPair.
func (l *Link) ClearPair(d Direction, pair Pair) {
	for _, w := range l.in(d) {
		w.pairs = slices.DeleteFunc(w.pairs, func(e pairParams) bool { return e.Pair == pair })
	}
}

// Cut drops all packets that enter the link; packets in flight arrive. Neither end is
// notified.
func (l *Link) Cut(d Direction) { l.setCut(d, true) }

// Mend ends a Cut.
func (l *Link) Mend(d Direction) { l.setCut(d, false) }

func (l *Link) setCut(d Direction, cut bool) {
	for _, w := range l.in(d) {
		w.cut = cut
	}
}

// CutPair is Cut for packets between a pair of addresses.
func (l *Link) CutPair(d Direction, pair Pair) {
	for _, w := range l.in(d) {
		w.cuts = append(w.cuts, pair)
	}
}

// MendPair ends a CutPair.
func (l *Link) MendPair(d Direction, pair Pair) {
	for _, w := range l.in(d) {
		w.cuts = slices.DeleteFunc(w.cuts, func(c Pair) bool { return c == pair })
	}
}

// Filter adds a middlebox to the link that drops the packets for which drops returns true;
// nil removes it.
func (l *Link) Filter(d Direction, drops func(p Packet) bool) {
	for _, w := range l.in(d) {
		w.filter = drops
	}
}

// Counts returns the counts of one direction.
func (l *Link) Counts(d Direction) Counts { return l.in(d)[0].counts }

func (l *Link) in(d Direction) (ws []*way) {
	for i, w := range l.ways {
		if d&(1<<i) != 0 {
			ws = append(ws, w)
		}
	}
	return ws
}

// send puts a packet of the node at this end on the link.
func (t *port) send(p Packet) {
	t.show(true, p)
	t.out.carry(p)
}

func (t *port) show(out bool, p Packet) {
	for _, watch := range t.seat.watches[t.link] {
		watch(t.out.net.now, out, p)
	}
}

// carry queues a packet that enters the link, or drops and counts it.
func (w *way) carry(p Packet) {
	w.counts.Packets++
	w.counts.Bytes += uint64(p.Size())
	with := w.paramsFor(p)
	switch {
	case w.cut || slices.ContainsFunc(w.cuts, func(c Pair) bool { return c.matches(p) }):
		w.counts.Cut++
		return
	case w.filter != nil && w.filter(p):
		w.counts.Filtered++
		return
	case with.MTU > 0 && p.Size() > with.MTU:
		w.counts.TooBig++
		return
	}
	switch d, ok := w.wait(with, p.Size()); {
	case !ok:
		w.counts.Overflowed++
	case d > 0:
		w.net.After(d, func() { w.emit(p, with) })
	default:
		w.emit(p, with)
	}
}

// wait returns the queueing and transmission time of a packet; false: the queue is full.
func (w *way) wait(with Params, bytes int) (time.Duration, bool) {
	if with.Rate == 0 {
		return 0, true
	}
	now := w.net.now
	begin := w.free
	if begin.Before(now) {
		begin = now
	}
	waits := int(begin.Sub(now).Seconds() * float64(with.Rate))
	if with.Queue > 0 && waits > 0 && waits+bytes > with.Queue {
		return 0, false
	}
	w.free = begin.Add(time.Duration(bytes) * time.Second / time.Duration(with.Rate))
	return w.free.Sub(now), true
}

// emit schedules the arrival of a transmitted packet, unless the link loses it.
func (w *way) emit(p Packet, with Params) {
	for range w.copies(with) {
		w.net.After(w.delay(with), func() { w.to.receive(p) })
	}
}

func (w *way) paramsFor(p Packet) Params {
	for _, e := range w.pairs {
		if e.matches(p) {
			return e.Params
		}
	}
	return w.params
}

// copies draws how many copies of a packet arrive: 0, 1 or 2.
func (w *way) copies(with Params) int {
	switch r := w.net.rand.Float64(); {
	case r < with.Loss:
		w.counts.Lost++
		return 0
	case r < with.Loss+with.Duplicate:
		w.counts.Duplicated++
		return 2
	}
	return 1
}

// delay draws the propagation delay of one packet.
func (w *way) delay(with Params) time.Duration {
	if with.Jitter == 0 {
		return with.Delay
	}
	return with.Delay + time.Duration(w.net.rand.Int64N(int64(with.Jitter)))
}

// receive delivers a packet to the node at this end.
func (t *port) receive(p Packet) {
	n := t.out.net
	if t.gone {
		t.out.to.out.counts.Unplugged++
		return
	}
	t.show(false, p)
	t.seat.node.Receive(n.now, t.link, p)
	n.settle(t.seat)
}
