package hostnet

import (
	"fmt"

	"roam"
	"roam/wire/nd"
)

// solicitRouters asks for Router Advertisements on the links that came up since
// the last look. The kernel asks too, but only when its link-local address has
// passed duplicate detection, a second after the link came up, and then after a
// random delay: for a moving host that second is the greater part of a handoff,
// and a prefix that it kept from before may run out meanwhile.
//
// RFC 4861 §6.3.7 wants a random delay before the first solicitation, lest all
// hosts of a link ask at once when its switch is turned on; RFC 6059 §5.3 has a
// host ask at once when its own link comes up, which is our case. At the first
// look it asks on links of recalled prefixes, whose preferred lifetime only an
// advertisement says.
func (h *Host) solicitRouters() {
	first := h.carrier == nil
	before := h.carrier
	h.carrier = map[int]bool{}
	for index, l := range h.table.links {
		h.carrier[index] = l.up()
		if first && !h.recalled[index] || before[index] || !l.up() || !h.rules.accepts(l.name) || len(l.mac) != 6 || !h.kernel.hearsRouters(l.name) {
			continue
		}
		if err := h.kernel.solicit(index); err != nil {
			h.pending = append(h.pending, Trouble{LinkLocator: roam.LinkLocator{Link: roam.LinkID(index)}, LinkName: l.name, Reason: err.Error()})
		}
	}
}

// hearsRouters reports whether the kernel takes what routers of a link advertise.
// Where it does not, somebody else manages the link, and asks.
func (k *kernel) hearsRouters(name string) bool {
	accept, err := k.sysctl(name, acceptRA)
	if err != nil {
		return false
	}
	forwards, err := k.sysctl(name, "forwarding")
	return err == nil && (accept == "2" || accept == "1" && forwards == "0")
}

func (k *kernel) solicit(link int) error {
	packet, err := nd.RouterSolicitation()
	if err == nil {
		err = k.sender.SendTo(roam.LinkID(link), nd.AllRouters(), packet)
	}
	if err != nil {
		return fmt.Errorf("ask for router advertisements: %w", err)
	}
	return nil
}
