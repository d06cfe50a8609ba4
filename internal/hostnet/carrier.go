package hostnet

import (
	"encoding/binary"
	"time"
)

const (
	// carrierLate is for how long after the kernel has told of one carrier it may
	// keep others to itself, with some margin: it tells of them once a second.
	carrierLate = 1100 * time.Millisecond
	// carrierEvery is how often links are asked meanwhile.
	carrierEvery = 20 * time.Millisecond
)

// hurryCarriers makes the kernel tell at once of each carrier that is lost soon
// after any other came or went. By itself it tells of losses once a second,
// whatever link they are of, and never of one that is over by then; what is sent
// meanwhile is lost. To be asked for the state of a link makes it tell. It
// returns when to ask again. It is called before h.carrier is brought up to date.
func (h *Host) hurryCarriers(now time.Time) (wake time.Time) {
	for index, l := range h.table.links {
		if h.carrier != nil && h.carrier[index] != l.up() {
			h.hurried = now.Add(carrierLate)
		}
	}
	if !h.hurried.After(now) {
		return time.Time{}
	}
	for _, u := range h.picture.uplinks {
		h.kernel.askCarrier(u.Name)
	}
	return now.Add(carrierEvery)
}

// askCarrier asks whether a link has carrier. The answer comes as an event, if
// it is news.
func (k *kernel) askCarrier(name string) {
	const getLink = 0xa // ETHTOOL_GLINK
	b := make([]byte, 8)
	binary.NativeEndian.PutUint32(b, getLink)
	k.ethtool(name, b) // a link that cannot tell is told of in the kernel's time
}
