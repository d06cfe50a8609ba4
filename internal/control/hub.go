package control

import (
	"context"
	"fmt"
	"sync"
)

// backlog is how many events a reader may fall behind.
const backlog = 1024

// Hub passes events on to any number of readers. The zero value is ready. A
// reader that falls behind loses events, and is told how many, so that it
// never holds up the daemon.
type Hub struct {
	mu     sync.Mutex
	subs   map[*subscriber]struct{}
	closed bool
}

type subscriber struct {
	ch   chan Event
	lost int
}

// Publish passes e on to all readers without waiting.
func (h *Hub) Publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.offer(e)
	}
}

// offer needs room for two events once some were lost: the notice comes first.
func (s *subscriber) offer(e Event) {
	if s.lost > 0 && cap(s.ch)-len(s.ch) >= 2 {
		s.ch <- Event{Time: e.Time, Kind: KindLost, Reason: fmt.Sprintf("%d events lost: the reader is too slow", s.lost)}
		s.lost = 0
	}
	if s.lost > 0 {
		s.lost++
		return
	}
	select {
	case s.ch <- e:
	default:
		s.lost++
	}
}

// Subscribe returns the events from now on, until ctx is done or the hub is
// closed. It never fails; the error is there for Backend's sake.
func (h *Hub) Subscribe(ctx context.Context) (<-chan Event, error) {
	s := &subscriber{ch: make(chan Event, backlog)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(s.ch)
		return s.ch, nil
	}
	if h.subs == nil {
		h.subs = make(map[*subscriber]struct{})
	}
	h.subs[s] = struct{}{}
	context.AfterFunc(ctx, func() { h.drop(s) })
	return s.ch, nil
}

// Close ends all subscriptions, and those to come.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		delete(h.subs, s)
		close(s.ch)
	}
}

func (h *Hub) drop(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subs[s]; ok {
		delete(h.subs, s)
		close(s.ch)
	}
}
