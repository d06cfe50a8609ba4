package daemon

import (
	"cmp"
	"container/list"
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
	peers map[roam.NID]*list.Element // of order
	order list.List                  // of *heard, the one heard last at the end
}

// heard is what is remembered of one correspondent.
type heard struct {
	nid roam.NID
	ring
}

type kept struct {
	seq uint64
	control.Event
}

// ring keeps the newest events, at most size of them.
type ring struct {
	size   int
	events []kept
}

func (r *ring) add(k kept) {
	if len(r.events) < r.size {
		r.events = append(r.events, k)
		return
	}
	oldest := 0
	for i, e := range r.events {
		if e.seq < r.events[oldest].seq {
			oldest = i
		}
	}
	r.events[oldest] = k
}

// fold adds an event. Of a run of refreshes it keeps the first and the last, which says how
// many were between: they must not push out what led to the session's present state.
func (r *ring) fold(k kept) {
	if !k.Refresh() {
		r.add(k)
		return
	}
	began, latest := uint64(0), -1
	for _, e := range r.events { // whatever else happened ends a run
		if !e.Refresh() || e.Kind == k.Kind && !e.Alike(k.Event) {
			began = max(began, e.seq)
		}
	}
	run := 0
	for i, e := range r.events {
		if e.seq > began && e.Alike(k.Event) {
			run++
			if latest < 0 || e.seq > r.events[latest].seq {
				latest = i
			}
		}
	}
	if run < 2 {
		r.add(k)
		return
	}
	k.Omitted = r.events[latest].Omitted + 1
	r.events[latest] = k
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
	at := h.peers[e.Peer]
	if at == nil {
		if h.peers == nil {
			h.peers = make(map[roam.NID]*list.Element)
		}
		if len(h.peers) >= maxHeard {
			oldest := h.order.Remove(h.order.Front()).(*heard)
			delete(h.peers, oldest.nid)
		}
		at = h.order.PushBack(&heard{e.Peer, ring{size: peerEvents}})
		h.peers[e.Peer] = at
	}
	h.order.MoveToBack(at)
	at.Value.(*heard).fold(k)
}

// all returns what is remembered, the oldest first.
func (h *history) all() []control.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.host.events)
	for at := h.order.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*heard).events...)
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Compare(a.seq, b.seq) })
	out := make([]control.Event, len(all))
	for i, k := range all {
		out[i] = k.Event
	}
	return out
}
