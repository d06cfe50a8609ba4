package hostnet

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// FollowFacts returns what is known of every link but the loopback, and again whenever it
// changes, until done is closed: whether packets leave there, which router they go to and
// its hardware address. It changes nothing on the host. The channel is closed where the
// kernel cannot be asked any more. A reader that is slow misses all states but the latest.
func FollowFacts(done <-chan struct{}) (<-chan []Uplink, error) {
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	watch, err := listen()
	if err != nil {
		k.close()
		return nil, err
	}
	h := &Host{kernel: k}
	if h.table, err = k.resync(nil, time.Now()); err != nil {
		watch.Close()
		k.close()
		return nil, fmt.Errorf("follow links: %w", err)
	}
	batches, states := make(chan batch), make(chan []Uplink)
	go read(watch, batches, done)
	go func() {
		defer close(states)
		defer k.close()
		defer watch.Close()
		h.followFacts(batches, states, done)
	}()
	return states, nil
}

// followFacts hands on the latest facts whenever a batch has changed them.
func (h *Host) followFacts(batches <-chan batch, to chan<- []Uplink, done <-chan struct{}) {
	var last []Uplink
	var again <-chan time.Time // when to ask the kernel once more
	for fresh := true; ; {
		now := h.allFacts()
		fresh = fresh || !reflect.DeepEqual(now, last)
		var out chan<- []Uplink
		if fresh {
			out = to
		}
		last = now
		select {
		case <-done:
			return
		case out <- now:
			fresh = false
		case b := <-batches:
			if b.err != nil {
				return
			}
			if h.absorb(b, time.Now()) != nil {
				again = time.After(retryDump)
			}
		case <-again:
			if again = nil; h.absorb(batch{lost: true}, time.Now()) != nil {
				again = time.After(retryDump)
			}
		}
	}
}

// allFacts lists the links by index.
func (h *Host) allFacts() (list []Uplink) {
	for _, index := range slices.Sorted(maps.Keys(h.table.links)) {
		if l := h.table.links[index]; l.name != "lo" {
			list = append(list, h.table.uplink(index, l, time.Now()))
		}
	}
	return list
}
