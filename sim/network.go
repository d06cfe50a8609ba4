package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"roam"
)

// Start is the time at which every simulation begins.
var Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Node is a party at the ends of links. Only the network calls its methods, one at a time,
// with the virtual time. Implementations are pointers.
type Node interface {
	// Receive handles a packet that arrived on a link. Its bytes belong to the network.
	Receive(now time.Time, link roam.LinkID, p Packet)
	// HandleTimeout is called at the time that PollTimeout returned.
	HandleTimeout(now time.Time)
	// Poll returns the next packet to send; false: there is none.
	Poll() (Output, bool)
	// PollTimeout returns when HandleTimeout is due; false: no deadline is set.
	PollTimeout() (time.Time, bool)
}

// Output is a packet that a node sends by one of its links.
type Output struct {
	Link roam.LinkID
	Packet
}

// Network is a simulation: virtual time, nodes, and the links between them. It is not safe
// for concurrent use.
type Network struct {
	now    time.Time
	rand   *rand.Rand
	events queue
	count  uint64 // events created so far; orders events of the same time
	seats  map[Node]*seat
	trace  []Line
	// Brief leaves out the trace, which grows with time.
	Brief bool
}

// seat is the network's state of a node.
type seat struct {
	node    Node
	ports   map[roam.LinkID]*port
	watches map[roam.LinkID][]func(now time.Time, out bool, p Packet)
	timer   uint64    // the last timer event that was set; older ones are void
	wake    time.Time // when it is due; zero: none is set
}

// New returns an empty network. Runs with the same seed and the same calls are identical.
func New(seed uint64) *Network {
	return &Network{now: Start, rand: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)), seats: make(map[Node]*seat)}
}

// Now returns the virtual time.
func (n *Network) Now() time.Time { return n.now }

// Elapsed returns the virtual time since Start.
func (n *Network) Elapsed() time.Duration { return n.now.Sub(Start) }

// Rand returns the network's source of randomness, so that random choices of nodes and tests
// depend on its seed alone.
func (n *Network) Rand() *rand.Rand { return n.rand }

// After calls f after d of virtual time.
func (n *Network) After(d time.Duration, f func()) {
	n.count++
	n.events.push(event{at: n.Elapsed() + max(d, 0), order: n.count, do: f})
}

// Run advances virtual time by d.
func (n *Network) Run(d time.Duration) {
	end := n.now.Add(d)
	for len(n.events) > 0 && n.events[0].at <= end.Sub(Start) {
		n.step()
	}
	n.now = end
}

// RunUntil advances virtual time until cond holds, by limit at most, and reports whether cond
// holds.
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

// step advances to the next event and executes it.
func (n *Network) step() {
	e := n.events.pop()
	n.now = Start.Add(e.at)
	e.do()
}

// Settle sends the packets that a node has ready, and sets its timer. The network does so
// after each call of the node's methods; callers that change a node otherwise call it.
func (n *Network) Settle(node Node) { n.settle(n.seat(node)) }

// Flush sends the packets that a node has ready, and does not touch its timer. A node calls
// it in the course of one of its methods where the order of its packets among other events
// matters.
func (n *Network) Flush(node Node) { n.flush(n.seat(node)) }

func (n *Network) flush(s *seat) {
	for o, ok := s.node.Poll(); ok; o, ok = s.node.Poll() {
		if port := s.ports[o.Link]; port != nil {
			port.send(o.Packet)
		}
	}
}

func (n *Network) settle(s *seat) {
	n.flush(s)
	at, ok := s.node.PollTimeout()
	if !ok || !s.wake.IsZero() && !at.Before(s.wake) {
		return // if it fires too early, it sets the timer again
	}
	s.timer++
	s.wake = at
	set := s.timer
	n.After(at.Sub(n.now), func() {
		if set != s.timer {
			return
		}
		s.wake = time.Time{}
		if due, ok := s.node.PollTimeout(); ok && !due.After(n.now) {
			s.node.HandleTimeout(n.now)
		}
		n.settle(s)
	})
}

// seat returns the network's state of a node, and creates it if there is none.
func (n *Network) seat(node Node) *seat {
	s := n.seats[node]
	if s == nil {
		s = &seat{
			node: node, ports: make(map[roam.LinkID]*port),
			watches: make(map[roam.LinkID][]func(now time.Time, out bool, p Packet)),
		}
		n.seats[node] = s
	}
	return s
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

// Trace returns the lines that nodes have noted so far.
func (n *Network) Trace() []Line { return n.trace }

// Note appends a line to the trace.
func (n *Network) Note(node, format string, args ...any) {
	if n.Brief {
		return
	}
	n.trace = append(n.trace, Line{At: n.Elapsed(), Node: node, Text: fmt.Sprintf(format, args...)})
}
