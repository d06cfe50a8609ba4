package decide

import (
	"encoding/binary"
	"math/bits"

	"roam"
	"roam/wire/ilnp"
)

// half returns half an address as a little-endian machine loads it from memory. Only there
// do a data plane and this model agree about hashes.
func half[T roam.L64 | roam.NID](v T) uint64 { return bits.ReverseBytes64(uint64(v)) }

// nonceID hashes a nonce to one word.
func nonceID(n ilnp.Nonce) uint64 {
	first, rest := binary.LittleEndian.Uint64(n.Bytes[:]), binary.LittleEndian.Uint32(n.Bytes[8:])
	return first ^ uint64(rest)<<16 ^ uint64(n.Len)<<56 | 1
}

// derive makes a nonce from a hash, and from a second one with another key if it is long.
func (h *Host) derive(a, k0, k1 uint64) ilnp.Nonce {
	n := ilnp.Nonce{Len: h.NonceLen}
	binary.LittleEndian.PutUint32(n.Bytes[:], uint32(a))
	if h.NonceLen == 12 {
		s := ilnp.NewSip(k0, k1)
		s.Word(a)
		binary.LittleEndian.PutUint64(n.Bytes[4:], s.Final(1))
	}
	return n
}

// placeNonce returns the nonce that pending peers at a place get: a locator, or 0 for all
// those that a record lists.
func (h *Host) placeNonce(nids Key, place roam.L64, epoch uint16) ilnp.Nonce {
	k := 2 * (epoch & 1)
	s := ilnp.NewSip(h.Secret[k], h.Secret[k+1])
	for _, w := range []uint64{half(nids.Local), half(nids.Remote), half(place)} {
		s.Word(w)
	}
	return h.derive(s.Final(3), h.Secret[k], h.Secret[k+1]^1)
}

// nonceOf returns the nonce for answers to the pending peer that is answered under its NID.
func (h *Host) nonceOf(e *Pending, nids Key) ilnp.Nonce {
	if e.Given {
		return h.placeNonce(nids, 0, e.Epoch)
	}
	return h.placeNonce(nids, e.RemoteL64, e.Epoch)
}

// unlistedNonce returns the nonce for a pending peer outside the known locators of its NID:
// one for each of its nonces, at each locator.
func (h *Host) unlistedNonce(nids Key, theirs uint64, place roam.L64) ilnp.Nonce {
	k := 2 * (h.Epoch & 1)
	s := ilnp.NewSip(h.Secret[k], h.Secret[k+1]^2)
	for _, w := range []uint64{half(nids.Local), half(nids.Remote), theirs, half(place)} {
		s.Word(w)
	}
	return h.derive(s.Final(4), h.Secret[k], h.Secret[k+1]^3)
}

// synAckHash hashes a SYN-ACK to one word: its destination locator, the two ports, and the
// number that acknowledges it.
func (h *Host) synAckHash(l roam.L64, foreign, own uint16, ack uint32) uint64 {
	s := ilnp.NewSip(h.Secret[0], h.Secret[1]^4)
	ports := uint64(bits.ReverseBytes16(foreign))<<16 | uint64(bits.ReverseBytes16(own))
	s.Word(half(l))
	s.Word(ports<<32 | uint64(ack))
	return s.Final(2) | 1
}
