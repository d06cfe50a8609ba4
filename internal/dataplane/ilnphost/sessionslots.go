package ilnphost

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// spareOfMove places let a move go on at its pace, 12,800 sessions a second, while programs end: as
// many sessions are written anew in two waits of 40 ms. Of 40 waits beside a load of 29 the longest
// took 36 ms.
const spareOfMove = 1024

// sparePlaces returns how many places of entries there are beyond one for each
// session: a session that is written anew takes another place, and its old one
// cannot be used before the programs that read it have ended. New rules rewrite all
// sessions at once, so that the number grows with theirs.
func sparePlaces(sessions int) int {
	return max(min(sessions/8, spareOfMove), sessions/16, 64)
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

// take returns a place that nobody reads. It waits if all are at rest.
func (t *placeTable) take() (uint32, error) {
	t.collect(false)
	for {
		if n, ok := t.slotTable.take(t.limit); ok {
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
	t.free, t.resting = append(t.free, t.resting...), nil
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
