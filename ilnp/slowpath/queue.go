package slowpath

import (
	"bytes"
	"slices"

	"roam/ilnp"
)

// Queue keeps packets of sessions, in order, until their session exists or is known not
// to: they are retransmitted then, and once more if the session falls back to plain IPv6.
// It is bounded for each session and in all.
type Queue struct {
	perSession, inAll int
	bySession         map[ilnp.SessionKey][][]byte
	count             int
}

// NewFirstQueue makes a queue for the first packets of sessions.
func NewFirstQueue() Queue { return Queue{perSession: 16, inAll: 1024} }

// NewExcessQueue makes a queue for what exceeds the allowance of pending peers: so much
// TCP has under way when its peer is validated on a short path.
func NewExcessQueue() Queue { return Queue{perSession: 64, inAll: 512} }

// Add keeps a packet, and reports whether there was room for it.
func (q *Queue) Add(k ilnp.SessionKey, packet []byte) bool {
	if q.count >= q.inAll || len(q.bySession[k]) >= q.perSession {
		return false
	}
	if q.bySession == nil {
		q.bySession = make(map[ilnp.SessionKey][][]byte)
	}
	q.bySession[k] = append(q.bySession[k], packet)
	q.count++
	return true
}

// Packets returns what is kept of a session, the oldest first.
func (q *Queue) Packets(k ilnp.SessionKey) [][]byte { return q.bySession[k] }

// Len returns how many packets are kept in all.
func (q *Queue) Len() int { return q.count }

// Forget drops what is kept of a session.
func (q *Queue) Forget(k ilnp.SessionKey) {
	q.count -= len(q.bySession[k])
	delete(q.bySession, k)
}

// Retransmitted takes away the first segment that the data plane has retransmitted
// itself, which is given as it stood on the wire: ports and sequence number tell it.
func (q *Queue) Retransmitted(k ilnp.SessionKey, packet []byte) {
	const ports, behind = 40, 48 // of the packet, behind its IPv6 header
	i := slices.IndexFunc(q.bySession[k], func(p []byte) bool {
		return len(p) >= behind && len(packet) >= behind && p[6] == packet[6] && bytes.Equal(p[ports:behind], packet[ports:behind])
	})
	if i >= 0 {
		q.bySession[k] = slices.Delete(q.bySession[k], i, i+1)
		q.count--
	}
}
