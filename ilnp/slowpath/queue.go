package slowpath

import (
	"bytes"
	"slices"
	"time"

	"roam/ilnp"
)

// queueLife is how long packets of a session are kept from the first one on: longer than a
// pending peer is probed, and than a session waits for its first answer.
const queueLife = 20 * time.Second

// Queue keeps packets of sessions, in order, until their session exists or is known not
// to: they are retransmitted then, and once more if the session falls back to plain IPv6.
// It is bounded for each session, in all, and in time: no packet may be kept for good
// where nobody will ask for it.
type Queue struct {
	perSession, inAll int
	bySession         map[ilnp.SessionKey]*queued
	order             []*queued // the oldest first; some are no more
	count             int
}

// queued is what is kept of one session.
type queued struct {
	key     ilnp.SessionKey
	since   time.Time
	packets [][]byte
}

// NewFirstQueue makes a queue for the first packets of sessions.
func NewFirstQueue() Queue { return Queue{perSession: 16, inAll: 1024} }

// NewExcessQueue makes a queue for what exceeds the allowance of pending peers: so much
// TCP has under way when its peer is validated on a short path.
func NewExcessQueue() Queue { return Queue{perSession: 64, inAll: 512} }

// Add keeps a packet, and reports whether there was room for it.
func (q *Queue) Add(now time.Time, k ilnp.SessionKey, packet []byte) bool {
	q.expire(now)
	w := q.bySession[k]
	if q.count >= q.inAll || w != nil && len(w.packets) >= q.perSession {
		return false
	}
	if w == nil {
		if q.bySession == nil {
			q.bySession = make(map[ilnp.SessionKey]*queued)
		}
		w = &queued{key: k, since: now}
		q.bySession[k], q.order = w, append(q.order, w)
	}
	w.packets = append(w.packets, packet)
	q.count++
	return true
}

// expire drops what has been kept too long, and the order of what is gone.
func (q *Queue) expire(now time.Time) {
	for len(q.order) > 0 {
		w := q.order[0]
		there := q.bySession[w.key] == w
		if there && now.Sub(w.since) < queueLife {
			break
		}
		if there {
			q.Forget(w.key)
		}
		q.order = q.order[1:]
	}
	if len(q.order) > 2*len(q.bySession)+q.perSession {
		q.order = slices.DeleteFunc(q.order, func(w *queued) bool { return q.bySession[w.key] != w })
	}
}

// Packets returns what is kept of a session, the oldest first.
func (q *Queue) Packets(k ilnp.SessionKey) [][]byte {
	if w := q.bySession[k]; w != nil {
		return w.packets
	}
	return nil
}

// Len returns how many packets are kept in all.
func (q *Queue) Len() int { return q.count }

// Forget drops what is kept of a session.
func (q *Queue) Forget(k ilnp.SessionKey) {
	q.count -= len(q.Packets(k))
	delete(q.bySession, k)
}

// Retransmitted takes away the first segment that the data plane has retransmitted
// itself, which is given as it stood on the wire: ports and sequence number tell it.
func (q *Queue) Retransmitted(k ilnp.SessionKey, packet []byte) {
	const ports, behind = 40, 48 // of the packet, behind its IPv6 header
	i := slices.IndexFunc(q.Packets(k), func(p []byte) bool {
		return len(p) >= behind && len(packet) >= behind && p[6] == packet[6] && bytes.Equal(p[ports:behind], packet[ports:behind])
	})
	if i >= 0 {
		w := q.bySession[k]
		w.packets = slices.Delete(w.packets, i, i+1)
		q.count--
	}
}
