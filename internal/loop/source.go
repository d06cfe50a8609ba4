package loop

import (
	"cmp"
	"errors"
	"reflect"
	"time"
)

// ErrEnded is what Run returns when a channel was closed for which no error was named.
var ErrEnded = errors.New("a source of events ended")

// Source is a channel whose values are events.
type Source struct {
	channel reflect.Value
	take    func(l *Loop) (took bool, err error)            // one value if there is one
	give    func(l *Loop, v reflect.Value, open bool) error // one that was taken already
}

// On makes a source of a channel, which may be nil: then nothing comes. When it is
// closed, Run ends with the error ended.
func On[T any](c <-chan T, ended error, handle func(now time.Time, v T)) Source {
	got := func(l *Loop, v T, open bool) error {
		if !open {
			return cmp.Or(ended, ErrEnded)
		}
		now := l.clock() // what is done for one event is done at one time
		handle(now, v)
		l.drain(now)
		return nil
	}
	return Source{
		channel: reflect.ValueOf(c),
		take: func(l *Loop) (bool, error) {
			select {
			case v, open := <-c:
				return true, got(l, v, open)
			default:
				return false, nil
			}
		},
		give: func(l *Loop, v reflect.Value, open bool) error {
			x, _ := v.Interface().(T) // the zero value of a closed channel may be a nil interface
			return got(l, x, open)
		},
	}
}

// Backlog holds events that were taken from a channel before their turn.
type Backlog interface {
	Len() int
	HandleNext(now time.Time)
}

// Part is what one owner runs on a loop: a role of the daemon.
type Part struct {
	Urgent  []Source  // go before everything else
	Backlog []Backlog // go before the other sources
	Sources []Source  // those of Urgent are not named again
	// Machines are asked for their deadlines, and drained after each event in this order.
	Machines []Machine
	// Late are given the time, and drained, before the loop waits for the next event, and
	// only then: what they do can wait until nothing is urgent.
	Late []Machine
}
