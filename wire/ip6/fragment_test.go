package ip6_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"roam/wire/ip6"
)

// whole builds a packet with a Destination Options header and n bytes behind.
func whole(t *testing.T, n int) []byte {
	t.Helper()
	h := ip6.Header{
		PayloadLen: uint16(8 + n), NextHeader: ip6.DestOpts, HopLimit: 64,
		Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
	}
	b, err := h.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, 58, 0, 0x8b, 4, 1, 2, 3, 4)
	for i := range n {
		b = append(b, byte(i*3+i>>8))
	}
	return b
}

func TestSplit(t *testing.T) {
	for _, n := range []int{1, 1232, 1233, 3068, 4088} {
		packet := whole(t, n)
		parts, err := ip6.Split(packet, 1280, 77)
		if err != nil {
			t.Fatal(err)
		}
		if len(packet) <= 1280 {
			if len(parts) != 1 || !bytes.Equal(parts[0], packet) {
				t.Errorf("%d bytes: changed although they fit", n)
			}
			continue
		}
		var got []byte
		for i, p := range parts {
			c, err := ip6.Walk(p)
			if err != nil {
				t.Fatalf("%d bytes, fragment %d: %v", n, i, err)
			}
			if len(p) > 1280 || !c.Fragmented || int(c.FragOffset) != len(got) || c.More == (i == len(parts)-1) ||
				c.Upper != 58 {
				t.Errorf("%d bytes, fragment %d: %d bytes, %+v", n, i, len(p), c)
			}
			if !bytes.Equal(p[40:48], []byte{44, 0, 0x8b, 4, 1, 2, 3, 4}) {
				t.Errorf("%d bytes, fragment %d: option header % x", n, i, p[40:48])
			}
			got = append(got, p[c.UpperOffset:]...)
		}
		if !bytes.Equal(got, packet[48:]) {
			t.Errorf("%d bytes: they do not come together again", n)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	packet := whole(t, 3000)
	for n := range 48 {
		if _, err := ip6.Split(packet[:n], 1280, 1); err == nil {
			t.Errorf("%d bytes were split", n)
		}
	}
	if _, err := ip6.Split(packet, 60, 1); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("no room: error %v", err)
	}
	parts, err := ip6.Split(packet, 1280, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ip6.Split(parts[0], 100, 1); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("a fragment: error %v", err)
	}
}
