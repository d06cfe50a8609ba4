package daemon

import (
	"cmp"
	"slices"
	"sync"

	"roam"
	"roam/internal/control"
)

// How much is remembered. A move with ten thousand correspondents makes some
// ten thousand events: each correspondent has room of its own, so that none
// pushes out what happened to another.
const (
	hostEvents = 512
	peerEvents = 48
	maxHeard   = 512 // correspondents that are remembered
)

// history remembers the latest events. The zero value is ready; its methods
// may be called from several goroutines.
type history struct {
	mu    sync.Mutex
	seq   uint64
	host  ring
	peers map[roam.NID]*ring
}

type kept struct {
	seq uint64
	control.Event
}

// ring keeps the newest events, at most size of them.
type ring struct {
	size   int
	events []kept
	next   int // the oldest, once the ring is full
}

func (r *ring) add(k kept) {
	if len(r.events) < r.size {
		r.events = append(r.events, k)
		return
	}
	r.events[r.next] = k
	r.next = (r.next + 1) % r.size
}

// newest returns the number of the newest event.
func (r *ring) newest() uint64 {
	return r.events[(r.next+len(r.events)-1)%len(r.events)].seq
}

func (h *history) add(e control.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	k := kept{h.seq, e}
	if e.Peer == 0 {
		h.host.size = hostEvents
		h.host.add(k)
		return
	}
	r := h.peers[e.Peer]
	if r == nil {
		if h.peers == nil {
			h.peers = make(map[roam.NID]*ring)
		}
		if len(h.peers) >= maxHeard {
			h.forgetOldest()
		}
		r = &ring{size: peerEvents}
		h.peers[e.Peer] = r
	}
	r.add(k)
}

// forgetOldest drops the correspondent of which nothing was heard for longest.
func (h *history) forgetOldest() {
	var oldest roam.NID
	least := h.seq + 1
	for nid, r := range h.peers {
		if n := r.newest(); n < least {
			oldest, least = nid, n
		}
	}
	delete(h.peers, oldest)
}

// all returns what is remembered, the oldest first.
func (h *history) all() []control.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.host.events)
	for _, r := range h.peers {
		list = append(list, r.events...)
	}
	slices.SortFunc(list, func(a, b kept) int { return cmp.Compare(a.seq, b.seq) })
	out := make([]control.Event, len(list))
	for i, k := range list {
		out[i] = k.Event
	}
	return out
}
