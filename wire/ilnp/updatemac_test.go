package ilnp

import (
	"encoding/hex"
	"testing"
)

// TestSipHash128 compares with the test vectors of the authors' reference implementation: key
// 00 01 ... 0f, input 00 01 ... of this length.
func TestSipHash128(t *testing.T) {
	var key [MACKeyLen]byte
	for i := range key {
		key[i] = byte(i)
	}
	for n, want := range map[int]string{
		0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45",
		2: "8177228da4a45dc7fca38bdef60affe4", 3: "9c70b60c5267a94e5f33b6b02985ed51",
		7: "a1f1ebbed8dbc153c0b84aa61ff08239", 8: "3b62a9ba6258f5610f83e264f31497b4",
	} {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(i)
		}
		if got := sipHash128(key, in); hex.EncodeToString(got[:]) != want {
			t.Errorf("%d bytes: %x, want %s", n, got, want)
		}
	}
}

// TestUpdateMAC: the checksum does not count, and every other bit does, of the key and the
// counters too.
func TestUpdateMAC(t *testing.T) {
	key, message := [MACKeyLen]byte{1, 2, 3}, make([]byte, 8+12+5)
	want := UpdateMAC(key, message, 5, 6)
	message[2], message[3] = 0xff, 0x77
	if UpdateMAC(key, message, 5, 6) != want {
		t.Error("the MAC covers the checksum")
	}
	for i := range 8 * len(message) {
		message[i/8] ^= 1 << (i % 8)
		if covered := UpdateMAC(key, message, 5, 6) != want; covered == (i/8 == 2 || i/8 == 3) {
			t.Errorf("bit %d of byte %d: covered %t", i%8, i/8, covered)
		}
		message[i/8] ^= 1 << (i % 8)
	}
	for i := range 64 {
		if UpdateMAC(key, message, 5^1<<i, 6) == want || UpdateMAC(key, message, 5, 6^1<<i) == want {
			t.Errorf("bit %d of a counter is not covered", i)
		}
	}
	for i := range 8 * MACKeyLen {
		other := key
		other[i/8] ^= 1 << (i % 8)
		if UpdateMAC(other, message, 5, 6) == want {
			t.Errorf("bit %d of the key does not count", i)
		}
	}
	if message[2] != 0xff {
		t.Error("the message was changed")
	}
}
