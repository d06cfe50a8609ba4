package ilnp

import (
	"encoding/binary"
	"math/bits"
)

// MACKeyLen is the length of the key of a MAC in bytes.
const MACKeyLen = 16

// UpdateMAC returns the MAC of a Locator Update or an acknowledgement: SipHash-2-4 with 128 bits
// of output, over both counters and the whole ICMPv6 message with its checksum zero. The programs
// of the data plane compute the same (bpf/ilnp/updatemac.h). message has at least 4 bytes.
func UpdateMAC(key [MACKeyLen]byte, message []byte, counter, answers uint64) [MACLen]byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16+len(message)), counter)
	b = append(binary.BigEndian.AppendUint64(b, answers), message...)
	b[16+2], b[16+3] = 0, 0
	return sipHash128(key, b)
}

// sip is the state of SipHash (Aumasson and Bernstein, 2012).
type sip struct{ v0, v1, v2, v3 uint64 }

func (s *sip) rounds(n int) {
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

func (s *sip) word(m uint64) {
	s.v3 ^= m
	s.rounds(2)
	s.v0 ^= m
}

func (s *sip) sum() uint64 { return s.v0 ^ s.v1 ^ s.v2 ^ s.v3 }

// sipHash128 is SipHash-2-4-128 of the authors' reference implementation.
func sipHash128(key [MACKeyLen]byte, b []byte) (out [MACLen]byte) {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	s := sip{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		s.word(binary.LittleEndian.Uint64(b))
	}
	for i, x := range b {
		last |= uint64(x) << (8 * i)
	}
	s.word(last)
	s.v2 ^= 0xee
	s.rounds(4)
	binary.LittleEndian.PutUint64(out[:], s.sum())
	s.v1 ^= 0xdd
	s.rounds(4)
	binary.LittleEndian.PutUint64(out[8:], s.sum())
	return out
}
