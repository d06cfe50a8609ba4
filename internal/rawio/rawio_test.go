package rawio

import (
	"errors"
	"net"
	"testing"
)

// whole returns an IPv6 packet of the No Next Header kind.
func whole(src, dst net.IP, payload string) []byte {
	b := []byte{0x60, 0, 0, 0, 0, byte(len(payload)), 59, 64}
	b = append(append(b, src.To16()...), dst.To16()...)
	return append(b, payload...)
}

func TestDestination(t *testing.T) {
	good := whole(net.ParseIP("2001:db8::1"), net.ParseIP("2001:db8::2"), "hello")
	dst, err := destination(good)
	if err != nil || !net.IP(dst[:]).Equal(net.ParseIP("2001:db8::2")) {
		t.Errorf("destination %v, error %v", net.IP(dst[:]), err)
	}
	for n := range len(good) {
		if _, err := destination(good[:n]); !errors.Is(err, ErrPacket) {
			t.Errorf("first %d bytes: error %v", n, err)
		}
	}
	if _, err := destination(append(good, 0)); !errors.Is(err, ErrPacket) {
		t.Errorf("a byte too many: error %v", err)
	}
	good[0] = 0x45
	if _, err := destination(good); !errors.Is(err, ErrPacket) {
		t.Errorf("version 4: error %v", err)
	}
}
