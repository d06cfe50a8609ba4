package engine

import (
	"bytes"
	"slices"

	"roam/ilnp"
)

const (
	heldPerSession   = 16
	heldInAll        = 1024
	excessPerSession = 64  // of what exceeds the allowance of a pending peer: so much
	excessInAll      = 512 // TCP has under way when that is validated on a short path
)

// held keeps first packets, in order, until their session exists or is known
// not to: they are sent again then, and once more if the session falls back to
// plain IPv6. It is bounded for each session and in all.
type held struct {
	perSession, inAll int
	bySession         map[ilnp.SessionKey][][]byte
	count             int
}

func (h *held) add(k ilnp.SessionKey, packet []byte) bool {
	if h.count >= h.inAll || len(h.bySession[k]) >= h.perSession {
		return false
	}
	if h.bySession == nil {
		h.bySession = make(map[ilnp.SessionKey][][]byte)
	}
	h.bySession[k] = append(h.bySession[k], packet)
	h.count++
	return true
}

func (h *held) packets(k ilnp.SessionKey) [][]byte { return h.bySession[k] }

func (h *held) forget(k ilnp.SessionKey) {
	h.count -= len(h.bySession[k])
	delete(h.bySession, k)
}

// sent takes away the first segment that the data plane has sent again itself, which is
// given as it stood on the wire: ports and sequence number tell it.
func (h *held) sent(k ilnp.SessionKey, packet []byte) {
	const told, until = 40, 48 // of the packet, behind its IPv6 header
	i := slices.IndexFunc(h.bySession[k], func(p []byte) bool {
		return len(p) >= until && len(packet) >= until && p[6] == packet[6] && bytes.Equal(p[told:until], packet[told:until])
	})
	if i >= 0 {
		h.bySession[k] = slices.Delete(h.bySession[k], i, i+1)
		h.count--
	}
}
