package ilnp

import "math/bits"

// Sip is the state of SipHash-2-4 (Aumasson and Bernstein, 2012) over words, as the programs of the
// data plane have it (bpf/lib/siphash.h).
type Sip struct{ v0, v1, v2, v3 uint64 }

// NewSip returns the state of a hash under a key.
func NewSip(k0, k1 uint64) Sip {
	return Sip{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
}

func (s *Sip) rounds(n int) {
	for range n {
		s.v0 += s.v1
		s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
		s.v0 = bits.RotateLeft64(s.v0, 32)
		s.v2 += s.v3
		s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
		s.v0 += s.v3
		s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
		s.v2 += s.v1
		s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
		s.v2 = bits.RotateLeft64(s.v2, 32)
	}
}

// Word hashes a word.
func (s *Sip) Word(m uint64) {
	s.v3 ^= m
	s.rounds(2)
	s.v0 ^= m
}

func (s *Sip) sum() uint64 { return s.v0 ^ s.v1 ^ s.v2 ^ s.v3 }

// Final returns the hash of 64 bits, of so many words.
func (s *Sip) Final(words uint64) uint64 {
	s.Word(words * 8 << 56)
	s.v2 ^= 0xff
	s.rounds(4)
	return s.sum()
}
