package ilnphost

import "roam"

// SetRate has a link of a host take so many bytes a second: what the host sends beyond
// that waits before it, and nothing of it is lost. 0: any number.
func (h *Node) SetRate(link roam.LinkID, bytes int) {
	if at := h.at(link); at != nil {
		h.net.Note(h.name, "link %d takes %d bytes/s", link, bytes)
		at.rate = bytes
		at.set(at.access)
	}
}
