package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// drainAfter are the moments after a loss of carrier at which the packets that
// wait for a neighbour there are dropped: when the data plane has left the link,
// and again in case the daemon was late.
var drainAfter = []time.Duration{50 * time.Millisecond, 500 * time.Millisecond}

// waiting is a link whose waiting packets are to be dropped.
type waiting struct {
	router netip.Addr
	left   []time.Time
}

// drainLinks drops what is queued for the router of a link that lost carrier,
// and returns when to come again. With the carrier the kernel forgets the
// link's neighbours, and what is sent there before the data plane has left it
// waits three seconds for an answer that cannot come. TCP retransmits no segment
// whose first copy is still queued in this host, on whatever link, so that a
// connection would stand still for as long.
func (h *Host) drainLinks(before picture, now time.Time) (wake time.Time) {
	for i, u := range h.picture.uplinks {
		if was := before.uplinks[i]; was.Up && !u.Up && was.HasMAC && was.NextHop.IsValid() {
			d := waiting{router: was.NextHop}
			for _, after := range drainAfter {
				d.left = append(d.left, now.Add(after))
			}
			h.drains[i] = d
		}
	}
	for i, d := range h.drains {
		u, still := h.picture.uplinks[i]
		if !still || u.Up {
			delete(h.drains, i)
			continue
		}
		for len(d.left) > 0 && !d.left[0].After(now) {
			d.left = d.left[1:]
			if err := h.kernel.forgetNeighbour(i, d.router); err != nil {
				h.pending = append(h.pending, Trouble{LinkName: u.Name, Reason: err.Error()})
			}
		}
		if h.drains[i] = d; len(d.left) == 0 {
			delete(h.drains, i)
			continue
		}
		wake = sooner(wake, d.left[0])
	}
	return wake
}

// forgetNeighbour removes a neighbour and with it the packets that wait for its
// hardware address. One that is not there is no error.
func (k *kernel) forgetNeighbour(link int, a netip.Addr) error {
	err := k.links.NeighDel(&netlink.Neigh{LinkIndex: link, Family: unix.AF_INET6, IP: a.AsSlice()})
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		return nil
	}
	return fmt.Errorf("drop what waits for router %s: %w", a, err)
}
