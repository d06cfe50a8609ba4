package ilnp

import (
	"bytes"
	"testing"

	"roam"
	"roam/wire/ip6"
)

// TestReassembled: what is put together reads like the packet before it was split.
func TestReassembled(t *testing.T) {
	src, dst := roam.ILV{NID: 0x1111, L64: 0x2001_0db8_0001_0000}, roam.ILV{NID: 0x2222, L64: 0x2001_0db8_0002_0000}
	n, err := NewNonce([]byte{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	lu := LocatorUpdate{Operation: Advertisement}
	for i := range 255 {
		lu.Locators = append(lu.Locators, LocatorEntry{L64: src.L64 + roam.L64(i), Preference: 10, Lifetime: 60})
	}
	packet, err := BuildUpdate(src, dst, n, lu)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := ip6.Split(packet, minMTU, 1)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for _, p := range parts {
		c, err := ip6.Walk(p)
		if err != nil {
			t.Fatal(err)
		}
		body = append(body, p[c.UpperOffset:c.End]...)
	}
	got, err := Reassembled(src, dst, n, body)
	if err != nil {
		t.Fatal(err)
	}
	// The traffic class is the sender's wish to the network, which is behind us.
	got[0], packet[0], got[1], packet[1] = 0, 0, 0, 0
	if len(parts) != 3 || !bytes.Equal(got, packet) {
		t.Errorf("%d fragments, and together they are another packet", len(parts))
	}
	if _, err := Reassembled(src, dst, Nonce{}, body); err == nil {
		t.Error("a packet without nonce was put together")
	}
	if _, err := Reassembled(src, dst, n, make([]byte, 0xffff)); err == nil {
		t.Error("a packet that is too long was put together")
	}
}
