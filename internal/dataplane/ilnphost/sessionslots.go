package ilnphost

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
)

// sparePlaces returns how many places of entries there are beyond one for each
// session: a session that is written anew takes another place, and its old one
// cannot be used before the programs that read it have ended.
func sparePlaces(sessions int) int { return max(sessions/8, 64) }

// slotTable hands out indexes of an array.
type slotTable struct {
	taken []uint64 // a bit for each index; those beyond the last one are set
	next  uint32   // from here on is searched where it does not matter which
}

func newSlotTable(limit uint32) slotTable {
	s := slotTable{taken: make([]uint64, (limit+63)/64)}
	if beyond := limit % 64; beyond != 0 {
		s.taken[len(s.taken)-1] = ^uint64(0) << beyond
	}
	return s
}

func (s *slotTable) set(n uint32)      { s.taken[n/64] |= 1 << (n % 64) }
func (s *slotTable) has(n uint32) bool { return s.taken[n/64]>>(n%64)&1 != 0 }

// give takes an index back, which is handed out again before others that were not yet.
func (s *slotTable) give(n uint32) {
	s.taken[n/64] &^= 1 << (n % 64)
	s.next = min(s.next, n)
}

// takeFrom returns the first free index from one on, with those before it behind the last.
func (s *slotTable) takeFrom(from uint32) (uint32, bool) {
	first, words := int(from/64), len(s.taken)
	for i := range words + 1 {
		w := (first + i) % words
		free := ^s.taken[w]
		if i == 0 {
			free &= ^uint64(0) << (from % 64)
		}
		if free != 0 {
			n := uint32(64*w + bits.TrailingZeros64(free))
			s.set(n)
			return n, true
		}
	}
	return 0, false
}

// placeTable hands out places of entries, or slots of what is noted of sessions, and takes
// them back.
type placeTable struct {
	slotTable
	limit   uint32     // how many there are
	enough  int        // left ones make it worth while to wait for them
	left    []uint32   // by the index; programs may still read them
	resting []uint32   // left before the wait began that is under way
	over    chan error // of that wait; nil: there is none
	wait    func() error
}

func newPlaceTable(limit uint32, enough int, wait func() error) placeTable {
	return placeTable{slotTable: newSlotTable(limit), limit: limit, enough: enough, wait: wait}
}

// take returns a place that nobody reads, the first one from the wanted one on. It waits if all
// are at rest.
func (t *placeTable) take(wanted uint32) (uint32, error) {
	t.collect(false)
	for {
		if n, ok := t.takeFrom(wanted); ok {
			t.next = n + 1
			return n, nil
		}
		if len(t.left)+len(t.resting) == 0 {
			return 0, ErrFull
		}
		t.rest()
		if err := t.collect(true); err != nil {
			return 0, err
		}
	}
}

// leave takes a place back that the index does not name any more.
func (t *placeTable) leave(place uint32) {
	t.left = append(t.left, place)
	if len(t.left) >= t.enough {
		t.collect(false)
		t.rest()
	}
}

// rest begins to wait for the programs that may read what was left, unless such
// a wait is under way.
func (t *placeTable) rest() {
	if t.over != nil {
		return
	}
	t.resting, t.left = append(t.resting, t.left...), t.left[:0]
	over := make(chan error, 1)
	t.over = over
	go func() { over <- t.wait() }()
}

// collect frees what has rested for long enough; block waits until it has.
func (t *placeTable) collect(block bool) error {
	if t.over == nil {
		return nil
	}
	if !block && len(t.over) == 0 {
		return nil
	}
	err := <-t.over
	t.over = nil
	if err != nil {
		return err // it goes on resting
	}
	for _, n := range t.resting {
		t.give(n)
	}
	t.resting = nil
	return nil
}

// pause makes certain that programs have ended. The kernel gives its word for
// one thing only: an update of a map of maps returns when no program is under
// way that could have seen the map before.
type pause struct {
	inner, outer *ebpf.Map
}

func newPause() (*pause, error) {
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	in, err := ebpf.NewMap(inner)
	if err != nil {
		return nil, fmt.Errorf("make map to wait for programs: %w", err)
	}
	out, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner})
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("make map to wait for programs: %w", err)
	}
	return &pause{inner: in, outer: out}, nil
}

// wait returns when no program is under way that began before it was called:
// after some milliseconds, without work.
func (p *pause) wait() error {
	if err := p.outer.Put(uint32(0), p.inner); err != nil {
		return fmt.Errorf("wait for running programs: %w", err)
	}
	return nil
}

func (p *pause) close() error { return errors.Join(p.outer.Close(), p.inner.Close()) }
