package ilnphost

import (
	"fmt"
	"math/rand/v2"
	"time"

	"roam"
	"roam/ilnp"
)

// Start is the time at which every simulation begins.
var Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Access is the behaviour of one access link, the same in both directions.
type Access struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // up to so much more, drawn for each packet: reorders
	Loss      float64       // probability that a packet is lost
	Duplicate float64       // probability that a packet comes twice
	Filter    Filter        // what the network drops
}

// Network is the world of a simulation: virtual time, nodes, and what goes on
// between them. It is not safe for concurrent use.
type Network struct {
	now    time.Time
	rand   *rand.Rand
	events queue
	count  uint64 // events ever made: decides between equal times
	nodes  []*Node
	byNID  map[roam.NID][]*Node
	trace  []Line
	// Tap sees every packet that is put on the wire, before loss; it may change
	// or drop it (nil). Tests use it to lose, hold back and replay.
	Tap func(p Packet) *Packet
	// Seen is the capture of every host: packets that leave by a link, before loss,
	// and those that arrive (nil).
	Seen func(h *Node, link roam.LinkID, leaves bool, p Packet)
	// Told sees every event of every core as it happens (nil).
	Told func(h *Node, e ilnp.Event)
	// Delivered sees every datagram that an application gets, and the alias that its
	// sender has there (nil).
	Delivered func(h *Node, key ilnp.SessionKey, d Datagram)
	// Brief leaves out what grows with time: the trace and the nodes' events.
	Brief bool
	// Acquainted has data planes tell by which probes a correspondent is known to run
	// Roam, as those of Roam do. Without it every node is another stack's to others.
	Acquainted bool
	// Counting is how often a core is shown what its data plane counted.
	Counting time.Duration
}

// New makes an empty network. The same seed and the same calls give the same
// course.
func New(seed uint64) *Network {
	return &Network{
		now: Start, rand: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)),
		byNID: make(map[roam.NID][]*Node), Counting: time.Second,
	}
}

// Now returns the virtual time.
func (n *Network) Now() time.Time { return n.now }

// Elapsed returns the virtual time since Start.
func (n *Network) Elapsed() time.Duration { return n.now.Sub(Start) }

// Nodes returns the nodes in the order in which they were added.
func (n *Network) Nodes() []*Node { return n.nodes }

// Rand returns the network's source of randomness, for tests that make random
// moves part of the same course.
func (n *Network) Rand() *rand.Rand { return n.rand }

// After calls f once d of virtual time has passed.
func (n *Network) After(d time.Duration, f func()) {
	n.count++
	n.events.push(event{at: n.Elapsed() + max(d, 0), order: n.count, do: f})
}

// Run lets d of virtual time pass.
func (n *Network) Run(d time.Duration) {
	end := n.now.Add(d)
	for len(n.events) > 0 && n.events[0].at <= end.Sub(Start) {
		n.step()
	}
	n.now = end
}

// RunUntil lets time pass until cond holds, at most for limit, and reports
// whether it does.
func (n *Network) RunUntil(limit time.Duration, cond func() bool) bool {
	end := n.now.Add(limit)
	for !cond() {
		if len(n.events) == 0 || n.events[0].at > end.Sub(Start) {
			n.now = end
			return cond()
		}
		n.step()
	}
	return true
}

// step goes to the next event and lets it happen.
func (n *Network) step() {
	e := n.events.pop()
	n.now = Start.Add(e.at)
	e.do()
}

// Packet is a packet on the wire: a data datagram, or a whole control packet.
type Packet struct {
	Src, Dst     roam.ILV
	Nonce        Nonce
	Control      []byte // nil: data
	Encapsulated bool   // a control packet in UDP
	Data         Datagram
	typ          uint8 // of a control packet on its way, so that it is read once
	typed        bool
}

// size returns the bytes of the packet on the wire, from its IPv6 header.
func (p Packet) size() int {
	const header, option, udp = 40, 8, 8
	if p.Control != nil {
		return len(p.Control)
	}
	n := header + udp + p.Data.Size
	if p.Nonce.Present() {
		n += option + int(p.Nonce.Len) - 4
	}
	return n
}

// Inject puts a packet on the wire as if it came from nowhere in particular:
// forgeries and replays.
func (n *Network) Inject(p Packet) { n.carry(p, Access{}) }

// send puts a packet on the wire behind an access link.
func (n *Network) send(p Packet, from Access) {
	if n.Tap != nil {
		changed := n.Tap(p)
		if changed == nil {
			return
		}
		p = *changed
		p.typed = false
	}
	n.carry(p, from)
}

// carry takes a packet through both access links, unless one loses it.
func (n *Network) carry(p Packet, from Access) {
	p.typ, p.typed = messageType(p), true
	if from.Filter.drops(p) {
		return
	}
	for range n.copies(from) {
		n.After(n.delay(from), func() {
			to, at := n.owner(p.Dst)
			if to == nil || at.access.Filter.drops(p) || at.keepsOut(p) {
				return
			}
			for range n.copies(at.access) {
				n.After(n.delay(at.access), func() { to.receive(at, p) })
			}
		})
	}
}

// copies draws how often a packet comes out of a link: never, once or twice.
func (n *Network) copies(a Access) int {
	switch r := n.rand.Float64(); {
	case r < a.Loss:
		return 0
	case r < a.Loss+a.Duplicate:
		return 2
	}
	return 1
}

// delay draws how long a link takes for one packet.
func (n *Network) delay(a Access) time.Duration {
	if a.Jitter == 0 {
		return a.Delay
	}
	return a.Delay + time.Duration(n.rand.Int64N(int64(a.Jitter)))
}

// owner finds the node that has an I-LV at present, and its attachment.
func (n *Network) owner(v roam.ILV) (*Node, *attachment) {
	for _, node := range n.byNID[v.NID] {
		for _, at := range node.attachments {
			if at.l64 == v.L64 && at.carrier {
				return node, at
			}
		}
	}
	return nil, nil
}

// add takes a node into the network.
func (n *Network) add(h *Node) {
	n.nodes = append(n.nodes, h)
	n.byNID[h.nid] = append(n.byNID[h.nid], h)
}

// event is something that happens at a time.
type event struct {
	at    time.Duration // since Start
	order uint64
	do    func()
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// queue is a binary heap of events.
type queue []event

func (q *queue) push(e event) {
	*q = append(*q, e)
	a := *q
	for i := len(a) - 1; i > 0 && a[i].before(a[(i-1)/2]); i = (i - 1) / 2 {
		a[i], a[(i-1)/2] = a[(i-1)/2], a[i]
	}
}

func (q *queue) pop() event {
	a := *q
	first, last := a[0], len(a)-1
	a[0] = a[last]
	a[last] = event{}
	a = a[:last]
	*q = a
	for i := 0; ; {
		least := i
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < len(a) && a[c].before(a[least]) {
				least = c
			}
		}
		if least == i {
			return first
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}

// Line is one line of the trace.
type Line struct {
	At   time.Duration // since Start
	Node string
	Text string
}

// String returns the line as the trace prints it, times in milliseconds.
func (l Line) String() string {
	return fmt.Sprintf("%10.1f %-6s %s", float64(l.At)/float64(time.Millisecond), l.Node, l.Text)
}

// Trace returns everything that happened so far, packets of data excepted.
func (n *Network) Trace() []Line { return n.trace }

func (n *Network) note(node, format string, args ...any) {
	if n.Brief {
		return
	}
	n.trace = append(n.trace, Line{At: n.Elapsed(), Node: node, Text: fmt.Sprintf(format, args...)})
}
