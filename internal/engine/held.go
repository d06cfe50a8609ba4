package engine

import (
	"bytes"
	"slices"

	"roam/ilnp"
)

const (
	heldPerPair   = 16
	heldInAll     = 1024
	excessPerPair = 64  // of what exceeds the allowance of a pending peer: so much
	excessInAll   = 512 // TCP has under way when that is validated on a short path
)

// held keeps first packets, in order, until their session exists or is known
// not to: they are sent again then, and once more if the session falls back to
// plain IPv6. It is bounded for each session and in all.
type held struct {
	perPair, inAll int
	byPair         map[ilnp.PairKey][][]byte
	count          int
}

func (h *held) add(k ilnp.PairKey, packet []byte) bool {
	if h.count >= h.inAll || len(h.byPair[k]) >= h.perPair {
		return false
	}
	if h.byPair == nil {
		h.byPair = make(map[ilnp.PairKey][][]byte)
	}
	h.byPair[k] = append(h.byPair[k], packet)
	h.count++
	return true
}

func (h *held) packets(k ilnp.PairKey) [][]byte { return h.byPair[k] }

func (h *held) forget(k ilnp.PairKey) {
	h.count -= len(h.byPair[k])
	delete(h.byPair, k)
}

// sent takes away the first segment that the data plane has sent again itself, which is
// given as it stood on the wire: ports and sequence number tell it.
func (h *held) sent(k ilnp.PairKey, packet []byte) {
	const told, until = 40, 48 // of the packet, behind its IPv6 header
	i := slices.IndexFunc(h.byPair[k], func(p []byte) bool {
		return len(p) >= until && len(packet) >= until && p[6] == packet[6] && bytes.Equal(p[told:until], packet[told:until])
	})
	if i >= 0 {
		h.byPair[k] = slices.Delete(h.byPair[k], i, i+1)
		h.count--
	}
}
