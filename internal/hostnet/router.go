package hostnet

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routerWait is how long a new Locator waits for its default router's hardware
// address: as long as the kernel asks for it (RFC 4861 §10, three times one
// second). A router that never answers is then no worse than before.
const routerWait = 3 * time.Second

// resolved reports whether the kernel can send to the uplink's router at once.
func (u Uplink) resolved() bool {
	return !u.HasMAC || !u.NextHop.IsValid() || u.NextHopValid
}

// awaitRouters holds back Locators that would become usable while the kernel
// does not know their router's hardware address, and has it ask. A link that
// lost carrier keeps its prefix but forgets its neighbours: all traffic would at
// once be moved to where it only waits in the kernel's queue, which drops the
// oldest packets first, among them the Locator Update. The answer also shows
// that the router is still there (RFC 6059 does the same for addresses). It
// returns when to look again.
func (h *Host) awaitRouters(before picture, now time.Time) (wake time.Time) {
	for l := range h.unresolved {
		if x, ok := h.picture.locators[l]; !ok || !x.usable {
			delete(h.unresolved, l)
		}
	}
	for _, l := range sortedLocals(h.picture.locators) {
		x, u := h.picture.locators[l], h.picture.uplinks[int(l.Link)]
		if !x.usable || before.locators[l].usable || u.resolved() {
			delete(h.unresolved, l)
			continue
		}
		until, asked := h.unresolved[l]
		if !asked {
			until = now.Add(routerWait)
			h.unresolved[l] = until
			err := h.kernel.askNeighbour(u)
			if err == nil {
				// Heard even while the kernel's own question has no source
				// address, because the link-local one is tentative.
				err = h.kernel.announce(u, h.rules.own(l).addr)
			}
			if err != nil {
				h.trouble(l, x, err.Error())
			}
		}
		if until.After(now) {
			x.usable = false
			h.picture.locators[l] = x
			wake = sooner(wake, until)
		}
	}
	return wake
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
