package ilnphost

import "roam"

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
