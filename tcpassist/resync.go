package tcpassist

import (
	"time"

	"roam"
)

// Stateful firewalls on a path that a session takes anew may drop what it sends
// there: they remember its connections at the sequence numbers of an earlier
// stay, or have never seen them begin. So for a while after a move the lists of
// connections are compared. Where no segment has arrived from one to the next, the
// connection is shown to the firewalls once more, by a handshake at the sequence
// numbers that it has reached. Linux takes a SYN that is answered by the other end for
// what is true (nf_conntrack_proto_tcp.c).
const (
	compareFirst   = 500 * time.Millisecond // between the first two lists after a move, if two round trips are not more
	compareSoon    = 50 * time.Millisecond  // the same, after connections were gathered
	compareLast    = 5 * time.Second        // the intervals double, up to this, or stay if they are longer
	resyncsTried   = 3                      // for one connection after one move
	listsLeast     = 1 + resyncsTried       // that are compared of a session: its first one shows nothing
	resyncsWaiting = 1024                   // of peers, for a list
)

// resyncs is what is remembered of connections in sessions that moved.
type resyncs[K comparable] struct {
	watched  map[K]*watch
	next     time.Time // not after the next list that any of them is due for; long gone: at once
	restored map[K]int // connections that waited for an answer and were shown with success
}

// watch is one session after a move.
type watch struct {
	next  time.Time // when its connections are compared; zero: at once
	wait  time.Duration
	lists int // that were compared
	seen  map[ends]arrivals
	alive bool // it has connections, by the last list
	// Connections that have been resynced while data of ours was not acknowledged, and not been answered.
	waiting map[ends]bool
}

// arrivals is what came on a connection.
type arrivals struct {
	segments uint32 // by the last comparison
	tries    int    // resyncs sent; resyncsTried when there will be no more
}

// Resynced returns how many connections of a session stood still after moves, though
// the peer was there, and had to be shown to firewalls: one on the way had lost track
// of them, or the first answer took long.
func (m *Machine[K]) Resynced(key K) int { return m.resyncs.restored[key] }

// watch begins to compare the connections of a session that has a new path, or whose
// connections were gathered on one path each as one of them stands still: then there
// is nothing to wait for but the answers that are under way.
func (r *resyncs[K]) watch(c Change[K]) {
	first := compareFirst
	if c.Why.Has(roam.FlowsGathered) {
		first = compareSoon
	}
	w := &watch{wait: max(first, 2*c.RTT), seen: make(map[ends]arrivals), waiting: make(map[ends]bool)}
	if before := r.watched[c.Key]; before != nil {
		w.waiting = before.waiting // the answers are under way
	}
	r.watched[c.Key] = w
}

// compare compares the connections of watched sessions with the list before.
func (m *Machine[K]) compare(now time.Time, all []Listed[K]) {
	r := &m.resyncs
	m.due = false
	for _, c := range all {
		w := r.watched[c.Key]
		if w == nil || !c.Open {
			continue
		}
		w.alive = true
		if !now.Before(w.next) {
			m.judge(w, c)
		}
	}
	r.next = now.Add(compareLast)
	for key, w := range r.watched {
		if !now.Before(w.next) {
			w.next = now.Add(w.wait)
			w.wait = min(2*w.wait, max(w.wait, compareLast))
			w.lists++
		}
		if w.wait >= compareLast && w.lists >= listsLeast || !w.alive {
			delete(r.watched, key)
			continue
		}
		w.alive = false
		if w.next.Before(r.next) {
			r.next = w.next
		}
	}
}

// judge sends a resync of a connection on which nothing has arrived.
func (m *Machine[K]) judge(w *watch, c Listed[K]) {
	a, known := w.seen[c.ends()]
	silent := known && a.segments == c.Arrived
	a.segments = c.Arrived
	switch {
	case silent && a.tries < resyncsTried && c.Resyncs:
		a.tries++
		w.waiting[c.ends()] = c.Next != c.Unacked
		m.out = append(m.out, Resync[K]{Key: c.Key, Local: c.Local, Remote: c.Remote, Seq: c.Next - 1})
	case !silent && a.tries > 0:
		a.tries = resyncsTried // it has helped, or was not needed
	}
	w.seen[c.ends()] = a
}

// answerAll answers the resyncs of peers on connections that are open. Of a list it makes one pass: it may be as long
// as the peers like, and so may that of the resyncs.
func (m *Machine[K]) answerAll(heard []Heard[K], all []Listed[K]) {
	type on struct {
		key      K
		from, to uint16
	}
	if len(heard) == 0 {
		return
	}
	at := make(map[on]int, len(heard))
	for _, h := range heard {
		at[on{h.Key, h.From, h.To}] = -1
	}
	for i, c := range all {
		k := on{c.Key, c.Remote.Port(), c.Local.Port()}
		if _, is := at[k]; is && c.Open {
			at[k] = i
		}
	}
	for _, h := range heard {
		if i := at[on{h.Key, h.From, h.To}]; i >= 0 {
			m.answer(h, all[i])
		}
	}
}

// answer answers a resync of a peer, or ends the handshake when it is an answer. Then
// our own stack is made to send an ACK, which tells the peer what has arrived, and may
// send at once what it has in store.
func (m *Machine[K]) answer(h Heard[K], c Listed[K]) {
	if !h.Answer {
		m.out = append(m.out, Resync[K]{Key: h.Key, Local: c.Local, Remote: c.Remote, Seq: c.Next - 1, Ack: h.Seq + 1, Answer: true})
	}
	if w := m.resyncs.watched[h.Key]; h.Answer && w != nil && w.waiting[c.ends()] {
		w.seen[c.ends()] = arrivals{segments: c.Arrived, tries: resyncsTried}
		delete(w.waiting, c.ends())
		m.resyncs.restored[h.Key]++
	}
	m.acknowledge(c.Connection)
	m.takeBack(c.Connection)
	m.out = append(m.out, Resynced[K]{Key: h.Key, Local: c.Local, Remote: c.Remote, Answer: h.Answer})
}
