package tcpassist

import (
	"net/netip"
	"slices"
	"time"

	"roam"
)

// Connection is a TCP connection of the host, as its own stack sees it.
type Connection struct {
	Local, Remote netip.AddrPort
	Open          bool          // both ends have begun, and nobody has ended it both ways
	Unacked       uint32        // sequence number of the oldest byte that is not acknowledged
	Next          uint32        // of the byte to be sent next
	Wanted        uint32        // of the byte that shall arrive next
	Arrived       uint32        // segments so far
	Backoff       int           // how often the time-out was doubled; 0: it is not stalled
	Rest          time.Duration // since TCP last sent or received a segment
	Window        int           // the congestion window, in segments
	SRTT          time.Duration // the smoothed round-trip time
	MSS           int           // bytes
	PeerWindow    int           // bytes that the peer would take
	Pace          int           // bytes a second at most; 0: without limit
	Control       string        // the name of its congestion control
}

// Listed is a connection with the session that it belongs to.
type Listed[K comparable] struct {
	Connection
	Key     K
	Resyncs bool  // its peer knows a conntrack resync, and does not treat it as a segment of the connection
	Bucket  uint8 // the bucket of its flow, below 64: see Stretch
}

// Change says what became of the paths of a session that was there before.
type Change[K comparable] struct {
	Key    K
	Why    roam.PathChange
	RTT    time.Duration // 0: unknown
	Resync bool          // connections on which nothing arrives are to be shown to firewalls
}

// Heard is a conntrack resync that a peer sent, or its answer to one of ours. Whoever
// hands it in has verified its sender.
type Heard[K comparable] struct {
	Key      K
	From, To uint16 // ports, of the peer and of this host
	Seq      uint32 // one less than the byte that the peer sends next
	Answer   bool
}

// Output is what is to be done; one of the concrete types below.
type Output interface{ output() }

// ListConnections asks for all connections of the host that belong to a session, by
// HandleConnections. It may take its time: nothing else is asked for meanwhile.
type ListConnections struct{}

// Inject hands a whole packet to the host's own stack, as if it had arrived.
type Inject struct{ Packet []byte }

// Resync sends a conntrack resync along the paths of a session, between the ends of one
// of its connections: a SYN, or the SYN with ACK that answers one.
type Resync[K comparable] struct {
	Key           K
	Local, Remote netip.AddrPort
	Seq           uint32 // one less than the byte that the connection sends next
	Ack           uint32 // of an answer
	Answer        bool
}

// Resynced says that a resync of a connection has come, or an answer to one of ours.
type Resynced[K comparable] struct {
	Key           K
	Local, Remote netip.AddrPort
	Answer        bool
}

func (ListConnections) output() {}
func (Inject) output()          {}
func (Resync[K]) output()       {}
func (Resynced[K]) output()     {}

// repeat says which connections of a session repeat their last acknowledgement.
type repeat uint8

const (
	none   repeat = iota
	recent        // those on which TCP has sent or received of late
	every
)

// lately is that time: a path is avoided sooner after it has died.
const lately = 10 * time.Second

// list is what a list of connections is wanted for.
type list[K comparable] struct {
	wake      map[K]repeat // sessions whose connections are to be woken
	heard     []Heard[K]
	stretches []Stretch[K]
}

// forget takes a session out.
func (l *list[K]) forget(key K) {
	delete(l.wake, key)
	l.heard = slices.DeleteFunc(l.heard, func(h Heard[K]) bool { return h.Key == key })
	l.stretches = slices.DeleteFunc(l.stretches, func(s Stretch[K]) bool { return s.Key == key })
}

// Machine is what is remembered of the connections of a host. The zero value is not
// ready: New makes one.
type Machine[K comparable] struct {
	held    map[K]repeat // sessions as in wake, until their segments may leave
	next    list[K]      // what the next list is for
	asked   list[K]      // what the list is for that was asked for
	listing bool         // one was
	due     bool         // watched connections are to be compared by the next list
	resyncs resyncs[K]
	windows windows[K]
	out     []Output
}

// New makes a machine that knows nothing yet.
func New[K comparable]() *Machine[K] {
	m := &Machine[K]{held: make(map[K]repeat)}
	m.next.wake = make(map[K]repeat)
	m.windows.held, m.windows.bound = make(map[K]bool), make(map[ends]bool)
	m.resyncs = resyncs[K]{watched: make(map[K]*watch), restored: make(map[K]int)}
	return m
}

// HandlePaths takes a change of the paths of a session. While there are none that work,
// there is nothing to be done for its connections. While none leads to a validated
// locator, they wait: the segment that they would try with is dropped, after which Linux
// waits for half a second, and is woken by nothing (TCP_RESOURCE_PROBE_INTERVAL).
func (m *Machine[K]) HandlePaths(_ time.Time, c Change[K]) {
	const other = roam.PathsAdded | roam.PathsLost | roam.PathsReordered
	if c.Why.Has(roam.PathsDown) {
		return
	}
	acks, wanted := m.held[c.Key]
	delete(m.held, c.Key)
	wake := m.next.wake
	if c.Why.Has(roam.PathsUnvalidated) {
		wake = m.held
		for _, l := range []map[K]repeat{m.next.wake, m.asked.wake} { // of connections that nobody has woken yet
			before, is := l[c.Key]
			acks, wanted = max(acks, before), wanted || is
			delete(l, c.Key)
		}
	}
	switch {
	case c.Why.Has(roam.PathsReturned):
		acks = every
	case c.Why.Has(roam.PathsDied):
		acks = max(acks, recent)
	}
	if wanted || c.Why.Has(other|roam.PathsReturned|roam.PathsDied|roam.FlowsGathered) {
		wake[c.Key] = max(wake[c.Key], acks)
	}
	if c.Resync && c.Why.Has(roam.PathsAdded|roam.FlowsGathered|roam.FlowsRehashed|roam.LocatorsWithdrawn) {
		m.resyncs.watch(c)
		m.due = true
	}
}

// HandleEnd forgets a session.
func (m *Machine[K]) HandleEnd(key K) {
	delete(m.held, key)
	m.windows.rescue = m.windows.rescue || m.windows.held[key]
	delete(m.windows.held, key)
	m.next.forget(key)
	m.asked.forget(key)
	delete(m.resyncs.watched, key)
	delete(m.resyncs.restored, key)
}

// HandleResync takes a resync of a peer, and reports whether it will be looked at: only
// so many wait for a list of connections.
func (m *Machine[K]) HandleResync(_ time.Time, h Heard[K]) bool {
	if len(m.next.heard) >= resyncsWaiting {
		return false
	}
	m.next.heard = append(m.next.heard, h)
	return true
}

// HandleConnections takes the list that was asked for. Without one, connections try
// again by themselves, only later.
func (m *Machine[K]) HandleConnections(now time.Time, all []Listed[K], err error) {
	asked := m.asked
	m.listing, m.asked = false, list[K]{}
	if err != nil {
		clear(m.resyncs.watched)
		m.stretch(asked.stretches, nil)
		return
	}
	m.answerAll(asked.heard, all)
	m.compare(now, all)
	m.stretch(asked.stretches, all)
	for _, c := range all {
		if acks, ok := asked.wake[c.Key]; ok {
			m.wake(c.Connection, acks)
		}
	}
}

// HandleTimeout is called at the time that PollTimeout names, or later.
func (m *Machine[K]) HandleTimeout(now time.Time) {
	if at, ok := m.PollTimeout(); ok && !now.Before(at) {
		m.due = true
	}
}

// PollTimeout returns when HandleTimeout is to be called; false: never, as it stands.
func (m *Machine[K]) PollTimeout() (time.Time, bool) {
	if m.listing || m.due || len(m.resyncs.watched) == 0 {
		return time.Time{}, false
	}
	return m.resyncs.next, true
}

// Poll returns what is to be done next; false: nothing. All that has come in by then
// shares one list of connections, for it may be a long one.
func (m *Machine[K]) Poll() (Output, bool) {
	if len(m.out) > 0 {
		o := m.out[0]
		m.out = m.out[1:]
		return o, true
	}
	due := m.due && len(m.resyncs.watched) > 0
	wanted := len(m.next.wake) > 0 || len(m.next.heard) > 0 || len(m.next.stretches) > 0 || due || m.windows.rescue
	if m.listing || m.windows.asked || !wanted {
		return nil, false
	}
	m.asked, m.listing, m.due, m.windows.rescue = m.next, true, false, false
	m.next = list[K]{wake: make(map[K]repeat)}
	return ListConnections{}, true
}
