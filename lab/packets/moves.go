package packets

import (
	"time"

	"roam"
)

// Moves counts how often a host's data went over to another locator within a span: packets of
// TCP or UDP whose source locator differs from that of the one before. list is the capture at
// the host, in order of time; the packet before the span counts as the first.
func Moves(list []Packet, own roam.NID, from, to time.Time) (n int) {
	var last roam.L64
	known := false
	for _, p := range list {
		if p.Proto != TCP && p.Proto != UDP || p.SourceNID() != own || !p.At.Before(to) {
			continue
		}
		if known && p.SourceL64() != last && !p.At.Before(from) {
			n++
		}
		last, known = p.SourceL64(), true
	}
	return n
}
