package hostnet

import (
	"fmt"
	"net/netip"

	"roam"
	"roam/wire/nd"
)

// announce makes the default router of a link know prefix:NID before anything
// arrives for it: a Neighbour Solicitation for the router, from that address,
// with our hardware address. Without it the router would hold the first packet
// towards a new Locator while it asks, which costs one round trip on the access
// link in every handoff. Its answer tells us its own hardware address as well.
//
// DEVIATION: RFC 4429 §3.2 forbids the source link-layer option while duplicate
// detection runs. A NID is 64 random bits, hence nobody's entry is overwritten.
func (k *kernel) announce(u Uplink, own netip.Addr) error {
	if !u.HasMAC || len(u.MAC) != 6 || !u.NextHop.IsValid() {
		return nil // nothing to resolve on this link
	}
	packet, err := nd.Solicitation(own, u.NextHop, u.MAC)
	if err != nil {
		return fmt.Errorf("announce %s to its router: %w", own, err)
	}
	_, group := nd.Group(u.NextHop)
	// Past routing: the kernel has no source address to route with while its
	// link-local one is tentative.
	if err := k.sender.SendTo(u.Link, group, packet); err != nil {
		return fmt.Errorf("announce %s to its router: %w", own, err)
	}
	return nil
}

// announceNew announces the Locators that became usable, all of a link whose
// router changed, and those that another link of the same network has lost: the
// router would go on sending there, and no Locator Update tells of it. It comes
// before the event, so that the router hears it before whatever the core sends.
func (h *Host) announceNew(before, after picture) {
	lost := map[roam.L64]bool{}
	for l, x := range before.locators {
		if x.usable && !after.locators[l].usable {
			lost[l.L64] = true
		}
	}
	for _, l := range sortedLocals(after.locators) {
		x := after.locators[l]
		u := after.uplinks[int(l.Link)]
		fresh := !before.locators[l].usable || before.uplinks[int(l.Link)].NextHop != u.NextHop || lost[l.L64]
		if !x.usable || !fresh {
			continue
		}
		for _, k := range h.rules.owns(l) {
			if _, stands := h.table.addrs[k]; !stands {
				continue
			}
			if err := h.kernel.announce(u, k.addr); err != nil {
				h.trouble(l, x, err.Error())
			}
		}
	}
}
