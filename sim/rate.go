package sim

import (
	"time"

	"roam"
)

// SetRate has a link of a host take so many bytes a second: what the host sends beyond
// that waits before it, and nothing of it is lost. 0: any number.
func (h *Node) SetRate(link roam.LinkID, bytes int) {
	if at := h.at(link); at != nil {
		h.net.note(h.name, "link %d takes %d bytes/s", link, bytes)
		at.rate = bytes
	}
}

// wait returns how long a packet waits before a link until it has left, and has the next
// one wait for it.
func (at *attachment) wait(now time.Time, bytes int) time.Duration {
	if at.rate == 0 {
		return 0
	}
	at.free = later(at.free, now).Add(time.Duration(bytes) * time.Second / time.Duration(at.rate))
	return at.free.Sub(now)
}
