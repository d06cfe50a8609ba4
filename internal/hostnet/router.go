package hostnet

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
)

// routerWait is how long the Locators of a link that came up wait for its
// router's hardware address: as long as the kernel asks for it (RFC 4861 §10,
// three times one second). With a router that never answers, waiting longer
// would make nothing better.
const routerWait = 3 * time.Second

// resolved reports whether the kernel can send to the uplink's router at once.
func (u Uplink) resolved() bool {
	return !u.HasMAC || !u.NextHop.IsValid() || u.NextHopValid
}

// awaitRouters holds back the Locators of a link that came up until the kernel
// knows its router's hardware address, and has it ask. A link that lost carrier
// keeps its prefix but forgets its neighbours: all traffic would at once be
// moved to where it only waits in the kernel's queue, which drops the oldest
// packets first, among them the Locator Update. The answer also shows that the
// router is still there (RFC 6059 does the same for addresses). It returns when
// to look again.
func (h *Host) awaitRouters(before picture, now time.Time) (wake time.Time) {
	for i, u := range h.picture.uplinks {
		until, waits := h.unresolved[i]
		switch {
		case u.Up && !u.resolved() && !before.uplinks[i].Up:
			h.unresolved[i] = now.Add(routerWait)
			if err := h.kernel.askNeighbour(u); err != nil {
				h.pending = append(h.pending, Trouble{LinkLocator: roam.LinkLocator{Link: u.Link}, LinkName: u.Name, Reason: err.Error()})
			}
		case waits && (!u.Up || u.resolved() || !until.After(now)):
			delete(h.unresolved, i)
		}
	}
	for i, until := range h.unresolved {
		if _, still := h.picture.uplinks[i]; !still {
			delete(h.unresolved, i)
			continue
		}
		h.holdBack(i, before)
		wake = sooner(wake, until)
	}
	return wake
}

// holdBack makes the Locators of a link wait that were not usable before. The
// router is asked from their addresses too, past routing: the kernel's own
// question has no source while the link-local address is tentative.
func (h *Host) holdBack(link int, before picture) {
	for _, l := range sortedLocals(h.picture.locators) {
		x := h.picture.locators[l]
		if int(l.Link) != link || !x.usable || before.locators[l].usable {
			continue
		}
		if err := h.kernel.announce(h.picture.uplinks[link], h.rules.own(l).addr); err != nil {
			h.trouble(l, x, err.Error())
		}
		x.usable = false
		h.picture.locators[l] = x
	}
}

// askNeighbour has the kernel find out the hardware address of a router, which
// it would otherwise do with the first packet.
func (k *kernel) askNeighbour(u Uplink) error {
	err := k.links.NeighSet(&netlink.Neigh{
		LinkIndex: int(u.Link), Family: unix.AF_INET6, IP: u.NextHop.AsSlice(), Flags: netlink.NTF_USE,
	})
	if err != nil {
		return fmt.Errorf("ask for the hardware address of router %s: %w", u.NextHop, err)
	}
	return nil
}
