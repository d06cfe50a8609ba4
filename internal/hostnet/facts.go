package hostnet

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Facts are what is known of the links of a host, and its own addresses.
type Facts struct {
	Links []Uplink // but the loopback, by index
	// Own are all its global addresses in order, also those of the loopback and temporary ones (RFC 8981): packets to
	// them are for this host.
	Own []netip.Addr
}

// FollowFacts returns the facts of this host, and again whenever they
// change, until done is closed: whether packets leave by a link, which router they go to and
// its hardware address. It changes nothing on the host. The channel is closed where the
// kernel cannot be asked any more. A reader that is slow misses all states but the latest.
func FollowFacts(done <-chan struct{}) (<-chan Facts, error) {
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
	batches, states := make(chan batch), make(chan Facts)
	go read(watch, batches, done)
	go func() {
		defer close(states)
		defer k.close()
		defer watch.Close()
		h.followFacts(batches, states, done)
	}()
	return states, nil
}

// followFacts hands on the latest facts whenever a batch, or time alone, has changed them.
func (h *Host) followFacts(batches <-chan batch, to chan<- Facts, done <-chan struct{}) {
	var last Facts
	var again <-chan time.Time // when to ask the kernel once more
	ends := time.NewTimer(0)   // of a route that the kernel says nothing more of
	defer ends.Stop()
	for fresh := true; ; {
		ends.Stop()
		if at := h.table.wake(time.Now()); !at.IsZero() { // before the table is read: no end may lie between
			ends.Reset(max(time.Until(at), minSleep))
		}
		now := h.allFacts()
		fresh = fresh || !reflect.DeepEqual(now, last)
		var out chan<- Facts
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
		case <-ends.C:
			// An expired route may have been prolonged, which is not announced.
			if h.kernel.readRoutes(h.table, false, time.Now()) != nil {
				again = time.After(retryDump)
			}
		case <-again:
			if again = nil; h.absorb(batch{lost: true}, time.Now()) != nil {
				again = time.After(retryDump)
			}
		}
	}
}

// allFacts is what the table says.
func (h *Host) allFacts() Facts {
	f := Facts{Own: h.table.own()}
	for _, index := range slices.Sorted(maps.Keys(h.table.links)) {
		if l := h.table.links[index]; l.name != "lo" {
			f.Links = append(f.Links, h.table.uplink(index, l, time.Now()))
		}
	}
	return f
}

// own returns the global addresses of all links that are no other node's.
func (t *table) own() (addrs []netip.Addr) {
	for k, a := range t.addrs {
		if a.scope == unix.RT_SCOPE_UNIVERSE && a.flags&unix.IFA_F_DADFAILED == 0 {
			addrs = append(addrs, k.addr)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}
