package ilnphost

import (
	"roam"
	"roam/sim"
)

// SetRate limits the rate of a host on a link, in bytes a second. The excess is queued without
// limit, and never lost. 0: unlimited.
func (h *Node) SetRate(link roam.LinkID, bytes int) {
	if at := h.at(link); at != nil {
		h.net.Note(h.name, "link %d takes %d bytes/s", link, bytes)
		at.rate = bytes
		at.set(at.access)
	}
}

// SetRates limits the rate of a host's link each way, as SetRate does one way.
func (h *Node) SetRates(link roam.LinkID, bytes int) {
	if at := h.at(link); at != nil {
		at.rateIn = bytes
		h.SetRate(link, bytes)
	}
}

// CutOneWay drops all packets of one direction of a link, Forward being the way out, without
// notifying the host. MendOneWay undoes it.
func (h *Node) CutOneWay(link roam.LinkID, d sim.Direction) { h.setOneWay(link, d, true) }

// MendOneWay ends a CutOneWay.
func (h *Node) MendOneWay(link roam.LinkID) { h.setOneWay(link, sim.Both, false) }

func (h *Node) setOneWay(link roam.LinkID, d sim.Direction, halved bool) {
	at := h.at(link)
	if at == nil || at.halved == halved {
		return
	}
	h.net.Note(h.name, "link %d halved=%t, unseen", link, halved)
	if at.halved = halved; halved {
		at.wire.Cut(d)
		return
	}
	at.wire.Mend(d)
	h.advertise(at)
}
