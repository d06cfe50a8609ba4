package ilnp

import "encoding/binary"

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

// sipHash128 is SipHash-2-4-128 of the authors' reference implementation.
func sipHash128(key [MACKeyLen]byte, b []byte) (out [MACLen]byte) {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	s := NewSip(k0, k1)
	s.v1 ^= 0xee
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		s.Word(binary.LittleEndian.Uint64(b))
	}
	for i, x := range b {
		last |= uint64(x) << (8 * i)
	}
	s.Word(last)
	s.v2 ^= 0xee
	s.rounds(4)
	binary.LittleEndian.PutUint64(out[:], s.sum())
	s.v1 ^= 0xdd
	s.rounds(4)
	binary.LittleEndian.PutUint64(out[8:], s.sum())
	return out
}
