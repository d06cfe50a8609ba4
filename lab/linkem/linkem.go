// Package linkem emulates links in user space on kernels without netem: two TAP devices,
// and between them delay, jitter, loss, rate, a queue and cuts.
//
// It implements the arithmetic of a link in virtual time (pipe, pure and tested without
// privileges). Around it are the devices with virtio-net headers, so that GSO frames cross
// whole if the properties of the link allow it; for all links with delay or rate one thread that
// reads and one that releases frames when they are due, so that frames of different links keep
// their order; a thread per device of the others. It omits corruption,
// correlated loss and active queue management. It is driven by lab/topo, which puts the
// devices into network namespaces, by experiments that change a link while it carries
// traffic (Link), and by cmd/roam-lab (Link.Do).
//
// The first link makes all threads of the process real-time threads and raises GOMAXPROCS
// with every link; thread.go explains why.
//
// Accuracy measures the precision of the emulation. Experiments can run it and print its
// figures beside their results.
package linkem

import (
	"errors"
	"fmt"
	"sync"
)

// Direction names one of the two directions of a link.
type Direction int

// The directions, after the order of the devices in New.
const (
	AB Direction = iota
	BA
)

// Link is an emulated link between two devices. Its methods may be called
// from any goroutine while traffic flows.
type Link struct {
	taps [2]*Tap
	dirs [2]*direction

	mu     sync.Mutex
	params [2]Params
	down   bool
	closed bool
}

// New joins two devices, which the link owns from then on unless New fails,
// and starts to carry frames: with the properties ab from a to b, and ba from
// b to a.
func New(a, b *Tap, ab, ba Params) (*Link, error) {
	if err := errors.Join(ab.Validate(), ba.Validate()); err != nil {
		return nil, err
	}
	l := &Link{taps: [2]*Tap{a, b}, params: [2]Params{ab, ba}}
	if err := errors.Join(a.setWhole(ab.whole()), b.setWhole(ba.whole())); err != nil {
		return nil, err
	}
	for i := range l.dirs {
		d, err := newDirection(l.taps[i], l.taps[1-i], seeded(l.params[i], Direction(i)))
		if err != nil {
			if i == 1 {
				l.dirs[0].free()
			}
			return nil, fmt.Errorf("join %s and %s: %w", a.name, b.name, err)
		}
		l.dirs[i] = d
	}
	threads.grow(len(l.dirs))
	if err := clockwork.add(l.dirs[:]); err != nil {
		threads.grow(-len(l.dirs))
		l.dirs[0].free()
		l.dirs[1].free()
		return nil, err
	}
	for _, d := range l.dirs {
		if clockwork.intake.admit(d) != nil {
			go d.read()
		}
	}
	return l, nil
}

// seeded gives the two directions of a link different seeds, so that they do not lose the
// same frames.
func seeded(p Params, d Direction) Params {
	p.Seed = p.Seed*2 + uint64(d)
	return p
}

// Params returns the properties of a direction as they were set.
func (l *Link) Params(d Direction) Params {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.params[d]
}

// Set changes the properties of a direction. Frames on the wire keep their due times;
// queued frames are transmitted at the new rate.
func (l *Link) Set(d Direction, p Params) error {
	if err := p.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set(d, p)
}

// SetBoth changes the properties of both directions.
func (l *Link) SetBoth(p Params) error {
	if err := p.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.set(AB, p), l.set(BA, p))
}

// set applies properties with l.mu held.
func (l *Link) set(d Direction, p Params) error {
	if l.closed {
		return errors.New("change link: it is closed")
	}
	if err := l.taps[d].setWhole(p.whole()); err != nil {
		return err
	}
	l.params[d] = p
	p.Cut = p.Cut || l.down
	l.dirs[d].set(seeded(p, d))
	return nil
}

// Down cuts the link as if the cable were pulled: both ends lose carrier, and frames on the
// wire are lost.
func (l *Link) Down() error { return l.carrier(false) }

// Up restores the link after Down, with the properties that were set last.
func (l *Link) Up() error { return l.carrier(true) }

func (l *Link) carrier(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = !on
	var errs []error
	for i, p := range l.params {
		errs = append(errs, l.set(Direction(i), p))
	}
	// Only after the cut: no frame crosses a link that an end believes to be down.
	for _, t := range l.taps {
		errs = append(errs, t.setCarrier(on))
	}
	return errors.Join(errs...)
}

// Counters returns the counts of a direction so far.
func (l *Link) Counters(d Direction) Counters { return l.dirs[d].counters() }

// Watch makes the link call f with every Ethernet frame that a direction loses
// deliberately: those that Counters has in DropLoss and DropDown. The call runs on the
// threads that carry frames, of either direction, and delays them: f must return at once,
// must not call the link, and must not keep the frame.
func (l *Link) Watch(d Direction, f func(frame []byte)) { l.dirs[d].watch.Store(&f) }

// WatchOverflow makes the link call f, under the rules of Watch, with every frame that a
// direction drops although nobody asked it to: those that Counters has in DropQueue and
// DropError.
func (l *Link) WatchOverflow(d Direction, f func(frame []byte)) { l.dirs[d].overflow.Store(&f) }

// WatchDelivered makes the link call f, under the rules of Watch, with every frame that a direction delivers:
// those that Counters has in Delivered.
func (l *Link) WatchDelivered(d Direction, f func(frame []byte)) { l.dirs[d].arrival.Store(&f) }

// Close stops the link and removes its devices. Counters can still be read.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	for _, d := range l.dirs {
		errs = append(errs, d.stop())
	}
	clockwork.remove(l.dirs[:])
	for _, d := range l.dirs {
		d.free() // the number may be another one's from now on
	}
	threads.grow(-len(l.dirs))
	for _, t := range l.taps {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
